"""From a folder and a time budget to a run: go on with an unfinished one, or begin anew; seal it at the end."""

import json
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..files import write_whole
from ..measure.plan import START_S, Step, TimeBudget, guesses
from ..measure.provenance import identity, load_average
from ..measure.run import STEPS, Child, Outcome, Runner, Tell, writing
from ..measure.summary import condense
from ..workload.network import Network
from .store import NOTES, PROVENANCE, SEAL, RunWriter

SEED = "gate_seed"  # file beside the steps' files: of the gate's test suites, drawn once a run


@dataclass(frozen=True)
class Run:
    """A run as it ended.

    Attributes:
        folder: its folder.
        outcome: how each step ended.
        provenance: of the device.
        samples: all its samples, the ledger's columns.
        rows: the summary table, ``summary.condense`` of all its samples.
        notes: its notes, ``{"kind", "payload"}``.
        sealed: whether it is closed for good; if not, the same command goes on with it.
    """

    folder: Path
    outcome: Outcome
    provenance: Mapping[str, Any]
    samples: pd.DataFrame
    rows: pd.DataFrame
    notes: list[dict[str, Any]]
    sealed: bool

    @property
    def measured(self) -> bool:
        """Whether it holds a sample, a verdict of the gate, a profile or a peak rate; compiling measures nothing."""
        done = {name.partition("/")[0] for name, state in self.outcome.ended.items() if state == "done"}
        return len(self.samples) > 0 or bool(done - {"compile"}) or any(note["kind"] == "gate" for note in self.notes)


def open_run(out: Path, provenance: Mapping[str, Any]) -> RunWriter:
    """The unsealed run below ``out`` of the same device, source and software that nobody is writing, or a new one.

    A new run's folder is ``out/<device>/<date and time>_<device>``.

    Raises:
        OSError: ``out`` cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    for path in sorted(out.rglob(PROVENANCE)):
        if (path.parent / SEAL).exists() or not _same(path, provenance):
            continue
        try:
            return RunWriter(path.parent, provenance)
        except ValueError:  # another process is writing it
            continue
    device = provenance["device"]
    stamp = "".join(c for c in provenance["observed"][:19] if c.isalnum())
    name, number = f"{stamp}_{device}", 1
    while True:
        folder = out / device / (name if number == 1 else f"{name}_{number}")
        number += 1
        if not folder.exists():
            try:
                return RunWriter(folder, provenance)
            except ValueError:  # another process beside this one was quicker
                continue


def _same(path: Path, provenance: Mapping[str, Any]) -> bool:
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(before, dict) and identity(before) == identity(provenance)


def read_notes(folder: Path) -> list[dict[str, Any]]:
    """A run's notes in order; a half-written last line is left out."""
    path = folder / NOTES
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def run(
    provenance: Mapping[str, Any],
    start: Callable[[Path, Sequence[Step], int], Child],
    out: Path,
    network: Network,
    plan: Callable[[int], Sequence[Step]],
    budget_s: float,
    tell: Tell = lambda step, state, reason, seconds: None,
    now: Callable[[], float] = time.monotonic,
    guess: Callable[[Step], float] | None = None,
) -> Run:
    """Measure the steps of ``plan`` into a run below ``out``, for at most ``budget_s`` seconds.

    The run is sealed when there is nothing left that the same command could add; interrupted by the user or by the
    loss of the device it stays open, and the same command goes on with it.

    Args:
        provenance: of the device, ``measure.run.Device.describe``.
        start: starts a measuring process, ``measure.run.Device.start``.
        out: folder.
        network: what is timed.
        plan: the steps, in order, for the seed of the gate's test suites.
        budget_s: seconds.
        tell: as of ``measure.run.Runner``.
        now: seconds, monotonic.
        guess: seconds of a step that is like none yet.

    Raises:
        OSError: ``out`` cannot be written; ``FolderLost`` where it filled up on the way.
        DeviceLost: the device no longer answers.
    """
    kind, host = provenance["hardware"]["kind"], provenance.get("host", {})
    if guess is None:
        guess = guesses(kind, network, host.get("threads", 1), host.get("load_average", [0.0])[0])
    until_s = now() + budget_s
    writer = open_run(out, provenance)
    try:
        with writing():
            seed = _seed(writer.folder / STEPS)
        budget = TimeBudget(now, until_s, guess, START_S)
        runner = Runner(writer, read_notes(writer.folder), network, provenance, plan(seed), budget, start, seed, tell)
        outcome = runner.through()
        sealed = not outcome.interrupted
        with writing():
            writer.note("end", {"load_average": load_average(), "complete": outcome.complete})
            samples, notes = writer.samples(), read_notes(writer.folder)
            if sealed:
                writer.finish()
                shutil.rmtree(writer.folder / STEPS)
    finally:
        writer.close()
    return Run(writer.folder, outcome, provenance, samples, condense(samples), notes, sealed)


def _seed(folder: Path) -> int:
    folder.mkdir(exist_ok=True)
    path = folder / SEED
    if not path.exists():
        write_whole(path, str(secrets.randbits(30)))
    return int(path.read_text(encoding="utf-8"))
