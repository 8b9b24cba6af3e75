"""Cutting: the legal tiles of a layer, an estimate that ranks them, and the one that the layer runs with.

``candidates`` lists the legal tiles, ``estimate_clocks`` ranks them from first principles (waves, and the busiest of
tensor cores, L2 and shared memory in the main loop), and ``select_tile`` takes the best. A tile that the search of
``predict.search`` has found and stored for exactly this (layer, tier, device, batch) goes before it.
"""

import csv
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from math import ceil

from ..floor.hardware import Device, device
from ..workload.network import TAPS, Conv, Layer, Linear
from ..workload.precision import Tier
from .tiles import (
    Tile,
    ctas,
    drains,
    flops,
    iterations,
    load_bytes,
    operand_reads,
    outer_sums,
    padded_rows,
    pairs_fit,
    parse_tile,
    pools,
    resident,
    shape_key,
    shared_bytes,
)

# Bytes that one SM gets from L2 in a clock when all SMs read: 9675 GB/s / 132 SMs / 1.98 GHz on an H200
# (te42kyfo/gpu-benches, gpu-l2-cache/h200.txt, 25.6 MB). The H100 PCIe's row gives 34.
L2_BYTES_PER_CLOCK = 37.0
LATENCY_CLOCKS = 265.0  # of a read from L2 (the same source, gpu-latency/h100_pcie.txt, 1 MB)
SHARED_BYTES_PER_CLOCK = 128.0  # 32 banks of 4 bytes
SHORTEST_COPY = 64  # bytes of channels at one pixel that a copy should fetch at least: two sectors of L2
CLOCKS_PER_TILE = 1500  # pipeline fill and drain, about two L2 latencies each; the same for every tile
FMA_LANES = 128  # of an SM
WGMMA_ROWS = 64  # rows of M of one instruction
DRAIN_CLOCKS = 64  # what a wait for dry tensor cores costs, unless a second CTA feeds them: one m64n128k16 (assumed)


def estimate_clocks(layer: Layer, tile: Tile, tier: Tier, device: Device, batch: int) -> float:
    """SM clocks of a layer under a tile: full waves of (main loop at its busiest resource + epilogue).

    One CTA's copies run ``stages - 1`` steps ahead, and are asked for when ``drains`` of a step's products are done.
    """
    flops_per_clock = device.peaks[tier.rate] / (device.sms * device.clock_hz)
    together = resident(tile, tier, device)
    count = ctas(layer, tile, batch)
    waiting = DRAIN_CLOCKS * drains(tile, tier) + outer_sums(tile, tier) / FMA_LANES
    mma = flops(tile, tier) / flops_per_clock + (waiting if together == 1 else 0)
    l2 = load_bytes(tile, tier) / L2_BYTES_PER_CLOCK
    late = drains(tile, tier) / (drains(tile, tier) + 1) * flops(tile, tier) / flops_per_clock
    chain = (late + LATENCY_CLOCKS + l2) / max(1, tile.stages - 1)
    shared = operand_reads(tile, tier, WGMMA_ROWS) / SHARED_BYTES_PER_CLOCK
    element = 4 if tile.split_k > 1 else tier.operand_bytes
    pooled_here = isinstance(layer, Conv) and pools(layer, tile)
    epilogue = tile.bm * tile.bn * element / (4 if pooled_here else 1) / L2_BYTES_PER_CLOCK
    waves = ceil(count / (device.sms * together))
    per_sm = min(together, ceil(count / device.sms))  # CTAs that share one SM's units in a wave
    hidden = 1 if per_sm == 1 else 0.5  # a neighbour on the SM computes through half of a CTA's fill and epilogue
    main_loop = iterations(layer, tile) * max(per_sm * mma, per_sm * l2, per_sm * shared, chain)
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
        splits = SPLITS if conv.height < SPLIT_BELOW else (1,)
        for box in boxes if tier.rate == "fp32" else (None, *boxes):
            for split_k in splits if box is None or tier.rate == "fp32" else (1,):
                if split_k <= TAPS * conv.c_in // bk:
                    yield Tile(bm, bn, bk, stages, warps, box, swapped, split_k)
    if tier.products > 1 or tier.rate == "fp32":
        return  # their accumulators leave no registers for a second output row
    for bm, bn, warps, stages in _PAIR_SHAPES:
        for depth in (bk, bk // 2):
            if conv.c_out % bn == 0 and depth * operand >= SHORTEST_COPY:
                pairs = (Tile(bm, bn, depth, stages, warps, box, swapped=True, pairs=True) for box in _boxes(bm))
                yield from (tile for tile in pairs if pairs_fit(conv, tile))


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


@cache
def stored() -> dict[tuple[str, str, str, int], Tile]:
    """The tiles that ``predict.search`` has found, by (shape key, tier, device, batch)."""
    table = files(__package__).joinpath("tuned_tiles.csv")
    if not table.is_file():
        return {}
    with table.open(newline="") as lines:
        return {
            (row["shape"], row["tier"], row["device"], int(row["batch"])): parse_tile(row["tile"])
            for row in csv.DictReader(lines)
        }


@cache
def select_tile(layer: Layer, tier: Tier, device_key: str, batch: int) -> Tile:
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
