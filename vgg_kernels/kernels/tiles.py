"""Tiles: how a layer is cut into the pieces that one CTA computes, as one typed value.

``candidates`` lists the legal tiles of a layer, ``estimate_clocks`` ranks them from first principles (waves, and
the busiest of tensor cores, L2 and shared memory in the main loop), and ``choose`` takes the best. A tile that the
search of ``predict.search`` has found and stored for exactly this (layer, tier, device, batch) goes before it.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import ceil, prod

from ..floor.hardware import Device, device
from ..workload.network import TAPS, Conv, Layer, Linear
from ..workload.precision import Tier

# Bytes that one SM gets from L2 in a clock when all SMs read: 9765 GB/s / 132 SMs / 1.98 GHz on an H200
# (te42kyfo/gpu-benches, gpu-l2-cache/h200.txt, 16.5 MB), and the same from the H100 PCIe's row.
L2_BYTES_PER_CLOCK = 37.0
SHARED_BYTES_PER_CLOCK = 128.0  # 32 banks of 4 bytes
MAX_BOX = 256  # a tensor copy's box has at most 256 elements along each dimension
SHORTEST_COPY = 64  # bytes of channels at one pixel that a copy should fetch at least: two sectors of L2
BARRIER_BYTES = 1024  # shared memory that the pipeline's barriers and its alignment may take
CLOCKS_PER_TILE = 1500  # pipeline fill and drain, about two L2 latencies each; the same for every tile
WGMMA_ROWS = 64  # rows of M of one instruction
DRAIN_CLOCKS = 64  # what a wait for dry tensor cores costs, unless a second CTA feeds them: one m64n128k16 (assumed)


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


def load_bytes(tile: Tile, tier: Tier) -> int:
    """Bytes that one main-loop step copies from L2 to shared memory: both operands' tiles.

    Two output rows need four input rows and three rows of taps, where apart each would load three of both.
    """
    pixels = 2 * tile.bm if tile.pairs else tile.bm
    return (pixels + tile.taps * tile.bn) * tile.bk * tier.operand_bytes


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
    four such waits, fp16x3's sum of two cross products is one.
    """
    if tile.pairs:
        return tile.accumulators * (tile.taps - 1)
    return 1 if tier.products > 1 else 0


def shared_bytes(tile: Tile, tier: Tier) -> int:
    """Shared memory of one CTA's pipeline, the epilogue's staging reusing it."""
    return tile.stages * load_bytes(tile, tier) + BARRIER_BYTES


