"""A run's samples as one table: medians side by side, and ratios within the run alone."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

COHORT = ["batch", "timer", "cache"]  # a ratio across any of these would compare two questions
BASELINES = ("eager", "inductor")


def condense(samples: pd.DataFrame) -> pd.DataFrame:
    """One row a variant, batch and timer of the whole network, fastest first within a cohort.

    Args:
        samples: of one run, the ledger's columns.

    Returns:
        ``variant``, ``tier``, ``batch``, ``timer``, ``cache``, ``samples``, ``median_ms``, ``low_ms`` and ``high_ms``
        (the middle half of the samples), and ``vs_eager``, ``vs_inductor``: the baseline's median over this one's,
        above 1 where this one is faster, missing where the run has no such baseline.
    """
    whole = samples[samples["layer"] == "network"] if len(samples) else samples
    groups = whole.groupby(["variant", "tier", *COHORT], sort=False)["time_ms"]
    table = groups.agg(
        samples="count", median_ms="median", low_ms=lambda t: t.quantile(0.25), high_ms=lambda t: t.quantile(0.75)
    ).reset_index()
    for baseline in BASELINES:
        base = table[table["variant"] == baseline].set_index(COHORT)["median_ms"]
        keys = pd.MultiIndex.from_frame(table[COHORT])
        table[f"vs_{baseline}"] = base.reindex(keys).to_numpy() / table["median_ms"].to_numpy()
    return table.sort_values([*COHORT, "median_ms"], ignore_index=True)


def throttled(notes: Iterable[Mapping[str, Any]]) -> list[str]:
    """One sentence for each variant and batch, and each reason for which the card lowered its clock meanwhile."""
    timers: Counter[tuple[str, int]] = Counter()
    lowered: Counter[tuple[str, int, str]] = Counter()
    for note in notes:
        if note["kind"] == "conditions":
            found = note["payload"]
            key = found["variant"], found["batch"]
            timers[key] += 1
            lowered.update((*key, reason) for reason in found.get("throttled", []))
    return [
        f"{variant} at batch {batch}: {reason}, in {count} of {timers[variant, batch]} timers (layers' included)"
        for (variant, batch, reason), count in lowered.items()
    ]
