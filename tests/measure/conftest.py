"""A device and a clock that do not exist, for the tests of what is done around a measurement. Nothing here is measured.

``FakeBench`` takes as many fake seconds as it is told and returns made-up times; ``FakeMachine`` is a device whose
events read the same fake clock.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import ClassVar

import pandas as pd
import pytest
import torch

from vgg_kernels.correctness.suite import batch_sizes
from vgg_kernels.measure.timed_call import Check
from vgg_kernels.measure.under_test import Timing
from vgg_kernels.workload.network import network

GOOD = Check(kept=8, worst=1e-3, bound=4e-3, mistaken=0)
WRONG = Check(kept=8, worst=0.5, bound=4e-3, mistaken=8)


@dataclass
class FakeClock:
    """Seconds that pass only when something says so."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds

    def pass_ms(self, ms: float) -> None:
        self.seconds += ms / 1000


class FakeMachine:
    """A device whose events read the fake clock; it writes down what was asked of it."""

    kind = "cuda"

    def __init__(self):
        self.clock, self.log = FakeClock(), []

    def now(self):
        return self.clock()

    def synchronize(self):
        self.log.append("synchronize")

    def release(self):
        self.log.append("release")

    def flush(self):
        self.log.append("flush")
        self.clock.pass_ms(100)

    def event(self):
        return FakeEvent(self)

    def capture(self, call):
        self.log.append("capture")
        call()
        return call

    def do_bench(self, call, before):
        times = []
        for _ in range(7):
            before()
            start = self.now()
            call()
            times.append((self.now() - start) * 1000)
        return times


class FakeEvent:
    def __init__(self, machine):
        self._machine = machine

    def record(self):
        self._machine.log.append("record")
        self.at = self._machine.now()

    def elapsed_time(self, end):
        return (end.at - self.at) * 1000


class FakeSubject:
    """Takes 2 fake ms a call and 50 to be fed; writes down what it was asked."""

    def __init__(self, machine, call_ms=2.0):
        self._machine, self._call_ms, self.content, self.kept = machine, call_ms, 0, []
        self.called_on = []

    def feed(self):
        self._machine.log.append("feed")
        self._machine.clock.pass_ms(50)
        self.content += 1

    def call(self):
        self._machine.log.append("call")
        self._machine.clock.pass_ms(self._call_ms)
        self.called_on.append(self.content)
        return torch.tensor(self.content)

    def keep(self, output):
        self._machine.log.append("keep")
        self.kept.append(int(output))


@dataclass
class FakeBench:
    """A device that measures nothing: every time it returns is made up, every second on its clock is told.

    Attributes:
        takes: seconds by step part.
        breaks: step name to what happens in it: an exception to raise, or a function to call.
        gates: tier to whether it passes; others pass.
        checks: variant to the check its outputs come to.
        uncompiled: tier to why it did not compile.
        slow: tiers that had not compiled when the time was up.
        gate_seed: as a bench draws it.
        errors: timer to why it cannot measure.
    """

    kind: str = "cuda"
    name: str = "a GPU that does not exist"
    arch: int = 90
    memory_bytes: float = 80e9
    takes: dict = field(default_factory=dict)
    breaks: dict = field(default_factory=dict)
    gates: dict = field(default_factory=dict)
    checks: dict = field(default_factory=dict)
    uncompiled: dict = field(default_factory=dict)
    slow: tuple = ()
    gate_seed: int = 7
    errors: dict = field(default_factory=dict)
    timers: tuple = (("kernelbench", "cold"), ("graph", "warm"))
    alive: bool = True
    card: str = "aaaaaaaaaaaa"
    made_up: ClassVar[Callable]  # the provenance of a machine that does not exist, as every test has it

    def __post_init__(self):
        self.clock, self.network, self.ran, self.compiled = FakeClock(), network("vgg19"), [], []

    def now(self):
        return self.clock()

    def provenance(self):
        return self.made_up("fake" if self.kind == "cpu" else "fake gpu", self.kind, card=self.card)

    def guess(self, part, variant, batch):
        return self.takes.get(part, 1.0)

    @property
    def gate_batches(self):
        return batch_sizes(self.gate_seed)

    def _pass(self, part, variant=None, batch=None):
        name = "/".join(str(w) for w in (part, variant and variant.name, batch) if w)
        self.ran.append(name)
        self.clock.seconds += self.takes.get(part, 1.0)
        broken = self.breaks.get(name)
        if isinstance(broken, BaseException):
            raise broken
        if broken:
            broken()

    def compile(self, tiers, batches):
        self._pass("compile")
        self.compiled.append(batches)
        late = dict.fromkeys(self.slow, "did not end")
        return [
            {"tier": tier, "batch": batch, "seconds": 1.0, "error": error, "timed_out": tier in late}
            for batch in batches
            for tier, error in ((tier, (late | self.uncompiled).get(tier)) for tier in tiers)
        ]

    def verify(self, tier):
        self._pass("verify", SimpleNamespace(name=f"ours_{tier}"))
        return {"network": "vgg19", "passed": self.gates.get(tier, True), "verdict": {"relative_error": float("nan")}}

    def time(self, variant, batch, done):
        for number, (timer, cache) in enumerate(self.timers):
            if done(timer, cache):
                continue
            if number == len(self.timers) - 1:
                self._pass("time", variant, batch)
            if timer in self.errors:
                yield Timing("network", timer, cache, [], {}, WRONG, self.errors[timer])
                continue
            check = self.checks.get(variant.name, GOOD)
            yield Timing("network", timer, cache, [1.0, 2.0, 3.0], {"samples": 2, "throttled": []}, check)

    def layers(self, variant, batch, done):
        self._pass("layers", variant, batch)
        for layer in ("conv1_1", "fc8"):
            if not done(layer, "graph", "cold"):
                yield Timing(layer, "graph", "cold", [0.5], {"samples": 2, "throttled": []}, GOOD)

    def profile(self, variant, batch):
        self._pass("profile", variant, batch)
        return [{"kernel": "made_up", "purpose": "other", "calls": 1.0, "time_us": 1.0, "share": 1.0}]

    def ceilings(self):
        self._pass("ceilings")
        return [{"quantity": "copy_bandwidth", "value": 1e12, "unit": "B/s", "how": "made up"}], []

    def release(self):
        if not self.alive:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def usable(self):
        return self.alive


class FakeWriter:
    """Keeps rows and notes in memory; its disk is full after ``room`` writes."""

    def __init__(self, room=10**9):
        self.rows, self.notes, self.room = [], [], room

    def _use(self):
        self.room -= 1
        if self.room < 0:
            raise OSError(28, "No space left on device")

    def append(self, rows):
        self._use()
        self.rows += list(rows)

    def note(self, kind, payload):
        self._use()
        self.notes.append({"kind": kind, "payload": payload})

    def samples(self):
        return pd.DataFrame(self.rows)

    def of(self, kind):
        return [note["payload"] for note in self.notes if note["kind"] == kind]


class NoWatchdog:
    """A watchdog that never bites: fake seconds do not pass on a real clock."""

    expired = False

    def __init__(self, limit_s, last_words):
        self.limit_s = limit_s

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture
def fakes(fake):
    """Every fake of this folder."""
    FakeBench.made_up = staticmethod(fake.provenance)
    names = (FakeBench, FakeClock, FakeMachine, FakeSubject, FakeWriter, NoWatchdog)
    return SimpleNamespace(**{n.__name__: n for n in names}, GOOD=GOOD, WRONG=WRONG)
