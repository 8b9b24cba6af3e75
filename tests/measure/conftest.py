"""Devices and clocks that do not exist, for the tests of measuring. Nothing here is measured.

``FakeMachine`` is a device whose events read a fake clock. ``SimulatedCard`` is a whole card and its measuring
processes: it answers the real steps with modelled times, assumed seconds, and the faults that a card can have.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from vgg_kernels.measure import plan, profile, run, worker
from vgg_kernels.measure.device import Timing
from vgg_kernels.measure.timed_call import Check
from vgg_kernels.measure.timers import TIMERS
from vgg_kernels.predict import baselines
from vgg_kernels.predict.timemodel import predict
from vgg_kernels.records import session
from vgg_kernels.workload.network import network

GOOD = Check(kept=8, worst=1e-3, bound=4e-3, mistaken=0)
WRONG = Check(kept=8, worst=0.5, bound=4e-3, mistaken=8)
H100 = "NVIDIA H100 80GB HBM3"
NVML = {"driver": "580.0", "power_limit_w": 700.0, "processes": 1, "sm_mhz": 1980, "power_w": 90.0}


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


@cache
def modelled_ms(family: str, tier: str, batch: int) -> dict[str, float]:
    """The time model's milliseconds of each layer on an H100 SXM; every baseline gets those of eager or inductor."""
    table = network("vgg19")
    if family == "ours":
        return {layer.layer: layer.time_us / 1e3 for layer in predict(table, tier, "h100_sxm", batch)}
    kernels = (baselines.eager if family == "eager" else baselines.inductor)(table, "h100_sxm", batch)
    return {layer.name: sum(k.time_us for k in kernels if k.layer == layer.name) / 1e3 for layer in table.layers}


class Ended(BaseException):
    """A simulated process dies."""


class SimulatedProcess:
    """A thread in the place of a measuring process; it and its parent take turns on one simulated clock."""

    def __init__(self, card: "SimulatedCard", work: Callable[["SimulatedProcess"], int]):
        self.card, self._work, self._code, self._killed = card, work, None, False
        self._wake, self._go, self._back = card.clock.seconds, threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        self._go.acquire()
        code = -9
        try:
            code = self._work(self)
        except Ended as end:
            code = end.args[0] if end.args else -9
        except worker.FolderLost:
            code = worker.NO_DISK
        finally:
            self._code = code
            self._back.release()

    def sleep(self, seconds):
        self._wake = self.card.clock.seconds + seconds
        self._back.release()
        self._go.acquire()
        if self._killed:
            raise Ended

    def wait(self, seconds):
        clock, until = self.card.clock, self.card.clock.seconds + seconds
        if self.card.ctrl_c_at_s < until:
            self.card.ctrl_c_at_s = float("inf")
            raise KeyboardInterrupt
        while self._code is None and self._wake <= until:
            clock.seconds = max(clock.seconds, self._wake)
            self._go.release()
            self._back.acquire()
        if self._code is None:
            clock.seconds = until
        return self._code

    def kill(self):
        if self._code is None:
            self._killed = True
            self._go.release()
            self._thread.join()

    def last_words(self):
        no_device = "CUDA error: no CUDA-capable device is detected"
        no_disk = "the run's folder cannot be written: No space left on device"
        return {worker.NO_DEVICE: no_device, worker.NO_DISK: no_disk}.get(self._code, "")


# Seconds on the simulated card, assumed; a host that is slow takes a multiple.
SECONDS = {"start": 7.0, "compile": 25.0, "verify": 10.0, "eager": 0.5, "inductor": 25.0, "inductor-max": 90.0,
           "ours": 2.0, "timer": 0.6, "layer": 0.2, "profile": 2.5, "peak_rates": 9.0}  # fmt: skip


@dataclass
class SimulatedCard:
    """A card that does not exist, and the processes that measure it: stands in for ``measure.run.Device``.

    Attributes:
        slow: how much longer everything takes on its host.
        breaks: step name to what happens in it: an exception to raise, "hang", "crash", "poison", "lost" or "full".
        throttled: whether it lowers its clock for the power cap.
        provenance: changes to what it says of itself.
        gates: tier to whether it passes; others pass.
        ctrl_c_at_s: when the user interrupts.
    """

    made_up: Callable[..., dict]  # the provenance of a machine that does not exist, as every test has it
    slow: float = 1.0
    breaks: dict = field(default_factory=dict)
    throttled: bool = False
    nvml: dict | None = field(default_factory=lambda: dict(NVML))
    name: str = H100
    arch: int = 90
    gates: dict = field(default_factory=dict)
    ctrl_c_at_s: float = float("inf")

    def __post_init__(self):
        self.clock, self.began, self.compiled = FakeClock(), [], set()
        self.lost = self.full = False

    def now(self):
        return self.clock()

    def describe(self):
        self.clock.seconds += self.slow * SECONDS["start"]
        if self.lost:
            raise run.DeviceLost("CUDA error: no CUDA-capable device is detected")
        found = self.made_up(self.name, "cuda")
        found["hardware"] |= {"arch": self.arch, "memory_bytes": 80e9, "nvml": self.nvml}
        return found

    def start(self, folder, steps, seed):
        return SimulatedProcess(self, partial(self._work, folder=folder, steps=steps, seed=seed))

    def _work(self, process, folder, steps, seed):
        process.sleep(self.slow * SECONDS["start"])
        if self.lost:
            return worker.NO_DEVICE
        worker.perform(SimulatedDevice(self, process), folder, steps, seed)
        return 0

    def measure(self, out, budget_s, only=(), batches=(10, 1, 64)):
        """All of ``measure`` but what it prints."""
        parts, chosen = plan.choose("cuda", only)
        steps = partial(plan.steps, "cuda", chosen, batches, parts)
        began, found = self.now(), self.describe()
        left = budget_s - (self.now() - began)
        return session.run(found, self.start, out, network("vgg19"), steps, left, self.tell, self.now)

    def tell(self, step, state, reason, seconds):
        self.began.append((round(self.now(), 1), step.name, state, round(seconds, 1)))


