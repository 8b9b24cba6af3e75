import matplotlib.pyplot as plt
import pytest

from vgg_kernels.floor.hardware import devices
from vgg_kernels.report import explorer as module
from vgg_kernels.report.explorer import explorer, show
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import TIERS

VGG11 = network("vgg11", image=32)


def test_every_card_and_tier_can_be_chosen():
    menus = {child.description: child for child in explorer(VGG11).children if hasattr(child, "description")}
    assert set(menus["device"].options.values()) == set(devices())
    assert list(menus["tier"].options) == list(TIERS)
    assert (menus["device"].value, menus["tier"].value, menus["batch"].value) == ("h100_sxm", "fp16", 10)


@pytest.mark.parametrize(("device", "tier", "batch"), [("h200", "tf32", 1), ("b200", "fp8", 64)])
def test_a_choice_is_drawn_with_its_total_and_closed(monkeypatch, capsys, device, tier, batch):
    drawn = []
    monkeypatch.setattr(module, "display", drawn.append)
    show(VGG11, device, tier, batch)
    title = drawn[0].axes[0].get_title(loc="left")
    assert devices()[device].title in title
    assert tier in title
    assert f"batch {batch}" in title
    assert "us modelled" in capsys.readouterr().out
    assert not plt.get_fignums()
