"""The records' figure, through what it draws."""

import matplotlib
import pytest

from vgg_kernels.report.page import page
from vgg_kernels.report.plots.records import TIERS, landscape, landscape_rows
from vgg_kernels.report.style import save

matplotlib.use("agg")


@pytest.fixture(scope="module")
def workload():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VGG_STUDY", "recorded")
        return page()


@pytest.fixture(scope="module")
def rows(workload):
    return landscape_rows(workload)


def test_rows_are_the_pages_own(workload, rows):
    titles = {e.device for e in workload.environments if e.estimates}
    ranked = sorted(
        s.record.times.mean_ms
        for s in workload.standings
        if s.status == "ranked" and s.record.cohort.device in titles and s.record.cohort.batch == workload.floor.batch
    )
    assert sorted(rows.loc[rows["what"] == "ranked", "time_ms"]) == ranked
    assert (rows["what"] == "floor").sum() == len(TIERS) * len(titles)


def test_every_mark_says_which_evidence_it_is(rows):
    words = rows.groupby("what")["evidence"].unique().map(set).to_dict()
    assert words["floor"] == words["public floor"] == {"derived"}
    assert words["prediction"] == {"modelled"}
    assert words["ranked"] <= {"reported", "measured"}


def test_the_figure_draws_every_row_at_its_time(rows):
    fig = landscape(rows, 10)
    drawn = [float(line.get_xdata()[0]) for line in fig.axes[0].lines]
    expected = rows.loc[rows["what"] != "public floor", "time_ms"].tolist()
    assert sorted(drawn) == pytest.approx(sorted(expected))
    assert fig.axes[0].get_xlabel() == "time of one forward pass, ms (log scale)"
    assert "batch 10" in fig.axes[0].get_title()


def test_a_card_without_a_time_says_so(rows):
    unmeasured = set(rows["card"]) - set(rows.loc[rows["what"] == "ranked", "card"])
    texts = [text.get_text() for text in landscape(rows, 10).axes[0].texts]
    assert texts.count("none recorded here") == len(unmeasured)


def test_the_file_is_the_same_from_run_to_run(rows, tmp_path):
    first = save(landscape(rows, 10), "07_landscape", data=rows, alt="records", folder=tmp_path / "a")
    second = save(landscape(rows, 10), "07_landscape", data=rows, alt="records", folder=tmp_path / "b")
    assert first.svg.read_bytes() == second.svg.read_bytes()
    assert first.csv.read_bytes() == second.csv.read_bytes()
