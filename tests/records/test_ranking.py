"""Ranks: by cohort, ties by overlapping intervals, and quarantine for what cannot be true."""

import pytest

from vgg_kernels.records.ranking import cohorts, rank, ratio, staleness
from vgg_kernels.records.reading import read_runs
from vgg_kernels.records.records import from_reported, from_runs, newest
from vgg_kernels.report.study import reported_vgg19


@pytest.fixture
def published():
    return from_reported(reported_vgg19(), "data/reported/kernelbench_vgg19.csv")


def measured(folder):
    return from_runs(read_runs(folder), "data/measured", "this project")


def by_variant(records):
    return {s.record.variant: s for s in rank(records)}


def test_the_public_ranking_is_reproduced(published):
    tables = {str(cohort): rows for cohort, rows in cohorts(rank(published)).items()}
    sxm = tables["h100_sxm, batch 10, tf32, kernelbench timer, cold cache"]
    assert [(s.rank, s.record.variant, s.record.times.mean_ms) for s in sxm] == [
        (1, "inductor", 2.43),
        (2, "eager", 3.88),
    ]
    assert sxm[0].speedup == pytest.approx(3.88 / 2.43, rel=1e-5)
    assert sxm[1].versus_first == pytest.approx(3.88 / 2.43, rel=1e-5)


def test_what_its_publisher_withdrew_is_not_ranked(published):
    fastest = next(s for s in rank(published) if s.record.times.mean_ms == 2.21)
    assert fastest.status == "withdrawn"
    assert fastest.rank is None
    assert "replaced or removed it on 2025-07-06" in fastest.reasons[0]


def test_overlapping_intervals_are_a_tie(tmp_path, fake):
    fake.run(
        tmp_path / "d" / "r1",
        {"eager": fake.times(3.0), "inductor_a": fake.times(2.0, seed=1), "inductor_b": fake.times(2.0005, seed=2)},
    )
    table = by_variant(measured(tmp_path))
    assert table["inductor_a"].rank == table["inductor_b"].rank == 1
    assert table["inductor_a"].tied_with == [table["inductor_b"].id]
    assert table["eager"].rank == 3
    assert table["eager"].tied_with == []


def test_too_few_samples_for_an_interval_tie_with_all(tmp_path, fake):
    fake.run(tmp_path / "d" / "r1", {"eager": fake.times(3.0), "inductor": [1.5, 1.6]})
    table = by_variant(measured(tmp_path))
    assert table["eager"].rank == table["inductor"].rank == 1


@pytest.mark.parametrize(
    "change", [{"cache": "warm"}, {"timer": "graph"}, {"batch": 1}, {"tier": "fp16"}], ids=lambda c: next(iter(c))
)
def test_case_20_cohorts_are_never_mixed(tmp_path, fake, change):
    fake.run(tmp_path / "d" / "r1", {"eager": fake.times(3.0)})
    fake.run(tmp_path / "d" / "r2", {"inductor": fake.times(2.0)}, row=change)
    standings = rank(measured(tmp_path))
    assert [s.rank for s in standings] == [1, 1]
    assert len(cohorts(standings)) == 2


def test_faster_than_the_floor_is_quarantined_with_the_figures(tmp_path, fake):
    fake.run(tmp_path / "d" / "r1", {"ours_fp16": fake.times(0.01)}, gate={"ours_fp16": True}, row={"tier": "fp16"})
    (standing,) = rank(measured(tmp_path))
    assert standing.status == "quarantined"
    assert standing.rank is None
    assert "under the lowest fp16 floor" in standing.reasons[0]


@pytest.mark.parametrize(("gate", "reason"), [({"ours": False}, "gate failed"), ({}, "gate missing")])
def test_without_a_passed_gate_a_candidate_is_quarantined(tmp_path, fake, gate, reason):
    fake.run(tmp_path / "d" / "r1", {"ours": fake.times(2.0)}, gate=gate)
    (standing,) = rank(measured(tmp_path))
    assert standing.status == "quarantined"
    assert reason in standing.reasons[0]


def test_case_15_an_unknown_gpu_ranks_among_its_own_without_a_floor(tmp_path, fake):
    fake.run(tmp_path / "d" / "r1", {"eager": fake.times(0.002)}, name="NVIDIA Tomorrow 9000")
    (standing,) = rank(measured(tmp_path))
    assert standing.status == "ranked"
    assert standing.record.cohort.device == "nvidia_tomorrow_9000"


def test_a_superseded_run_is_kept_and_not_ranked(tmp_path, fake):
    fake.run(tmp_path / "d" / "old", {"eager": fake.times(2.0)})
    fake.run(tmp_path / "d" / "new", {"eager": fake.times(3.0)}, supersedes=[{"run": "old", "why": "wrong clock"}])
    standings = {s.record.origin.source.rsplit("/", 1)[-1]: s for s in rank(measured(tmp_path))}
    assert standings["old"].status == "superseded"
    assert standings["old"].reasons == ["run new corrects it"]
    assert standings["new"].rank == 1


def test_case_14_a_baseline_from_another_gpu_or_torch_is_refused_by_name(tmp_path, fake):
    fake.run(tmp_path / "d" / "r1", {"eager": fake.times(3.0)})
    fake.run(tmp_path / "d" / "r2", {"inductor": fake.times(2.0)}, torch="2.12.0")
    fake.run(tmp_path / "d" / "r3", {"inductor_h200": fake.times(2.0)}, name="NVIDIA H200")
    records = {r.variant: r for r in measured(tmp_path)}
    with pytest.raises(ValueError, match=r"torch 2\.12\.0 against 2\.11\.0"):
        ratio(records["inductor"], records["eager"])
    with pytest.raises(ValueError, match=r"device NVIDIA H200 against NVIDIA H100 80GB HBM3"):
        ratio(records["inductor_h200"], records["eager"])
    table = by_variant(list(records.values()))
    assert table["inductor"].speedup is None
    assert "torch 2.12.0 against 2.11.0" in table["inductor"].speedup_refused
    assert table["inductor_h200"].speedup_refused == "no eager record on this device"


def test_a_baseline_is_taken_from_the_runs_own_file(tmp_path, fake):
    fake.run(tmp_path / "d" / "a", {"eager": fake.times(9.0)})
    fake.run(tmp_path / "d" / "b", {"eager": fake.times(3.0), "inductor": fake.times(2.0)})
    standing = by_variant(measured(tmp_path))["inductor"]
    assert standing.speedup == pytest.approx(1.5, rel=1e-2)


def test_stale_counts_from_the_newest_record_and_the_newest_measured_torch(published):
    as_of = newest(published)
    old = next(r for r in published if r.origin.observed.isoformat() == "2025-01-23")
    assert "342 days older" in staleness(old, as_of, None)[0]
    assert staleness(published[-1], as_of, None) == []
    assert staleness(published[-1], as_of, "2.5.1") == []
    assert "torch 2.5.0+cu124, and 2.6.0 has been measured" in staleness(published[-1], as_of, "2.6.0")[0]


def test_the_order_of_records_does_not_matter(published):
    assert rank(published) == rank(published[::-1])
