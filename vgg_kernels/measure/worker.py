"""A measuring process: it does the steps that it is given, and writes each one's output to a file of its own.

A wrong kernel can poison its process's CUDA context, crash it, or never return; here that costs one step. The file of a
step is written whole after each timer, so what was measured stays whatever happens next.

``python -m vgg_kernels.measure.worker describe`` prints the provenance of the device, ``... work`` does steps. Both
read one JSON document from stdin: ``factory`` ("module:name") and ``arguments`` of the device, and for ``work`` also
``folder``, ``steps`` and ``seed``.
"""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from ..files import write_whole
from .device import DeviceUnderTest, Timing
from .explain import explain, jsonable
from .plan import Step
from .timers import disagreement

FINAL = ("done", "failed", "refused")
NO_DEVICE, NO_DISK = 75, 74  # exit statuses (EX_TEMPFAIL, EX_IOERR): the device, or the run's folder, is lost
FACTORY = "vgg_kernels.measure.torch_device:from_arguments"


class FolderLost(OSError):
    """The run's folder cannot be written."""


def output(folder: Path, step: Step) -> Path:
    """The file of a step."""
    return folder / f"{step.name.replace('/', '.')}.json"


def read(folder: Path, step: Step) -> dict[str, Any]:
    """A step's file: ``step``, ``state`` ("" before it has begun), ``reason``, ``attempts``, ``seconds``, ``rows``,
    ``notes``.
    """
    path = output(folder, step)
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    empty: dict[str, Any] = {"rows": [], "notes": []}
    return {"step": step.name, "state": "", "reason": "", "attempts": 0, "seconds": 0.0, **empty}


def write(folder: Path, step: Step, document: dict[str, Any]) -> None:
    """Write a step's file.

    Raises:
        FolderLost: where the disk is full or gone.
    """
    try:
        write_whole(output(folder, step), json.dumps(jsonable(document), allow_nan=False) + "\n")
    except OSError as error:
        raise FolderLost(f"the run's folder cannot be written: {error.strerror or error}") from error


def perform(device: DeviceUnderTest, folder: Path, steps: Iterable[Step], seed: int) -> bool:
    """Do one step after another; whether the device still answers."""
    for step in steps:
        _Attempt(device, folder, step, seed).run()
        try:
            device.release()
        except Exception:  # a poisoned context refuses this too; usable() finds out
            return False
        if not device.usable():
            return False
    return True


