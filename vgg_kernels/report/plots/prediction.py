"""Figures of the prediction: layers against their floors, the model against reports, the way from eager to ours."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from ...floor.hardware import device as find_device
from ...predict.published import CARDS
from ..predictions import BAND
from ..style import GREY, MARKERS, PALETTE, SHAPES, bar, headline, layer_ticks, plain_log, point, subject

ABBREVIATED = {"l2": "L2", "hbm": "HBM", "mma": "MMA"}
UNNAMED = "Hopper, not named"
KINDS = {"matrix product": "#0072B2", "convolution": "#D55E00", "bandwidth": "#009E73"}


def layers(rows: pd.DataFrame) -> Figure:
    """Each layer's predicted time (hatched) beside its floor (dashed), in microseconds, with what binds it."""
    fig, ax = plt.subplots(figsize=(8.0, 4.2))
    colour = PALETTE[rows["tier"].iloc[0]]
    x = np.arange(len(rows))
    ax.bar(x - 0.2, rows["floor_us"], 0.4, label="floor (derived)", **bar("derived", GREY))
    ax.bar(x + 0.2, rows["time_us"], 0.4, label="predicted (modelled)", **bar("modelled", colour))
    for i, row in enumerate(rows.itertuples()):
        ax.text(i + 0.2, row.time_us + 0.01 * rows["time_us"].max(), ABBREVIATED.get(row.bound, row.bound),
                ha="center", va="bottom", rotation=90)  # fmt: skip
    layer_ticks(ax, rows["layer"])
    ax.set_ylim(0, 1.35 * rows["time_us"].max())
    ax.set_ylabel("µs")
    ax.legend(loc="upper left", ncols=2)
    headline(ax, "Predicted time, floor, and what binds", f"{subject(rows)}; floors derived")
    return fig


def agreement(rows: pd.DataFrame) -> Figure:
    """Modelled over reported time for every row that tests the model, and the errors by kind and card.

    The grey band is agreement within ``BAND``; both panels draw the same rows.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 4.4), width_ratios=(1.0, 1.0))
    reach = np.array([0.6 * rows["reported_us"].min(), 1.7 * rows["reported_us"].max()])
    left.fill_between(reach, (1 - BAND) * reach, (1 + BAND) * reach, color="#DDDDDD", zorder=0)
    left.plot(reach, reach, color=GREY, linewidth=0.8)
    right.axvspan(-100 * BAND, 100 * BAND, color="#DDDDDD", zorder=0)
    right.axvline(0, color=GREY, linewidth=0.8)
    labels = []
    for y, ((kind, device), points) in enumerate(rows.groupby(["kind", "device"], sort=True)):
        style = point("modelled", KINDS[kind], MARKERS[device])
        left.plot(points["reported_us"], points["predicted_us"], **style)
        spread = y + np.linspace(-0.22, 0.22, len(points)) if len(points) > 1 else [y]
        right.plot(100 * points["error"], spread, **style)
        right.plot([100 * points["error"].median()] * 2, [y - 0.38, y + 0.38], color="black", linewidth=1.6)
        card = UNNAMED if device in CARDS else find_device(device).title
        labels.append(f"{kind},\n{card} ({len(points)})")
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlim(*reach)
    left.set_xlabel("reported by others, µs")
    left.set_ylabel("modelled, µs")
    headline(left, "The model against others' times", f"{len(rows)} reported products, convolutions and copies")
    right.set_yticks(range(len(labels)), labels)
    right.invert_yaxis()
    right.set_xlabel(f"error, % (grey: within {BAND:.0%}; black: median)")
    headline(right, "Its error by kind and card", "negative: the model is too fast")
    return fig


def waterfall(rows: pd.DataFrame, reported_ms: dict[str, float]) -> Figure:
    """From eager to inductor to ours (microseconds): bold bars are whole ways of running, the others what changes.

    Args:
        rows: ``predictions.waterfall_rows``; all modelled.
        reported_ms: mean times of whole ways of running, by name.
    """
    fig, ax = plt.subplots(figsize=(8.0, 5.2))
    previous = 0.0
    for i, row in enumerate(rows.itertuples()):
        if row.total:
            ax.barh(i, row.total_us, **bar("modelled", PALETTE.get(row.name.split()[-1], PALETTE["tf32"])))
            ax.text(row.total_us - 30, i, f"{row.total_us:,.0f}", va="center", ha="right", fontweight="bold",
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})  # fmt: skip
        else:
            colour = "#009E73" if row.change_us < 0 else "#D55E00"
            ax.barh(i, row.change_us, left=previous, **bar("modelled", colour))
            ax.text(max(previous, row.total_us) + 40, i, f"{row.change_us:+,.0f}", va="center")
        previous = row.total_us
        if row.name in reported_ms:
            us = 1e3 * reported_ms[row.name]
            ax.plot(us, i, **point("reported", "black", "o"))
            ax.text(us + 80, i, f"reported {us:,.0f}", va="center")
    ax.set_yticks(range(len(rows)), [f"{r.name}" if r.total else f"   {r.name}" for r in rows.itertuples()])
    for tick, total in zip(ax.get_yticklabels(), rows["total"], strict=True):
        tick.set_fontweight("bold" if total else "normal")
    ax.invert_yaxis()
    ax.set_xlim(0, 1.3 * max(rows["total_us"].max(), *(1e3 * ms for ms in reported_ms.values())))
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("µs")
    headline(ax, "From eager to our kernels, cause by cause", f"{subject(rows)}; black points reported")
    return fig


def batch_scaling(rows: pd.DataFrame) -> Figure:
    """Predicted time per image and the floor under it (microseconds, log-log) over the batch, by tier."""
    fig, ax = plt.subplots(figsize=(8.0, 4.2))
    for tier, points in rows.groupby("tier", sort=False):
        style = point("modelled", PALETTE[tier], SHAPES[tier])
        ax.plot(points["batch"], points["us_per_image"], **style, label=f"{tier}, modelled")
        style = point("derived", PALETTE[tier])
        ax.plot(points["batch"], points["floor_us_per_image"], **style, label=f"{tier}, floor (derived)")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xticks(sorted(rows["batch"].unique()))
    ax.xaxis.set_major_formatter(ScalarFormatter())
    plain_log(ax.yaxis)
    ax.set_xlabel("batch, images")
    ax.set_ylabel("µs per image")
    ax.legend(ncols=2)
    headline(ax, "One image's time as the batch grows", subject(rows.drop(columns="evidence")))
    return fig
