"""Records state facts: published rows with their caveats, measured runs with their statistics."""

import json

import numpy as np
import pytest

from vgg_kernels.records.reading import read_runs
from vgg_kernels.records.records import Record, from_reported, from_runs, newest, tier_of
from vgg_kernels.records.store import RunWriter
from vgg_kernels.report.study import reported, reported_vgg19
from vgg_kernels.workload.identity import IDENTITY, sha256

FILE = "data/reported/kernelbench_vgg19.csv"


@pytest.fixture
def published():
    return from_reported(reported_vgg19(), FILE)


def records(folder):
    return from_runs(read_runs(folder), "data/measured", "this project")


def test_current_published_rows_are_those_of_the_other_table(published):
    other = reported()
    other = other[(other["level"] == 3) & (other["problem"] == 12)]
    ours = {(r.cohort.device, r.variant): r.times.mean_ms for r in published if not r.withdrawn}
    assert ours == {(row.device, row.variant): row.mean_ms for row in other.itertuples()}


def test_the_two_public_records_are_there(published):
    current = {(r.cohort.device, r.variant): r.times.mean_ms for r in published if not r.withdrawn}
    assert current["h100_sxm", "inductor"] == 2.43
    assert current["h100_pcie", "inductor"] == 3.64


def test_a_published_record_says_what_it_leaves_open(published):
    sxm = next(r for r in published if r.cohort.device == "h100_sxm" and not r.withdrawn)
    assert any("states torch 2.5.0+cu124 and pins torch 2.9.0" in caveat for caveat in sxm.caveats)
    assert sxm.samples_sha256 is None
    assert sxm.times.median_ms is None
    assert sxm.where.startswith(f"{FILE} row ")


def test_default_flags_are_the_tf32_tier(published):
    assert {r.cohort.tier for r in published} == {"tf32"}


@pytest.mark.parametrize(
    ("dtype", "cudnn", "matmul", "tier"),
    [
        ("float32", True, False, "tf32"),
        ("float32", False, True, "tf32"),
        ("float32", False, False, "fp32"),
        ("float16", True, True, "fp16"),
        ("bfloat16", False, False, "bf16"),
    ],
)
def test_case_7_the_tier_follows_the_least_precise_operand(dtype, cudnn, matmul, tier):
    assert tier_of(dtype, cudnn, matmul) == tier


def test_an_unknown_dtype_has_no_tier():
    with pytest.raises(ValueError, match="float32, float16 and bfloat16 are"):
        tier_of("float64", False, False)


def test_a_revision_that_was_stated_is_said_to_be(tmp_path, fake):
    fake.run(tmp_path / "h200" / "run1", {"inductor": fake.times(2.4)}, name="NVIDIA H200", revision_stated=True)
    (record,) = records(tmp_path)
    assert record.recipe is not None
    assert any("revision was stated" in caveat for caveat in record.caveats)


def test_a_measured_record_is_computed_from_its_samples(tmp_path, fake):
    times = fake.times(2.4)
    fake.run(tmp_path / "h100_sxm" / "run1", {"inductor": times})
    (record,) = records(tmp_path)
    assert record.times.mean_ms == pytest.approx(np.mean(times), rel=1e-5)
    assert record.times.as_published_ms == float(f"{np.mean(times):.3g}")
    assert record.workload_sha256 == IDENTITY
    assert record.samples_sha256 == json.loads((tmp_path / "h100_sxm" / "run1" / "seal.json").read_text())["sha256"]
    assert record.origin.file == "data/measured/h100_sxm/run1/samples.csv"


def test_samples_are_taken_in_the_order_of_their_numbers(tmp_path, fake):
    times = [2.0 + 0.001 * i for i in range(30)]
    fake.run(tmp_path / "a" / "run1", {"eager": times})
    path = tmp_path / "a" / "run1" / "samples.csv"
    (tmp_path / "a" / "run1" / "seal.json").unlink()
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([head, *reversed(rows)]) + "\n")
    (shuffled,) = records(tmp_path)
    fake.run(tmp_path / "b" / "run2", {"eager": times})
    straight = next(r for r in records(tmp_path) if "run2" in r.origin.file)
    assert shuffled.times == straight.times