class SimulatedDevice:
    """The device under test in a simulated process."""

    kind = "cuda"

    def __init__(self, card: SimulatedCard, process: SimulatedProcess):
        self.card, self._process, self.name, self.network = card, process, card.name, network("vgg19")
        self._alive = True

    def now(self):
        return self.card.clock()

    def provenance(self):
        return self.card.describe()

    def _pass(self, seconds, part="", who="", batch=""):
        self._process.sleep(self.card.slow * seconds)
        fault = self.card.breaks.get("/".join(str(word) for word in (part, who, batch) if word))
        if fault == "hang":
            self._process.sleep(float("inf"))
        elif fault == "crash":
            raise Ended(-11)
        elif fault == "lost":
            self.card.lost, self._alive = True, False
            raise RuntimeError("CUDA error: the launch timed out and was terminated")
        elif fault == "poison":
            self._alive = False
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        elif fault == "full":
            self.card.full = True
        elif fault:
            raise fault

    def _build(self, variant, part, batch):
        slow = "-max" if "max" in (variant.mode or "") else ""
        cached = variant.family == "inductor" and (variant.name, batch) in self.card.compiled
        self.card.compiled.add((variant.name, batch))
        self._pass(SECONDS[variant.family + slow] / (3 if cached else 1), part, variant.name, batch)

    def compile(self, tiers, batches):
        self._pass(SECONDS["compile"], "compile", "+".join(tiers), batches[0])
        rows = [{"tier": tier, "batch": batch, "seconds": 1.0} for batch in batches for tier in tiers]
        return [row | {"error": None, "timed_out": False} for row in rows]

    def verify(self, tier, seed):
        self._pass(SECONDS["verify"], "verify", f"ours_{tier}")
        return {
            "network": "vgg19",
            "passed": self.card.gates.get(tier, True),
            "verdict": {"relative_error": float("nan")},
        }

    def _timing(self, layer, timer, ms):
        clocks = {
            "sm_mhz": {"min": 1300, "median": 1400, "max": 1980},
            "power_w": {"min": 90, "median": 690, "max": 700},
        }
        seen = {"samples": 2, "throttled": ["power cap"] if self.card.throttled else []}
        times = [ms * (1 + 0.001 * i) for i in range(5)]
        return Timing(layer, timer.name, timer.cache, times, seen | (clocks if self.card.nvml else {}), GOOD)

    def time(self, variant, batch, done):
        self._build(variant, "time", batch)
        for timer in TIMERS["cuda"]:
            if (timer.graphs or not variant.graphs) and not done(timer.name, timer.cache):
                self._pass(SECONDS["timer"], "timer", variant.name, timer.name)
                yield self._timing("network", timer, sum(modelled_ms(variant.family, variant.tier, batch).values()))

    def layers(self, variant, batch, done):
        self._build(variant, "layers", batch)
        for layer, ms in modelled_ms(variant.family, variant.tier, batch).items():
            for timer in TIMERS["cuda"][1:3]:
                if not done(layer, timer.name, timer.cache):
                    self._pass(SECONDS["layer"])
                    yield self._timing(layer, timer, ms)

    def profile(self, variant, batch):
        self._build(variant, "profile", batch)
        self._pass(SECONDS["profile"])
        return profile.tidy(
            [(name, 3, 3e3 * ms) for name, ms in modelled_ms(variant.family, variant.tier, batch).items()], 3
        )

    def peak_rates(self):
        self._pass(SECONDS["peak_rates"], "peak_rates")
        rows = [
            ("copy_bandwidth", 3e12, "B/s"),
            ("l2_bytes_per_sm_clock", 38.0, "B/clk"),
            ("graph_launch_gap", 1.3e-6, "s"),
        ]
        return [{"quantity": name, "value": value, "unit": unit, "how": "simulated"} for name, value, unit in rows], []

    def release(self):
        pass

    def usable(self):
        return self._alive


@pytest.fixture
def card(fake, monkeypatch):
    """Makes simulated cards; polls less often and does not wait for a real disk, so that an hour passes in a second."""
    monkeypatch.setattr(run, "POLL_S", 2.0)
    monkeypatch.setattr("os.fsync", lambda _: None)
    real, cards = worker.write_whole, []

    def write_whole(path, text):
        if any(c.full for c in cards):
            raise OSError(28, "No space left on device")
        real(path, text)

    monkeypatch.setattr(worker, "write_whole", write_whole)

    def make(**options: Any) -> SimulatedCard:
        cards.append(SimulatedCard(fake.provenance, **options))
        return cards[-1]

    return make


@pytest.fixture
def fakes():
    """The fakes of one timer."""
    return SimpleNamespace(FakeClock=FakeClock, FakeMachine=FakeMachine, FakeSubject=FakeSubject)
