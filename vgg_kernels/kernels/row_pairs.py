"""row_pairs: the convolution of ``conv3x3`` for large images, two output rows at once from four input rows.

    y[2i]   = relu(beta + alpha * (w[0] . x[2i-1] + w[1] . x[2i]   + w[2] . x[2i+1]))
    y[2i+1] = relu(beta + alpha * (w[0] . x[2i]   + w[1] . x[2i+1] + w[2] . x[2i+2]))

where w[r] . x is the sum over the filter's columns and the input channels. One output row at a time loads three input
rows and three rows of taps for each; two together load four and three. A tile is a box of pixels, split into its even
and its odd rows, each with its own accumulator, so a step of BM pixels x BN channels x BK does 3 taps' work on
(2*BM + 3*BN)*BK operands where single taps would fetch 3*(BM + BN)*BK. Two numbers bound it, as they bound
``conv3x3``: operations over the peak, and bytes from L2. At fp16's 4096 operations a clock conv1_2, with 64 channels
the worst of VGG19, asks L2 for 59 B/clk an SM instead of 80, and a tile of 128 channels for 37 instead of 48.

The price: of a step's six products only the last of either sum may run on behind the step; Triton waits for the
tensor cores to drain after each of the other four. So it pays where bytes bind, or where a second CTA on the SM fills
the gaps. Every other row is one operand because the descriptor says so: ``[N*(H+1)/2, 2, W+1, C]``, all rows of all
images in pairs, a box one row of each. As H+1 is odd, an image's even rows are the pairs' first or second rows in turn.
The rows above and below an image are zeros: those that neighbours share, or outside. A box must not reach into the
next image, since its rows could be written there: boxes have one image, and a number of row pairs that divides it.
"""

from .backend import INTERPRETED  # isort: skip  (before triton)

import triton
import triton.language as tl

from . import tiles
from .layout import Activation, Packed, descriptors
from .numerics import max_over, relu, storage, to_operand
from .plan import Launch
from .signature import Signature, tensordesc, wait_for_launch_before


