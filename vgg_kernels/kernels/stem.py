"""stem: the first convolution, from NCHW fp32 images to the tier's padded channels-last layout.

    y[p, o] = relu(beta[o] + alpha[o] * sum over 27 (c, r, s) of round(scale * x[n, c, y+r-1, x+s-1]) * w[o, (c, r, s)])

Shapes: x ``[N, 3, H, W]`` fp32 with any strides, w ``[C_out, 32]`` (27 and five zeros), y ``[N, H+1, W+1, C_out]``.
Batch 10 at 224 px: 1.7 GFLOP (2 us at fp16's peak) against 6.0 MB read and 64.8 MB written in fp16 (21 us at
3.35 TB/s): it is bound by its output. So the nine-fold re-reading of x may go through L1, and no copy engine is
needed; pixels lie along lanes, so that each of the 27 loads is one or two 128-byte lines a warp.
"""

from .backend import INTERPRETED  # isort: skip  (before triton)

import triton
import triton.language as tl
from torch import Tensor

from .layout import Activation, Packed, descriptors
from .numerics import low_half, relu, storage, to_operand
from .plan import STEM_DEPTH, Launch
from .signature import Signature, tensordesc, wait_for_launch_before


@triton.jit
def stem_kernel(
    x_ptr, w_ptr, w_lo_ptr, alpha_ptr, beta_ptr, y_desc, y_lo_desc, N, stride_n, stride_c, stride_y, stride_x, scale,
    H: tl.constexpr, W: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    TIER: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """BM pixels of the padded grid x BN channels; see the module."""
    wait_for_launch_before()
    row = tl.program_id(0) * BM
    o0 = tl.program_id(1) * BN
    p = row + tl.arange(0, BM)
    n = p // ((H + 1) * (W + 1))
    y = p // (W + 1) % (H + 1)
    x = p % (W + 1)
    k = tl.arange(0, BK)
    c = k // 9
    yy = y[None, :] + (k % 9 // 3 - 1)[:, None]
    xx = x[None, :] + (k % 3 - 1)[:, None]
    real = (k < 27)[:, None] & (n < N)[None, :] & (yy >= 0) & (yy < H) & (xx >= 0) & (xx < W)
    image = n.to(tl.int64)[None, :] * stride_n
    at = image + c[:, None] * stride_c + yy * stride_y + xx * stride_x
    pixels = tl.load(x_ptr + at, mask=real, other=0.0) * scale

    o = o0 + tl.arange(0, BN)
    w = tl.load(w_ptr + o[:, None] * BK + k[None, :])
    hi = to_operand(pixels, TIER, OUT)
    PRECISION: tl.constexpr = "ieee" if TIER == "fp32" else "tf32"
    acc = tl.dot(w, hi, input_precision=PRECISION)
    if TIER == "fp16x3":
        w_lo = tl.load(w_lo_ptr + o[:, None] * BK + k[None, :])
        cross = tl.dot(w, low_half(pixels, hi), tl.dot(w_lo, hi))
        acc += cross * (1.0 / 2048.0)

    out = relu(acc * tl.load(alpha_ptr + o)[:, None] + tl.load(beta_ptr + o)[:, None])
    out = tl.where(((y < H) & (x < W))[None, :], out, 0.0).T  # the padding is zero for the next layer
    hi = to_operand(out, TIER, OUT)
    y_desc.store([row, o0], hi)
    if TIER == "fp16x3":
        y_lo_desc.store([row, o0], low_half(out, hi))


def signature(launch: Launch, interpreted: bool) -> Signature:
    """Argument types and constants of the launch, as the compiler takes them."""
    conv, tile, tier = launch.conv, launch.tile, launch.tier
    _, out = storage(tier, interpreted)
    two = tier.products > 1
    y = tensordesc(out, [tile.bm, tile.bn])
    types = {
        "x_ptr": "*fp32", "w_ptr": f"*{out}", "w_lo_ptr": f"*{out}" if two else None,
        "alpha_ptr": "*fp32", "beta_ptr": "*fp32", "y_desc": y, "y_lo_desc": y if two else None,
        "N": "i32", "stride_n": "i32", "stride_c": "i32", "stride_y": "i32", "stride_x": "i32", "scale": "fp32",
    }  # fmt: skip
    constants = dict(
        H=conv.height, W=conv.width, BM=tile.bm, BN=tile.bn, BK=STEM_DEPTH, TIER=tier.name, OUT=out,
    )  # fmt: skip
    integers = {
        "N": launch.batch,
        "stride_n": 3 * conv.height * conv.width,
        "stride_c": conv.height * conv.width,
        "stride_y": conv.width,
        "stride_x": 1,
    }
    return Signature(stem_kernel, types, integers, constants, tile.warps, tile.stages)


def run(launch: Launch, x: Tensor, exponent: int, weights: Packed, y: Activation) -> None:
    """Run the launch: images ``[N, 3, H, W]`` fp32, scaled by 2^-exponent, into ``y``."""
    tile = launch.tile
    spec = signature(launch, INTERPRETED)
    grid = (launch.ctas, launch.conv.c_out // tile.bn)
    spec.run(
        grid, x, *[*weights.planes, None][:2], weights.alpha, weights.beta,
        *descriptors(y.rows(), [tile.bm, tile.bn]), launch.batch, *x.stride(), 2.0**-exponent,
    )  # fmt: skip
