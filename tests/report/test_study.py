"""Where the study's rows come from, and which of them are shown."""

import pytest

from vgg_kernels.report import study
from vgg_kernels.workload.lookup import UnknownName


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name in ("data", "notebooks"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("VGG_STUDY_ROOT", str(tmp_path))
    return tmp_path / "data"


def test_the_root_is_found_from_any_working_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("VGG_STUDY_ROOT", raising=False)
    here = study.root()
    monkeypatch.chdir(tmp_path)
    assert study.root() == here
    assert (here / "data" / "README.md").is_file()


def test_a_root_that_is_none_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("VGG_STUDY_ROOT", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=tmp_path.name):
        study.root()


def test_every_reported_row_says_that_it_is_reported():
    for table in (study.reported(), study.reported_vgg19(), study.reported_hopper()):
        assert set(table["evidence"]) == {"reported"}


def test_no_runs_are_an_empty_table_with_every_column(place):
    frame = study.measured()
    assert frame.empty
    assert {"variant", "time_ms", "run", "device", "torch", "observed", "evidence", "origin"} <= set(frame.columns)


@pytest.mark.parametrize(("choice", "origins"), [("recorded", {"recorded"}), ("fresh", {"recorded", "local"})])
def test_the_choice_of_what_is_shown(place, fake, monkeypatch, choice, origins):
    fake.run(place / "measured" / "d" / "a", {"eager": [1.0]})
    fake.run(place / "local" / "d" / "b", {"eager": [2.0]})
    monkeypatch.setenv("VGG_STUDY", choice)
    frame = study.measured()
    assert set(frame["origin"]) == origins
    assert set(frame["evidence"]) == {"measured"}


def test_another_choice_is_named(place, monkeypatch):
    monkeypatch.setenv("VGG_STUDY", "latest")
    with pytest.raises(UnknownName, match="accepted: recorded, fresh"):
        study.measured()


def test_a_superseded_run_is_left_out_wherever_its_correction_is_kept(place, fake, monkeypatch):
    monkeypatch.setenv("VGG_STUDY", "recorded")
    fake.run(place / "submitted" / "d" / "old", {"eager": [1.0]})
    fake.run(place / "measured" / "d" / "new", {"eager": [2.0]}, supersedes=[{"run": "old", "why": "wrong card"}])
    assert study.measured()["time_ms"].tolist() == [2.0]


def test_one_id_in_two_places_counts_once_and_is_named(place, fake, monkeypatch):
    monkeypatch.setenv("VGG_STUDY", "fresh")
    fake.run(place / "measured" / "d" / "a", {"eager": [1.0]})
    fake.run(place / "local" / "e" / "a", {"eager": [2.0]})
    assert study.measured()["time_ms"].tolist() == [1.0]
    assert study.runs()["data/local"].problems == ["e/a: its run id 'a' is that of a run in data/measured"]
