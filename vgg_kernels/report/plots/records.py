"""The figure of the records: every time that is known, by card, beside what was derived and modelled."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ..page_model import Page
from ..style import GREY, PALETTE, headline, plain_log, point

TIERS = ("fp16", "tf32", "fp16x3", "fp32")  # of the floors and predictions that are drawn
MIDDLE_MS = 3.0  # where a card without records has room for saying so
COLUMNS = ["card", "tier", "what", "variant", "time_ms", "low_ms", "high_ms", "evidence"]


def landscape_rows(page: Page) -> pd.DataFrame:
    """One row a mark of ``landscape``: floors, predictions, records that stand, and those replaced or removed.

    Cards of the data sheets only, at the public batch; ``what`` is "public floor", "floor", "prediction", "ranked" or
    the reason's name ("withdrawn", ...). Times in milliseconds.
    """
    rows: list[tuple] = []
    for place in page.environments:
        rows += [
            row
            for e in place.estimates
            if e.tier in TIERS
            for row in (
                (place.title, e.tier, "floor", "", e.floor_us / 1e3, None, None, "derived"),
                (place.title, e.tier, "prediction", "", e.predicted_us / 1e3, None, None, "modelled"),
            )
        ]
    titles = {place.device: place.title for place in page.environments if place.estimates}
    for standing in page.standings:
        record, cohort = standing.record, standing.record.cohort
        if cohort.device in titles and cohort.batch == page.floor.batch and standing.status != "quarantined":
            t, name = record.times, f"{record.variant}, {cohort.cache}"
            mark = (titles[cohort.device], cohort.tier, standing.status, name, t.mean_ms, t.low_ms, t.high_ms)
            rows.append((*mark, record.origin.evidence))
    rows.append((titles[page.floor.device], "", "public floor", "", page.floor.public_us / 1e3, None, None, "derived"))
    return pd.DataFrame(rows, columns=COLUMNS)


def landscape(rows: pd.DataFrame, batch: int) -> Figure:
    """Times by card (ms, log scale): floors as dashes, predictions hatched, records as points, old ones as crosses.

    Args:
        rows: from ``landscape_rows``.
        batch: images, for the title.
    """
    fig, ax = plt.subplots(figsize=(8.0, 4.4))
    cards = list(dict.fromkeys(rows["card"]))
    for row in rows.itertuples():
        y = cards.index(row.card)
        colour = PALETTE.get(row.tier, GREY)
        if row.what == "floor":
            ax.plot([row.time_ms] * 2, [y - 0.3, y + 0.3], **point("derived", colour))
        elif row.what == "prediction":
            ax.plot(row.time_ms, y + 0.18, **{**point("modelled", colour, "D"), "markersize": 6})
        elif row.what == "public floor":
            ax.annotate(
                f"{row.time_ms:.2g} ms: the index's floor", (0, y), xycoords=("axes fraction", "data"), va="center",
                xytext=(24, 0), textcoords="offset points", arrowprops={"arrowstyle": "->"},
            )  # fmt: skip
        elif row.what == "ranked":
            ax.plot(row.time_ms, y - 0.12, **{**point(row.evidence, colour), "markersize": 7})
        else:
            ax.plot(row.time_ms, y - 0.3, marker="x", linestyle="", color=colour, markersize=5)
    for card, mine in rows[rows["what"] == "ranked"].groupby("card"):
        best = mine.loc[mine["time_ms"].idxmin()]
        at = best["time_ms"], cards.index(card) - 0.12
        ax.annotate(f"{best['variant'].split(',')[0]} {best['time_ms']:.3g}", at, xytext=(7, -12),
                    textcoords="offset points", weight="bold",
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})  # fmt: skip
    for card in sorted(set(cards) - set(rows.loc[rows["what"] == "ranked", "card"])):
        ax.annotate(
            "none recorded here", (MIDDLE_MS, cards.index(card) - 0.12), ha="center", style="italic", color=GREY
        )
    ax.set_yticks(range(len(cards)), cards)
    ax.set_ylim(len(cards) - 0.45, -0.55)
    ax.set_xscale("log")
    ax.set_xlim(0.4 * rows.loc[rows["what"] == "floor", "time_ms"].min(), 1.5 * rows["time_ms"].max())
    plain_log(ax.xaxis)
    ax.set_xlabel("time of one forward pass, ms (log scale)")
    headline(ax, "What is known about each card", f"VGG19, batch {batch}; fastest on file in bold, ms")
    ax.legend(handles=_legend(rows), ncols=4, loc="upper center", bbox_to_anchor=(0.46, -0.16), columnspacing=1.2)
    return fig


def _legend(rows: pd.DataFrame) -> list[Line2D]:
    tiers = [Line2D([], [], color=PALETTE[tier], linewidth=4, label=tier) for tier in TIERS]
    kinds = [
        Line2D([], [], label="floor (derived)", **point("derived", GREY)),
        Line2D([], [], label="prediction (modelled)", **{**point("modelled", GREY, "D"), "markersize": 6}),
    ]
    drawn = set(rows.loc[rows["what"] == "ranked", "evidence"])
    words = [word for word in ("reported", "measured") if word in drawn]
    kinds += [Line2D([], [], label=f"record ({word})", **point(word, GREY)) for word in words]
    if (rows["what"] == "withdrawn").any():
        kinds.append(
            Line2D([], [], label="replaced or removed (reported)", marker="x", linestyle="", color=GREY, markersize=5)
        )
    return [*tiers, *kinds]
