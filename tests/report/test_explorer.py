import matplotlib.pyplot as plt
import pandas as pd
import pytest

from vgg_kernels.floor.hardware import devices
from vgg_kernels.floor.roofline import floor_us
from vgg_kernels.report import explorer as module
from vgg_kernels.report.predictions import layer_rows, tile_rows
from vgg_kernels.report.study import reported
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import TIERS

VGG11, VGG19 = network("vgg11", image=32), network("vgg19")
START = ("h100_sxm", "fp16", 10)
ERRORS = pd.DataFrame({"arithmetic": list(TIERS), "depth": 1, "relative_error": [1e-6, 1e-6, 1e-3, 1e-3, 1e-2, 1e-1]})


@pytest.fixture
def drawn(monkeypatch):
    """The figures that were shown; each must be closed again."""
    figures = []
    monkeypatch.setattr(module, "display", figures.append)
    yield figures
    assert not plt.get_fignums()


def menus(widget):
    return {child.description: child for child in widget.children if hasattr(child, "description")}


def test_every_card_and_tier_can_be_chosen():
    for widget in (module.floor_explorer(VGG19, *START), module.prediction_explorer(VGG11, *START)):
        found = menus(widget)
        assert set(found["device"].options.values()) == set(devices())
        assert list(found["tier"].options) == list(TIERS)
        assert (found["device"].value, found["tier"].value, found["batch"].value) == START


@pytest.mark.parametrize(("device", "tier", "batch"), [("h200", "tf32", 1), ("b200", "fp8", 64)])
def test_a_choice_is_drawn_with_its_numbers(drawn, capsys, device, tier, batch):
    module.show_prediction(VGG11, device, tier, batch)
    module.show_floor(VGG19, device, tier, batch)
    module.show_accuracy(ERRORS, reported(), VGG19, device, batch)
    for figure in drawn:
        title = figure.axes[0].get_title()
        assert devices()[device].title in title
        assert f"batch {batch}" in title
    prediction, floor = capsys.readouterr().out.splitlines()
    assert f"{layer_rows(VGG11, tier, device, batch)['time_us'].sum():.0f} µs (modelled)" in prediction
    assert floor.startswith(f"floor {floor_us(VGG19, tier, device, batch):.0f} µs (derived)")


def test_reported_runs_are_shown_at_their_own_batch_only(drawn):
    for batch, count in ((10, 2), (64, 0)):
        module.show_accuracy(ERRORS, reported(), VGG19, "h100_sxm", batch)
        texts = [text.get_text() for text in drawn[-1].axes[0].texts]
        assert sum(text.startswith(("eager", "inductor")) for text in texts) == count


def test_the_menu_of_tiles_follows_the_layer_and_a_tile_moves_that_layer_alone(drawn, capsys):
    found = menus(module.prediction_explorer(VGG11, *START))
    layer = VGG11.convs[3].name
    found["layer"].value = layer
    tiles = tile_rows(VGG11, layer, "fp16", "h100_sxm", 10)
    assert list(found["its tile"].options.values()) == ["", *tiles["tile"]]
    assert tiles["time_us"].is_monotonic_increasing
    assert not tiles.duplicated(["time_us", "bound", "waves"]).any()
    last = tiles.iloc[-1]
    module.show_prediction(VGG11, *START, layer=layer, tile=last["tile"])
    rows = layer_rows(VGG11, "fp16", "h100_sxm", 10)
    total = rows["time_us"].sum() - rows.set_index("layer").loc[layer, "time_us"] + last["time_us"]
    assert f"{total:.0f} µs (modelled)" in capsys.readouterr().out
