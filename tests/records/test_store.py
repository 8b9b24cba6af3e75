"""The ledger: durable appending, resuming, sealing; and every kind of damage, named by file and row."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from vgg_kernels.records.reading import read_runs
from vgg_kernels.records.store import COLUMNS, RunWriter, seal_hash, sealed_content
from vgg_kernels.workload.identity import sha256


@pytest.fixture
def ledger(tmp_path, fake):
    """Two good runs; tests spoil the second and look whether the first stays usable."""
    fake.run(tmp_path / "h100_sxm" / "good", {"eager": fake.times(3.9, 10)})
    fake.run(tmp_path / "h100_sxm" / "spoilt", {"eager": fake.times(3.8, 10)}, seal=False)
    return tmp_path


def spoil(ledger, name, old, new, count=1):
    path = ledger / "h100_sxm" / "spoilt" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count))


def only_good(runs):
    return runs.samples["run"].unique().tolist() == ["good"]


def test_what_is_written_is_read_back(tmp_path, fake):
    times = fake.times(3.9, 20)
    fake.run(tmp_path / "run1", {"eager": times}, gate={"eager": True})
    runs = read_runs(tmp_path)
    assert runs.problems == []
    assert runs.samples["time_ms"].tolist() == times
    assert list(runs.samples.columns[: len(COLUMNS)]) == list(COLUMNS)
    assert (runs.samples["device"] == "h100_sxm").all()
    assert runs.samples["sealed"].all()
    assert runs.notes["payload"][0]["passed"] is True


def test_an_empty_folder_and_none_hold_no_runs(tmp_path):
    assert read_runs(tmp_path).samples.empty
    assert read_runs(tmp_path / "nowhere").problems == []


def test_kill_minus_nine_keeps_every_row_that_append_returned_from(tmp_path):
    program = f"""
import sys
sys.path.insert(0, {str(os.path.dirname(__file__))!r})
from vgg_kernels.records.store import RunWriter
run = RunWriter({str(tmp_path / "killed")!r}, {json.dumps({"device": "h100_sxm"})})
row = dict(variant="eager", tier="tf32", network="vgg19", batch=10, layer="network", timer="kernelbench", cache="cold",
           dtype="fp32", cudnn_allow_tf32=True, matmul_allow_tf32=False)
