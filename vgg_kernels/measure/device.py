"""What the timers need of a device, and the two devices that there are: the host, and a CUDA device."""

import time
from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

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
