"""Figures of the floor: the public one audited, the roofline, the named floors, the batch."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from ..style import GREY, PALETTE, SHAPES, headline, plain_log, subject

PARTS = {  # column: marker and name
    "parameters_us": ("s", "parameters, read once"),
    "activations_us": ("^", "activations through HBM"),
    "arithmetic_us": ("o", "arithmetic"),
    "floor_us": ("D", "floor, layer by layer"),
}


def audit(rows: pd.DataFrame, public_us: float, record_us: float) -> Figure:
    """What the public floor leaves out: each part's own time by tier, the public floor and the record as lines (log).

    Args:
        rows: ``floors.audit_rows``.
        public_us: the public floor, in microseconds.
        record_us: the reported record.
    """
    fig, ax = plt.subplots(figsize=(8.0, 3.9))
    for column, (marker, name) in PARTS.items():
        for y, row in enumerate(rows.itertuples()):
            ax.plot(getattr(row, column), y, marker, color=PALETTE[row.tier], fillstyle="none", markeredgewidth=1.6)
        ax.plot([], [], marker, color=GREY, fillstyle="none", label=name)
    for y, us in enumerate(rows["floor_us"]):
        ax.annotate(f"{us:,.0f} µs", (us, y), xytext=(9, 0), textcoords="offset points", va="center",
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
    for us, text, evidence in ((public_us, "public floor", "derived"), (record_us, "record", "reported")):
        ax.axvline(us, color="black", linewidth=1.0, linestyle="--" if evidence == "derived" else "-")
        text = f"{text}, {us:,.2f} µs\n({evidence})" if us < 100 else f"{text}, {us:,.0f} µs\n({evidence})"
        ax.annotate(text, (us, len(rows) - 0.62), xytext=(4, 0), textcoords="offset points", va="top", fontsize=9)
    ax.set_yticks(range(len(rows)), rows["tier"])
    ax.set_ylim(len(rows) + 0.25, -0.5)
    ax.set_xscale("log")
    ax.set_xlim(1, 5 * rows["floor_us"].max())
    plain_log(ax.xaxis, (1, 3))
    ax.set_xlabel("time at data-sheet rates, µs (log scale)")
    fig.legend(loc="outside lower center", ncols=4)
    headline(ax, "What the public floor leaves out", subject(rows))
    return fig


def roofline(rows: pd.DataFrame, ceilings: pd.DataFrame) -> Figure:
    """Each layer's floor as TFLOP/s over its intensity, by tier, under the card's roofs (log-log)."""
    fig, ax = plt.subplots(figsize=(8.0, 4.5))
    reach = np.geomspace(0.8 * rows["flop_per_byte"].min(), 1.6 * rows["flop_per_byte"].max(), 200)
    bandwidth = ceilings["tb_per_s"].iloc[0]
    for tier, roof in ceilings.set_index("tier")["tflop_per_s"].items():
        ax.plot(reach, np.minimum(roof, bandwidth * reach), color=PALETTE[tier], linestyle="--", linewidth=1.2)
        ax.text(reach[-1], roof * 1.07, f"{tier}: {roof:,.0f} TFLOP/s", ha="right", va="bottom")
        points = rows[rows["tier"] == tier]
        ax.plot(points["flop_per_byte"], points["tflop_per_s"], linestyle="", marker=SHAPES[tier], fillstyle="none",
                color=PALETTE[tier], label=tier)  # fmt: skip
    widest = rows[rows["tier"] == rows["tier"].iloc[-1]]
    densest = widest.loc[widest["flop_per_byte"].idxmax(), "layer"]
    for name, shift in (("fc6", (8, -11)), ("conv1_1", (9, -5)), ("conv1_2", (-8, -15)), (densest, (-20, -15))):
        marked = widest[widest["layer"] == name].iloc[0]
        ax.annotate(name, (marked["flop_per_byte"], marked["tflop_per_s"]), xytext=shift, textcoords="offset points")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(0.7 * rows["tflop_per_s"].min(), 2.2 * rows["tflop_per_s"].max())
    ax.annotate(f"HBM, {bandwidth:g} TB/s", (50, bandwidth * 50), xytext=(-3, 6), rotation=38,
                textcoords="offset points", rotation_mode="anchor")  # fmt: skip
    plain_log(ax.xaxis, (1, 3))
    plain_log(ax.yaxis, (1, 3))
    ax.set_xlabel("intensity, FLOP per byte of HBM traffic")
    ax.set_ylabel("highest rate, TFLOP/s")
    ax.legend(title="operands", loc="lower right")
    headline(ax, "Roofline: where each layer stands", subject(rows))
    return fig


NAMED = {  # algorithm, fusion, rates: the floors that get a mark of their own
    ("direct", "layerwise", "best-published"): ("s", "direct, best published rates"),
    ("direct", "layerwise", "data-sheet"): ("o", "direct, data sheet"),
    ("direct", "perfect", "data-sheet"): ("D", "direct, nothing but weights through HBM"),
    ("winograd-2x2", "layerwise", "data-sheet"): ("^", "Winograd F(2x2), transforms fused"),
    ("winograd-4x4", "layerwise", "data-sheet"): ("v", "Winograd F(4x4), transforms fused"),
    ("winograd-2x2-stored", "layerwise", "data-sheet"): (">", "Winograd F(2x2), transforms through HBM"),
    ("winograd-4x4-stored", "layerwise", "data-sheet"): ("<", "Winograd F(4x4), transforms through HBM"),
    ("fft", "layerwise", "data-sheet"): ("x", "FFT, spectra through HBM"),
}


def intervals(rows: pd.DataFrame, lowest: pd.DataFrame) -> Figure:
    """By tier, the floors that have a name (us, log scale), from the lowest bar to the stage-wise."""
    fig, ax = plt.subplots(figsize=(8.0, 4.5))
    tiers = list(rows["tier"].unique())
    bars = lowest.set_index("tier")["lowest_us"]
    keyed = rows.set_index(["algorithm", "fusion", "rates", "tier"])["floor_us"]
    for y, tier in enumerate(tiers):
        direct = keyed["direct", "layerwise", "data-sheet", tier]
        ax.plot([bars[tier], direct], [y, y], color=PALETTE[tier], linewidth=5, alpha=0.35, solid_capstyle="butt")
        ax.plot(bars[tier], y, marker="|", markersize=15, markeredgewidth=2, color=PALETTE[tier],
                label="below every floor counted here" if y == 0 else None, linestyle="")  # fmt: skip
        for key, (marker, label) in NAMED.items():
            if (*key, tier) in keyed.index:
                ax.plot(keyed[(*key, tier)], y, marker=marker, color=PALETTE[tier], fillstyle="none", linestyle="",
                        label=label if y == 0 else None)  # fmt: skip
    ax.set_yticks(range(len(tiers)), tiers)
    ax.invert_yaxis()
    ax.set_xscale("log")
    plain_log(ax.xaxis)
    ax.set_xlabel("floor of the network, µs (log scale)")
    headline(ax, "Which floor? Algorithm, fusion and rates decide", subject(rows))
    legend = ax.legend(loc="upper center", bbox_to_anchor=(0.45, -0.16), ncols=2)
    for handle in legend.get_lines():
        handle.set_color(GREY)
    return fig


def batch_scaling(rows: pd.DataFrame) -> Figure:
    """Floor per image over the batch (us, log-log), by tier, each point with the layers that memory binds."""
    fig, ax = plt.subplots(figsize=(8.0, 4.2))
    for tier, points in rows.groupby("tier", sort=False):
        (line,) = ax.plot(points["batch"], points["us_per_image"], color=PALETTE[tier], linestyle="--", label=tier)
        line.set(marker=SHAPES[tier], fillstyle="none")
    counted = rows[rows["tier"] == rows["tier"].iloc[-1]]
    for row in counted.itertuples():
        ax.annotate(row.by_hbm, (row.batch, row.us_per_image), xytext=(0, -13), textcoords="offset points",
                    ha="center", fontsize="small")  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(sorted(rows["batch"].unique()))
    ax.xaxis.set_major_formatter(ScalarFormatter())
    plain_log(ax.yaxis)
    ax.set_ylim(0.75 * rows["us_per_image"].min(), 1.2 * rows["us_per_image"].max())
    layers, tier = counted["layers"].iloc[0], counted["tier"].iloc[0]
    ax.set_xlabel(f"batch, images (small numbers: layers of {layers} that HBM binds, {tier})")
    ax.set_ylabel("floor, µs per image")
    ax.legend(title="operands", loc="upper right", bbox_to_anchor=(1.0, 0.86))
    headline(ax, "What one image costs as the batch grows", subject(rows))
    return fig
