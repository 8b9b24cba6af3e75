"""Figures of accuracy: how errors grow with depth, and what accuracy costs in time."""

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...correctness.ladder import EAGER
from ...floor.hardware import device as find_device
from ..style import GREY, MARKERS, PALETTE, SHAPES, headline, layer_ticks, plain_log, point

ASIDE = 1.4  # a further card's points stand this factor to the left, for one error has the times of every card


def growth(rows: pd.DataFrame, about: str) -> Figure:
    """Relative error behind each layer by arithmetic (log scale); dashed: what the derivation expects.

    Args:
        rows: ``accuracy.error_rows``.
        about: network, batch and weights, for the title.
    """
    fig, ax = plt.subplots(figsize=(8.0, 4.8))
    for tier, shape in SHAPES.items():
        data = rows[rows["arithmetic"] == tier]
        ax.plot(data["depth"], data["expected"], color=PALETTE[tier], linestyle="--", linewidth=1.0)
        ax.plot(data["depth"], data["relative_error"], color=PALETTE[tier], linestyle="", marker=shape,
                fillstyle="none", label=tier)  # fmt: skip
    eager = rows[rows["arithmetic"] == EAGER]
    ax.plot(eager["depth"], eager["relative_error"], color="black", linestyle="", marker="x", label=EAGER)
    layer_ticks(ax, eager["layer"], at=eager["depth"])
    ax.set_yscale("log")
    ax.set_ylabel("relative error (norm) against float64")
    headline(ax, "How each tier's error grows with depth", f"{about}; points emulated, dashed derived")
    handles, names = ax.get_legend_handles_labels()
    worst_first = rows[rows["layer"] == rows["layer"].iloc[-1]].sort_values("relative_error", ascending=False)
    ordered = [handles[names.index(name)] for name in worst_first["arithmetic"]]
    ax.legend(handles=ordered, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return fig


def pareto(rows: pd.DataFrame) -> Figure:
    """Error against float64 (x) and time of a forward (y), log scales; the first card's floors as dashes.

    Args:
        rows: ``accuracy.pareto_rows``; further cards' points stand ``ASIDE`` to the left of their error.
    """
    fig, ax = plt.subplots(figsize=(8.0, 4.8))
    foremost, *others = dict.fromkeys(rows["device"])
    for row in rows.itertuples():
        if row.evidence == "derived":
            if row.device == foremost:
                reach = [row.relative_error / 2, row.relative_error * 2]
                ax.plot(reach, [row.time_ms] * 2, **point("derived", PALETTE[row.tier]))
            continue
        first = row.device == foremost
        x = row.relative_error if first else row.relative_error / ASIDE
        colour = "black" if row.evidence == "reported" else PALETTE[row.tier]
        ax.plot(x, row.time_ms, markersize=8 if first else 6, **point(row.evidence, colour, MARKERS[row.device]))
        name = row.tier if row.evidence == "modelled" else row.what
        if first:
            ax.annotate(f"{name} {row.time_ms:.2f}", (x, row.time_ms), xytext=(9, -4), textcoords="offset points")
        elif row.evidence == "reported":
            ax.annotate(f"{name} {row.time_ms:.2f}", (x, row.time_ms), xytext=(-8, -3), ha="right",
                        fontsize="small", textcoords="offset points")  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(rows["relative_error"].min() / 4, rows["relative_error"].max() * 8)
    ax.set_ylim(0.75 * rows["time_ms"].min(), 1.35 * rows["time_ms"].max())
    plain_log(ax.yaxis)
    ax.minorticks_off()
    ax.text(0.015, 0.03, "↙ more accurate and faster", transform=ax.transAxes, style="italic")
    ax.set_xlabel("relative error of the logits against float64, Kaiming weights (emulated)")
    ax.set_ylabel("time of one forward, ms")
    plain: dict[str, Any] = {"color": GREY, "linestyle": "", "fillstyle": "none"}
    beside = " (drawn to the left)"
    reports = [Line2D([], [], **point("reported", "black"), label="PyTorch (reported)")]
    ax.legend(
        handles=[
            *(reports if "reported" in set(rows["evidence"]) else ()),
            Line2D([], [], **point("modelled", GREY), label="our kernels (modelled)"),
            Line2D([], [], **point("derived", GREY), label=f"floor, {find_device(foremost).title} (derived)"),
            *(
                Line2D([], [], marker=MARKERS[key], label=find_device(key).title + beside * (key != foremost), **plain)
                for key in (foremost, *others)
            ),
        ],
        loc="upper right",
    )
    cards = " and ".join(find_device(key).title for key in (foremost, *others))
    headline(ax, "What accuracy costs in time", f"VGG19, batch {rows['batch'].iloc[0]}, {cards}")
    return fig