i = 0
while True:
    run.append([dict(row, sample=i, time_ms=1.0 + i)])
    i += 1
    print(i, flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    confirmed = 0
    while confirmed < 50:
        confirmed = int(child.stdout.readline())
    os.kill(child.pid, signal.SIGKILL)
    rest = child.stdout.read().split()
    child.wait()
    confirmed = int(rest[-1]) if rest else confirmed
    lines = (tmp_path / "killed" / "samples.csv").read_text().splitlines()
    assert confirmed <= len(lines) - 1 <= confirmed + 1
    assert lines[confirmed].endswith(f"{float(confirmed)}")


def test_a_half_written_run_is_named_by_file_and_row_and_its_whole_rows_are_used(ledger):
    with (ledger / "h100_sxm" / "spoilt" / "samples.csv").open("a") as file:
        file.write("eager,tf32,vgg19,10,netw")
    runs = read_runs(ledger)
    assert any(p.startswith("h100_sxm/spoilt/samples.csv row 12: half-written") for p in runs.problems)
    assert (runs.samples["run"] == "spoilt").sum() == 10


def test_a_killed_run_is_resumed(tmp_path, fake):
    folder = fake.run(tmp_path / "run1", {"eager": [1.0, 2.0]}, seal=False)
    with (folder / "samples.csv").open("a") as file:
        file.write("eager,tf32,vg")
    run = RunWriter(folder, fake.provenance(observed="2026-03-11T00:00:00+00:00"))
    assert run.samples()["time_ms"].tolist() == [1.0, 2.0]
    run.append([{**fake.row, "sample": 2, "time_ms": 3.0}])
    run.finish()
    runs = read_runs(tmp_path)
    assert runs.samples["time_ms"].tolist() == [1.0, 2.0, 3.0]
    assert runs.problems == []
    assert runs.notes["payload"][0]["half_written_lines_cut"] == ["eager,tf32,vg"]


def test_a_run_is_not_resumed_in_another_environment(tmp_path, fake):
    folder = fake.run(tmp_path / "run1", {"eager": [1.0]}, seal=False)
    with pytest.raises(ValueError, match=r"another environment: torch was '2\.11\.0' and is '2\.12\.0'"):
        RunWriter(folder, fake.provenance(torch="2.12.0"))


def test_a_sealed_run_is_never_written_again(tmp_path, fake):
    folder = fake.run(tmp_path / "run1", {"eager": [1.0]})
    with pytest.raises(ValueError, match="is sealed"):
        RunWriter(folder, fake.provenance())


@pytest.mark.parametrize("time_ms", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_times_are_not_written(tmp_path, fake, time_ms):
    run = RunWriter(tmp_path / "run1", fake.provenance())
    with pytest.raises(ValueError, match="a positive, finite number is accepted"):
        run.append([{**fake.row, "sample": 0, "time_ms": 1.0}, {**fake.row, "sample": 1, "time_ms": time_ms}])
    assert run.samples().empty


def test_a_row_with_other_columns_is_not_written(tmp_path, fake):
    run = RunWriter(tmp_path / "run1", fake.provenance())
    with pytest.raises(ValueError, match=r"missing: \['time_ms'\], not known: \['time_s'\]"):
        run.append([{**fake.row, "sample": 0, "time_s": 1.0}])


def test_the_seal_is_a_canonical_hash(tmp_path, fake):
    folder = fake.run(tmp_path / "run1", {"eager": [1.0, 2.0]})
    content = sealed_content(folder, "run1")
    assert seal_hash(content) == sha256(content) == json.loads((folder / "seal.json").read_text())["sha256"]


@pytest.mark.parametrize(
    ("name", "old", "new", "where"),
    [
        ("samples.csv", ",0,", ",00,", "samples.csv row 2"),
        ("notes.jsonl", "true", "false", "notes.jsonl row 1"),
        ("provenance.json", "2.11.0", "2.11.1", "provenance.json row"),
        ("seal.json", '"run": "good"', '"run": "bad"', "seal.json: its own SHA-256"),
    ],
)
def test_a_change_after_sealing_is_named(tmp_path, fake, name, old, new, where):
    fake.run(tmp_path / "good", {"eager": [1.0, 2.0]}, gate={"eager": True})
    path = tmp_path / "good" / name
    path.write_text(path.read_text().replace(old, new, 1))
    runs = read_runs(tmp_path)
    assert runs.samples.empty
    assert len(runs.problems) == 1
    assert where in runs.problems[0]


@pytest.mark.parametrize("text", ["-3.5", "0", "nan", "inf", "1e9", "fast", ""])
def test_a_bad_time_is_named_by_file_and_row(ledger, text):
    path = ledger / "h100_sxm" / "spoilt" / "samples.csv"
    lines = path.read_text().splitlines()
    lines[6] = lines[6].rsplit(",", 1)[0] + "," + text
    path.write_text("\n".join(lines) + "\n")
    runs = read_runs(ledger)
    assert only_good(runs)
    assert f"h100_sxm/spoilt/samples.csv row 7: time_ms is {text!r}" in runs.problems[0]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("time_ms", "time_s", r"row 1: columns missing: ['time_ms'], not known: ['time_s']"),
        ("sample,time_ms", "sample,time_ms,colour", "samples.csv row 1: columns missing: []"),
        ("tf32,vgg19", "tf64,vgg19", "row 2: tier is 'tf64'"),
        ("kernelbench", "stopwatch", "row 2: timer is 'stopwatch'"),
        ("cold", "lukewarm", "row 2: cache is 'lukewarm'"),
        ("True", "perhaps", "row 2: cudnn_allow_tf32 is 'perhaps'"),
        (",10,", ",0,", "row 2: batch is '0'"),
        (",10,", ",2.5,", "row 2: batch is '2.5'"),
        ("fp32,True,False,1,", "fp32,True,False,0,", "row 2: repeats"),
    ],
)
def test_a_bad_cell_is_named_by_file_and_row(ledger, old, new, problem):
    spoil(ledger, "samples.csv", old, new)
    runs = read_runs(ledger)
    assert only_good(runs)
    assert problem in runs.problems[0]


def test_a_run_without_provenance_is_no_evidence(ledger):
    (ledger / "h100_sxm" / "spoilt" / "provenance.json").unlink()
    runs = read_runs(ledger)
    assert only_good(runs)
    assert runs.problems == [
        "h100_sxm/spoilt/provenance.json: missing; a run without provenance is no evidence",
    ]


