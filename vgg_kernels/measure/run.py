"""The run: step by step through the schedule, every row on the disk as soon as it exists, no failure the end of it.

What a run has done is in its own notes, so a killed run is taken up where it stopped: ``step`` notes say which steps
began and how they ended, and a timer whose rows are there is not run again.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from . import variants
from .explain import explain
from .history import History
from .parts import Parts
from .schedule import Budget, Step
from .under_test import Bench
from .watchdog import Watchdog
from .writing import OutputLost, SafeWriter, Writer

ATTEMPTS = 2  # a step in which the process died twice is not begun again
LIMIT_TIMES, LIMIT_S = 5.0, 90.0  # a step's limit: so many times its estimate, and at least so many seconds
RECOVERY_S = 30.0  # for letting go of a step and asking the device whether it still answers
OVERRUN_S = 30.0  # what a step that was begun inside the budget may take beyond it
FINAL = ("done", "failed", "refused")
RUNS_OURS = ("time", "repeat", "layers", "profile")  # parts for which a tier of ours must have passed the gate


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
        steps: most important first; profiles are put off until all others are through, their seconds kept.
        budget: seconds that are left.
        history: what the run already holds.
        tell: called with (step, state, reason) as each step begins ("begun") and ends.
        watchdog: makes the context manager that limits one step.

    Raises:
        OutputLost: the folder is full or gone. What was written stays.
        DeviceLost: after a failure that no process survives; the failure is written down.
    """
    return _Run(bench, SafeWriter(writer), list(steps), budget, history or History(), tell, watchdog).through()


class _Run:
    def __init__(
        self,
        bench: Bench,
        writer: SafeWriter,
        steps: list[Step],
        budget: Budget,
        history: History,
        tell: Callable,
        watchdog: Callable,
    ):
        self.bench, self.writer, self.budget, self.history = bench, writer, budget, history
        self.tell, self.watchdog = tell, watchdog
        self.left = deque(steps)
        self.parts = Parts(bench, writer, history, steps)
        self.outcome = Outcome()

    def through(self) -> Outcome:
        self._postpone_doubtful()
        profiles: deque[Step] = deque()
        while self.left or profiles:
            last = not self.left
            step = (profiles if last else self.left).popleft()
            self.budget.begin(step)
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
            elif step.part == "profile" and not last:
                self.budget.keep(step)  # it would slow what comes after it
                profiles.append(step)
            elif not self._attempt(step):
                break
            elif step.part == "compile":
                self._postpone_doubtful()
        self.outcome.rows = self.parts.rows
        return self.outcome

    def _postpone_doubtful(self) -> None:
        """A tier of ours that hangs or crashes costs a process and minutes: everything else comes first."""
        doubtful = [v for v in self.parts.ours if v.tier in self.history.doubtful]
        self.left = deque(sorted(self.left, key=lambda step: step.variant in doubtful))

    def _refusal(self, step: Step) -> str | None:
        variant = step.variant
        if step.part == "compile" and self.parts.ours:
            variant = self.parts.ours[0]  # what refuses one tier, refuses to compile any
        if variant is None:
            return None
        if step.part in RUNS_OURS and self.history.gates.get(variant.name) is False:
            return "its tier failed the gate, and nothing wrong is timed"
        bench = self.bench
        return variants.refusal(variant, bench.network, step.batch or 1, bench.name, bench.arch, bench.memory_bytes)

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
                reason = self.parts.do(step)
        except KeyboardInterrupt:
            if dog.expired:
                self._fail(step, "failed", overtime)
                self.budget.learn(step, self.bench.now() - began, done=False)
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
                self._end(step, "done")
        self.budget.learn(step, self.bench.now() - began, self.outcome.ended[step.name] == "done")
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
