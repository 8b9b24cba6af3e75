"""From a folder and a budget to a run: take up what was left unfinished there, or begin anew; seal it at the end."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..measure.history import History
from ..measure.provenance import identity, load_average
from ..measure.run import Outcome, measure
from ..measure.schedule import GATE_SHARE, GPU_ESTIMATES, Budget, Step
from ..measure.summary import condense
from ..measure.under_test import Bench
from ..measure.watchdog import Watchdog
from ..measure.writing import OutputLost, writing
from .store import NOTES, PROVENANCE, SEAL, RunWriter


@dataclass(frozen=True)
class Session:
    """A run as it ended.

    Attributes:
        folder: its folder.
        outcome: what became of each step.
        samples: how many it holds.
        rows: the summary table, ``summary.condense`` of all its samples.
        notes: its notes, ``{"kind", "payload"}``.
        sealed: whether it is closed for good; if not, the same command goes on with it.
    """

    folder: Path
    outcome: Outcome
    samples: int
    rows: pd.DataFrame
    notes: list[dict[str, Any]]
    sealed: bool

    @property
    def measured(self) -> bool:
        """Whether anything at all came out: a sample, a verdict, a profile or a ceiling. Compiling measures nothing."""
        done = {name.partition("/")[0] for name, state in self.outcome.ended.items() if state == "done"}
        return self.samples > 0 or bool(done - {"compile"}) or any(note["kind"] == "gate" for note in self.notes)


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
            except ValueError:  # a worker beside this one was quicker
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
    bench: Bench,
    out: Path,
    steps: Iterable[Step],
    budget_s: float,
    tell: Callable[[Step, str, str], None] = lambda step, state, reason: None,
    watchdog: Callable[[float, Callable[[], None]], Any] = Watchdog,
) -> Session:
    """Measure ``steps`` on ``bench`` into a run below ``out``, for at most ``budget_s`` seconds.

    The run is sealed when there is nothing left that the same command could add; interrupted by the user or by the
    loss of the device it stays open, and the same command goes on with it.

    Raises:
        OSError: ``out`` cannot be written.
        OutputLost: the folder filled up on the way.
        DeviceLost: this process can do no more; another may.
    """
    writer = open_run(out, bench.provenance())
    try:
        history = History.read(read_notes(writer.folder), writer.samples())
        if history.gate_seed is not None:
            bench.gate_seed = history.gate_seed  # its batch sizes are compiled
        budget = Budget(
            now=bench.now,
            until_s=bench.now() + budget_s,
            total_s=budget_s,
            guess=lambda step: bench.guess(step.part, step.variant, step.batch) or GPU_ESTIMATES[step.family],
            gate_share=GATE_SHARE if bench.kind == "cuda" else 1.0,
        )
        outcome = measure(bench, writer, steps, budget, history, tell, watchdog)
        sealed = not outcome.interrupted
        with writing():
            writer.note("end", {"load_average": load_average(), "complete": outcome.complete})
            samples, notes = writer.samples(), read_notes(writer.folder)
            if sealed:
                writer.finish()
    except OutputLost as lost:
        lost.kept = len(writer.samples())
        raise
    finally:
        writer.close()
    return Session(writer.folder, outcome, len(samples), condense(samples), notes, sealed)
