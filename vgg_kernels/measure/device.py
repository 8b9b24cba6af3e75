"""What measuring needs of a device: ``Machine`` for one timer, ``DeviceUnderTest`` for the steps of a run.

``Cpu`` and ``Cuda`` are the machines; ``torch_device.TorchDevice`` is the device under test.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from ..workload.network import Network
from .timed_call import Check
from .variants import Variant

FLUSH_BYTES = 32 * 1024 * 1024 * 8
WARM_UPS = 3


class Event(Protocol):
    """A point in a device's stream of work."""

    def record(self) -> None:
        """Mark the point now reached in the stream."""

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds from here to ``end``; both must have been reached."""


class Machine(Protocol):
    """What the timers need of a device."""

    kind: str

    def synchronize(self) -> None:
        """Wait until the device has done all it was given."""

    def event(self) -> Event:
        """A new event on the current stream."""

    def flush(self) -> None:
        """Write ``FLUSH_BYTES`` so that nothing useful is left in L2."""

    def capture(self, call: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Capture one call in a graph; the result replays it and returns its (static) output."""

    def do_bench(self, call: Callable[[], Tensor], before: Callable[[], None]) -> list[float]:
        """Triton's own benchmark of ``call``, with ``before`` run ahead of each timed call, outside its events."""

    def release(self) -> None:
        """Return cached memory to the device."""

    def now(self) -> float:
        """Host clock in seconds, monotonic."""


class Cpu:
    """The host itself: one stream, nothing to wait for, and no L2 of a device to empty."""

    kind = "cpu"

    def synchronize(self) -> None:
        """Nothing is asynchronous on the CPU."""

    def release(self) -> None:
        """The CPU allocator keeps no pool to return."""

    def now(self) -> float:
        """Host clock in seconds, monotonic."""
        return time.perf_counter()


class Cuda:
    """The current CUDA device, through PyTorch's streams, events and graphs."""

    kind = "cuda"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._flush = torch.empty(FLUSH_BYTES // 8, dtype=torch.int64, device="cuda")

    def synchronize(self) -> None:
        """Wait for every stream of the device."""
        self._torch.cuda.synchronize()

    def event(self) -> Event:
        """A timing event on the current stream."""
        return self._torch.cuda.Event(enable_timing=True)

    def flush(self) -> None:
        """Overwrite 256 MB in the current stream."""
        self._flush.fill_(42)

    def capture(self, call: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Warm ``call`` up on a side stream, capture it once, and return its replay.

        Raises:
            Exception: what the call raised; not what the end of a broken capture says of it.
        """
        cuda = self._torch.cuda
        before, side = cuda.current_stream(), cuda.Stream()
        side.wait_stream(before)
        with cuda.stream(side):
            for _ in range(WARM_UPS):
                call()
        before.wait_stream(side)
        captured, broken = cuda.CUDAGraph(), []
        try:  # on the stream that is warm: what a stream's first call sets up stays out
            with cuda.graph(captured, stream=side):
                try:
                    output = call()
                except Exception as error:
                    broken.append(error)
                    raise
        except Exception as error:
            cuda.set_stream(before)  # a capture that cannot end leaves its own stream behind
            raise broken[0] if broken else error from None

        def replay() -> Tensor:
            captured.replay()
            return output

        return replay

    def do_bench(self, call: Callable[[], Tensor], before: Callable[[], None]) -> list[float]:
        """``triton.testing.do_bench``; it clears the ``grad`` of what it is given ahead of each timed call's start."""
        from triton.testing import do_bench as triton_do_bench

        return list(triton_do_bench(call, grad_to_none=[_Before(before)], return_mode="all"))

    def release(self) -> None:
        """Empty PyTorch's cache of device memory."""
        self._torch.cuda.empty_cache()

    def now(self) -> float:
        """Host clock in seconds, monotonic."""
        return time.perf_counter()


class _Before:
    """Looks like a parameter to ``do_bench``: clearing its gradient runs a hook outside the timed region."""

    def __init__(self, hook: Callable[[], None]):
        self._hook = hook

    @property
    def grad(self) -> None:
        return None

    @grad.setter
    def grad(self, _: None) -> None:
        self._hook()


@dataclass(frozen=True)
class Timing:
    """One timer's result for one variant, batch and layer.

    Attributes:
        layer: "network" for the whole.
        timer: its name.
        cache: "cold" or "warm".
        times_ms: one a trial, in order.
        telemetry: ``telemetry.summarise`` of what was sampled meanwhile.
        check: the comparison of the outputs that were kept during timing.
        error: why the timer could not measure, where it could not; the device still answers.
    """

    layer: str
    timer: str
    cache: str
    times_ms: list[float]
    telemetry: dict[str, Any]
    check: Check
    error: str | None = None


class DeviceUnderTest(Protocol):
    """What the steps of a run need of a device."""

    kind: str
    name: str
    network: Network

    def now(self) -> float:
        """Seconds, monotonic."""

    def provenance(self) -> dict[str, Any]:
        """Where this runs: ``provenance.collect``."""

    def compile(self, tiers: list[str], batches: list[int]) -> list[dict[str, Any]]:
        """Compile our kernels in parallel; one row a (tier, batch): ``tier``, ``batch``, ``seconds``, ``error``."""

    def verify(self, tier: str, seed: int) -> dict[str, Any]:
        """The gate's verdict on a tier of ours: at least ``network``, ``passed``, and the verdict's document."""

    def time(self, variant: Variant, batch: int, done: Callable[[str, str], bool]) -> Iterator[Timing]:
        """Time the whole network with every timer that fits the variant and is not ``done(timer, cache)``.

        A timer that fails is yielded with its error, as long as the device answers.
        """

    def layers(self, variant: Variant, batch: int, done: Callable[[str, str, str], bool]) -> Iterator[Timing]:
        """Time each layer by itself, where it is not ``done(layer, timer, cache)``."""

    def profile(self, variant: Variant, batch: int) -> list[dict[str, Any]]:
        """Kernels of one forward."""

    def peak_rates(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The device's peak rates, and one sentence for each that could not be taken."""

    def release(self) -> None:
        """Free what the last step built."""

    def usable(self) -> bool:
        """Whether the device still answers (after an illegal access a process's CUDA context never does)."""
