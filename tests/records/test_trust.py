"""Trust is derived: each level needs its facts, and the level says why it is not the next."""

import pytest

from vgg_kernels.records.reading import read_runs
from vgg_kernels.records.records import from_reported, from_runs
from vgg_kernels.records.trust import LEVELS, Trust, trust
from vgg_kernels.report.study import reported_vgg19


def measured(folder, place="data/measured"):
    return from_runs(read_runs(folder), place, "this project")


def of(records, index=0):
    return trust(records[index], records[:index] + records[index + 1 :])


def test_a_published_row_is_reported_and_says_what_it_lacks():
    records = from_reported(reported_vgg19(), "data/reported/kernelbench_vgg19.csv")
    level = of(records, len(records) - 1)
    assert level.level == "reported"
    assert level.missing == ["raw samples under a seal"]
    assert any("identity holds" in fact for fact in level.why)


def test_a_sealed_run_of_this_project_is_measured_here(tmp_path, fake):
    fake.run(tmp_path / "d" / "r1", {"ours": fake.times(2.0)}, gate={"ours": True})
    assert of(measured(tmp_path)).level == "measured here"


def test_a_sealed_run_from_elsewhere_is_reproducible(tmp_path, fake):
    fake.run(tmp_path / "d" / "r1", {"ours": fake.times(2.0)}, gate={"ours": True})
    level = of(measured(tmp_path, "data/submitted"))
    assert level.level == "reproducible"
    assert level.missing == ["a measurement by this project's harness"]


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"seal": False}, "raw samples under a seal"),
        ({"git_dirty": True}, "a recipe (the source that ran cannot be had)"),
        ({"git_revision": None, "git_dirty": None}, "a recipe (the source that ran cannot be had)"),
    ],
)
def test_a_missing_fact_holds_a_record_at_reported(tmp_path, fake, change, missing):
    fake.run(tmp_path / "d" / "r1", {"eager": fake.times(2.0)}, **change)
    level = of(measured(tmp_path))
    assert level.level == "reported"
    assert missing in level.missing


@pytest.mark.parametrize(("gate", "state"), [({"ours": False}, "failed"), ({}, "missing")])
def test_a_gate_that_did_not_pass_holds_a_record_at_reproducible(tmp_path, fake, gate, state):
    fake.run(tmp_path / "d" / "r1", {"ours": fake.times(2.0)}, gate=gate)
    level = of(measured(tmp_path))
    assert level.level == "reproducible"
    assert level.missing == [f"a passed gate (it is {state})"]


@pytest.mark.parametrize(
    ("second", "level"),
    [
        ({"mean": 2.0005, "card": "bbbbbbbbbbbb"}, "replicated"),
        ({"mean": 2.0005, "card": "aaaaaaaaaaaa"}, "measured here"),
        ({"mean": 2.0005, "card": None}, "measured here"),
        ({"mean": 2.2, "card": "bbbbbbbbbbbb"}, "measured here"),
    ],
    ids=["another card", "the same card", "an unknown card", "another time"],
)
def test_replication_needs_another_card_and_an_overlapping_interval(tmp_path, fake, second, level):
    fake.run(tmp_path / "d" / "r1", {"eager": fake.times(2.0)})
    fake.run(tmp_path / "d" / "r2", {"eager": fake.times(second["mean"], seed=5)}, card=second["card"])
    records = measured(tmp_path)
    first = next(i for i, r in enumerate(records) if "r1" in r.origin.file)
    assert of(records, first).level == level


def test_an_unsealed_replication_does_not_count(tmp_path, fake):
    fake.run(tmp_path / "d" / "r1", {"eager": fake.times(2.0)})
    fake.run(tmp_path / "d" / "r2", {"eager": fake.times(2.0, seed=5)}, card="bbbbbbbbbbbb", seal=False)
    assert of(measured(tmp_path)).level == "measured here"


def test_a_level_cannot_be_typed_into_a_run(tmp_path, fake):
    fake.run(tmp_path / "d" / "r1", {"eager": fake.times(2.0)}, seal=False, trust="replicated", level="replicated")
    assert of(measured(tmp_path)).level == "reported"


def test_levels_are_ordered_and_closed():
    assert LEVELS == ("reported", "reproducible", "measured here", "replicated")
    with pytest.raises(ValueError, match="level"):
        Trust(level="certified", why=[], missing=[])
