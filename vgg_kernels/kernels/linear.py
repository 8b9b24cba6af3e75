"""linear: a classifier layer at small batch, bound by reading its weights once.

    y[b, n] = relu(beta[n] + alpha[n] * sum over k of w[n, k] * x[b, k])        (no relu behind the last layer)

Shapes: w ``[N, K]``, x ``[B, K]``, y ``[B, N]``. At batch 10 fc6 does 2.1 GFLOP (2 us at fp16's peak) on 206 MB of
fp16 weights (61 us at 3.35 TB/s). So rows of W lie on the MMA's M and the batch, padded to 16, on its N: the wide
operand is read once and nothing of it is wasted; K is split so that all SMs read (128 CTAs for 32 row blocks).
In flight: five stages of 18 KB an SM, 12 MB over 132 SMs, against the 2.3 MB that 0.7 us of latency at 3.35 TB/s
asks for. The last CTA of an output tile to arrive adds the shares, always in the same order, and finishes it: no
second launch, and the same bits every time.
"""

from .backend import INTERPRETED  # isort: skip  (before triton)

from math import ceil

import torch
import triton
import triton.language as tl
from torch import Tensor

from .layout import Activation, Packed, descriptors
from .numerics import LO_SCALE, low_half, relu, storage, to_operand
from .plan import Launch
from .signature import Signature, tensordesc, wait_for_launch_before


