"""How a kernel is launched: argument types and constants, from which it is also compiled, and what it waits for."""

from .backend import INTERPRETED, LAUNCHER  # isort: skip  (before triton)

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl

_INTERPRETED = tl.constexpr(INTERPRETED)

# What every launch is compiled with. FMA contraction is said outright, since Triton's default changes between versions;
# launch_pdl lets a kernel's CTAs start while the one before it finishes, see ``wait_for_launch_before``.
OPTIONS: dict[str, Any] = {"enable_fp_fusion": True} | ({} if INTERPRETED else {"launch_pdl": True})


@triton.jit
def wait_for_launch_before():
    """Programmatic dependent launch: the first thing that every kernel does, before it touches memory.

    Once all CTAs of a kernel run, those of the next may be placed on SMs that fall idle, and set themselves up there;
    they wait here until the kernel before has ended and what it wrote can be seen. As every kernel waits, all earlier
    ones have ended too. A gap between kernels is about 1.3 us of a CUDA graph, 25 of them a forward.
    """
    if not _INTERPRETED:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


@dataclass(frozen=True)
class Signature:
    """What Triton needs to know of a launch.

    Attributes:
        kernel: the jitted function.
        types: run-time arguments in order, as Triton's type strings; None for an argument that is absent.
        integers: values of the run-time integers for contiguous images, on which Triton specialises.
        constants: compile-time arguments.
        warps: warps of one CTA.
        stages: depth of the copy pipeline.
    """

    kernel: Any
    types: Mapping[str, str | None]
    integers: dict[str, int]
    constants: dict[str, Any]
    warps: int
    stages: int

    def run(self, grid: tuple[int, ...], *arguments: Any) -> None:
        """Launch on the current device and stream (or interpret, or emulate)."""
        if launcher := LAUNCHER.get():
            return launcher(self, grid, arguments)
        self.kernel[grid](*arguments, **self.constants, num_warps=self.warps, num_stages=self.stages, **OPTIONS)
        return None


def tensordesc(dtype: Any, block: list[int]) -> str:
    """Triton's type string of a tensor descriptor with boxes of ``block``."""
    return f"tensordesc<{dtype}[{', '.join(map(str, block))}]>"
