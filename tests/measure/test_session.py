"""Folders and runs: begun, killed for real, taken up again, sealed. Times are a fake bench's, or a tiny CPU run's."""

import json
import os
import resource
import signal
import subprocess
import sys

import pandas as pd
import pytest

from vgg_kernels.measure.run import DeviceLost
from vgg_kernels.measure.schedule import steps
from vgg_kernels.measure.variants import select
from vgg_kernels.measure.writing import OutputLost
from vgg_kernels.records import session
from vgg_kernels.records.store import RunWriter, read_runs

SAMPLE = ["variant", "batch", "layer", "timer", "cache", "sample"]


@pytest.fixture
def go(fakes, tmp_path):
    def run(bench=None, out=tmp_path, budget_s=1e6, only=("eager", "fp16"), batches=(10,), plan=None):
        bench = bench or fakes.FakeBench()
        plan = plan or steps(bench.kind, select(bench.kind, only), batches)
        return session.run(bench, out, plan, budget_s, watchdog=fakes.NoWatchdog)

    return run


def test_a_run_that_nothing_can_be_added_to_is_sealed_and_reads_back(go, tmp_path):
    found = go()
    assert found.sealed
    assert found.measured
    runs = read_runs(tmp_path)
    assert runs.problems == []
    assert len(runs.samples) == found.outcome.rows
    assert set(runs.samples["device"]) == {"fake_gpu"}
    assert set(runs.notes["kind"]) >= {"gate", "profile", "ceilings", "conditions", "step", "end"}


def test_the_folder_is_named_after_device_and_start(go):
    folder = go().folder
    assert folder.parent.name == "fake_gpu"
    assert folder.name == "20260310T120000_fake_gpu"


def test_a_sealed_run_is_followed_by_a_new_one(go, tmp_path):
    first, second = go(), go()
    assert first.folder != second.folder
    assert len(read_runs(tmp_path).provenance) == 2


def test_an_interrupted_run_stays_open_and_is_taken_up_again(go, fakes, tmp_path):
    bench = fakes.FakeBench(breaks={"time/eager/10": KeyboardInterrupt()})
    first = go(bench)
    assert not first.sealed
    assert first.outcome.interrupted
    second = go()
    assert second.folder == first.folder
    assert second.sealed
    assert not read_runs(tmp_path).samples.duplicated(SAMPLE).any()


def test_another_card_does_not_take_up_the_run(go, fakes):
    first = go(fakes.FakeBench(breaks={"time/eager/10": KeyboardInterrupt()}))
    assert go(fakes.FakeBench(card="bbbbbbbbbbbb")).folder != first.folder


def test_a_run_that_another_process_writes_is_left_to_it(go, fakes, tmp_path):
    other = RunWriter(tmp_path / "fake_gpu" / "theirs", fakes.FakeBench().provenance())
    found = go()
    other.close()
    assert found.folder.name != "theirs"


def test_what_is_in_the_way_is_stepped_around(go, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "provenance.json").write_text('{"cut')
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / "provenance.json").write_text("[1]")
    assert go().sealed


def test_a_lost_device_leaves_the_run_open_for_the_next_process(go, fakes):
    bench = fakes.FakeBench()

    def poison():
        bench.alive = False
        raise RuntimeError("CUDA error")

    bench.breaks["verify/ours_fp16"] = poison
    with pytest.raises(DeviceLost):
        go(bench)
    found = go()
    assert found.sealed
    assert found.outcome.ended["verify/ours_fp16"] == "failed"
    assert found.outcome.ended["time/eager/10"] == "done"


def test_a_budget_that_is_spent_still_seals_what_is_there(go, fakes):
    first = go(fakes.FakeBench(breaks={"time/eager/10": KeyboardInterrupt()}))
    last = go(budget_s=0.0)
    assert last.folder == first.folder
    assert last.sealed
    assert last.measured


def test_nothing_measured_is_told_apart(go):
    assert not go(budget_s=0.0).measured


def test_compiling_alone_and_ceilings_that_failed_are_nothing_measured(go, fakes):
    class Broken(fakes.FakeBench):
        def fail(self, *_):
            raise RuntimeError("no kernel image is available")

        verify = time = layers = profile = fail

        def ceilings(self):
            return [], ["a card: a ceiling could not be taken"]

    found = go(Broken())
    assert found.outcome.ended["compile/10"] == "done"
    assert found.outcome.ended["ceilings"] == "failed"
    assert not found.measured


