"""A run: one measuring process after another over the list of steps, until all are done or the time budget is spent.

Every step's output is a file in the run's folder ``steps/``; a file that says how its step ended is a finished step, so
the same command goes on where it was. What the files hold is copied into the run's samples and notes, each row and note
once, whenever a step ends. A process that hangs is ended at its step's limit.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from ..workload.network import Network
from . import variants, worker
from .plan import Step, TimeBudget
from .worker import FINAL, NO_DISK, FolderLost

STEPS = "steps"  # folder of the steps' files, below the run's
ATTEMPTS = 2  # a step in which the process died twice is not begun again
LIMIT_TIMES, LIMIT_S = 5.0, 90.0  # a step's limit: so many times its estimate, and at least so many seconds
OVERRUN_S = 30.0  # what a step that was begun inside the time budget may take beyond it
POLL_S = 0.2
START_LIMIT_S = 120.0  # for a measuring process to begin its first step
RELEASE_LIMIT_S = 20.0  # for it to free what a step built, and to begin the next or end
KEY = ("variant", "batch", "layer", "timer", "cache", "sample")

Tell = Callable[[Step, str, str, float], None]


class DeviceLost(RuntimeError):
    """A new process gets no answer from the device."""


class Writer(Protocol):
    """The part of ``records.store.RunWriter`` that a run uses."""

    folder: Path

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append sample rows, durably."""

    def note(self, kind: str, payload: object) -> None:
        """Append one finding, durably."""

    def samples(self) -> pd.DataFrame:
        """The rows that the run holds."""


class Child(Protocol):
    """A measuring process."""

    def wait(self, seconds: float) -> int | None:
        """Wait until it ends, at most so long; its exit status, or none where it goes on."""

    def kill(self) -> None:
        """End it and whatever it started."""

    def last_words(self) -> str:
        """The last line of what it wrote to stderr."""