class _Attempt:
    def __init__(self, device: DeviceUnderTest, folder: Path, step: Step, seed: int):
        self.device, self.folder, self.step, self.seed = device, folder, step, seed
        self.found = read(folder, step)
        self.began = device.now()

    def run(self) -> None:
        if self.step.gated and not _passed(self.folder, self.step):
            self._save("refused", "its tier has not passed the gate, and nothing wrong is timed")
            return
        self.found["attempts"] += 1
        self._save("begun")
        try:
            reason = getattr(self, f"_{self.step.part}")()
        except FolderLost:
            raise
        except Exception as error:  # whatever a variant does must not cost the others
            reason = explain(error)
        self._save("failed" if reason else "done", reason or "")

    def _save(self, state: str, reason: str = "") -> None:
        self.found |= {"state": state, "reason": reason, "seconds": self.device.now() - self.began}
        write(self.folder, self.step, self.found)

    def _note(self, kind: str, payload: Any) -> None:
        self.found["notes"].append({"kind": kind, "payload": jsonable(payload)})

    def _compile(self) -> str | None:
        rows = self.device.compile(list(self.step.tiers), list(self.step.batches))
        self._note("compile", {"gate_seed": self.seed, "rows": rows})
        errors = [row["error"] for row in rows if row["error"]]
        return f"nothing was compiled: {errors[0]}" if len(errors) == len(rows) else None

    def _verify(self) -> str | None:
        who = self.step.who
        found = self.device.verify(who.tier, self.seed)
        self._note("gate", {"variant": who.name, "tier": who.tier, **found})
        return None if found["passed"] else "the gate found it wrong; its verdict is in the notes"

    def _time(self) -> str | None:
        done = {(row["timer"], row["cache"]) for row in self.found["rows"]}
        found = self.device.time(self.step.who, self.step.batch, lambda *timer: timer in done)
        wrong = "; ".join(self._keep(found))
        times: dict[tuple[str, str], list[float]] = defaultdict(list)
        for row in self.found["rows"]:
            times[row["timer"], row["cache"]].append(row["time_ms"])
        if ratios := disagreement(times):
            self._note("timers", {"variant": self.step.who.name, "batch": self.step.batch, "rows": ratios})
        return wrong or None

    def _layers(self) -> str | None:
        done = {(row["layer"], row["timer"], row["cache"]) for row in self.found["rows"]}
        found = self.device.layers(self.step.who, self.step.batch, lambda *layer: layer in done)
        return "; ".join(self._keep(found)) or None

    def _repeat(self) -> str | None:
        """The first timer once more, built anew; its ratio to the first time is kept, not its samples."""
        again = next(iter(self.device.time(self.step.who, self.step.batch, lambda *_: False)))
        before = read(self.folder, Step("time", self.step.who, self.step.batch))["rows"]
        first = [row["time_ms"] for row in before if (row["timer"], row["cache"]) == (again.timer, again.cache)]
        if not first:
            return "it was not timed before, so there is nothing to repeat"
        if again.error or not again.check.passed:
            return again.error or f"timed but wrong: {again.check}"
        about = {"variant": self.step.who.name, "batch": self.step.batch, "timer": again.timer, "cache": again.cache}
        medians = {"first_ms": median(first), "second_ms": median(again.times_ms)}
        self._note("repeat", {**about, **medians, "ratio": medians["second_ms"] / medians["first_ms"]})
        return None

    def _profile(self) -> None:
        rows = self.device.profile(self.step.who, self.step.batch)
        about = {"variant": self.step.who.name, "tier": self.step.who.tier, "batch": self.step.batch}
        self._note("profile", {**about, "network": self.device.network.name, "rows": rows})

    def _peak_rates(self) -> str | None:
        rows, failures = self.device.peak_rates()
        self._note("ceilings", {"device_name": self.device.name, "rows": rows, "failures": failures})
        return None if rows else "; ".join(failures)

    def _keep(self, timings: Iterable[Timing]) -> Iterator[str]:
        """Write each timer's samples; or, where it failed or its outputs were wrong, why they are not there."""
        for timing in timings:
            about = {"variant": self.step.who.name, "batch": self.step.batch, "layer": timing.layer}
            about |= {"timer": timing.timer, "cache": timing.cache}
            where = f"{timing.layer}, {timing.timer} {timing.cache}"
            if timing.error:
                yield f"{where}: {timing.error}"
            elif not timing.check.passed:
                yield f"{where}: timed but wrong, not recorded: {timing.check}"
            else:
                columns = {**self.step.who.columns, "network": self.device.network.name, **about}
                rows = [{**columns, "sample": i, "time_ms": value} for i, value in enumerate(timing.times_ms)]
                self.found["rows"] += rows
                self._note("conditions", {**about, "checked": str(timing.check), **timing.telemetry})
                self._save("begun")


def _passed(folder: Path, step: Step) -> bool:
    return read(folder, Step("verify", step.who))["state"] == "done"


def make(factory: str, arguments: dict[str, Any]) -> DeviceUnderTest:
    """The device of ``module:name`` called with ``arguments``."""
    module, _, name = factory.partition(":")
    return getattr(import_module(module), name)(**arguments)


def die_with_parent() -> None:
    """Let the kernel end this process with the one that started it, so that ``kill -9`` leaves no worker running."""
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main(command: str) -> int:
    """Describe the device, or do steps; the exit status."""
    die_with_parent()
    task = json.load(sys.stdin)
    try:
        device = make(task["factory"], task["arguments"])
        alive = device.usable()
    except (RuntimeError, AssertionError) as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        return NO_DEVICE
    if not alive:
        print(f"{device.name} does not answer", file=sys.stderr)
        return NO_DEVICE
    if command == "describe":
        print(json.dumps(jsonable(device.provenance())))
        return 0
    try:
        perform(device, Path(task["folder"]), map(Step.from_document, task["steps"]), task["seed"])
    except FolderLost as error:
        print(error, file=sys.stderr)
        return NO_DISK
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # not by way of clean-up, which waits for a device that no longer answers
