"""conv3x3: nine shifted GEMMs with bias, ReLU and (in the box view) the 2x2 max-pool in the epilogue.

    y[p, o] = relu(beta[o] + alpha[o] * sum over r, s, c of x[p + (r-1)*(W+1) + (s-1), c] * w[o, r, s, c])

Shapes: x ``[N, H+1, W+1, C_in]`` with its zero row and column, w ``[C_out, 9*C_in]``, y like x (pooled: half the
sides). Two numbers bound it: 18*N*H*W*C_in*C_out operations over the tier's peak, and the L2 -> shared-memory
traffic of its tiles. A step of a BM x BN tile does 2*BM*BN*BK operations on (BM + BN)*BK operands, which at fp16's
4096 operations a clock asks L2 for 4096*(1/BM + 1/BN) B/clk an SM: 128 x 256 asks 48 where L2 gives some 37, and
128 x 128 asks 64. So tiles are as large as the accumulators allow (128 registers a thread of a 128 x 256 tile).

Views: *flat*, rows of the padded matrix, no waste but the padding, pixels on the MMA's M; *box*, rectangles of
pixels, which hold whole pool windows. A box is four-dimensional in shared memory, and Triton feeds it to wgmma
unmoved only as the operand B; as A it would pass through registers at every step (seen in the compiled code). So
boxes are *swapped*: weights on M, pixels on N. There the pool's neighbours lie in one thread's registers, and
narrow layers (C_out = 64) read their wide operand once for all 64 channels.

fp16x3 adds each step's product of the high halves to its sum on the FMA units, which round to nearest. Tensor cores are
reported to truncate what they add up (Ootomo and Yokota, IJHPCA 2022; triton-lang/triton#4603 shows what that does to
Triton's own 3xTF32): all 4608 products of conv4 summed there would cost the fp32 grade (``truncation``). The
cross products, 2^-11 as large, stay there; the other tiers' operands are coarser than what truncation takes.

A third view, row pairs, is a kernel of its own: ``row_pairs``. Tried and left, each seen in the code that Triton 3.7
makes for sm_90: two-CTA clusters (``num_ctas=2``) load without multicast, so L2 is asked for as much; warp
specialisation (``warp_specialize=True``) is ignored. A persistent grid would hide the fill of a tile behind the end
of the one before, but most of these layers have two waves at most.
"""

from .backend import INTERPRETED  # isort: skip  (before triton)

import triton
import triton.language as tl
from torch import Tensor

from . import row_pairs, tiles
from .layout import Activation, Packed, descriptors
from .numerics import LO_SCALE, low_half, max_over, relu, storage, to_operand
from .plan import Launch, share_rows
from .signature import Signature, tensordesc, wait_for_launch_before


@triton.jit
def store_tile(
    desc, value, n, y, x, row, o0,
    TN: tl.constexpr, TH: tl.constexpr, TW: tl.constexpr, BN: tl.constexpr, BOX: tl.constexpr,
):  # fmt: skip
    """Write a [pixels, BN] tile; boxes that overhang the padded image are clipped by the copy engine."""
    if BOX:
        desc.store([n, y, x, o0], value.reshape(TN, TH, TW, BN))
    else:
        desc.store([row, o0], value)


