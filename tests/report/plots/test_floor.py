import matplotlib.pyplot as plt
import pytest

from vgg_kernels.report import floors
from vgg_kernels.report.plots import floor as figures
from vgg_kernels.workload.network import network

VGG = network("vgg19")
TIERS = ("fp32", "tf32", "fp16")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_the_audit_marks_each_part_of_each_tier_at_its_own_time():
    rows = floors.audit_rows(VGG, "h100_sxm", 10)
    ax = figures.audit(rows, 1.797, 2430.0).axes[0]
    drawn = sorted(float(x) for line in ax.lines for x in line.get_xdata())
    assert drawn == pytest.approx(sorted([*rows[list(figures.PARTS)].to_numpy().ravel(), 1.797, 1.797, 2430.0, 2430.0]))
    assert any("1.80 µs" in text.get_text() for text in ax.texts)
    assert ax.get_title() == "VGG19, H100 SXM, batch 10, derived"
    assert "µs" in ax.get_xlabel()


def test_the_roofline_draws_every_layer_once_a_tier():
    rows = floors.roofline_rows(VGG, TIERS, "h100_sxm", 10)
    ax = figures.roofline(rows, floors.ceilings(TIERS, "h100_sxm")).axes[0]
    points = [line for line in ax.lines if line.get_marker() not in ("", "None")]
    assert sum(len(line.get_xdata()) for line in points) == len(rows)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_the_intervals_mark_the_floors_that_have_a_name():
    rows, lowest = floors.named_floors(VGG, "h100_sxm", 10), floors.lowest_rows(VGG, "h100_sxm", 10)
    ax = figures.intervals(rows, lowest).axes[0]
    drawn = {round(x, 6) for line in ax.lines for x in line.get_xdata()}
    assert {round(us, 6) for us in lowest["lowest_us"]} <= drawn
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(labels) == len(set(labels)) == len(figures.NAMED) + 1
    assert "below every floor counted here" in labels
    layerwise = rows.query("fusion == 'layerwise' and rates == 'data-sheet'")["algorithm"]
    assert {algorithm for algorithm, _, _ in figures.NAMED} == set(layerwise)  # every row of the table has its mark


def test_the_batch_is_drawn_by_tier_with_the_layers_that_memory_binds():
    rows = floors.batch_rows(VGG, TIERS, "h100_sxm")
    ax = figures.batch_scaling(rows).axes[0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(TIERS)
    assert [t.get_text() for t in ax.texts] == [str(n) for n in rows[rows["tier"] == "fp16"]["by_hbm"]]