def resident(tile: Tile, tier: Tier, device: Device) -> int:
    """CTAs that fit one SM together: shared memory, and 65,536 registers at one accumulator and 40 more a thread."""
    accumulators = 2 if tier.products > 1 else 1
    registers = min(255, accumulators * tile.bm * tile.bn // (32 * tile.warps) + 40)
    by_registers = 65536 // (registers * 32 * tile.warps)
    return max(1, min(device.shared_bytes_per_sm // shared_bytes(tile, tier), by_registers))


def estimate_clocks(layer: Layer, tile: Tile, tier: Tier, device: Device, batch: int) -> float:
    """SM clocks of a layer under a tile: full waves of (main loop at its busiest resource + epilogue)."""
    flops_per_clock = device.peaks[tier.rate] / (device.sms * device.clock_hz)
    together = resident(tile, tier, device)
    count = ctas(layer, tile, batch)
    mma = flops(tile, tier) / flops_per_clock + (DRAIN_CLOCKS * drains(tile, tier) if together == 1 else 0)
    l2 = load_bytes(tile, tier) / L2_BYTES_PER_CLOCK
    shared = operand_reads(tile, tier, WGMMA_ROWS) / SHARED_BYTES_PER_CLOCK
    element = 4 if tile.split_k > 1 else tier.operand_bytes
    pooled_here = isinstance(layer, Conv) and pools(layer, tile)
    epilogue = tile.bm * tile.bn * element / (4 if pooled_here else 1) / L2_BYTES_PER_CLOCK
    waves = ceil(count / (device.sms * together))
    per_sm = min(together, ceil(count / device.sms))  # CTAs that share one SM's units in a wave
    hidden = 1 if per_sm == 1 else 0.5  # a neighbour on the SM computes through half of a CTA's fill and epilogue
    main_loop = per_sm * iterations(layer, tile) * max(mma, l2, shared)
    reduce_pass = 0.0
    if isinstance(layer, Conv) and (tile.split_k > 1 or (layer.pooled and not pooled_here)):
        # a second launch reads what the first wrote, at L2's rate over all SMs
        written = padded_rows(layer, batch) * layer.c_out * element * tile.split_k
        reduce_pass = written / (device.sms * L2_BYTES_PER_CLOCK) + CLOCKS_PER_TILE
    return waves * (main_loop + per_sm * hidden * (epilogue + CLOCKS_PER_TILE)) + reduce_pass


def _boxes(bm: int) -> Iterator[tuple[int, int, int]]:
    """Boxes of ``bm`` pixels that hold whole 2x2 pool windows; those that overhang a lot rank themselves last."""
    for images in (1, 2, 4, 8, 16, 32):
        for columns in (8, 16, 32, 64, 128, 4, 2):
            rows = bm // (images * columns)
            if rows >= 2:
                yield images, rows, columns


# (bm, bn, warps, stages, swapped); swapped tiles may be boxes, the others are flat. Without tensor cores registers
# hold both operands, and fp16x3 holds two accumulators, so those tiles are smaller. Flat fp32 tiles spill.
_FMA_SHAPES = ((128, 64, 4, 3, True), (128, 128, 8, 3, True))
_SPLIT_SHAPES = ((128, 128, 8, 3, False), (128, 128, 8, 3, True), (128, 64, 4, 2, True), (128, 64, 4, 3, True))
_MMA_SHAPES = (
    (128, 256, 8, 4, False),
    (256, 128, 8, 4, False),
    (128, 128, 8, 3, False),
    (256, 128, 8, 4, True),
    (128, 256, 8, 4, True),
    (128, 128, 8, 3, True),
    (256, 64, 4, 2, True),
    (256, 64, 8, 2, True),
    (256, 64, 4, 4, True),
    (128, 64, 4, 4, True),
)
_PAIR_SHAPES = ((256, 64, 4, 2), (256, 64, 4, 3), (256, 128, 8, 2), (256, 128, 8, 3), (256, 128, 8, 4))
SPLITS = (1, 2, 3, 4, 6)
SPLIT_BELOW = 32  # image sides that leave too few tiles for the SMs


def _conv_candidates(conv: Conv, tier: Tier, batch: int) -> Iterator[Tile]:
    operand = tier.operand_bytes // (2 if tier.products > 1 else 1)
    shapes = _FMA_SHAPES if tier.rate == "fp32" else _SPLIT_SHAPES if tier.products > 1 else _MMA_SHAPES
    bk = min(128 // operand, conv.c_in)  # one row of a tile fills the widest shared-memory swizzle, 128 bytes
    for bm, bn, warps, stages, swapped in shapes:
        if conv.c_out % bn:
            continue
        boxes = _boxes(bm) if swapped else ()
        for box in boxes if tier.rate == "fp32" else (None, *boxes):
            for split_k in SPLITS if conv.height < SPLIT_BELOW else (1,):
                if split_k <= TAPS * conv.c_in // bk:
                    yield Tile(bm, bn, bk, stages, warps, box, swapped, split_k)
    if tier.products > 1 or tier.rate == "fp32" or conv.height % 2:
        return  # their accumulators leave no registers for a second output row
    for bm, bn, warps, stages in _PAIR_SHAPES:
        for depth in (bk, bk // 2):
            if conv.c_out % bn == 0 and depth * operand >= SHORTEST_COPY:
                for box in _boxes(bm):
                    yield Tile(bm, bn, depth, stages, warps, box, swapped=True, pairs=True)


def _linear_candidates(linear: Linear, tier: Tier, batch: int) -> Iterator[Tile]:
    columns = next(c for c in (16, 32, 64, 128) if c >= min(batch, 128))
    # 256 bytes of each weight row a step: 32 KB of weights for 128 rows; half where FMAs keep them in registers
    bk = 32 if tier.rate == "fp32" else 256 // tier.operand_bytes
    for bn, stages in ((128, 5), (128, 3), (64, 8)):
        for split_k in (1, 2, 4, 8, 16):
            if split_k <= linear.features_in // bk:
                yield Tile(columns, bn, bk, stages, 4, None, True, split_k)


def candidates(layer: Layer, tier: Tier, device: Device, batch: int) -> list[Tile]:
    """The legal tiles of a layer: those whose pipeline fits one CTA's shared memory."""
    tiles = _conv_candidates(layer, tier, batch) if isinstance(layer, Conv) else _linear_candidates(layer, tier, batch)
    return [tile for tile in tiles if shared_bytes(tile, tier) <= device.shared_bytes_per_block]


def shape_key(layer: Layer) -> str:
    """What a layer's best tile depends on, as one word: "conv 64>128 112x112" or "linear 4096>1000"."""
    if isinstance(layer, Conv):
        pooled = " pooled" if layer.pooled else ""
        return f"conv {layer.c_in}>{layer.c_out} {layer.height}x{layer.width}{pooled}"
    return f"linear {layer.features_in}>{layer.features_out}"


@cache
def stored() -> dict[tuple[str, str, str, int], Tile]:
    """The tiles that ``predict.search`` has found, by (shape key, tier, device, batch)."""
    table = files(__package__).joinpath("tiles.csv")
    if not table.is_file():
        return {}
    with table.open(newline="") as lines:
        return {
            (row["shape"], row["tier"], row["device"], int(row["batch"])): parse_tile(row["tile"])
            for row in csv.DictReader(lines)
        }


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


@cache
def choose(layer: Layer, tier: Tier, device_key: str, batch: int) -> Tile:
    """The tile that this layer runs with: the stored one, else the first of the ranking.

    Args:
        layer: any layer but the stem (which has its own fixed tile).
        tier: precision tier.
        device_key: a key of ``floor.hardware.devices``.
        batch: images, at least 1.
    """
    found = stored().get((shape_key(layer), tier.name, device_key, batch))
    if found is not None:
        return found
    card = device(device_key)

    def rank(tile: Tile) -> tuple[float, int, int]:  # of equals: fewer waves, then more bytes in flight on the card
        count, slots = ctas(layer, tile, batch), card.sms * resident(tile, tier, card)
        in_flight = min(count, slots) * load_bytes(tile, tier) * (tile.stages - 1)
        return estimate_clocks(layer, tile, tier, card, batch), ceil(count / slots), -in_flight

    legal = candidates(layer, tier, card, batch)
    if not legal:
        raise ValueError(f"no tile of {layer.name} in {tier.name} fits the shared memory of {card.title}")
    return min(legal, key=rank)
