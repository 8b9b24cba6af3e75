"""What the runner needs of a device: gate a tier, time a variant or its layers, profile, take ceilings."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ..workload.network import Network
from .timed_call import Check
from .variants import Variant


@dataclass(frozen=True)
class Timing:
    """One timer's result for one variant, batch and layer.

    Attributes:
        layer: "network" for the whole.
        timer: its name.
        cache: "cold" or "warm".
        times_ms: one a trial, in order.
        telemetry: ``telemetry.summarise`` of what was sampled meanwhile.
        check: what the outputs kept during timing came to.
        error: why the timer could not measure, where it could not; the device still answers.
    """

    layer: str
    timer: str
    cache: str
    times_ms: list[float]
    telemetry: dict[str, Any]
    check: Check
    error: str | None = None


class Bench(Protocol):
    """What the runner needs of a device. Tests hand in a fake one, with a fake clock.

    Attributes:
        gate_seed: of the exams of all tiers. A run that is taken up again sets it, since kernels were compiled for it.
        gate_batches: batch sizes of the calls that such an exam makes.
    """

    kind: str
    name: str
    arch: int
    memory_bytes: float
    network: Network
    gate_seed: int

    @property
    def gate_batches(self) -> tuple[int, ...]:
        """In how many images the gate asks."""

    def now(self) -> float:
        """Seconds, monotonic."""

    def provenance(self) -> dict[str, Any]:
        """Where this runs."""

    def guess(self, part: str, variant: Variant | None, batch: int | None) -> float | None:
        """Seconds a step may take, where the device knows better than the table."""

    def compile(self, tiers: list[str], batches: list[int]) -> list[dict[str, Any]]:
        """Compile our kernels ahead of the gate, in parallel; one row a job, as of ``precompile``."""

    def verify(self, tier: str) -> dict[str, Any]:
        """The gate's verdict on a tier of ours: at least ``network``, ``passed``, and the verdict's document."""

    def time(self, variant: Variant, batch: int, done: Callable[[str, str], bool]) -> Iterator[Timing]:
        """Time the whole network with every timer that fits the variant and is not ``done(timer, cache)``.

        A timer that fails is yielded with its error, as long as the device answers.
        """

    def layers(self, variant: Variant, batch: int, done: Callable[[str, str, str], bool]) -> Iterator[Timing]:
        """Time each layer by itself, where it is not ``done(layer, timer, cache)``."""

    def profile(self, variant: Variant, batch: int) -> list[dict[str, Any]]:
        """Kernels of one forward."""

    def ceilings(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The device's ceilings, and what could not be taken."""

    def release(self) -> None:
        """Let go of what the last step built."""

    def usable(self) -> bool:
        """Whether the device still answers (after an illegal access a process's CUDA context never does)."""
