"""Folders and runs: begun, taken up again, sealed. No step measures anything: its process writes made-up rows."""

import pytest

from vgg_kernels.measure import worker
from vgg_kernels.measure.plan import Step
from vgg_kernels.measure.variants import CPU_VARIANTS
from vgg_kernels.records import session
from vgg_kernels.records.reading import read_runs
from vgg_kernels.records.store import RunWriter
from vgg_kernels.workload.network import network

STEPS = tuple(Step("time", CPU_VARIANTS[0], batch) for batch in (1, 2))
TIMER = {"network": "vgg19", "layer": "network", "timer": "host", "cache": "warm"}


class Writes:
    """A measuring process that writes three made-up rows a step, and stops before the step named ``until``."""

    def __init__(self, folder, steps, seed, until=""):
        self.interrupts = False
        for step in steps:
            if step.name == until:
                self.interrupts = True
                return
            about = {**step.who.columns, **TIMER, "batch": step.batch}
            rows = [{**about, "sample": i, "time_ms": 1.0 + i} for i in range(3)]
            notes = [{"kind": "seed", "payload": {"seed": seed, "step": step.name}}]
            worker.write(folder, step, worker.read(folder, step) | {"state": "done", "rows": rows, "notes": notes})

    def wait(self, seconds):
        if self.interrupts:
            raise KeyboardInterrupt
        return 0

    def kill(self):
        pass


@pytest.fixture
def go(fake, tmp_path):
    def run(out=tmp_path, budget_s=1e6, card="aaaaaaaaaaaa", until=""):
        provenance = fake.provenance("fake", "cpu", card=card)

        def start(folder, steps, seed):
            return Writes(folder, steps, seed, until)

        return session.run(provenance, start, out, network("vgg19"), lambda seed: STEPS, budget_s)

    return run


def test_a_run_that_nothing_can_be_added_to_is_sealed_and_reads_back(go, tmp_path):
    found = go()
    assert found.sealed
    assert found.measured
    assert (found.folder.parent.name, found.folder.name) == ("cpu_fake", "20260310T120000_cpu_fake")
    assert sorted(path.name for path in found.folder.iterdir()) == [
        "notes.jsonl", "provenance.json", "samples.csv", "seal.json",
    ]  # fmt: skip
    runs = read_runs(tmp_path)
    assert runs.problems == []
    assert len(runs.samples) == len(found.samples) == 6
    assert set(runs.notes["kind"]) == {"seed", "step", "end"}


def test_a_sealed_run_is_followed_by_a_new_one(go, tmp_path):
    assert go().folder != go().folder
    assert len(read_runs(tmp_path).provenance) == 2


def test_an_interrupted_run_stays_open_and_is_taken_up_again_with_its_seed(go, tmp_path):
    first = go(until="time/eager/2")
    assert not first.sealed
    assert first.outcome.interrupted
    assert first.outcome.ended == {"time/eager/1": "done"}
    second = go()
    assert second.folder == first.folder
    assert second.sealed
    assert len(read_runs(tmp_path).samples) == 6
    assert len({note["payload"]["seed"] for note in second.notes if note["kind"] == "seed"}) == 1


def test_rows_copied_before_a_kill_are_not_copied_twice(go, tmp_path):
    first = go(until="time/eager/2")
    notes = (first.folder / "notes.jsonl").read_text().splitlines(keepends=True)
    (first.folder / "notes.jsonl").write_text("".join(n for n in notes if '"kind": "step"' not in n) + '{"kind": "st')
    second = go()
    assert second.folder == first.folder
    assert not second.samples.duplicated(["batch", "sample"]).any()
    assert sum(note["kind"] == "step" for note in second.notes) == 2


def test_another_card_does_not_take_up_the_run(go):
    assert go(until="time/eager/1").folder != go(card="bbbbbbbbbbbb").folder


def test_a_run_that_another_process_writes_is_left_to_it(go, fake, tmp_path):
    other = RunWriter(tmp_path / "cpu_fake" / "theirs", fake.provenance("fake", "cpu"))
    found = go()
    other.close()
    assert found.folder.name != "theirs"


def test_what_is_in_the_way_is_stepped_around(go, tmp_path):
    for name, text in (("broken", '{"cut'), ("list", "[1]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "provenance.json").write_text(text)
    assert go().sealed


def test_a_budget_that_is_spent_still_seals_what_is_there(go):
    first = go(until="time/eager/2")
    last = go(budget_s=0.0)
    assert last.folder == first.folder
    assert last.sealed
    assert last.measured
    assert last.outcome.ended == {"time/eager/1": "done", "time/eager/2": "skipped"}


def test_nothing_measured_is_told_apart(go):
    assert not go(budget_s=0.0).measured


def test_a_folder_that_cannot_be_written_is_refused(go, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        go(out=tmp_path / "file" / "runs")