@triton.jit
def conv3x3_kernel(
    x_desc, x_lo_desc, w_desc, w_lo_desc, alpha_ptr, beta_ptr, y_desc, y_lo_desc, partial_ptr, N, ROWS,
    C_IN: tl.constexpr, C_OUT: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TN: tl.constexpr, TH: tl.constexpr, TW: tl.constexpr,
    BOX: tl.constexpr, SWAPPED: tl.constexpr, SPLIT_K: tl.constexpr, POOL: tl.constexpr, STAGES: tl.constexpr,
    TIER: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """One output tile, or one share of its K; see the module."""
    wait_for_launch_before()
    # Neighbouring CTAs share their pixels and differ in channels, so a wave reads each activation from L2 once.
    TILES_O: tl.constexpr = C_OUT // BN
    tile = tl.program_id(0) // TILES_O
    o0 = (tl.program_id(0) % TILES_O) * BN
    share = tl.program_id(1)
    row = tile * BM
    TILES_W: tl.constexpr = (W + TW - 1) // TW
    TILES_H: tl.constexpr = (H + TH - 1) // TH
    n = tile // (TILES_H * TILES_W) * TN
    y = tile // TILES_W % TILES_H * TH
    x = tile % TILES_W * TW

    acc = tl.zeros((BN, BM) if SWAPPED else (BM, BN), tl.float32)
    cross = acc  # fp16x3: hi*lo + lo*hi, times 2^11 like its acc

    PRECISION: tl.constexpr = "ieee" if TIER == "fp32" else "tf32"  # has a meaning for fp32 operands only
    STEPS: tl.constexpr = 9 * C_IN // BK
    SHARE: tl.constexpr = (STEPS + SPLIT_K - 1) // SPLIT_K
    first = share * SHARE
    # Taps are the inner loop: the nine shifted reads of one channel slab follow each other while it is in L2.
    # (No helper functions in the loop: Triton's interpreter pays a millisecond for each nested call.)
    for k in tl.range(first, tl.minimum(first + SHARE, STEPS), num_stages=STAGES):
        tap = k % 9
        c0 = k // 9 * BK
        r = tap // 3 - 1
        s = tap % 3 - 1
        if BOX:  # noqa: SIM108 - a constant branch; outside the image both views read zeros
            a = x_desc.load([n, y + r, x + s, c0]).reshape(BM, BK)
        else:
            a = x_desc.load([row + r * (W + 1) + s, c0])
        b = w_desc.load([o0, tap * C_IN + c0])
        if TIER == "fp16x3":
            product = tl.dot(b, a.T) if SWAPPED else tl.dot(a, b.T)
            if BOX:
                a_lo = x_lo_desc.load([n, y + r, x + s, c0]).reshape(BM, BK)
            else:
                a_lo = x_lo_desc.load([row + r * (W + 1) + s, c0])
            b_lo = w_lo_desc.load([o0, tap * C_IN + c0])
            if SWAPPED:
                cross = tl.dot(b_lo, a.T, cross)
                cross = tl.dot(b, a_lo.T, cross)
            else:
                cross = tl.dot(a, b_lo.T, cross)
                cross = tl.dot(a_lo, b.T, cross)
            acc += product * LO_SCALE  # outside the tensor cores, which would truncate: see the module
        elif SWAPPED:
            acc = tl.dot(b, a.T, acc, input_precision=PRECISION)
        else:
            acc = tl.dot(a, b.T, acc, input_precision=PRECISION)
    if TIER == "fp16x3":
        acc = (acc + cross) * (1.0 / LO_SCALE)

    i = tl.arange(0, BM)
    if BOX:
        image, line, column = n + i // (TH * TW), y + i // TW % TH, x + i % TW
        p = (image * (H + 1) + line) * (W + 1) + column
        inside = (image < N) & (line < H) & (column < W)
    else:
        p = row + i
        q = p % ((H + 1) * (W + 1))
        inside = (q // (W + 1) < H) & (q % (W + 1) < W)
    if SPLIT_K > 1:
        # From registers: 8 bytes a thread, whole 32-byte sectors. A bulk store would stage 128 KB in shared memory.
        at = (share * ROWS + p).to(tl.int64) * C_OUT
        o = o0 + tl.arange(0, BN)
        if SWAPPED:
            tl.store(partial_ptr + at[None, :] + o[:, None], acc, mask=inside[None, :])
        else:
            tl.store(partial_ptr + at[:, None] + o[None, :], acc, mask=inside[:, None])
    else:
        alpha = tl.load(alpha_ptr + o0 + tl.arange(0, BN))
        beta = tl.load(beta_ptr + o0 + tl.arange(0, BN))
        if SWAPPED:
            out = relu(acc * alpha[:, None] + beta[:, None])
            out = tl.where(inside[None, :], out, 0.0)  # the padding stays zero for the next layer
            if POOL:
                out = max_over(max_over(out.reshape(BN, TN, TH // 2, 2, TW // 2, 2), 5), 3)
                out = out.reshape(BN, BM // 4)
            out = out.T
        else:
            out = relu(acc * alpha[None, :] + beta[None, :])
            out = tl.where(inside[:, None], out, 0.0)
        hi = to_operand(out, TIER, OUT)
        SHRINK: tl.constexpr = 2 if POOL else 1
        store_tile(y_desc, hi, n, y // SHRINK, x // SHRINK, row, o0, TN, TH // SHRINK, TW // SHRINK, BN, BOX)
        if TIER == "fp16x3":
            lo = low_half(out, hi)
            store_tile(y_lo_desc, lo, n, y // SHRINK, x // SHRINK, row, o0, TN, TH // SHRINK, TW // SHRINK, BN, BOX)


def _x_block(launch: Launch) -> list[int]:
    tile = launch.tile
    return [*tile.box, tile.bk] if tile.box else [tile.bm, tile.bk]


def _y_block(launch: Launch) -> list[int]:
    tile = launch.tile
    if tile.box is None:
        return [tile.bm, tile.bn]
    images, rows, columns = tile.box
    shrink = 2 if launch.conv.pooled else 1
    return [images, rows // shrink, columns // shrink, tile.bn]


def signature(launch: Launch, interpreted: bool) -> Signature:
    """Argument types and constants of the launch, as the compiler takes them."""
    if launch.tile.pairs:
        return row_pairs.signature(launch, interpreted)
    conv, tile, tier = launch.conv, launch.tile, launch.tier
    _, out = storage(tier, interpreted)
    two, split = tier.products > 1, tile.split_k > 1
    x, w, y = (tensordesc(out, block) for block in (_x_block(launch), [tile.bn, tile.bk], _y_block(launch)))
    images, rows, columns = tile.box or (1, 1, 1)
    types = {
        "x_desc": x, "x_lo_desc": x if two else None, "w_desc": w, "w_lo_desc": w if two else None,
        "alpha_ptr": None if split else "*fp32", "beta_ptr": None if split else "*fp32",
        "y_desc": None if split else y, "y_lo_desc": y if two and not split else None,
        "partial_ptr": "*fp32" if split else None, "N": "i32", "ROWS": "i32",
    }  # fmt: skip
    constants = dict(
        C_IN=conv.c_in, C_OUT=conv.c_out, H=conv.height, W=conv.width, BM=tile.bm, BN=tile.bn, BK=tile.bk,
        TN=images, TH=rows, TW=columns, BOX=tile.box is not None, SWAPPED=tile.swapped, SPLIT_K=tile.split_k,
        POOL=tiles.pools(conv, tile), STAGES=tile.stages, TIER=tier.name, OUT=out,
    )  # fmt: skip
    integers = {"N": launch.batch, "ROWS": share_rows(conv, launch.batch)}
    return Signature(conv3x3_kernel, types, integers, constants, tile.warps, tile.stages)


def run(launch: Launch, x: Activation, weights: Packed, out: Activation | Tensor) -> None:
    """Run the launch: into an activation, or where K is split into fp32 partials ``[shares * share_rows, C_out]``."""
    conv, tile = launch.conv, launch.tile
    if isinstance(out, Tensor):
        epilogue = [None, None, None, None, out]
    elif tile.pairs:
        return row_pairs.run(launch, x, weights, out)
    else:
        y_desc = descriptors(out.planes if tile.box else out.rows(), _y_block(launch))
        epilogue = [weights.alpha, weights.beta, *y_desc, None]
    x_desc = descriptors(x.planes if tile.box else x.rows(), _x_block(launch))
    w_desc = descriptors(weights.planes, [tile.bn, tile.bk])
    grid = (tiles.pixel_tiles(conv, tile, launch.batch) * (conv.c_out // tile.bn), tile.split_k)
    rows = share_rows(conv, launch.batch)
    return signature(launch, INTERPRETED).run(grid, *x_desc, *w_desc, *epilogue, launch.batch, rows)
