"""A kernel's argument types and constants: one description from which it is both launched and compiled."""

from dataclasses import dataclass
from typing import Any

FP_FUSION = True  # a*b + c contracts to one FMA; said outright, since Triton's default changes between versions


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
    types: dict[str, str | None]
    integers: dict[str, int]
    constants: dict[str, Any]
    warps: int
    stages: int

    def run(self, grid: tuple[int, ...], *arguments: Any) -> None:
        """Launch on the current device and stream (or interpret)."""
        self.kernel[grid](
            *arguments,
            **self.constants,
            num_warps=self.warps,
            num_stages=self.stages,
            enable_fp_fusion=FP_FUSION,
        )


def tensordesc(dtype: Any, block: list[int]) -> str:
    """Triton's type string of a tensor descriptor with boxes of ``block``."""
    return f"tensordesc<{dtype}[{', '.join(map(str, block))}]>"
