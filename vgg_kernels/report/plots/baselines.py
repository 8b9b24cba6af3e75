"""Figures of the baselines: where a forward's time goes by kernel and by layer, one panel a device."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from ..baselines import ORDER
from ..style import GREY, headline, layer_ticks, pale

COLOURS = dict(zip(ORDER, ("#CC79A7", "#009E73", "#D55E00", "#0072B2", "#E69F00", "#56B4E9", "#555555"), strict=True))
HATCHES = dict(zip(ORDER, ("xx", "..", "//", "", "\\\\", "--", "oo"), strict=True))
TIMERS = (("kernelbench", "cold"), ("do_bench", "cold"), ("host", "cold"), ("cuda_events", "warm"), ("graph", "cold"),
          ("graph", "warm"))  # fmt: skip
FAMILIES = {"eager": ("o", "#0072B2"), "inductor": ("s", "#E69F00"), "ours": ("D", "#D55E00")}
LABELLED = 0.05  # shares from here on are written into their bar


def _where(rows: pd.DataFrame) -> str:
    return f"VGG19, {rows['device_name'].iloc[0]}, batch {rows['batch'].iloc[0]}"


def composition(rows: pd.DataFrame) -> Figure:
    """What one forward's kernels are for, in shares: a bar per variant, a panel per device; from ``by_purpose``."""
    devices = list(dict.fromkeys(rows["device"]))
    fig, axes = plt.subplots(len(devices), 1, figsize=(8.0, 0.9 + 1.9 * len(devices)), squeeze=False)
    for ax, device in zip(axes[:, 0], devices, strict=True):
        here = rows[rows["device"] == device]
        for place, (_, bars) in enumerate(here.groupby("variant", sort=True)):
            left = 0.0
            for row in bars.itertuples():
                percent, colour = 100 * row.share, COLOURS[row.purpose]
                ax.barh(place, percent, left=left, height=0.62, facecolor=pale(colour), edgecolor=colour,
                        hatch=HATCHES[row.purpose], linewidth=1.4)  # fmt: skip
                if row.share >= LABELLED:
                    ax.text(left + percent / 2, place, f"{row.share:.0%}", ha="center", va="center",
                            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2})  # fmt: skip
                left += percent
        ax.set_yticks(range(here["variant"].nunique()), sorted(set(here["variant"])))
        ax.invert_yaxis()
        ax.set_xlim(0, 100)
        ax.set_xlabel("share of a forward's time in kernels, %")
        ax.grid(axis="y", visible=False)
        headline(ax, "What one forward's time goes to", f"{_where(here)}, measured (one profile each)")
    shown = [name for name in ORDER if (rows.groupby("purpose")["share"].max().get(name, 0) >= 0.001)]
    handles = [plt.Rectangle((0, 0), 1, 1, facecolor=pale(COLOURS[n]), edgecolor=COLOURS[n], hatch=HATCHES[n])
               for n in shown]  # fmt: skip
    fig.legend(handles, shown, loc="outside lower center", ncols=min(len(shown), 6))
    return fig


def layers(rows: pd.DataFrame, ceilings: pd.DataFrame) -> Figure:
    """Each layer by itself: its time, and the rate at which it does its operations; from ``baselines.layer_times``.

    Args:
        rows: of one device and batch.
        ceilings: ``baselines.ceilings``; the device's own fp32 matrix product is drawn where it was measured.
    """
    fig, (above, below) = plt.subplots(2, 1, figsize=(8.0, 5.0), sharex=True, height_ratios=(1.2, 1))
    places = range(len(rows))
    above.bar(places, rows["time_ms"], width=0.72, facecolor="white", edgecolor=COLOURS["convolution"], linewidth=1.8)
    above.set_ylabel("median time, ms")
    first = rows.iloc[0]
    above.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    headline(above, "Eager, layer by layer", f"{_where(rows)}, measured")
    below.plot(places, rows["gflop_per_s"], linestyle="", marker="o", fillstyle="none", markeredgewidth=1.8,
               color=COLOURS["convolution"])  # fmt: skip
    mine = ceilings[(ceilings["device"] == first["device"]) & (ceilings["quantity"] == "matmul_fp32")]
    for value in mine["value"] / 1e9:
        below.axhline(value, color=GREY, linestyle="-", linewidth=1.0)
        below.text(len(rows) - 0.5, value * 1.03, "large fp32 product, same run", ha="right", va="bottom")
    top = max([rows["gflop_per_s"].max(), *(mine["value"] / 1e9)])
    below.set_ylim(0, 1.25 * top)
    below.set_ylabel("GFLOP/s")
    layer_ticks(below, rows["layer"])
    above.grid(axis="x", visible=False)
    return fig


def timers(rows: pd.DataFrame) -> Figure:
    """Each timer's median over the public protocol's, one point a variant, one panel a device; ``timer_ratios``."""
    devices = list(dict.fromkeys(rows["device"]))
    fig, axes = plt.subplots(1, len(devices), figsize=(8.0, 3.8), squeeze=False, sharey=True)
    for ax, device in zip(axes[0], devices, strict=True):
        here = rows[rows["device"] == device]
        here = here[here["batch"] == (10 if 10 in set(here["batch"]) else here["batch"].iloc[0])]
        shown = [key for key in TIMERS if key in set(zip(here["timer"], here["cache"], strict=True))]
        for shift, (family, (marker, colour)) in enumerate(FAMILIES.items(), start=-1):
            points = here[here["variant"].str.startswith(family)]
            at = [shown.index((p.timer, p.cache)) + 0.2 * shift for p in points.itertuples()]
            ax.plot(at, points["ratio"], linestyle="", marker=marker, fillstyle="none", markeredgewidth=1.6,
                    color=colour, label=family)  # fmt: skip
        ax.axhline(1.0, color=GREY, linewidth=0.8)
        ax.set_xticks(range(len(shown)), ["\n".join(key) for key in shown])
        headline(ax, "Each timer against the public one", f"{_where(here)}, measured")
    axes[0, 0].set_ylabel("median / kernelbench's")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(FAMILIES))
    return fig