@pytest.mark.parametrize("part", ["ceilings", "profile", "verify", "layers"])
def test_one_finding_of_any_kind_is_something_measured(go, fakes, part):
    bench = fakes.FakeBench(gates={"fp16": False})  # a verdict all the same
    plan = steps("cuda", select("cuda", ("fp16",) if part == "verify" else ("eager",)), (10,), (part,))
    assert go(bench, plan=plan).measured


def test_a_run_taken_up_again_asks_what_was_compiled_for_it(go, fakes):
    first = go(fakes.FakeBench(gate_seed=1, breaks={"time/ours_fp16/10": KeyboardInterrupt()}))
    bench = fakes.FakeBench(gate_seed=2)
    assert go(bench).folder == first.folder
    assert bench.gate_seed == 1
    another = fakes.FakeBench(gate_seed=2)
    assert go(another).folder != first.folder
    assert another.gate_seed == 2


def test_a_folder_that_cannot_be_written_is_refused(go, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        go(out=tmp_path / "file" / "runs")


def test_a_half_written_note_is_cut_off_and_the_run_goes_on(go, fakes):
    first = go(fakes.FakeBench(breaks={"time/eager/10": KeyboardInterrupt()}))
    with (first.folder / "notes.jsonl").open("a") as file:
        file.write('{"kind": "step", "payl')
    second = go()
    assert second.folder == first.folder
    assert second.sealed


def test_a_full_disk_keeps_whole_rows(go, fakes, tmp_path):
    """A real limit of the operating system, on the size of files, stands for the disk."""
    go(fakes.FakeBench(breaks={"time/eager/10": KeyboardInterrupt()}))  # all folders and headers exist
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, before[1]))
    try:
        with pytest.raises(OutputLost, match="File too large"):
            go()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    runs = read_runs(tmp_path)
    assert len(runs.samples) > 0
    assert all("half-written" not in problem for problem in runs.problems)


WORKER = """
import sys, time
from pathlib import Path
from vgg_kernels.measure import schedule
from vgg_kernels.records import session
from vgg_kernels.measure.torch_device import TorchBench
from vgg_kernels.workload.network import network

class Bench(TorchBench):
    def provenance(self):  # the tree may be edited while the tests run
        return {**super().provenance(), "source_sha256": "1" * 64, "git_revision": "0" * 40}

def tell(step, state, reason):
    print(step.name, state, flush=True)
    if state == "begun" and step.name == sys.argv[2]:
        time.sleep(60)

bench = Bench("cpu", table=network("vgg11", image=32, classes=10))
parts, chosen = schedule.choose("cpu", ("eager",))
found = session.run(bench, Path(sys.argv[1]), schedule.steps("cpu", chosen, (1, 2), parts), 100.0, tell)
print("sealed", found.sealed)
"""


def worker(out, stop):
    return subprocess.Popen([sys.executable, "-c", WORKER, str(out), stop], stdout=subprocess.PIPE, text=True)


def test_kill_9_half_way_costs_the_step_in_hand_and_nothing_else(tmp_path):
    """Real times of a small network on this CPU; the process is killed for real."""
    first = worker(tmp_path, "time/eager/2")
    for line in first.stdout:
        if line == "time/eager/2 begun\n":
            break
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    [path] = tmp_path.rglob("samples.csv")
    before = path.read_bytes()
    assert b"network,host,warm" in before
    second = worker(tmp_path, "never")
    log = second.communicate()[0].splitlines()
    assert second.returncode == 0
    assert log[-1] == "sealed True"
    assert "time/eager/1 begun" not in log
    assert "time/eager/2 begun" in log
    assert path.read_bytes().startswith(before)
    runs = read_runs(tmp_path)
    assert runs.problems == []
    assert not runs.samples.duplicated(SAMPLE).any()
    assert set(runs.samples["batch"]) == {1, 2}
    profile = next(n["payload"] for n in session.read_notes(path.parent) if n["kind"] == "profile")
    assert pd.DataFrame(profile["rows"])["share"].sum() == pytest.approx(1.0)
    assert json.loads((path.parent / "seal.json").read_text())["run"] == path.parent.name