def test_layers_and_other_networks_are_no_records_of_the_workload(tmp_path, fake):
    fake.run(tmp_path / "a" / "r1", {"eager": [2.0] * 5}, row={"layer": "conv1_1"})
    fake.run(tmp_path / "a" / "r2", {"eager": [2.0] * 5}, row={"network": "vgg16"})
    assert records(tmp_path) == []


@pytest.mark.parametrize(
    ("variant", "gate", "state"),
    [
        ("ours_fp16", {"ours_fp16": True}, "passed"),
        ("ours_fp16", {"ours_fp16": False}, "failed"),
        ("ours_fp16", {}, "missing"),
        ("ours_fp16", {"ours_tf32": True}, "missing"),
        ("eager", {}, "reference"),
        ("inductor_max", {"inductor_max": False}, "failed"),
    ],
)
def test_the_gate_verdict_is_the_runs_own(tmp_path, fake, variant, gate, state):
    fake.run(tmp_path / "a" / "r1", {variant: [2.0] * 5}, gate=gate)
    (record,) = records(tmp_path)
    assert record.gate.state == state


def test_certificates_stand_beside_the_verdict(tmp_path, fake):
    seen = {"check": "norm", "weights": "kaiming", "inputs": "normal", "sensitivity": 123.4567891, "vacuous": False}
    run = RunWriter(tmp_path / "a" / "r1", fake.provenance())
    run.append([{**fake.row, "variant": "ours", "sample": 0, "time_ms": 2.0}])
    run.note(
        "gate",
        {"variant": "ours", "tier": "tf32", "network": "vgg19", "passed": True, "verdict": {"certificates": [seen]}},
    )
    run.finish()
    (record,) = records(tmp_path)
    (certificate,) = record.gate.certificates
    assert (certificate.sensitivity, certificate.vacuous) == (123.457, False)


def test_a_throttled_card_is_a_caveat(tmp_path, fake):
    run = RunWriter(tmp_path / "a" / "r1", fake.provenance())
    run.append([{**fake.row, "sample": 0, "time_ms": 2.0}])
    about = {name: fake.row[name] for name in ("variant", "batch", "layer", "timer", "cache")}
    run.note("conditions", {**about, "throttled": ["sw_power_cap"]})
    run.note("conditions", {**about, "cache": "warm", "throttled": ["hw_slowdown"]})
    run.finish()
    (record,) = records(tmp_path)
    assert record.caveats == ["the card lowered its clock during timing: sw_power_cap"]


@pytest.mark.parametrize(("load", "kind", "said"), [(10.4, "cpu", True), (1.5, "cpu", False), (10.4, "cuda", False)])
def test_a_busy_cpu_is_a_caveat(tmp_path, fake, load, kind, said):
    host = {"load_average": [load, 9.0, 7.0], "usable_cores": 2}
    name = "Fake CPU" if kind == "cpu" else "NVIDIA H200"
    fake.run(tmp_path / "a" / "r1", {"eager": [2.0] * 5}, name=name, kind=kind, host=host)
    (record,) = records(tmp_path)
    assert ("the machine was busy: load average 10.4 on 2 cores" in record.caveats) is said


def test_source_with_uncommitted_changes_is_no_recipe(tmp_path, fake):
    fake.run(tmp_path / "a" / "r1", {"eager": [2.0] * 5}, git_dirty=True)
    (record,) = records(tmp_path)
    assert record.recipe is None
    assert any("uncommitted" in caveat for caveat in record.caveats)


def test_a_records_identity_is_its_canonical_hash_and_moves_with_a_digit(published):
    record = published[-1]
    assert record.sha256 == sha256(json.loads(record.model_dump_json()))
    times = record.times.model_copy(update={"mean_ms": 2.42})
    assert record.model_copy(update={"times": times}).sha256 != record.sha256


def test_a_record_survives_being_written_and_read(published):
    for record in published:
        assert Record.model_validate_json(record.model_dump_json()) == record


def test_as_of_is_the_newest_record_not_the_clock(published):
    assert newest(published).isoformat() == "2025-12-31"
    with pytest.raises(ValueError, match="no records"):
        newest([])