@dataclass(frozen=True)
class Device:
    """How to make the device under test in another process.

    Attributes:
        factory: "module:name" of a callable.
        arguments: its keyword arguments, JSON values.
    """

    factory: str = worker.FACTORY
    arguments: dict[str, Any] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """The provenance of the device, found by a process that then ends.

        Raises:
            DeviceLost: where the device does not answer.
        """
        child = subprocess.Popen(
            _command("describe"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            out, err = child.communicate(json.dumps(vars(self)), timeout=START_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise DeviceLost(f"no answer within {START_LIMIT_S:.0f} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        if child.returncode:
            raise DeviceLost((err.strip().splitlines() or [f"exit status {child.returncode}"])[-1])
        return json.loads(out.strip().splitlines()[-1])

    def now(self) -> float:
        """Seconds, monotonic."""
        return time.monotonic()

    def start(self, folder: Path, steps: Sequence[Step], seed: int) -> "Process":
        """A process that does ``steps``."""
        return Process({**vars(self), "folder": str(folder), "seed": seed, "steps": [s.document() for s in steps]})


class Process:
    """A real measuring process, in a session of its own: Ctrl-C reaches the parent alone, which then ends it."""

    def __init__(self, task: dict[str, Any]):
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._child = subprocess.Popen(
            _command("work"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._stderr, text=True,
            start_new_session=True,
        )  # fmt: skip
        assert self._child.stdin is not None  # a pipe was asked for
        with suppress(BrokenPipeError), self._child.stdin as pipe:
            json.dump(task, pipe)

    def wait(self, seconds: float) -> int | None:
        """Wait until it ends, at most so long; its exit status, or none where it goes on."""
        with suppress(subprocess.TimeoutExpired):
            return self._child.wait(seconds)
        return None

    def kill(self) -> None:
        """End it and whatever it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()

    def last_words(self) -> str:
        """The last line of what it wrote to stderr."""
        self._stderr.seek(0)
        return next((line for line in reversed(self._stderr.read().splitlines()) if line.strip()), "")


def _command(word: str) -> list[str]:
    return [sys.executable, "-m", worker.__name__, word]


@dataclass
class Outcome:
    """How a run went.

    Attributes:
        ended: each step's name and how it ended: "done", "failed", "refused", "skipped" or "interrupted".
        reasons: why, for those that are not done.
        complete: nothing is left that another attempt could measure.
        interrupted: by the user.
    """

    ended: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    interrupted: bool = False


class Runner:
    """One run of ``steps`` in a folder, from its files on.

    Args:
        writer: of the run's samples and notes; its folder gets ``steps/``.
        notes: that the run already holds.
        network: what is timed.
        provenance: of the device.
        steps: in order.
        budget: seconds that are left.
        start: starts a measuring process for a folder, steps and the gate's seed.
        seed: of the gate's test suites.
        tell: called with (step, state, reason, seconds) as each step begins ("begun", with its estimate) and ends.
    """

    def __init__(
        self,
        writer: Writer,
        notes: Iterable[Mapping[str, Any]],
        network: Network,
        provenance: Mapping[str, Any],
        steps: Sequence[Step],
        budget: TimeBudget,
        start: Callable[[Path, Sequence[Step], int], Child],
        seed: int,
        tell: Tell = lambda step, state, reason, seconds: None,
    ):
        self.writer, self.network, self.steps, self.budget = writer, network, list(steps), budget
        self.start, self.seed, self.tell = start, seed, tell
        hardware = provenance["hardware"]
        self.name, self.arch = provenance["device_name"], hardware.get("arch", 0)
        self.memory_bytes = hardware.get("memory_bytes", float("inf"))
        self.folder = writer.folder / STEPS
        held = writer.samples()
        self._rows = {_key(row) for row in held.to_dict("records")} if len(held) else set()
        self._notes = {_fingerprint(note) for note in notes}
        self.outcome = Outcome()

    def through(self) -> Outcome:
        """Go through the steps. Ctrl-C ends the run with everything that it has.

        Raises:
            FolderLost: the run's folder is full or gone. What was written stays.
            DeviceLost: the device does not answer; the same command goes on once it does.
        """
        with writing():
            self.folder.mkdir(exist_ok=True)
        try:
            for step in self.steps:  # whatever an earlier command finished or began
                self._fold(step)
            for i, step in enumerate(self.steps):
                if self._begins(step, self.steps[i + 1 :]):
                    self._attempt(self._together(i))
        except KeyboardInterrupt:
            self.outcome.interrupted, self.outcome.complete = True, False
            for step in self.steps:
                self._fold(step)
                state = worker.read(self.folder, step)["state"]
                if state:
                    self.outcome.ended[step.name] = state if state in FINAL else "interrupted"
        return self.outcome

    def _begins(self, step: Step, later: Sequence[Step]) -> bool:
        """Whether the step is to be begun now; if not, why is written down."""
        found = worker.read(self.folder, step)
        if found["state"] in FINAL:
            if step.name not in self.outcome.ended:
                self._ended(step, found["state"], found["reason"], 0.0)
            return False
        if reason := self._refusal(step):
            self._write(step, "refused", reason)
        elif step.gated and worker.read(self.folder, Step("verify", step.who))["state"] not in FINAL:
            self._skip(step, "its tier has not been through the gate, and nothing unverified is timed")
        elif found["attempts"] >= ATTEMPTS:
            self._write(step, "failed", f"the process died in it {ATTEMPTS} times")
        elif reason := self.budget.refuses(step, later):
            self._skip(step, reason)
        else:
            return True
        return False

    def _refusal(self, step: Step) -> str | None:
        if step.part == "compile":
            first = next((s.who for s in self.steps if s.variant and s.who.family == "ours"), None)
            return variants.too_old(first, self.name, self.arch) if first else None
        if step.variant is None:
            return None
        if step.gated and worker.read(self.folder, Step("verify", step.who))["state"] in ("failed", "refused"):
            return "its tier failed the gate, and nothing wrong is timed"
        return variants.refusal(step.who, self.network, step.batch or 1, self.name, self.arch, self.memory_bytes)

    def _together(self, i: int) -> list[Step]:
        """The step and those right after it that are about the same variant and still fit: one process does them."""
        group, seconds = [self.steps[i]], self.budget.start_s + self.budget.estimate(self.steps[i])
        for j in range(i + 1, len(self.steps)):
            step = self.steps[j]
            same = step.variant is not None and step.variant == self.steps[i].variant
            if not same or worker.read(self.folder, step)["state"]:
                break
            if self.budget.refuses(step, self.steps[j + 1 :], started=seconds):
                break
            group.append(step)
            seconds += self.budget.estimate(step)
        return group

    def _attempt(self, group: list[Step]) -> None:
        """Let one process do the steps; each is written down as it ends."""
        before = {step: worker.read(self.folder, step)["attempts"] for step in group}
        began = since = self.budget.now()
        self.tell(group[0], "begun", "", self.budget.estimate(group[0]))
        child = self.start(self.folder, group, self.seed)
        code, limit, waiting, begun = None, START_LIMIT_S, group[:], False
        try:
            while code is None:
                code = child.wait(POLL_S)
                while waiting:
                    step, found = waiting[0], worker.read(self.folder, waiting[0])
                    if found["attempts"] > before[step] and not begun:
                        begun = True
                        if step is group[0]:
                            self.budget.start_s = max(1.0, self.budget.now() - began)
                        since = self.budget.now()
                        limit = max(LIMIT_TIMES * self.budget.estimate(step), LIMIT_S)
                        limit = min(limit, self.budget.left_s + OVERRUN_S)
                    if found["state"] not in FINAL:
                        break
                    if found["state"] == "done":
                        self.budget.learn(step, found["seconds"])
                    self._ended(step, found["state"], found["reason"], found["seconds"])
                    waiting, begun, since, limit = waiting[1:], False, self.budget.now(), RELEASE_LIMIT_S
                    if waiting:
                        self.tell(waiting[0], "begun", "", self.budget.estimate(waiting[0]))
                if code is None and self.budget.now() - since > limit:
                    break
        finally:  # also where the user interrupts
            child.kill()
        if code == NO_DISK:
            raise FolderLost(child.last_words())
        if not waiting:
            return
        if begun:
            hung = f"took longer than its limit of {limit:.0f} s"
            self._write(waiting[0], "failed", hung if code is None else f"its process was lost ({_died(code)})")
        elif waiting[0] is group[0]:
            words = child.last_words() or (f"no answer within {limit:.0f} s" if code is None else _died(code))
            self._skip(waiting[0], f"the device does not answer: {words}")
            raise DeviceLost(words)

    def _write(self, step: Step, state: str, reason: str) -> None:
        """End a step in the place of its process."""
        worker.write(self.folder, step, worker.read(self.folder, step) | {"state": state, "reason": reason})
        self._ended(step, state, reason, 0.0)

    def _ended(self, step: Step, state: str, reason: str, seconds: float) -> None:
        self.outcome.ended[step.name] = state
        if reason:
            self.outcome.reasons[step.name] = reason
        self._fold(step)
        self.tell(step, state, reason, seconds)

    def _skip(self, step: Step, reason: str) -> None:
        self.outcome.complete = False
        self._ended(step, "skipped", reason, 0.0)

    def _fold(self, step: Step) -> None:
        """Copy what the step's file holds into the run's samples and notes, where it is not there yet."""
        found = worker.read(self.folder, step)
        rows = [row for row in found["rows"] if _key(row) not in self._rows]
        notes = list(found["notes"])
        if found["state"] in FINAL:
            if found["state"] != "done" and step.variant is not None:
                about = {"variant": step.who.name, "tier": step.who.tier, "batch": step.batch or None}
                notes.append({"kind": "failure", "payload": {**about, "step": step.name, "error": found["reason"]}})
            ended = {"step": step.name, "state": found["state"], "reason": found["reason"]}
            notes.append({"kind": "step", "payload": ended})
        with writing(), _uninterrupted():
            if rows:
                self.writer.append(rows)
                self._rows |= {_key(row) for row in rows}
            for note in notes:
                if _fingerprint(note) not in self._notes:
                    self.writer.note(note["kind"], note["payload"])
                    self._notes.add(_fingerprint(note))


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put an interruption off to the end of the block: what is written in it is also remembered."""
    if threading.current_thread() is not threading.main_thread():  # signals arrive in the main thread alone
        yield
        return
    seen: list[signal.Signals] = []
    before = {
        n: signal.signal(n, lambda number, _: seen.append(signal.Signals(number)))
        for n in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for late in seen:
        signal.raise_signal(late)


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in KEY)


def _fingerprint(note: Mapping[str, Any]) -> str:
    return json.dumps([note["kind"], note["payload"]], sort_keys=True)


def _died(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


@contextmanager
def writing() -> Iterator[None]:
    """Within it an ``OSError`` is a ``FolderLost``."""
    try:
        yield
    except FolderLost:
        raise
    except OSError as error:
        raise FolderLost(f"the run's folder cannot be written: {error.strerror or error}") from error
