"""A batch as a straight line of kernel launches: the one list that is run, inspected and predicted.

Stem, convolutions (a second, reducing launch behind those that split K or cannot pool in their epilogue), classifier.
Every quantity here is exact arithmetic on shapes; no time and no measurement enters.
"""

from dataclasses import dataclass, replace
from math import ceil

from ..floor.hardware import Device
from ..floor.hardware import device as find_device
from ..workload.network import Conv, Layer, Linear, Network
from ..workload.precision import Tier
from ..workload.precision import tier as find_tier
from . import tiles
from .tile_selection import select_tile
from .tiles import Tile

STEM_DEPTH = 32  # 27 products of the first layer, padded to the MMA's depth
STEM_TILE = Tile(bm=128, bn=64, bk=STEM_DEPTH, stages=1, warps=4, swapped=True)
REDUCE_TILE = Tile(bm=16, bn=128, bk=1, stages=1, warps=4)
MAX_ROWS = 2**31 - 1  # tensor copies address rows by 32-bit coordinates


@dataclass(frozen=True)
class Launch:
    """One kernel launch, with the work of one CTA and the compulsory traffic of all.

    Attributes:
        layer: the layer's name.
        kernel: "stem", "conv3x3", "reduce", "maxpool" or "linear".
        shape: the layer's row of the table.
        tier: precision tier.
        batch: images.
        tile: how the work is cut.
        ctas: CTAs of the grid.
        iterations: main-loop steps of one CTA.
        flops_per_iteration: of one CTA's MMA in one step: padding and all of the tier's products included.
        load_bytes_per_iteration: L2 to shared memory (or registers), one CTA, one step.
        store_bytes: what one CTA's epilogue writes.
        hbm_read_bytes: bytes of the operands that the launch must read at least once.
        hbm_write_bytes: bytes of the result.
        pad: 1 where a convolution's output keeps its zero row and column, 0 where the classifier reads it.
    """

    layer: str
    kernel: str
    shape: Layer
    tier: Tier
    batch: int
    tile: Tile
    ctas: int
    iterations: int
    flops_per_iteration: int
    load_bytes_per_iteration: int
    store_bytes: int
    hbm_read_bytes: int
    hbm_write_bytes: int
    pad: int = 1

    @property
    def conv(self) -> Conv:
        """The shape of a launch that belongs to a convolution: every kernel but "linear"."""
        assert isinstance(self.shape, Conv)
        return self.shape

    @property
    def linear(self) -> Linear:
        """The shape of a "linear" launch."""
        assert isinstance(self.shape, Linear)
        return self.shape

    @property
    def rate(self) -> str:
        """The data-sheet rate that bounds its arithmetic."""
        return self.tier.rate

    def l2_bytes_per_clock(self, card: Device) -> float | None:
        """Bytes a clock that one SM asks of L2 while its arithmetic runs at the card's peak; None without arithmetic.

        A BM x BN tile of operands of s bytes asks ``flops_per_clock * s / (2 * products) * (1/BM + 1/BN)``; row pairs,
        which load four rows of pixels and three of taps for six products, have ``2/3 / BN + 1/BM`` in its place.
        """
        if not self.flops_per_iteration:
            return None
        flops_per_clock = card.peaks[self.rate] / (card.sms * card.clock_hz)
        return self.load_bytes_per_iteration * flops_per_clock / self.flops_per_iteration

    @property
    def bytes_in_flight(self) -> int:
        """Bytes that one CTA's pipeline can have under way while one stage is being consumed."""
        return self.load_bytes_per_iteration * max(1, self.tile.stages - 1)


def activation_bytes(conv: Conv, tier: Tier, batch: int) -> int:
    """Bytes of a convolution's input in the padded layout ``[N, H+1, W+1, C_in]``."""
    return tiles.padded_rows(conv, batch) * conv.c_in * tier.operand_bytes


def share_rows(conv: Conv, batch: int) -> int:
    """Rows of one split-K share's fp32 partials: the padded rows in whole tiles of any size."""
    return ceil(tiles.padded_rows(conv, batch) / tiles.MAX_BOX) * tiles.MAX_BOX


def output_bytes(conv: Conv, tier: Tier, batch: int) -> int:
    """Bytes of its output, pooled where it pools, in the layout that the next layer reads (padding not counted)."""
    channels, height, width = conv.output_shape
    return batch * channels * height * width * tier.operand_bytes


def _stem(conv: Conv, tier: Tier, batch: int) -> Launch:
    tile = STEM_TILE
    return Launch(
        conv.name, "stem", conv, tier, batch, tile,
        ctas=ceil(tiles.padded_rows(conv, batch) / tile.bm),
        iterations=1,
        flops_per_iteration=2 * tile.bm * tile.bn * STEM_DEPTH * tier.products,
        load_bytes_per_iteration=tile.bm * STEM_DEPTH * 4 + tile.bn * STEM_DEPTH * tier.operand_bytes,
        store_bytes=tile.bm * tile.bn * tier.operand_bytes,
        hbm_read_bytes=4 * batch * conv.c_in * conv.height * conv.width,
        hbm_write_bytes=tiles.padded_rows(conv, batch) * conv.c_out * tier.operand_bytes,
    )  # fmt: skip


