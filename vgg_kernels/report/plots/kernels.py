"""Figures of the kernels: nine shifts of one matrix, waves of CTAs, what L2 is asked, what the epilogue saves."""

from math import ceil

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from ..style import GREY, PALETTE, bar, headline, layer_ticks, subject

PADDING = "#E4E4E4"
CENTRE, TAP = "#D55E00", "#56B4E9"


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
    headline(left, "Three images in memory", "numbers: rows of the matrix")
    left.legend(
        handles=[
            Patch(facecolor=CENTRE, edgecolor=GREY, label="output pixel, centre tap"),
            Patch(facecolor=TAP, edgecolor=GREY, label="its other eight taps"),
            Patch(facecolor=PADDING, edgecolor="#AAAAAA", hatch="////", label="zeros, shared"),
        ],
        loc="upper center", bbox_to_anchor=(0.5, 0.0),
    )  # fmt: skip

    for row in rows.itertuples():
        colour = CENTRE if row.tap == 4 else TAP
        right.barh(row.tap, tile, left=row.row, color=colour, edgecolor=GREY, linewidth=0.8, height=0.6)
        right.text(row.row + tile + 0.7, row.tap, f"{row.shift:+d}" if row.shift else "0", va="center")
    right.axvline(rows["row"].iloc[4], color=GREY, linewidth=0.8, linestyle=":")
    right.set_yticks(rows["tap"], [f"r={r.r} s={r.s}" for r in rows.itertuples()])
    right.invert_yaxis()
    right.set_xlim(rows["row"].min() - 2, rows["row"].max() + tile + 5)
    right.set_xlabel("row of the flat matrix [N*(H+1)*(W+1), C]")
    headline(
        right, f"One tile of {tile} output rows reads nine times", "row r and column s of the tap; its shift in rows"
    )
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
    ax.set_yticks(range(len(rows)), rows["layer"])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    most = max(ceil(w) for w in rows["waves"])
    ax.set_xlim(0, 1.03 * most)
    ax.set_xticks(range(most + 1))
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("waves = CTAs / (SMs x CTAs an SM holds)")
    beside = ax.secondary_yaxis("right")
    beside.set_yticks(range(len(rows)), [f"{r.ctas} CTAs on {r.slots} slots; {r.tile}" for r in rows.itertuples()])
    beside.tick_params(length=0, labelsize=7.5)
    beside.spines["right"].set_visible(False)
    headline(ax, "Waves of CTAs; white is idle", subject(rows))
    return fig


def l2(rows: pd.DataFrame) -> Figure:
    """Bytes a clock that one SM asks of L2 at the arithmetic peak, by layer and tier, and what L2 gives (the line)."""
    fig, ax = plt.subplots(figsize=(8.0, 4.2))
    tiers = list(rows["tier"].unique())
    layers = list(rows["layer"].unique())
    size = 0.84 / len(tiers)
    for i, tier in enumerate(tiers):
        mine = rows[rows["tier"] == tier].set_index("layer").loc[layers]
        place = np.arange(len(layers)) + (i - (len(tiers) - 1) / 2) * size
        ax.bar(place, mine["asked"], 0.82 * size, label=tier, **bar("derived", PALETTE[tier]))
    given, card = rows[["given", "given_by"]].iloc[0]
    ax.axhline(given, color="black", linewidth=1.4)
    ax.text(1.01, given, f"L2 gives\n{given:g}\n({card})", transform=ax.get_yaxis_transform(), va="center")
    ax.set_xlim(-0.7, len(layers) - 0.3)
    ax.set_ylim(0, 1.3 * rows["asked"].max())
    layer_ticks(ax, layers)
    ax.set_ylabel("bytes per clock and SM")
    ax.legend(loc="upper right", ncols=len(tiers), title="tiers, from left to right")
    headline(ax, "What the tensor cores at their peak ask of L2", subject(rows))
    return fig


def row_pairs(rows: pd.DataFrame) -> Figure:
    """Which tap row multiplies which input row for two output rows, and the bytes a clock that sharing them saves.

    Args:
        rows: from ``kernels.pair_rows``.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.4), width_ratios=(1.0, 1.25))
    for output, name in enumerate(("2i", "2i+1")):
        for tap in range(3):
            left.add_patch(Rectangle((output + tap, output), 1, 1, facecolor=TAP, edgecolor=GREY, linewidth=0.8))
            left.text(output + tap + 0.5, output + 0.5, f"w[{tap}]", ha="center", va="center")
        left.text(-0.15, output + 0.5, name, ha="right", va="center")
    for place, name in enumerate(("2i-1", "2i", "2i+1", "2i+2")):
        left.text(place + 0.5, -0.12, name, ha="center", va="bottom")
    left.text(2, -0.5, "input row", ha="center", va="bottom")
    left.text(-0.95, 1, "output row", ha="center", va="center", rotation=90)
    left.set_xlim(-1.1, 4.1)
    left.set_ylim(2.1, -0.8)
    left.set_aspect("equal")
    left.axis("off")
    headline(left, "Six products, seven loads", "four input rows, three rows of taps")

    y = np.arange(len(rows))
    colour = PALETTE[rows["tier"].iloc[0]]
    right.barh(y - 0.2, rows["row_by_row"], 0.36, label="row by row", **bar("derived", GREY))
    right.barh(y + 0.2, rows["in_pairs"], 0.36, label="in pairs", **bar("derived", colour))
    given, card = rows[["given", "given_by"]].iloc[0]
    right.axvline(given, color="black", linewidth=1.4)
    right.text(given + 1, len(rows) - 0.45, f"L2 gives {given:g} ({card})", va="bottom")
    right.set_yticks(y, rows["layer"])
    right.set_ylim(len(rows) - 0.4, -0.6)
    right.grid(axis="y", visible=False)
    right.set_xlabel("bytes per clock and SM at the arithmetic peak")
    right.legend(loc="center right")
    headline(right, "Bytes asked of L2", subject(rows))
    return fig


def epilogue(rows: pd.DataFrame) -> Figure:
    """MB moved behind each convolution's products: as separate passes (grey), and as our launches move them."""
    fig, ax = plt.subplots(figsize=(8.0, 4.0))
    x = np.arange(len(rows))
    colour = PALETTE[rows["tier"].iloc[0]]
    ax.bar(x - 0.2, rows["passes_mb"], 0.4, label="as separate passes", **bar("derived", GREY))
    ax.bar(
        x + 0.2, rows["ours_mb"], 0.4, label="ours: in the epilogue, or in a second launch", **bar("derived", colour)
    )
    layer_ticks(ax, rows["layer"])
    ax.set_ylabel("MB written and read")
    ax.legend()
    headline(ax, "Bytes that bias, ReLU and pool move", subject(rows))
    return fig