def test_a_run_without_samples_is_named(ledger):
    (ledger / "h100_sxm" / "spoilt" / "samples.csv").unlink()
    runs = read_runs(ledger)
    assert only_good(runs)
    assert runs.problems == ["h100_sxm/spoilt/samples.csv: missing"]


def test_a_truncated_provenance_is_named_by_file_and_row(ledger):
    path = ledger / "h100_sxm" / "spoilt" / "provenance.json"
    path.write_text(path.read_text()[:120])
    runs = read_runs(ledger)
    assert only_good(runs)
    assert "h100_sxm/spoilt/provenance.json row " in runs.problems[0]
    assert "not whole JSON" in runs.problems[0]


@pytest.mark.parametrize("key", ["device_name", "torch", "source_sha256", "observed", "flags", "hardware"])
def test_provenance_that_lacks_a_fact_is_named(ledger, key):
    path = ledger / "h100_sxm" / "spoilt" / "provenance.json"
    document = json.loads(path.read_text())
    del document[key]
    path.write_text(json.dumps(document))
    runs = read_runs(ledger)
    assert only_good(runs)
    assert f"spoilt/provenance.json row 1: {key}: field required" in runs.problems[0]


def test_a_device_that_is_not_what_its_name_says_is_refused(ledger):
    spoil(ledger, "provenance.json", '"NVIDIA H100 80GB HBM3"', '"NVIDIA H200"')
    runs = read_runs(ledger)
    assert only_good(runs)
    assert "device is 'h100_sxm', but 'NVIDIA H200' is 'h200'" in runs.problems[0]


def test_two_runs_with_one_id_are_both_left_out(ledger):
    spoil(ledger, "provenance.json", '"run": "spoilt"', '"run": "good"')
    runs = read_runs(ledger)
    assert runs.samples.empty
    assert "h100_sxm/good, h100_sxm/spoilt: share the run id 'good'" in runs.problems[-1]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"kind": "gate"', "row 1: not whole JSON"),
        ('{"payload": 1}', "row 1: kind: field required"),
        ('{"kind": "gate", "payload": {"variant": "x", "tier": "fp16", "network": "vgg19"}}', "row 1: passed: field"),
    ],
)
def test_a_bad_note_is_named_by_file_and_row(ledger, line, problem):
    (ledger / "h100_sxm" / "spoilt" / "notes.jsonl").write_text(line + "\n")
    runs = read_runs(ledger)
    assert only_good(runs)
    assert f"h100_sxm/spoilt/notes.jsonl {problem}" in runs.problems[0]


def test_an_unsealed_run_is_used_and_said_to_be_unsealed(ledger):
    runs = read_runs(ledger)
    assert set(runs.samples["run"]) == {"good", "spoilt"}
    assert not runs.samples.loc[runs.samples["run"] == "spoilt", "sealed"].any()
    assert "h100_sxm/spoilt/seal.json: missing" in runs.problems[0]


def test_a_correction_supersedes_and_rewrites_nothing(ledger, fake):
    why = [{"run": "good", "why": "the clock was locked"}]
    before = (ledger / "h100_sxm" / "good" / "samples.csv").read_bytes()
    fake.run(ledger / "h100_sxm" / "better", {"eager": [3.7] * 5}, supersedes=why)
    runs = read_runs(ledger)
    assert runs.superseded == {"good": "better"}
    assert (ledger / "h100_sxm" / "good" / "samples.csv").read_bytes() == before


def test_writing_needs_no_validator(tmp_path):
    program = f"""
import sys
for name in ("pandera", "pydantic", "jsonschema", "rfc8785"):
    sys.modules[name] = None
from vgg_kernels.records.store import RunWriter
run = RunWriter({str(tmp_path / "bare")!r}, {{"device": "h200"}})
run.append([dict(variant="eager", tier="tf32", network="vgg19", batch=10, layer="network", timer="kernelbench",
                 cache="cold", dtype="fp32", cudnn_allow_tf32=True, matmul_allow_tf32=False, sample=0, time_ms=1.0)])
run.note("failure", {{"variant": "x", "tier": "fp16", "error": "none"}})
print(run.finish().name)
"""
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "seal.json", done.stderr
    assert time.monotonic() - started < 30
