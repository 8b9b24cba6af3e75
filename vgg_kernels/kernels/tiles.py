"""Tiles: how a layer is cut into the pieces that one CTA computes, as one typed value, and what a piece asks for.

Every function here is exact arithmetic on a tile and a shape. Which tile a layer gets is ``cutting``'s to say.
"""

import re
from dataclasses import dataclass
from math import ceil, prod

from ..floor.hardware import Device
from ..workload.network import TAPS, Conv, Layer
from ..workload.precision import Tier

MAX_BOX = 256  # a tensor copy's box has at most 256 elements along each dimension
BARRIER_BYTES = 1024  # shared memory that the pipeline's barriers and its alignment may take


@dataclass(frozen=True)
class Tile:
    """One CTA's share of a layer.

    Attributes:
        bm: pixels of a convolution, or batch columns of a linear layer.
        bn: output channels, or rows of a linear layer's weights.
        bk: depth of one main-loop step (input channels of its taps, or features).
        stages: depth of the copy pipeline.
        warps: warps of one CTA.
        box: (images, rows, columns) of pixels whose product is ``bm``; None for the flat view.
        swapped: weights on the MMA's M and pixels on its N, for narrow layers.
        split_k: CTAs that share one output tile, each with a part of K.
        pairs: a box of row pairs: a step loads each input row once for the two output rows that need it.
    """

    bm: int
    bn: int
    bk: int
    stages: int
    warps: int
    box: tuple[int, int, int] | None = None
    swapped: bool = False
    split_k: int = 1
    pairs: bool = False

    @property
    def view(self) -> str:
        """How the tile sees the activation: "flat" (rows of a matrix), "box" (rectangles of pixels) or "pairs"
        (rectangles whose even and odd rows are two operands)."""
        return "pairs" if self.pairs else "flat" if self.box is None else "box"

    @property
    def taps(self) -> int:
        """Taps of the 3x3 filter that one main-loop step multiplies: a column of three for row pairs, else one."""
        return 3 if self.pairs else 1

    @property
    def accumulators(self) -> int:
        """Sums that one step's products go to: the even and the odd output rows of row pairs, else one."""
        return 2 if self.pairs else 1

    def __str__(self) -> str:
        shape = f"{self.bm}x{self.bn}x{self.bk}"
        box = f" {'x'.join(map(str, self.box))}" if self.box else ""
        return (
            f"{shape} {self.view}{box}{' swapped' if self.swapped else ''}"
            f"{f' /{self.split_k}' if self.split_k > 1 else ''} s{self.stages} w{self.warps}"
        )


def padded_rows(conv: Conv, batch: int) -> int:
    """Rows of the flat view: pixels and the zero row and column that neighbours share."""
    return batch * (conv.height + 1) * (conv.width + 1)


def pixel_tiles(conv: Conv, tile: Tile, batch: int) -> int:
    """Tiles along the pixels of a convolution's output."""
    if tile.box is None:
        return ceil(padded_rows(conv, batch) / tile.bm)
    extents = (batch, conv.height, conv.width)
    return prod(ceil(extent / side) for extent, side in zip(extents, tile.box, strict=True))


def ctas(layer: Layer, tile: Tile, batch: int) -> int:
    """CTAs of the layer's main kernel."""
    if isinstance(layer, Conv):
        return pixel_tiles(layer, tile, batch) * ceil(layer.c_out / tile.bn) * tile.split_k
    return ceil(layer.features_out / tile.bn) * ceil(batch / tile.bm) * tile.split_k


def depth(layer: Layer) -> int:
    """K: the length of the products that a layer sums."""
    return TAPS * layer.c_in if isinstance(layer, Conv) else layer.features_in


def iterations(layer: Layer, tile: Tile) -> int:
    """Main-loop steps of one CTA (of the longest, where split K does not divide evenly)."""
    return ceil(ceil(depth(layer) / (tile.taps * tile.bk)) / tile.split_k)


def pools(conv: Conv, tile: Tile) -> bool:
    """Whether the epilogue takes the maximum of 2x2 windows: where the layer pools, and one CTA holds all of both."""
    return conv.pooled and tile.box is not None and tile.split_k == 1


def pairs_fit(conv: Conv, tile: Tile) -> bool:
    """Whether boxes of row pairs end where the image does: nothing clips their rows at its last one."""
    return tile.box is not None and tile.box[0] == 1 and tile.box[1] % 2 == 0 and conv.height % tile.box[1] == 0


