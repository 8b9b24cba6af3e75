"""Figures of the kernels: nine shifts of one matrix, waves of CTAs, what L2 is asked, what the epilogue saves."""

from math import ceil

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...floor.hardware import device as find_device
from ..style import PALETTE, bar

GREY = "#555555"
PADDING = "#E4E4E4"
CENTRE, TAP = "#D55E00", "#56B4E9"


def _where(rows: pd.DataFrame, tier: bool = True) -> str:
    title = find_device(rows["device"].iloc[0]).title
    precision = f", {rows['tier'].iloc[0]}" if tier else ""
    return f"{title}{precision}, batch {rows['batch'].iloc[0]}, derived"


def shifts(rows: pd.DataFrame, height: int, width: int, tile: int) -> Figure:
    """The padded layout of three small images, one output pixel's nine taps in it, and a tile's nine shifted reads.

    Args:
        rows: from ``kernels.tap_rows`` for an image of ``height`` x ``width`` pixels.
        height: pixels.
        width: pixels.
        tile: rows of the tile whose reads the right panel draws, from the output pixel's row on.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 5.0), width_ratios=(1.0, 1.35))
    taps = dict(zip(rows["row"], rows["tap"], strict=True))
    images = 3
    for y in range(images * (height + 1)):
        for x in range(width + 1):
            number = y * (width + 1) + x
            padding = y % (height + 1) == height or x == width
            colour = CENTRE if taps.get(number) == 4 else TAP if number in taps else PADDING if padding else "white"
            hatch = "////" if padding else None
            left.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor="#AAAAAA", linewidth=0.6, hatch=hatch))
            left.text(x + 0.5, y + 0.5, number, ha="center", va="center", fontsize="x-small",
                      fontweight="bold" if number in taps else "normal")  # fmt: skip
    for image in range(images):
        left.text(-0.2, image * (height + 1) + height / 2, f"image {image}", rotation=90, ha="right", va="center")
    left.set_xlim(-0.8, width + 1.1)
    left.set_ylim(images * (height + 1) + 0.1, -0.1)
    left.set_aspect("equal")
    left.axis("off")
    left.set_title("[N, H+1, W+1, C]: hatched is zero")

    for row in rows.itertuples():
        colour = CENTRE if row.tap == 4 else TAP
        right.barh(row.tap, tile, left=row.row, color=colour, edgecolor=GREY, linewidth=0.8, height=0.6)
        right.text(row.row + tile + 0.7, row.tap, f"{row.shift:+d}" if row.shift else "0", va="center")
    right.axvline(rows["row"].iloc[4], color=GREY, linewidth=0.8, linestyle=":")
    right.set_yticks(rows["tap"], [f"r={r.r} s={r.s}" for r in rows.itertuples()])
    right.invert_yaxis()
    right.set_xlim(rows["row"].min() - 2, rows["row"].max() + tile + 5)
    right.set_xlabel("row of the flat matrix [N*(H+1)*(W+1), C]")
    right.set_title(f"One tile of {tile} rows, read nine times")
    return fig


def waves(rows: pd.DataFrame) -> Figure:
    """Each layer's CTAs as waves: filled is used, the dashed frame is what the card's slots could hold."""
    fig, ax = plt.subplots(figsize=(8.0, 5.4))
    colour = PALETTE[rows["tier"].iloc[0]]
    for i, row in enumerate(rows.itertuples()):
        frame = ceil(row.waves)
        ax.barh(i, row.waves, height=0.72, facecolor=colour, edgecolor=colour, alpha=0.75)
        ax.barh(i, frame, height=0.72, **{**bar("derived", GREY), "facecolor": "none"})
        ax.vlines(range(1, frame), i - 0.36, i + 0.36, color=GREY, linewidth=0.8)
        label = f"{row.ctas} CTAs on {row.slots} slots, {row.tile}"
        ax.text(frame + 0.1, i, label, va="center", fontsize="x-small")
    ax.set_yticks(range(len(rows)), rows["layer"])
    ax.invert_yaxis()
    ax.set_xlim(0, 1.75 * max(ceil(w) for w in rows["waves"]))
    ax.set_xticks(range(max(ceil(w) for w in rows["waves"]) + 1))
    ax.set_xlabel("waves of the main kernel (CTAs over SMs times CTAs that fit one SM)")
    ax.set_title(f"Waves: {_where(rows)}")
    return fig


def l2(rows: pd.DataFrame) -> Figure:
    """Bytes a clock that one SM asks of L2 at the arithmetic peak, by layer and tier, and what L2 gives (the line)."""
    fig, ax = plt.subplots(figsize=(8.0, 4.2))
    tiers = list(rows["tier"].unique())
    layers = list(rows["layer"].unique())
    size = 0.8 / len(tiers)
    for i, tier in enumerate(tiers):
        mine = rows[rows["tier"] == tier].set_index("layer").loc[layers]
        place = np.arange(len(layers)) + (i - (len(tiers) - 1) / 2) * size
        ax.bar(place, mine["asked"], size, label=tier, **bar("derived", PALETTE[tier]))
    given = rows["given"].iloc[0]
    ax.hlines(given, -0.6, len(layers) - 0.5, color="black", linewidth=1.4)
    ax.text(len(layers) - 0.4, given, f"given: {given:g}", ha="left", va="center")
    ax.set_xlim(-0.7, len(layers) + 1.0)
    ax.set_xticks(range(len(layers)), layers, rotation=60, ha="right", rotation_mode="anchor")
    ax.set_ylabel("bytes a clock, one SM")
    ax.legend(title="operands", ncols=len(tiers), loc="upper right")
    ax.set_title(f"What the tensor cores at their peak ask of L2: {_where(rows, tier=False)}")
    return fig


def epilogue(rows: pd.DataFrame) -> Figure:
    """MB moved behind each convolution's products: as passes of their own (hollow), and as our launches move them."""
    fig, ax = plt.subplots(figsize=(8.0, 4.0))
    x = np.arange(len(rows))
    colour = PALETTE[rows["tier"].iloc[0]]
    ax.bar(x - 0.2, rows["passes_mb"], 0.4, label="as passes of their own", **bar("derived", GREY))
    ax.bar(x + 0.2, rows["ours_mb"], 0.4, label="in the epilogue, or one second launch", **bar("derived", colour))
    ax.set_xticks(x, rows["layer"], rotation=60, ha="right", rotation_mode="anchor")
    ax.set_ylabel("MB written and read")
    ax.legend()
    ax.set_title(f"Bias, ReLU and pool: {_where(rows)}")
    return fig