@triton.jit
def finish(
    acc, alpha_ptr, beta_ptr, y_ptr, y_lo_ptr, rows, columns, B,
    N: tl.constexpr, RELU: tl.constexpr, TIER: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """The epilogue of a [rows, columns] tile: affine, ReLU, rounding to the next layer's operands, store as [B, N]."""
    alpha = tl.load(alpha_ptr + rows, mask=rows < N, other=0.0)
    beta = tl.load(beta_ptr + rows, mask=rows < N, other=0.0)
    out = acc * alpha[:, None] + beta[:, None]
    at = columns.to(tl.int64)[None, :] * N + rows[:, None]
    real = (rows < N)[:, None] & (columns < B)[None, :]
    if RELU:
        out = relu(out)
        hi = to_operand(out, TIER, OUT)
        tl.store(y_ptr + at, hi, mask=real)
        if TIER == "fp16x3":
            tl.store(y_lo_ptr + at, low_half(out, hi), mask=real)
    else:
        tl.store(y_ptr + at, out, mask=real)


@triton.jit
def linear_kernel(
    x_desc, x_lo_desc, w_desc, w_lo_desc, alpha_ptr, beta_ptr, partial_ptr, arrived_ptr, y_ptr, y_lo_ptr, B,
    K: tl.constexpr, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    SPLIT_K: tl.constexpr, RELU: tl.constexpr, STAGES: tl.constexpr, TIER: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """BN rows of W x BM images, one share of K; see the module."""
    wait_for_launch_before()
    n0 = tl.program_id(0) * BN
    b0 = tl.program_id(1) * BM
    share = tl.program_id(2)
    acc = tl.zeros((BN, BM), tl.float32)
    cross = acc
    PRECISION: tl.constexpr = "ieee" if TIER == "fp32" else "tf32"
    STEPS: tl.constexpr = (K + BK - 1) // BK
    SHARE: tl.constexpr = (STEPS + SPLIT_K - 1) // SPLIT_K
    first = share * SHARE
    for step in tl.range(first, tl.minimum(first + SHARE, STEPS), num_stages=STAGES):
        w = w_desc.load([n0, step * BK])
        x = x_desc.load([b0, step * BK])
        if TIER == "fp16x3":
            product = tl.dot(w, x.T)
            cross = tl.dot(w_lo_desc.load([n0, step * BK]), x.T, cross)
            cross = tl.dot(w, x_lo_desc.load([b0, step * BK]).T, cross)
            acc += product * LO_SCALE  # outside the tensor cores, as in conv3x3
        else:
            acc = tl.dot(w, x.T, acc, input_precision=PRECISION)
    if TIER == "fp16x3":
        acc = (acc + cross) * (1.0 / LO_SCALE)

    rows = n0 + tl.arange(0, BN)
    columns = b0 + tl.arange(0, BM)
    if SPLIT_K == 1:
        finish(acc, alpha_ptr, beta_ptr, y_ptr, y_lo_ptr, rows, columns, B, N, RELU, TIER, OUT)
    else:
        tile = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
        at = tl.arange(0, BN)[:, None] * BM + tl.arange(0, BM)[None, :]
        shares_ptr = partial_ptr + tile.to(tl.int64) * (SPLIT_K * BN * BM)
        tl.store(shares_ptr + share * (BN * BM) + at, acc)
        tl.debug_barrier()  # every thread's part is written before one thread says so
        if tl.atomic_add(arrived_ptr + tile, 1, sem="acq_rel") == SPLIT_K - 1:
            total = tl.zeros((BN, BM), tl.float32)
            for i in range(SPLIT_K):
                total += tl.load(shares_ptr + i * (BN * BM) + at, cache_modifier=".cg")  # past L1, which may be stale
            finish(total, alpha_ptr, beta_ptr, y_ptr, y_lo_ptr, rows, columns, B, N, RELU, TIER, OUT)
            tl.store(arrived_ptr + tile, 0)  # ready for the next launch


def output_tiles(launch: Launch) -> int:
    """Output tiles, each with its own arrival counter."""
    return ceil(launch.linear.features_out / launch.tile.bn) * ceil(launch.batch / launch.tile.bm)


def partial_size(launch: Launch) -> int:
    """fp32 numbers that the shares of all tiles take."""
    tile = launch.tile
    return output_tiles(launch) * tile.split_k * tile.bn * tile.bm


def signature(launch: Launch, interpreted: bool) -> Signature:
    """Argument types and constants of the launch, as the compiler takes them."""
    linear, tile, tier = launch.linear, launch.tile, launch.tier
    _, out = storage(tier, interpreted)
    two, split = tier.products > 1, tile.split_k > 1
    x, w = (tensordesc(out, [rows, tile.bk]) for rows in (tile.bm, tile.bn))
    y = f"*{out}" if linear.relu else "*fp32"
    types = {
        "x_desc": x, "x_lo_desc": x if two else None, "w_desc": w, "w_lo_desc": w if two else None,
        "alpha_ptr": "*fp32", "beta_ptr": "*fp32",
        "partial_ptr": "*fp32" if split else None, "arrived_ptr": "*i32" if split else None,
        "y_ptr": y, "y_lo_ptr": y if two and linear.relu else None, "B": "i32",
    }  # fmt: skip
    constants = dict(
        K=linear.features_in, N=linear.features_out, BM=tile.bm, BN=tile.bn, BK=tile.bk,
        SPLIT_K=tile.split_k, RELU=linear.relu, STAGES=tile.stages, TIER=tier.name, OUT=out,
    )  # fmt: skip
    integers = {"B": launch.batch}
    return Signature(linear_kernel, types, integers, constants, tile.warps, tile.stages)


def run(
    launch: Launch, x: Activation, weights: Packed, y: Activation | Tensor, partial: Tensor, arrived: Tensor
) -> None:
    """Run the launch: from ``[B, K]`` operands into ``y``, an activation or the fp32 logits ``[B, N]``.

    ``partial`` holds ``partial_size`` fp32 numbers; ``arrived`` one int32 a tile, zero before and after.
    """
    tile = launch.tile
    outputs = [y] if isinstance(y, torch.Tensor) else y.planes
    workspace = (partial, arrived) if tile.split_k > 1 else (None, None)
    spec = signature(launch, INTERPRETED)
    grid = (ceil(launch.linear.features_out / tile.bn), ceil(launch.batch / tile.bm), tile.split_k)
    spec.run(
        grid, *descriptors(x.features(), [tile.bm, tile.bk]), *descriptors(weights.planes, [tile.bn, tile.bk]),
        weights.alpha, weights.beta, *workspace, *[*outputs, None][:2], launch.batch,
    )  # fmt: skip