def rows_loaded(tile: Tile) -> tuple[int, int]:
    """Rows of BK operands that one main-loop step loads: of pixels, and of weights.

    A step of row pairs loads four input rows and three rows of taps for its six products; row by row the same tile
    would load six rows of pixels and three of taps for them.
    """
    return (2 * tile.bm if tile.pairs else tile.bm), tile.taps * tile.bn


def load_bytes(tile: Tile, tier: Tier) -> int:
    """Bytes that one main-loop step copies from L2 to shared memory: both operands' tiles."""
    return sum(rows_loaded(tile)) * tile.bk * tier.operand_bytes


def flops(tile: Tile, tier: Tier) -> int:
    """Operations of one main-loop step of one CTA, all of the tier's products included."""
    return 2 * tile.bm * tile.bn * tile.bk * tile.taps * tier.products


def product_sides(tile: Tile) -> tuple[int, int]:
    """M and N of one product as the tensor cores see it."""
    pixels = tile.bm // tile.accumulators
    return (tile.bn, pixels) if tile.swapped else (pixels, tile.bn)


def operand_reads(tile: Tile, tier: Tier, rows: int) -> float:
    """Bytes that one step's products read from shared memory: each reads M once, and N once per ``rows`` rows of M.

    Args:
        tile: how the work is cut.
        tier: precision tier.
        rows: rows of M of one tensor-core instruction, 64 on Hopper.
    """
    m, n = product_sides(tile)
    operand = tier.operand_bytes / (2 if tier.products > 1 else 1)
    return tile.taps * tile.accumulators * tier.products * (m + ceil(m / rows) * n) * tile.bk * operand


def drains(tile: Tile, tier: Tier) -> int:
    """How often one step waits for the tensor cores to run dry.

    Triton lets a product run on behind the step only where no other product of the step adds to the same sum; after
    each of the others it waits (``wgmma.wait_group 0``, seen in the compiled code). Two sums of three products are
    four such waits; fp16x3 waits for its first product, which is added outside, and for the first cross product.
    """
    if tile.pairs:
        return tile.accumulators * (tile.taps - 1)
    return 2 if tier.products > 1 else 0


def outer_sums(tile: Tile, tier: Tier) -> int:
    """Values that one step adds to the accumulator on the FMA units: fp16x3's product of the high halves."""
    return tile.bm * tile.bn if tier.products > 1 else 0


def shared_bytes(tile: Tile, tier: Tier) -> int:
    """Shared memory of one CTA's pipeline, the epilogue's staging reusing it."""
    return tile.stages * load_bytes(tile, tier) + BARRIER_BYTES


def resident(tile: Tile, tier: Tier, device: Device) -> int:
    """CTAs that fit one SM together: shared memory, and 65,536 registers at its accumulators and 40 more a thread."""
    accumulators = 3 if tier.products > 1 else 1  # two sums and the product that is added to one of them
    registers = min(255, accumulators * tile.bm * tile.bn // (32 * tile.warps) + 40)
    by_registers = 65536 // (registers * 32 * tile.warps)
    return max(1, min(device.shared_bytes_per_sm // shared_bytes(tile, tier), by_registers))


def shape_key(layer: Layer) -> str:
    """What a layer's best tile depends on, as one word: "conv 64>128 112x112" or "linear 4096>1000"."""
    if isinstance(layer, Conv):
        pooled = " pooled" if layer.pooled else ""
        return f"conv {layer.c_in}>{layer.c_out} {layer.height}x{layer.width}{pooled}"
    return f"linear {layer.features_in}>{layer.features_out}"


def parse_tile(text: str) -> Tile:
    """The tile that ``str(tile)`` names: "256x64x64 box 1x32x8 swapped s2 w4".

    Raises:
        ValueError: for a text that names no tile.
    """
    found = re.fullmatch(
        r"(\d+)x(\d+)x(\d+) (?:flat|(?:box|(pairs)) (\d+)x(\d+)x(\d+))( swapped)?(?: /(\d+))? s(\d+) w(\d+)", text
    )
    if found is None:
        raise ValueError(f"{text!r} is no tile; accepted: as in '256x64x64 box 1x32x8 swapped s2 w4'")
    bm, bn, bk, pairs, images, rows, columns, swapped, split_k, stages, warps = found.groups()
    box = (int(images), int(rows), int(columns)) if images else None
    shape = int(bm), int(bn), int(bk), int(stages), int(warps)
    return Tile(*shape, box, bool(swapped), int(split_k or 1), bool(pairs))
