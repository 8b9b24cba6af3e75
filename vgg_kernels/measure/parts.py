"""The parts of a run, one step each: what the bench finds, as the rows and notes that are kept of it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from .explain import jsonable
from .history import History
from .schedule import Step
from .timers import disagreement
from .under_test import Bench, Timing
from .writing import SafeWriter


class Parts:
    """Does one step after another.

    Args:
        bench: the device.
        writer: where rows and notes go.
        history: what the run holds; it grows.
        steps: the whole schedule.

    Attributes:
        ours: our tiers that the run is about.
        rows: samples written.
    """

    def __init__(self, bench: Bench, writer: SafeWriter, history: History, steps: Sequence[Step]):
        self.bench, self.writer, self.history = bench, writer, history
        self.ours = [step.who for step in steps if step.part == "verify"]
        self._first_to_compile = next((step for step in steps if step.part == "compile"), None)
        self.rows = 0

    def do(self, step: Step) -> str | None:
        """The step; a sentence where it came to an end but its result does not count."""
        return getattr(self, f"_{step.part}")(step)

    def _compile(self, step: Step) -> str | None:
        """For this batch and, the first time, for every batch in which the gate asks."""
        gate = self.bench.gate_batches if step == self._first_to_compile else ()
        rows = self.bench.compile([v.tier for v in self.ours], list(dict.fromkeys((step.batch, *gate))))
        self.writer.note("compile", jsonable({"gate_seed": self.bench.gate_seed, "rows": rows}))
        self.history.doubt(rows)
        errors = [row["error"] for row in rows if row["error"]]
        return f"nothing was compiled: {errors[0]}" if len(errors) == len(rows) else None

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
            faults = list(self._keep(step, timing))
            wrong += faults
            if not faults:
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
        if again.error or not again.check.passed:
            return again.error or f"timed but wrong: {again.check}"
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

    def _ceilings(self, step: Step) -> str | None:
        rows, failures = self.bench.ceilings()
        self.writer.note("ceilings", jsonable({"device_name": self.bench.name, "rows": rows, "failures": failures}))
        return None if rows else "; ".join(failures)

    def _keep(self, step: Step, timing: Timing) -> Iterator[str]:
        """Write one timer's samples; or, where it failed or its outputs were wrong, why they are not there."""
        about = {"variant": step.who.name, "batch": step.batch, "layer": timing.layer}
        about |= {"timer": timing.timer, "cache": timing.cache}
        if timing.error:
            yield f"{timing.layer}, {timing.timer} {timing.cache}: {timing.error}"
            return
        if not timing.check.passed:
            yield f"{timing.layer}, {timing.timer} {timing.cache}: timed but wrong, not recorded: {timing.check}"
            return
        columns = {**step.who.columns, "network": self.bench.network.name, **about}
        rows = [{**columns, "sample": i, "time_ms": value} for i, value in enumerate(timing.times_ms)]
        self.writer.append(rows)
        self.rows += len(rows)
        self.writer.note("conditions", jsonable({**about, "checked": str(timing.check), **timing.telemetry}))
