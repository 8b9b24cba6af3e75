"""Figures of the workload and its check: how the signal dies, and which check finds which wrong network."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..style import GREY, headline, layer_ticks

KILLED, ACCEPTED = "#0072B2", "white"
LINES = {"kaiming": ("#0072B2", "o", "Kaiming weights"), "kernelbench": ("#D55E00", "s", "default weights")}


def signal(rows: pd.DataFrame, tolerances: dict[str, float], subject: str) -> Figure:
    """The largest difference between two images' outputs behind each layer, against the tolerances (log scale).

    Args:
        rows: ``accuracy.spread_rows``.
        tolerances: by name.
        subject: network, batch and inputs, for the title.
    """
    fig, ax = plt.subplots(figsize=(8.0, 4.0))
    for weights, (colour, marker, label) in LINES.items():
        data = rows[rows["weights"] == weights]
        ax.plot(data["depth"], data["largest"], color=colour, marker=marker, fillstyle="none", label=label)
    for name, value in tolerances.items():
        ax.axhline(value, color=GREY, linestyle="--", linewidth=1.0)
        ax.text(0.7, value * 1.25, name, va="bottom")
    names = rows[rows["weights"] == rows["weights"].iloc[0]]
    layer_ticks(ax, names["layer"], at=names["depth"])
    ax.set_yscale("log")
    ax.set_ylabel("largest difference between images")
    headline(ax, "Under the default weights all images look alike", f"{subject}, float64 on a CPU, measured")
    ax.legend(loc="lower left")
    return fig


def matrix(rows: pd.DataFrame, subject: str) -> Figure:
    """The kill matrix: a filled cell where a gate rejects a candidate; wrong networks by group, right ones last.

    Args:
        rows: ``accuracy.matrix_rows``; how many wrong networks each gate accepts stands over its column.
        subject: network and inputs, for the title.
    """
    grid = rows.pivot(index="candidate", columns="gate", values="killed")[list(dict.fromkeys(rows["gate"]))]
    about = rows.drop_duplicates("candidate").set_index("candidate")
    right, group = about["right"], about["group"]
    groups = list(dict.fromkeys(["contract", "beyond", "precision", "dishonest", *group]))
    order = sorted(grid.index, key=lambda name: (groups.index(group[name]), grid.loc[name].sum(), name))
    grid = grid.loc[order]
    fig, ax = plt.subplots(figsize=(8.0, 0.16 * len(grid) + 1.6))
    for y, name in enumerate(grid.index):
        for x, killed in enumerate(grid.loc[name]):
            ax.barh(y, 0.94, left=x + 0.03, height=0.82, facecolor=KILLED if killed else ACCEPTED, edgecolor=KILLED,
                    hatch="" if killed else "///", linewidth=0.5)  # fmt: skip
    for name in dict.fromkeys(group[grid.index]):
        members = [y for y, other in enumerate(grid.index) if group[other] == name]
        ax.axhline(members[0] - 0.5, color="black", linewidth=1.0)
        ax.text(grid.shape[1] + 0.05, (members[0] + members[-1]) / 2, name, rotation=-90, va="center")
    mutants = grid[~right[grid.index]]
    accepts = [f"accepts\n{int((~mutants[gate]).sum())} of {len(mutants)}" for gate in grid.columns]
    names = [gate.replace("KernelBench ", "KernelBench\n").replace(", ", "\n") for gate in grid.columns]
    heads = [f"{name}\n{count}" for name, count in zip(names, accepts, strict=True)]
    ax.set_xticks([x + 0.5 for x in range(grid.shape[1])], heads)
    ax.xaxis.tick_top()
    ax.set_yticks(range(len(grid)), grid.index, fontsize=7)
    ax.set_ylim(len(grid) - 0.4, -0.6)
    ax.set_xlim(0, grid.shape[1])
    ax.grid(False)
    ax.tick_params(length=0)
    ax.legend(
        handles=[
            Patch(facecolor=KILLED, edgecolor=KILLED, label="rejected"),
            Patch(facecolor=ACCEPTED, edgecolor=KILLED, hatch="///", label="accepted"),
        ],
        loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=2,
    )  # fmt: skip
    headline(ax, "Which check rejects which wrong network", f"by group, right ones last; {subject}, measured")
    return fig
