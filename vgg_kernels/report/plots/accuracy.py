"""Figures of accuracy: how errors grow with depth, and what accuracy costs in time."""

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...evidence.ladder import EAGER
from ...floor.hardware import device as find_device
from ..style import MARKERS, PALETTE, point

SHAPES = {"fp32": "s", "fp16x3": "D", "tf32": "o", "fp16": "^", "bf16": "v", "fp8": "P"}


def growth(rows: pd.DataFrame, subject: str) -> Figure:
    """Relative error behind each layer by arithmetic (log scale); dashed: what the derivation expects.

    Args:
        rows: ``accuracy.error_rows``.
        subject: network, batch and weights, for the title.
    """
    fig, ax = plt.subplots(figsize=(8.0, 4.8))
    for tier, shape in SHAPES.items():
        data = rows[rows["arithmetic"] == tier]
        ax.plot(data["depth"], data["expected"], color=PALETTE[tier], linestyle="--", linewidth=1.0)
        ax.plot(data["depth"], data["relative_error"], color=PALETTE[tier], linestyle="", marker=shape,
                fillstyle="none", label=tier)  # fmt: skip
    eager = rows[rows["arithmetic"] == EAGER]
    ax.plot(eager["depth"], eager["relative_error"], color="black", linestyle="", marker="x", label=EAGER)
    ax.set_xticks(eager["depth"], eager["layer"], rotation=60, ha="right")
    ax.set_yscale("log")
    ax.set_ylabel("relative error in norm, against float64")
    ax.set_title(f"Errors by tier and depth: points measured, dashed derived\n{subject}")
    ax.legend(ncols=1, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def pareto(rows: pd.DataFrame) -> Figure:
    """Error against float64 (x) and time of a forward (y), log scales; a floor of its tier under every point."""
    fig, ax = plt.subplots(figsize=(8.0, 4.8))
    rows = rows.reset_index(drop=True)
    foremost = rows["device"].iloc[0]
    for row in rows[rows["evidence"] == "derived"].itertuples():
        if row.device == foremost:
            reach = [row.relative_error / 1.8, row.relative_error * 1.8]
            ax.plot(reach, [row.time_ms] * 2, color=PALETTE[row.tier], linestyle="--", linewidth=1.4)
    for row in rows[rows["evidence"] == "modelled"].itertuples():
        ax.plot(row.relative_error, row.time_ms, markersize=8,
                **point("modelled", PALETTE[row.tier], MARKERS[row.device]))  # fmt: skip
        if row.device == foremost:
            aside = {"tf32": (-9, 2, "right"), "fp16": (9, -4, "left")}.get(row.tier, (9, -3, "left"))
            ax.annotate(row.tier, (row.relative_error, row.time_ms), xytext=aside[:2], ha=aside[2],
                        textcoords="offset points", color=PALETTE[row.tier])  # fmt: skip
    for row in rows[rows["evidence"] == "reported"].itertuples():
        ax.plot(row.relative_error, row.time_ms, markersize=8,
                **point("reported", "black", MARKERS[row.device]))  # fmt: skip
        shift, side = ((9, -3), "left") if row.device == foremost else ((-9, -3), "right")
        ax.annotate(f"{row.what} {row.time_ms:g} ms", (row.relative_error, row.time_ms), xytext=shift, ha=side,
                    textcoords="offset points")  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(rows["relative_error"].min() / 3, rows["relative_error"].max() * 4)
    ticks = [0.2, 0.5, 1, 2, 5, 10]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlabel("relative error of the logits against float64, Kaiming weights (measured, emulated arithmetic)")
    ax.set_ylabel("time of one forward, ms")
    keys = [
        Line2D([], [], **point("reported", "black"), label="reported"),
        Line2D([], [], **point("modelled", "#555555"), label="modelled, our kernels"),
        Line2D([], [], **point("derived", "#555555"), label=f"derived: floor, {find_device(foremost).title}"),
    ]
    plain: dict[str, Any] = {"color": "#555555", "linestyle": "", "fillstyle": "none"}
    keys += [
        Line2D([], [], marker=MARKERS[key], label=find_device(key).title, **plain)
        for key in dict.fromkeys(rows["device"])
    ]
    ax.legend(handles=keys, loc="upper right")
    ax.set_title(f"What accuracy costs: VGG19, batch {rows['batch'].iloc[0]}")
    return fig
