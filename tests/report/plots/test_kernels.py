from math import ceil

import matplotlib.pyplot as plt
import pytest

from vgg_kernels.report import kernels
from vgg_kernels.report.plots import kernels as figures
from vgg_kernels.report.style import apply
from vgg_kernels.workload.network import network

VGG = network("vgg19")


@pytest.fixture(autouse=True)
def _styled():
    apply()
    yield
    plt.close("all")


def test_shifts_marks_nine_cells_and_draws_nine_reads():
    rows = kernels.tap_rows(4, 5, (1, 0))
    grid, reads = figures.shifts(rows, 4, 5, tile=8).axes
    cells = [patch for patch in grid.patches if patch.get_width() == 1]
    assert len(cells) == 3 * 5 * 6
    assert sum(bool(cell.get_hatch()) for cell in cells) == 3 * (5 * 6 - 4 * 5)
    bold = [text.get_text() for text in grid.texts if text.get_fontweight() == "bold"]
    assert sorted(map(int, bold)) == sorted(rows["row"])
    assert [bar.get_x() for bar in reads.patches] == rows["row"].tolist()
    assert {bar.get_width() for bar in reads.patches} == {8}


def test_waves_are_framed_by_whole_waves():
    rows = kernels.wave_rows(VGG, "fp16", "h100_sxm", 10, None)
    ax = figures.waves(rows).axes[0]
    widths = [bar.get_width() for bar in ax.patches]
    assert widths[::2] == pytest.approx(rows["waves"].tolist())
    assert widths[1::2] == [ceil(wave) for wave in rows["waves"]]
    assert "derived" in ax.get_title()
    beside = ax.child_axes[0].get_yticklabels()
    assert [label.get_text().split("; ")[1] for label in beside] == rows["tile"].tolist()


def test_l2_draws_what_is_asked_under_the_line_of_what_is_given():
    rows = kernels.l2_rows(VGG, ("tf32", "fp16"), "h200", 10)
    ax = figures.l2(rows).axes[0]
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(rows["asked"].tolist())
    assert [text.get_text() for text in ax.texts] == ["L2 gives\n37\n(H200)"]  # the card it was measured on
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["tf32", "fp16"]
    assert "H200" in ax.get_title()


def test_row_pairs_shows_six_products_and_the_bytes_of_both_ways():
    rows = kernels.pair_rows(VGG, "fp16", "h100_sxm", 10)
    taps, asked = figures.row_pairs(rows).axes
    assert sorted(patch.get_xy() for patch in taps.patches) == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (3, 1)]
    assert [bar.get_width() for bar in asked.patches] == pytest.approx([*rows["row_by_row"], *rows["in_pairs"]])
    assert taps.get_title() == "four input rows, three rows of taps"
    assert [text.get_text() for text in asked.texts] == ["L2 gives 37 (H200)"]


def test_the_epilogue_stands_beside_passes_of_its_own():
    rows = kernels.epilogue_rows(VGG, "fp16", "h100_sxm", 10)
    ax = figures.epilogue(rows).axes[0]
    assert [bar.get_height() for bar in ax.patches] == pytest.approx([*rows["passes_mb"], *rows["ours_mb"]])
