"""Timers, side by side: each returns the milliseconds of single calls, and they do not all mean the same.

Every timed call reads content that no call before it has read, drawn outside the timed region, and outputs are kept
and compared after timing, so an answer that was remembered rather than computed shows. What is timed is one contract
for every variant: fp32 NCHW in, fp32 out.

- ``kernelbench``: the public protocol. Device events around one eager call, 256 MB written before each to empty L2,
  3 warm-ups, 1 trial discarded, 100 kept (KernelBench, ``src/kernelbench/timing.py``, commit of 2026-03-05).
- ``graph``: the call captured in a CUDA graph and replayed, so that launch gaps vanish; L2 cold or warm.
- ``do_bench``: ``triton.testing.do_bench``, which decides its own number of trials; L2 cold.
- ``cuda_events``: events around a call with whatever the call before it left in L2 (warm).
- ``host``: the wall clock around a call and a synchronisation, launch overhead included; cold or warm.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from .device import WARM_UPS, Machine

DISCARDED = 1
TRIALS = 100
FEWEST_TRIALS = 5  # kept even where the time allowed for a timer is spent: below this no spread can be stated


class Subject(Protocol):
    """What is timed: a call on an input that can be given new content."""

    def feed(self) -> None:
        """Put content into the input that no call has read before."""

    def call(self) -> Tensor:
        """Run on the present content."""

    def keep(self, output: Tensor) -> None:
        """Remember the present content's output, to be compared after timing."""


def kernelbench(subject: Subject, machine: Machine, allow: "Allowance") -> list[float]:
    """The public protocol; the fresh content is waited for ahead of the flush, so it costs no timed work."""
    for _ in range(WARM_UPS):
        subject.feed()
        subject.call()
        machine.synchronize()
    machine.release()
    return _events(subject, machine, allow, subject.call, cold=True)


def graph(subject: Subject, machine: Machine, allow: "Allowance", *, cold: bool) -> list[float]:
    """Replays of one captured call between device events."""
    subject.feed()
    replay = machine.capture(subject.call)
    for _ in range(WARM_UPS):
        replay()
    machine.synchronize()
    return _events(subject, machine, allow, replay, cold=cold)


def cuda_events(subject: Subject, machine: Machine, allow: "Allowance") -> list[float]:
    """Device events around an eager call, L2 as the call before left it."""
    _warm_up(subject, machine)
    return _events(subject, machine, allow, subject.call, cold=False)


def do_bench(subject: Subject, machine: Machine, allow: "Allowance") -> list[float]:
    """Triton's own benchmark; it takes as many trials as it likes within about 0.1 s of device time."""
    del allow
    subject.feed()
    times = machine.do_bench(subject.call, subject.feed)
    subject.feed()
    subject.keep(subject.call())
    return times


def host(subject: Subject, machine: Machine, allow: "Allowance", *, cold: bool) -> list[float]:
    """The wall clock around a call and the synchronisation that follows it."""
    _warm_up(subject, machine)
    times: list[float] = []
    for trial in range(DISCARDED + allow.trials):
        if allow.spent(len(times)):
            break
        subject.feed()
        if cold:
            machine.flush()
        machine.synchronize()
        start = machine.now()
        output = subject.call()
        machine.synchronize()
        end = machine.now()
        if trial >= DISCARDED:
            times.append((end - start) * 1000)
        subject.keep(output)
    return times


def _warm_up(subject: Subject, machine: Machine) -> None:
    for _ in range(WARM_UPS if machine.kind == "cuda" else 1):
        subject.feed()
        subject.call()
    machine.synchronize()


def _events(
    subject: Subject, machine: Machine, allow: "Allowance", call: Callable[[], Tensor], *, cold: bool
) -> list[float]:
    times: list[float] = []
    for trial in range(DISCARDED + allow.trials):
        if allow.spent(len(times)):
            break
        subject.feed()
        machine.synchronize()
        start, end = machine.event(), machine.event()
        if cold:
            machine.flush()
        start.record()
        output = call()
        end.record()
        machine.synchronize()
        if trial >= DISCARDED:
            times.append(start.elapsed_time(end))
        subject.keep(output)
    return times


@dataclass
class Allowance:
    """How many trials a timer may take, and until when on the machine's clock."""

    now: Callable[[], float]
    until_s: float = float("inf")
    trials: int = TRIALS

    def spent(self, taken: int) -> bool:
        """Whether to stop: only once ``FEWEST_TRIALS`` are in, so that what is recorded can be read."""
        return taken >= min(FEWEST_TRIALS, self.trials) and self.now() >= self.until_s


@dataclass(frozen=True)
class Timer:
    """One way to time: ``name`` and ``cache`` are its columns in every sample row.

    Attributes:
        graphs: whether it also works for a variant that replays CUDA graphs of its own (a graph cannot be captured
            while another is replayed).
    """

    name: str
    cache: str
    measure: Callable[[Subject, Machine, Allowance], list[float]]
    graphs: bool = True


def _with(timer: Callable[..., list[float]], cache: str) -> Callable[[Subject, Machine, Allowance], list[float]]:
    return lambda subject, machine, allow: timer(subject, machine, allow, cold=cache == "cold")


TIMERS = {
    "cuda": (  # most important first: the public protocol, then what the kernels themselves take
        Timer("kernelbench", "cold", kernelbench),
        Timer("graph", "cold", _with(graph, "cold"), graphs=False),
        Timer("graph", "warm", _with(graph, "warm"), graphs=False),
        Timer("do_bench", "cold", do_bench),
        Timer("cuda_events", "warm", cuda_events),
        Timer("host", "cold", _with(host, "cold")),
    ),
    "cpu": (Timer("host", "warm", _with(host, "warm")),),
}


def disagreement(samples: dict[tuple[str, str], list[float]]) -> list[dict[str, Any]]:
    """How far each timer's median lies from the public protocol's (or from the first timer's, where that is missing).

    Args:
        samples: milliseconds by (timer, cache).

    Returns:
        One row a timer: ``timer``, ``cache``, ``median_ms``, ``ratio`` to the first and ``against``.
    """
    medians = {key: sorted(times)[len(times) // 2] for key, times in samples.items() if times}
    if not medians:
        return []
    first = ("kernelbench", "cold") if ("kernelbench", "cold") in medians else next(iter(medians))
    return [
        {
            "timer": timer,
            "cache": cache,
            "median_ms": value,
            "ratio": value / medians[first],
            "against": " ".join(first),
        }
        for (timer, cache), value in medians.items()
    ]