def conv_launches(conv: Conv, tier: Tier, batch: int, tile: Tile, pad: int) -> list[Launch]:
    """A convolution under a tile: one launch, and a second that reduces where K is split or the tile cannot pool.

    Raises:
        ValueError: for a tile of row pairs that would reach into the next image, or that registers cannot hold.
    """
    if tile.pairs and (tier.products > 1 or not tiles.pairs_fit(conv, tile)):
        raise ValueError(
            f"{tile} takes rows in pairs, and {conv.name} of {conv.height} rows in {tier.name} cannot have it; "
            "accepted: one image, an even number of rows that divides the height, and a tier of one product"
        )
    pools_here = tiles.pools(conv, tile)
    second = tile.split_k > 1 or (conv.pooled and not pools_here)
    element = 4 if tile.split_k > 1 else tier.operand_bytes
    between = tiles.padded_rows(conv, batch) * conv.c_out * element * tile.split_k
    main = Launch(
        conv.name, "conv3x3", conv, tier, batch, tile,
        ctas=tiles.ctas(conv, tile, batch),
        iterations=tiles.iterations(conv, tile),
        flops_per_iteration=tiles.flops(tile, tier),
        load_bytes_per_iteration=tiles.load_bytes(tile, tier),
        store_bytes=tile.bm * tile.bn * element // (4 if pools_here else 1),
        hbm_read_bytes=activation_bytes(conv, tier, batch) + conv.parameters * tier.operand_bytes,
        hbm_write_bytes=between if second else output_bytes(conv, tier, batch),
        pad=pad,
    )  # fmt: skip
    return [main, _reduce(conv, tier, batch, tile.split_k, pad, between)] if second else [main]


def _reduce(conv: Conv, tier: Tier, batch: int, shares: int, pad: int, between: int) -> Launch:
    tile = replace(REDUCE_TILE, bn=min(REDUCE_TILE.bn, conv.c_out), split_k=shares)
    _, height, width = conv.output_shape
    rows = batch * (height + pad) * (width + pad)
    element = 4 if shares > 1 else tier.operand_bytes
    window = 4 if conv.pooled else 1
    return Launch(
        conv.name, "reduce" if shares > 1 else "maxpool", conv, tier, batch, tile,
        ctas=ceil(rows / tile.bm) * ceil(conv.c_out / tile.bn),
        iterations=1,
        flops_per_iteration=0,
        load_bytes_per_iteration=tile.bm * tile.bn * element * shares * window,
        store_bytes=tile.bm * tile.bn * tier.operand_bytes,
        hbm_read_bytes=between,
        hbm_write_bytes=output_bytes(conv, tier, batch),
        pad=pad,
    )  # fmt: skip


def linear_launch(linear: Linear, tier: Tier, batch: int, tile: Tile) -> Launch:
    """A linear layer under a tile."""
    last = not linear.relu
    return Launch(
        linear.name, "linear", linear, tier, batch, tile,
        ctas=tiles.ctas(linear, tile, batch),
        iterations=tiles.iterations(linear, tile),
        flops_per_iteration=tiles.flops(tile, tier),
        load_bytes_per_iteration=tiles.load_bytes(tile, tier),
        store_bytes=tile.bm * tile.bn * 4,
        hbm_read_bytes=(linear.parameters + batch * linear.features_in) * tier.operand_bytes,
        hbm_write_bytes=batch * linear.features_out * (4 if last else tier.operand_bytes),
    )  # fmt: skip


def plan(network: Network, tier_name: str, batch: int, device: str = "h100_sxm") -> tuple[Launch, ...]:
    """The launches of one forward pass, in order.

    Args:
        network: the layer table.
        tier_name: precision tier.
        batch: images.
        device: key of the card whose SM count and rates choose the tiles.

    Raises:
        UnknownName: for a tier or device that is not in the tables.
        ValueError: for a batch below 1, or one whose rows pass the 32-bit coordinates of tensor copies.
    """
    tier = find_tier(tier_name)
    find_device(device)
    if batch < 1:
        raise ValueError(f"batch {batch} is not accepted: at least 1 is")
    rows = tiles.padded_rows(network.convs[0], batch)
    if rows > MAX_ROWS:
        raise ValueError(
            f"batch {batch} has {rows} rows of pixels, past the {MAX_ROWS} that 32-bit tensor-copy coordinates reach; "
            f"at most {MAX_ROWS // tiles.padded_rows(network.convs[0], 1)} images at once"
        )
    stem, *convs = network.convs
    launches = [_stem(stem, tier, batch)]
    if stem.pooled:  # vgg11 pools behind its stem
        launches.append(_reduce(stem, tier, batch, 1, 1, launches[0].hbm_write_bytes))
    for conv in convs:
        tile = select_tile(conv, tier, device, batch)
        launches += conv_launches(conv, tier, batch, tile, pad=0 if conv is convs[-1] else 1)
    for linear in network.linears:
        launches.append(linear_launch(linear, tier, batch, select_tile(linear, tier, device, batch)))
    return tuple(launches)