@triton.jit
def row_pairs_kernel(
    x_desc, w_desc, alpha_ptr, beta_ptr, y_desc,
    C_IN: tl.constexpr, C_OUT: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, TP: tl.constexpr, TW: tl.constexpr,
    POOL: tl.constexpr, STAGES: tl.constexpr, TIER: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    """TP row pairs x TW columns of one image, BN channels; see the module."""
    wait_for_launch_before()
    PIXELS: tl.constexpr = TP * TW  # of the even rows, and as many of the odd ones
    # Neighbouring CTAs share their pixels and differ in channels, so a wave reads each activation from L2 once.
    TILES_O: tl.constexpr = C_OUT // BN
    tile = tl.program_id(0) // TILES_O
    o0 = (tl.program_id(0) % TILES_O) * BN
    TILES_W: tl.constexpr = (W + TW - 1) // TW
    TILES_Y: tl.constexpr = H // (2 * TP)
    n = tile // (TILES_Y * TILES_W)
    y = tile // TILES_W % TILES_Y * 2 * TP
    x = tile % TILES_W * TW
    row = n * (H + 1) + y  # the first, of all images' rows; row r is number r % 2 of pair r // 2, and -1 of pair -1

    even = tl.zeros((BN, PIXELS), tl.float32)
    odd = even
    PRECISION: tl.constexpr = "tf32"  # has a meaning for fp32 operands only
    # The filter's columns are the inner loop: three reads of one channel slab follow each other while it is in L2.
    for k in tl.range(3 * C_IN // BK, num_stages=STAGES):
        s = k % 3
        c0 = k // 3 * BK
        w0 = w_desc.load([o0, s * C_IN + c0])
        w1 = w_desc.load([o0, (3 + s) * C_IN + c0])
        w2 = w_desc.load([o0, (6 + s) * C_IN + c0])
        above = x_desc.load([(row + 1) // 2 - 1, (row + 1) % 2, x + s - 1, c0]).reshape(PIXELS, BK)
        even = tl.dot(w0, above.T, even, input_precision=PRECISION)
        first = x_desc.load([row // 2, row % 2, x + s - 1, c0]).reshape(PIXELS, BK)
        even = tl.dot(w1, first.T, even, input_precision=PRECISION)
        odd = tl.dot(w0, first.T, odd, input_precision=PRECISION)
        second = x_desc.load([(row + 1) // 2, (row + 1) % 2, x + s - 1, c0]).reshape(PIXELS, BK)
        even = tl.dot(w2, second.T, even, input_precision=PRECISION)
        odd = tl.dot(w1, second.T, odd, input_precision=PRECISION)
        below = x_desc.load([row // 2 + 1, row % 2, x + s - 1, c0]).reshape(PIXELS, BK)
        odd = tl.dot(w2, below.T, odd, input_precision=PRECISION)

    inside = x + tl.arange(0, PIXELS) % TW < W
    alpha = tl.load(alpha_ptr + o0 + tl.arange(0, BN))[:, None]
    beta = tl.load(beta_ptr + o0 + tl.arange(0, BN))[:, None]
    even = tl.where(inside[None, :], relu(even * alpha + beta), 0.0)  # the padding stays zero for the next layer
    odd = tl.where(inside[None, :], relu(odd * alpha + beta), 0.0)
    if POOL:
        # a window's upper and lower pixels lie in one place of the two sums, its left and right side by side
        out = max_over(tl.join(even, odd), 2)
        out = max_over(out.reshape(BN, PIXELS // 2, 2), 2)
        y_desc.store([n, y // 2, x // 2, o0], to_operand(out.T, TIER, OUT).reshape(1, TP, TW // 2, BN))
    else:
        y_desc.store([row // 2, row % 2, x, o0], to_operand(even.T, TIER, OUT).reshape(TP, 1, TW, BN))
        y_desc.store([(row + 1) // 2, (row + 1) % 2, x, o0], to_operand(odd.T, TIER, OUT).reshape(TP, 1, TW, BN))


def _sides(launch: Launch) -> tuple[int, int]:
    _, rows, columns = launch.tile.box or (1, 2, 1)
    return rows // 2, columns


def _x_block(launch: Launch) -> list[int]:
    pairs, columns = _sides(launch)
    return [pairs, 1, columns, launch.tile.bk]


def _y_block(launch: Launch) -> list[int]:
    pairs, columns = _sides(launch)
    return [*([1, pairs, columns // 2] if launch.conv.pooled else [pairs, 1, columns]), launch.tile.bn]


def signature(launch: Launch, interpreted: bool) -> Signature:
    """Argument types and constants of the launch, as the compiler takes them."""
    conv, tile, tier = launch.conv, launch.tile, launch.tier
    _, out = storage(tier, interpreted)
    pairs, columns = _sides(launch)
    types = {
        "x_desc": tensordesc(out, _x_block(launch)), "w_desc": tensordesc(out, [tile.bn, tile.bk]),
        "alpha_ptr": "*fp32", "beta_ptr": "*fp32", "y_desc": tensordesc(out, _y_block(launch)),
    }  # fmt: skip
    constants = dict(
        C_IN=conv.c_in, C_OUT=conv.c_out, H=conv.height, W=conv.width, BN=tile.bn, BK=tile.bk,
        TP=pairs, TW=columns, POOL=conv.pooled, STAGES=tile.stages, TIER=tier.name, OUT=out,
    )  # fmt: skip
    return Signature(row_pairs_kernel, types, {}, constants, tile.warps, tile.stages)


def run(launch: Launch, x: Activation, weights: Packed, y: Activation) -> None:
    """Run the launch: from ``x`` into ``y``, each in the padded layout of its own size."""
    conv, tile = launch.conv, launch.tile
    (x_desc, _), (w_desc, _), (y_desc, _) = (
        descriptors(x.row_pairs(), _x_block(launch)),
        descriptors(weights.planes, [tile.bn, tile.bk]),
        descriptors(y.planes if conv.pooled else y.row_pairs(), _y_block(launch)),
    )
    grid = (tiles.pixel_tiles(conv, tile, launch.batch) * (conv.c_out // tile.bn),)
    signature(launch, INTERPRETED).run(grid, x_desc, w_desc, weights.alpha, weights.beta, y_desc)
