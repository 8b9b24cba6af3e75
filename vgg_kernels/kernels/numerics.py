"""What the kernels share: a tier's rounding, and a ReLU and a maximum that keep NaN.

The interpreter of Triton 3.6 to 3.9 multiplies the raw bits of bf16 and fp8 operands and truncates where the
hardware rounds. Interpreted, those two tiers are therefore carried as fp32 values on the type's own grid, rounded
here to nearest even; products and sums are then the same numbers.
"""

from .backend import INTERPRETED  # isort: skip  (before triton)

import torch
import triton
import triton.language as tl

from ..workload.precision import Tier

LO_SCALE = tl.constexpr(2048.0)  # fp16x3 keeps the low half times 2^11, clear of fp16's subnormals
_INTERPRETED = tl.constexpr(INTERPRETED)

_STORAGE = {
    "fp32": (torch.float32, tl.float32),
    "tf32": (torch.float32, tl.float32),
    "fp16": (torch.float16, tl.float16),
    "fp16x3": (torch.float16, tl.float16),
    "bf16": (torch.bfloat16, tl.bfloat16),
    "fp8": (torch.float8_e4m3fn, tl.float8e4nv),
}
_CARRIED_AS_FP32 = ("bf16", "fp8")


def storage(tier: Tier, interpreted: bool = INTERPRETED) -> tuple[torch.dtype, tl.dtype]:
    """The dtype in which a tier's operands lie in memory, as torch and as Triton name it."""
    if interpreted and tier.name in _CARRIED_AS_FP32:
        return torch.float32, tl.float32
    return _STORAGE[tier.name]


@triton.jit
def round_bits(x, DROP: tl.constexpr):
    """fp32 rounded to nearest even, its last DROP mantissa bits cleared; NaN stays, overflow becomes infinite."""
    bits = x.to(tl.int32, bitcast=True)
    half = (1 << (DROP - 1)) - 1
    rounded = (bits + half + ((bits >> DROP) & 1)) & (-(1 << DROP))
    return tl.where(x != x, x, rounded.to(tl.float32, bitcast=True))


@triton.jit
def to_operand(x, TIER: tl.constexpr, OUT: tl.constexpr):
    """fp32 rounded to the tier's grid, as OUT. A finite value past the type's range becomes NaN, not infinity:
    an infinite activation times a negative weight would leave the next ReLU as a finite, wrong zero."""
    if TIER == "fp16" or TIER == "fp16x3":
        size = tl.abs(x)
        x = tl.where(
            (size >= 65520.0) & (size < float("inf")), float("nan"), x
        )  # 65520 and up round past the largest, 65504
    elif TIER == "fp8":
        x = tl.where(tl.abs(x) <= 464.0, x, float("nan"))  # e4m3 has no infinity; 464 is the last to round to 448
        if _INTERPRETED:
            fine = (x + 24576.0) - 24576.0  # below 2^-6 the grid is 2^-9, the ulp of 1.5 * 2^14
            x = tl.where(tl.abs(x) < 0.015625, fine, round_bits(x, 20))
    elif TIER == "tf32":
        x = round_bits(x, 13)  # the tensor core would truncate
    elif TIER == "bf16" and _INTERPRETED:
        x = round_bits(x, 16)
    return x.to(OUT)


@triton.jit
def low_half(x, hi):
    """What fp16 left of x, times 2^11, as fp16; zero behind an infinite high half."""
    rest = tl.where(tl.abs(x) < float("inf"), x - hi.to(tl.float32), 0.0)
    return (rest * LO_SCALE).to(tl.float16)


@triton.jit
def relu(x):
    """max(x, 0) with NaN kept, its sign cleared, so that results order like their bits as integers."""
    return tl.abs(tl.where(x < 0.0, 0.0, x))


@triton.jit
def max_over(x, AXIS: tl.constexpr):
    """Maximum along an axis of values that ``relu`` returned, NaN winning as in torch.

    Bits of non-negative floats order like integers, NaN above infinity, and an integer maximum drops nothing.
    """
    return tl.max(x.to(tl.int32, bitcast=True), AXIS).to(tl.float32, bitcast=True)
