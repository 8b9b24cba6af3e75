"""Rows that explain the kernels: shifts of the nine taps, waves, what L2 is asked, what row pairs and epilogue save."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from math import ceil

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from ..floor.hardware import device as find_device
from ..kernels import conv3x3, reduce
from ..kernels.layout import Activation, encode, pack, weight_matrix
from ..kernels.plan import conv_launches, plan, share_rows
from ..kernels.tile_selection import L2_BYTES_PER_CLOCK
from ..kernels.tiles import Tile, drains
from ..predict.constants import constants
from ..predict.work import occupancy
from ..workload.network import Conv, Network
from ..workload.precision import tier as find_tier

PRODUCTS = ("stem", "conv3x3", "linear")


def tap_rows(height: int, width: int, at: tuple[int, int]) -> pd.DataFrame:
    """The nine taps of one output pixel in the padded layout: how many rows of the matrix each lies away, and where.

    Args:
        height: of the image, in pixels.
        width: of the image, in pixels.
        at: (y, x) of the output pixel.

    Returns:
        tap, r, s, shift (rows), row (of the matrix of the second of three images; may lie in a neighbour), pixel
        (False on the shared zero row and column).
    """
    images = (height + 1) * (width + 1)
    y, x = at
    centre = images + y * (width + 1) + x
    rows = []
    for tap, (r, s) in enumerate(product(range(3), repeat=2)):
        shift = (r - 1) * (width + 1) + (s - 1)
        row = centre + shift
        pixel = row % images // (width + 1) < height and row % (width + 1) < width
        rows.append({"tap": tap, "r": r, "s": s, "shift": shift, "row": row, "pixel": pixel})
    return pd.DataFrame(rows)


def wave_rows(network: Network, tier: str, device: str, batch: int, facts: pd.DataFrame | None) -> pd.DataFrame:
    """Each layer's main kernel as waves: derived from the plan, with the compiled kernel's occupancy where recorded.

    Returns:
        layer, tile, view, ctas, resident (CTAs an SM holds), slots (CTAs that the card holds), waves (a fraction),
        last_wave (part of the last wave's slots that is used), evidence.
    """
    card = find_device(device)
    compiled = {} if facts is None else {(f.layer, f.kernel): f for f in facts.itertuples()}
    rows = []
    for launch in plan(network, tier, batch, device):
        if launch.kernel not in PRODUCTS:
            continue
        fact = compiled.get((launch.layer, launch.kernel))
        resident = occupancy(fact.shared_bytes, fact.registers, launch.tile.warps, card) if fact else 1
        slots = resident * card.sms
        waves = launch.ctas / slots
        rows.append(
            {
                "layer": launch.layer,
                "tile": str(launch.tile),
                "view": launch.tile.view,
                "ctas": launch.ctas,
                "resident": resident,
                "slots": slots,
                "waves": waves,
                "last_wave": 1 - (ceil(waves) - waves),
                "device": device,
                "tier": tier,
                "batch": batch,
                "evidence": "derived",
            }
        )
    return pd.DataFrame(rows)


def l2_card() -> str:
    """Title of the card whose L2 was measured: the one that ``L2_BYTES_PER_CLOCK`` is read off."""
    return find_device(constants()["l2_bytes_per_clock"].taken_from.split()[0]).title


def l2_rows(network: Network, tiers: Iterable[str], device: str, batch: int) -> pd.DataFrame:
    """What one SM asks of L2 at the arithmetic peak, by tier and layer, beside what L2 gives.

    Returns:
        tier, layer, kernel, tile, asked (bytes a clock), given (bytes a clock when all SMs read), given_by (the card
        it was measured on), fed (the part of the peak at which L2 keeps up, at most 1), in_flight_kb (of one CTA),
        device, batch, evidence.
    """
    card = find_device(device)
    return pd.DataFrame(
        [
            {
                "tier": tier,
                "layer": launch.layer,
                "kernel": launch.kernel,
                "tile": str(launch.tile),
                "asked": asked,
                "given": L2_BYTES_PER_CLOCK,
                "given_by": l2_card(),
                "fed": min(1.0, L2_BYTES_PER_CLOCK / asked),
                "in_flight_kb": launch.bytes_in_flight / 1024,
                "device": device,
                "batch": batch,
                "evidence": "derived",
            }
            for tier in tiers
            for launch in plan(network, tier, batch, device)
            if launch.kernel == "conv3x3" and (asked := launch.l2_bytes_per_clock(card))
        ]
    )


def pair_rows(network: Network, tier: str, device: str, batch: int) -> pd.DataFrame:
    """What row pairs save: bytes a clock asked of L2 by the layers that use them, and by the same tile row by row.

    Returns:
        layer, tile, row_by_row, in_pairs, given (bytes a clock), given_by (the card that was measured), drains (waits
        of one step), device, tier, batch, evidence.
    """
    card, precision = find_device(device), find_tier(tier)
    rows = []
    for launch in plan(network, tier, batch, device):
        if not launch.tile.pairs:
            continue
        alone = conv_launches(launch.conv, precision, batch, replace(launch.tile, pairs=False), launch.pad)[0]
        rows.append(
            {
                "layer": launch.layer,
                "tile": str(launch.tile),
                "row_by_row": alone.l2_bytes_per_clock(card),
                "in_pairs": launch.l2_bytes_per_clock(card),
                "given": L2_BYTES_PER_CLOCK,
                "given_by": l2_card(),
                "drains": drains(launch.tile, precision),
            }
        )
    return pd.DataFrame(rows).assign(device=device, tier=tier, batch=batch, evidence="derived")


def epilogue_rows(network: Network, tier: str, device: str, batch: int) -> pd.DataFrame:
    """MB that pass between SMs and memory behind each convolution's products: as passes of their own, and as ours.

    As passes: the product's result is written, read and written by bias and ReLU, and where the layer pools read and
    written once more. Ours: what the plan's launches write, and what a second launch reads.
    """
    launches = plan(network, tier, batch, device)
    rows = []
    for conv in network.convs:
        whole = batch * conv.c_out * conv.height * conv.width * find_tier(tier).operand_bytes
        passes = 3 * whole + (whole + whole // 4 if conv.pooled else 0)
        mine = [launch for launch in launches if launch.layer == conv.name]
        ours = sum(launch.hbm_write_bytes for launch in mine) + sum(launch.hbm_read_bytes for launch in mine[1:])
        alone = "bias, ReLU, pool" if conv.pooled else "bias, ReLU"
        does = f"second launch: {mine[1].kernel}" if len(mine) > 1 else alone
        rows.append({"layer": conv.name, "passes_mb": passes / 1e6, "ours_mb": ours / 1e6, "where": does})
    return pd.DataFrame(rows).assign(device=device, tier=tier, batch=batch, evidence="derived")


EXAMPLE = Conv("example", "example", 32, 32, 8, 10, True)
EXAMPLE_TILES = (
    Tile(64, 16, 16, 2, 4),
    Tile(64, 16, 16, 2, 4, swapped=True),
    Tile(64, 32, 16, 2, 4, split_k=2),
    Tile(32, 16, 16, 2, 4, (1, 4, 8), True),
    Tile(64, 16, 16, 2, 4, (1, 4, 16), True, pairs=True),
)


def live_rows(tiers: Iterable[str], batch: int = 2, conv: Conv = EXAMPLE) -> pd.DataFrame:
    """Run one small convolution now, under each kind of tile and in each tier, and compare it with float64.

    On a machine without a GPU Triton's interpreter runs it. Everything that a kernel might leave unwritten is NaN
    beforehand.

    Returns:
        tier, tile, launches, error (of the norm), unit_roundoff.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch, conv.c_in, conv.height, conv.width, generator=generator).to(device)
    weight = torch.randn(conv.c_out, conv.c_in, 3, 3, generator=generator).to(device) / (9 * conv.c_in) ** 0.5
    bias = torch.randn(conv.c_out, generator=generator).to(device)
    want = F.max_pool2d(F.relu(F.conv2d(x.double(), weight.double(), bias.double(), padding=1)), 2)
    rows = []
    for name, tile in product(tiers, EXAMPLE_TILES):
        tier = find_tier(name)
        if tile.pairs and tier.products > 1:
            continue  # its two sums leave no registers for a second row
        packed = pack(weight_matrix(weight, conv), bias, tier, 0, 0)
        channels, height, width = conv.output_shape
        source = Activation.empty((batch, conv.height, conv.width, conv.c_in), tier, device, 1, 0)
        for plane, part in zip(source.planes, encode(x.permute(0, 2, 3, 1), tier), strict=True):
            plane[:, : conv.height, : conv.width] = part
        whole = Activation.empty((batch, conv.height, conv.width, channels), tier, device, 1, 0)
        out = Activation.empty((batch, height, width, channels), tier, device, 1, 0)
        for plane in (*whole.planes, *out.planes):
            plane.fill_(float("nan"))
        launches = conv_launches(conv, tier, batch, tile, pad=1)
        shares = torch.full((tile.split_k * share_rows(conv, batch), channels), float("nan"), device=device)
        between = shares if tile.split_k > 1 else whole
        conv3x3.run(launches[0], source, packed, between if launches[1:] else out)
        for launch in launches[1:]:
            reduce.run(launch, between, packed, out)
        error = float((out.values() - want).norm() / want.norm())
        rows.append(
            {
                "tier": name,
                "tile": str(tile),
                "launches": len(launches),
                "error": error,
                "unit_roundoff": tier.unit_roundoff,
            }
        )
    return pd.DataFrame(rows)


def compiled_summary(facts: pd.DataFrame) -> pd.DataFrame:
    """By architecture and tier: launches, those with the tensor core's own instructions, bulk copies, spills, stack."""
    products = facts[facts["kernel"].isin(PRODUCTS)]
    grouped = products.groupby(["arch", "tier"], sort=False)
    return grouped.agg(
        products=("layer", "size"),
        own_mma=("mma_count", lambda n: int((n > 0).sum())),
        older_mma=("mma_sync_count", lambda n: int((n > 0).sum())),
        bulk_loads=("bulk_loads", lambda n: int((n > 0).sum())),
        spills=("spills", lambda n: int((n > 0).sum())),
        stack=("stack_bytes", lambda n: int((n > 0).sum())),
        registers_most=("registers", "max"),
        shared_kb_most=("shared_bytes", lambda n: int(np.ceil(n.max() / 1024))),
    ).reset_index()
