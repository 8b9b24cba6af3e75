import matplotlib.pyplot as plt
import pytest

from vgg_kernels.report import predictions
from vgg_kernels.report.plots import prediction as figures
from vgg_kernels.report.study import reported, reported_hopper
from vgg_kernels.workload.network import network

VGG = network("vgg19")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_layers_stand_beside_their_floors_hatched():
    rows = predictions.layer_rows(VGG, "fp16", "h100_sxm", 10)
    ax = figures.layers(rows).axes[0]
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == pytest.approx([*rows["floor_us"], *rows["time_us"]])
    assert all(bar.get_hatch() for bar in ax.patches[len(rows) :])
    assert not any(bar.get_hatch() for bar in ax.patches[: len(rows)])
    assert [text.get_text().lower() for text in ax.texts] == rows["bound"].tolist()


def test_agreement_draws_every_row_in_both_panels():
    rows, _ = predictions.comparisons(reported(), reported_hopper())
    left, right = figures.agreement(rows).axes
    for ax in (left, right):
        assert sum(len(line.get_xdata()) for line in ax.lines if line.get_marker() not in ("", "None")) == len(rows)
    assert "20%" in right.get_xlabel()


def test_the_waterfall_shows_reports_beside_the_model():
    rows = predictions.waterfall_rows(VGG, "h100_sxm", 10)
    ax = figures.waterfall(rows, {"eager": 3.88, "inductor": 2.43}).axes[0]
    texts = [text.get_text() for text in ax.texts]
    assert "reported 3,880" in texts
    assert len(ax.patches) == len(rows)
    assert ax.patches[-1].get_width() == pytest.approx(rows["total_us"].iloc[-1])


def test_batch_scaling_draws_model_and_floor():
    rows = predictions.batch_rows(VGG, ("fp16",), "h100_sxm")
    ax = figures.batch_scaling(rows).axes[0]
    modelled, floor = ax.lines
    assert (modelled.get_ydata() >= floor.get_ydata()).all()
