"""reduce: the second launch behind a convolution that split K, or that could not pool in its epilogue.

    y[p, o] = max over the 2x2 window of relu(beta[o] + alpha[o] * sum over shares of partial[share, p, o])

Shapes: partial ``[shares * rows, C]`` fp32 over the padded grid of the input (or the tier's own activation, one
share, no affine: a plain max-pool), y ``[N, H', W', C]`` with or without its zero row and column. It computes
nothing to speak of; its bytes come from L2 (13.8 MB a 14x14 layer of batch 10 in three shares, of 50 MB), so the
tile only has to keep the loads wide: 128 channels of one pixel are contiguous. Shares are added in a fixed order,
so the result does not depend on which CTA came first.
"""

from .backend import INTERPRETED  # isort: skip  (before triton)

import triton
import triton.language as tl
from torch import Tensor

from .layout import Activation, Packed
from .numerics import LO_SCALE, low_half, relu, storage, to_operand
from .plan import Launch, share_rows
from .signature import Signature, wait_for_launch_before


@triton.jit
def reduce_kernel(
    x_ptr, x_lo_ptr, alpha_ptr, beta_ptr, y_ptr, y_lo_ptr, N, ROWS,
    C: tl.constexpr, H: tl.constexpr, W: tl.constexpr, PAD: tl.constexpr, POOL: tl.constexpr,
    SHARES: tl.constexpr, AFFINE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    TIER: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """BM output pixels x BN channels; see the module."""
    wait_for_launch_before()
    STEP: tl.constexpr = 2 if POOL else 1
    HEIGHT: tl.constexpr = H // STEP + PAD
    WIDTH: tl.constexpr = W // STEP + PAD
    p = tl.program_id(0) * BM + tl.arange(0, BM)
    n = p // (HEIGHT * WIDTH)
    y = p // WIDTH % HEIGHT
    x = p % WIDTH
    inside = (n < N) & (y < H // STEP) & (x < W // STEP)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    corner = (n * (H + 1) + y * STEP) * (W + 1) + x * STEP

    best = tl.full((BM, BN), -float("inf"), tl.float32)
    for i in tl.static_range(STEP * STEP):
        source = corner + i // 2 * (W + 1) + i % 2
        value = tl.zeros((BM, BN), tl.float32)
        for share in tl.static_range(SHARES):
            at = (source + share * ROWS).to(tl.int64)[:, None] * C + c[None, :]
            value += tl.load(x_ptr + at, mask=inside[:, None], other=0.0).to(tl.float32)
            if x_lo_ptr is not None:
                value += tl.load(x_lo_ptr + at, mask=inside[:, None], other=0.0).to(tl.float32) * (1.0 / LO_SCALE)
        if AFFINE:
            value = value * tl.load(alpha_ptr + c)[None, :] + tl.load(beta_ptr + c)[None, :]
        best = tl.maximum(best, value, propagate_nan=tl.PropagateNan.ALL)
    out = tl.where(inside[:, None], relu(best), 0.0)

    at = p.to(tl.int64)[:, None] * C + c[None, :]
    exists = (n < N)[:, None]  # the padding is written too, as zeros
    hi = to_operand(out, TIER, OUT)
    tl.store(y_ptr + at, hi, mask=exists)
    if TIER == "fp16x3":
        tl.store(y_lo_ptr + at, low_half(out, hi), mask=exists)


def signature(launch: Launch, interpreted: bool) -> Signature:
    """Argument types and constants of the launch, as the compiler takes them."""
    conv, tile, tier = launch.conv, launch.tile, launch.tier
    _, out = storage(tier, interpreted)
    two, affine = tier.products > 1, launch.kernel == "reduce"
    plane = f"*{out}"
    types = {
        "x_ptr": "*fp32" if affine else plane, "x_lo_ptr": plane if two and not affine else None,
        "alpha_ptr": "*fp32" if affine else None, "beta_ptr": "*fp32" if affine else None,
        "y_ptr": plane, "y_lo_ptr": plane if two else None, "N": "i32", "ROWS": "i32",
    }  # fmt: skip
    constants = dict(
        C=conv.c_out, H=conv.height, W=conv.width, PAD=launch.pad, POOL=conv.pooled, SHARES=tile.split_k, AFFINE=affine,
        BM=tile.bm, BN=tile.bn, TIER=tier.name, OUT=out,
    )  # fmt: skip
    integers = {"N": launch.batch, "ROWS": share_rows(conv, launch.batch)}
    return Signature(reduce_kernel, types, integers, constants, tile.warps, tile.stages)


def run(launch: Launch, x: Activation | Tensor, weights: Packed, y: Activation) -> None:
    """Run the launch: from a split convolution's fp32 partials, or from an activation to be pooled, into ``y``."""
    source = [x, None, weights.alpha, weights.beta] if isinstance(x, Tensor) else [*[*x.planes, None][:2], None, None]
    grid = (launch.ctas // (launch.conv.c_out // launch.tile.bn), launch.conv.c_out // launch.tile.bn)
    rows = share_rows(launch.conv, launch.batch)
    signature(launch, INTERPRETED).run(grid, *source, *[*y.planes, None][:2], launch.batch, rows)
