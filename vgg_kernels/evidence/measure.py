"""The run: step by step through the schedule, every row on the disk as soon as it exists, no failure the end of it.

What a run has done is in its own notes, so a killed run is taken up where it stopped: ``step`` notes say which steps
began and how they ended, and a timer whose rows are there is not run again.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

import pandas as pd

from . import variants
from .bench import Bench, Timing
from .schedule import Budget, Step
from .timing import disagreement
from .watchdog import Watchdog

ATTEMPTS = 2  # a step in which the process died twice is not begun again
LIMIT_TIMES, LIMIT_S = 5.0, 90.0  # a step's limit: so many times its estimate, and at least so many seconds
RECOVERY_S = 60.0  # for letting go of a step and asking the device whether it still answers
OVERRUN_S = 30.0  # what a step that was begun inside the budget may take beyond it
FINAL = ("done", "failed", "refused")
RUNS_OURS = ("time", "repeat", "layers", "profile")  # parts for which a tier of ours must have passed the gate


class Writer(Protocol):
    """The part of ``ledger.RunWriter`` that the runner uses."""

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append sample rows, durably."""

    def note(self, kind: str, payload: object) -> None:
        """Append one finding, durably."""

    def samples(self) -> pd.DataFrame:
        """What the run holds so far."""


class OutputLost(RuntimeError):
    """The run's folder can no longer be written; what it holds stays."""


class DeviceLost(RuntimeError):
    """The device no longer answers in this process; a new process may go on."""


@dataclass
class Outcome:
    """How a run went.

    Attributes:
        ended: each step's name and how it ended: "done", "failed", "refused", "skipped" or "interrupted".
        reasons: why, for those that are not done.
        rows: samples written by this process.
        complete: nothing is left that another attempt could measure.
        interrupted: by the user.
    """

    ended: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    rows: int = 0
    complete: bool = True
    interrupted: bool = False


class _Safe:
    """The writer, with the one failure that ends a run told apart from a variant's own."""

    def __init__(self, writer: Writer):
        self._writer = writer

    def append(self, rows: list[dict[str, Any]]) -> None:
        self._guard(self._writer.append, rows)

    def note(self, kind: str, payload: object) -> None:
        self._guard(self._writer.note, kind, payload)

    @staticmethod
    def _guard(write: Callable[..., None], *what: object) -> None:
        try:
            write(*what)
        except OSError as error:
            raise OutputLost(f"the run's folder cannot be written: {error.strerror or error}") from error


@dataclass
class History:
    """What a run taken up again already holds.

    Attributes:
        ended: last state of each step.
        begun: how often each step was begun without an end.
        reasons: why a step failed.
        gates: variant to whether it passed.
        medians: milliseconds by (variant, batch, layer, timer, cache), of every timer with rows.
    """

    ended: dict[str, str] = field(default_factory=dict)
    begun: Counter = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    gates: dict[str, bool] = field(default_factory=dict)
    medians: dict[tuple[str, int, str, str, str], float] = field(default_factory=dict)

    @classmethod
    def read(cls, notes: Iterable[Mapping[str, Any]], samples: pd.DataFrame) -> "History":
        """From a run's notes, ``{"kind", "payload"}`` in order, and its samples."""
        history = cls()
        for note in notes:
            payload = note["payload"]
            if note["kind"] == "step":
                name, state = payload["step"], payload["state"]
                history.begun[name] = history.begun[name] + 1 if state == "begun" else 0
                if state != "begun":
                    history.ended[name] = state
                    history.reasons[name] = payload.get("reason", "")
            elif note["kind"] == "gate":
                history.gates[payload["variant"]] = payload["passed"]
        keys = ["variant", "batch", "layer", "timer", "cache"]
        history.medians = samples.groupby(keys)["time_ms"].median().to_dict() if len(samples) else {}
        return history


def measure(
    bench: Bench,
    writer: Writer,
    steps: Iterable[Step],
    budget: Budget,
    history: History | None = None,
    tell: Callable[[Step, str, str], None] = lambda step, state, reason: None,
    watchdog: Callable[[float, Callable[[], None]], Any] = Watchdog,
) -> Outcome:
    """Go through ``steps`` until they are done or the budget is.

    A step that raises, runs out of memory, does not compile or gives wrong outputs is written down as failed, and the
    next one begins. Ctrl-C ends the run with everything it has.

    Args:
        bench: the device.
        writer: where rows and notes go.
        steps: most important first.
        budget: seconds that are left.
        history: what the run already holds.
        tell: called with (step, state, reason) as each step begins ("begun") and ends.
        watchdog: makes the context manager that limits one step.

    Raises:
        OutputLost: the folder is full or gone. What was written stays.
        DeviceLost: after a failure that no process survives; the failure is written down.
    """
    return _Run(bench, _Safe(writer), budget, history or History(), tell, watchdog).through(steps)


class _Run:
    def __init__(
        self, bench: Bench, writer: _Safe, budget: Budget, history: History, tell: Callable, watchdog: Callable
    ):
        self.bench, self.writer, self.budget, self.history = bench, writer, budget, history
        self.tell, self.watchdog = tell, watchdog
        self.outcome = Outcome()

    def through(self, steps: Iterable[Step]) -> Outcome:
        steps = list(steps)
        self.tiers = [s.who.tier for s in steps if s.part == "verify"]
        self.batches = sorted({s.batch for s in steps if s.batch})
        for step in steps:
            before = self.history.ended.get(step.name)
            if before in FINAL:
                self._end(step, before, self.history.reasons.get(step.name, ""), write=False)
            elif reason := self._refusal(step):
                self._fail(step, "refused", reason)
            elif step.part in RUNS_OURS and self._ungated(step):
                self._skip(step, "its tier has not been through the gate, and nothing unverified is timed")
            elif self.history.begun[step.name] >= ATTEMPTS:
                self._fail(step, "failed", f"the process died in it {ATTEMPTS} times")
            elif reason := self.budget.refuses(step):
                self._skip(step, reason)
            elif not self._attempt(step):
                break
        return self.outcome

    def _refusal(self, step: Step) -> str | None:
        if step.variant is None:
            return None
        if step.part in RUNS_OURS and self.history.gates.get(step.who.name) is False:
            return "its tier failed the gate, and nothing wrong is timed"
        bench = self.bench
        return variants.refusal(
            step.variant, bench.network, step.batch or 1, bench.name, bench.arch, bench.memory_bytes
        )

    def _ungated(self, step: Step) -> bool:
        return step.who.family == "ours" and step.who.name not in self.history.gates

    def _attempt(self, step: Step) -> bool:
        """Run one step; whether to go on."""
        began = self.bench.now()
        limit = min(max(LIMIT_TIMES * self.budget.estimate(step), LIMIT_S), self.budget.left_s + OVERRUN_S)
        self._note(step, "begun")
        self.tell(step, "begun", "")
        overtime = f"took longer than its limit of {limit:.0f} s"
        dog = self.watchdog(limit, lambda: self._fail(step, "failed", overtime))
        try:
            with dog:
                reason = self._do(step)
        except KeyboardInterrupt:
            if dog.expired:
                self._fail(step, "failed", overtime)
                return self._recover(step)
            self.outcome.interrupted, self.outcome.complete = True, False
            self._end(step, "interrupted", "by the user")
            return False
        except OutputLost:
            raise
        except Exception as error:  # whatever a variant does must not cost the others
            self._fail(step, "failed", explain(error))
        else:
            if reason:
                self._fail(step, "failed", reason)
            else:
                self.budget.learn(step, self.bench.now() - began)
                self._end(step, "done")
        return self._recover(step)

    def _recover(self, step: Step) -> bool:
        """Let go of the step; whether to go on. A device that is lost may also never answer that it is."""
        dog = self.watchdog(RECOVERY_S, lambda: None)
        alive = False
        try:
            with dog:
                with suppress(Exception):  # a poisoned context refuses this too; what follows finds out
                    self.bench.release()
                alive = self.bench.usable()
        except KeyboardInterrupt:
            if not dog.expired:
                self.outcome.interrupted, self.outcome.complete = True, False
                return False
        if not alive:
            raise DeviceLost(f"{self.bench.name} no longer answers after {step.name}")
        return True

    def _do(self, step: Step) -> str | None:
        """The step itself; a sentence where it came to an end but its result does not count."""
        return getattr(self, f"_{step.part}")(step)

    def _compile(self, step: Step) -> None:
        rows = self.bench.compile(self.tiers, self.batches)
        self.writer.note("compile", jsonable({"rows": rows}))

    def _verify(self, step: Step) -> str | None:
        found = self.bench.verify(step.who.tier)
        self.writer.note("gate", jsonable({"variant": step.who.name, "tier": step.who.tier, **found}))
        self.history.gates[step.who.name] = found["passed"]
        return None if found["passed"] else "the gate found it wrong; its verdict is in the notes"

    def _time(self, step: Step) -> str | None:
        key = (step.who.name, step.batch, "network")
        medians: dict[tuple[str, str], list[float]] = defaultdict(list)
        wrong: list[str] = []
        for timing in self.bench.time(step.who, step.batch, lambda *timer: (*key, *timer) in self.history.medians):
            wrong += self._keep(step, timing)
            medians[timing.timer, timing.cache] = timing.times_ms
            self.history.medians[*key, timing.timer, timing.cache] = median(timing.times_ms)
        rows = disagreement(medians)
        if rows:
            self.writer.note("timers", {"variant": step.who.name, "batch": step.batch, "rows": rows})
        return "; ".join(wrong) or None

    def _repeat(self, step: Step) -> str | None:
        """The first timer once more, built anew; what it differs by is kept beside the samples, not among them."""
        again = next(iter(self.bench.time(step.who, step.batch, lambda *_: False)))
        first = self.history.medians.get((step.who.name, step.batch, "network", again.timer, again.cache))
        if first is None:
            return "it was not timed before, so there is nothing to repeat"
        second = median(again.times_ms)
        about = {"variant": step.who.name, "batch": step.batch, "timer": again.timer, "cache": again.cache}
        self.writer.note("repeat", jsonable({**about, "first_ms": first, "second_ms": second, "ratio": second / first}))
        return None

    def _layers(self, step: Step) -> str | None:
        def done(layer: str, timer: str, cache: str) -> bool:
            return (step.who.name, step.batch, layer, timer, cache) in self.history.medians

        found = self.bench.layers(step.who, step.batch, done)
        return "; ".join(sentence for timing in found for sentence in self._keep(step, timing)) or None

    def _profile(self, step: Step) -> None:
        rows = self.bench.profile(step.who, step.batch)
        about = {"variant": step.who.name, "tier": step.who.tier, "batch": step.batch}
        self.writer.note("profile", jsonable({**about, "network": self.bench.network.name, "rows": rows}))

    def _ceilings(self, step: Step) -> None:
        rows, failures = self.bench.ceilings()
        self.writer.note("ceilings", jsonable({"device_name": self.bench.name, "rows": rows, "failures": failures}))

    def _keep(self, step: Step, timing: Timing) -> Iterator[str]:
        """Write one timer's samples; or, where its outputs were wrong, why they are not there."""
        about = {"variant": step.who.name, "batch": step.batch, "layer": timing.layer}
        about |= {"timer": timing.timer, "cache": timing.cache}
        if not timing.check.passed:
            yield f"{timing.layer}, {timing.timer} {timing.cache}: timed but wrong, not recorded: {timing.check}"
            return
        columns = {**step.who.columns, "network": self.bench.network.name, **about}
        rows = [{**columns, "sample": i, "time_ms": value} for i, value in enumerate(timing.times_ms)]
        self.writer.append(rows)
        self.outcome.rows += len(rows)
        self.writer.note("conditions", jsonable({**about, "checked": str(timing.check), **timing.telemetry}))

    def _fail(self, step: Step, state: str, reason: str) -> None:
        if step.variant is not None:
            failure = {"variant": step.who.name, "tier": step.who.tier, "batch": step.batch or None, "step": step.name}
            self.writer.note("failure", {**failure, "error": reason})
        self._end(step, state, reason)

    def _skip(self, step: Step, reason: str) -> None:
        self.outcome.complete = False
        self._end(step, "skipped", reason)

    def _end(self, step: Step, state: str, reason: str = "", *, write: bool = True) -> None:
        self.outcome.ended[step.name] = state
        if reason:
            self.outcome.reasons[step.name] = reason
        if write:
            self._note(step, state, reason)
        self.tell(step, state, reason)

    def _note(self, step: Step, state: str, reason: str = "") -> None:
        self.writer.note("step", {"step": step.name, "state": state, "reason": reason})


def explain(error: BaseException) -> str:
    """One sentence: what kind of failure it is, the exception's name, and its first line."""
    module = type(error).__module__
    name = type(error).__name__
    if name in ("OutOfMemoryError", "MemoryError"):
        kind = "out of memory"
    elif module.startswith(("torch._inductor", "torch._dynamo", "triton.compiler", "triton.runtime")):
        kind = "does not compile"
    else:
        kind = "raised"
    first = next(iter(str(error).strip().splitlines()), "no message")
    return f"{kind}: {name}: {first}"


def jsonable(value: Any) -> Any:
    """The value with every number that JSON has no word for (NaN, infinities) as a null."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(entry) for entry in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value
