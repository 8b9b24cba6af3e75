"""What a run found: medians side by side, ratios within the run alone, and what it says of the time model."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import pandas as pd

from ..floor.hardware import devices
from ..kernels.tile_selection import stored
from ..predict.constants import constant
from ..predict.timemodel import MODEL_VERSION, predict
from ..workload.network import network
from .plan import MAIN_BATCH
from .variants import HOPPER

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


CLOSE = 0.15  # of the likely time: what counts as predicted where the model gives no interval
LAYER_TIMER = ("graph", "warm")  # the time model's conditions: launches of one graph, L2 as the layer before left it


def remarks(provenance: Mapping[str, Any]) -> Iterator[str]:
    """What a reader should know of a device before anything is compiled, one sentence each.

    Args:
        provenance: of the device.
    """
    hardware, device = provenance["hardware"], provenance["device"]
    if mismatch := hardware.get("cuda_mismatch"):
        yield mismatch
    if hardware["kind"] == "cpu":
        return
    name, arch, nvml = provenance["device_name"], hardware.get("arch", 0), hardware.get("nvml")
    if 0 < arch < HOPPER:
        yield (
            f"{name} is sm_{arch}, and our kernels need sm_{HOPPER} or later: none is compiled; eager and inductor "
            "are measured"
        )
    elif device not in devices():
        yield f"{name} has no data sheet: tiles are the time model's for the H100 SXM, and no prediction is compared"
    else:
        searched = device in {key for _, _, key, _ in stored()}
        how = "search" if searched else "ranking"
        yield f"Tiles for {name}: the time model's {how} (modelled), none chosen by measuring"
    if nvml is None:
        yield f"NVML does not answer for {name}: clocks, power and throttling are not recorded"
    elif (nvml.get("processes") or 0) > 1:
        yield f"{nvml['processes'] - 1} other processes are on {name}: times are disturbed"


def answers(device: str, samples: pd.DataFrame, notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a run says of the time model and its constants.

    Args:
        device: the run's device.
        samples: its samples, the ledger's columns.
        notes: its notes.

    Returns:
        ``batch``; ``within``, the rule; ``layers``: by variant of ours one row a layer with ``layer``, ``predicted``
        (text), ``likely_us``, ``measured_us``, ``ratio`` (measured over likely) and ``within``; ``sentences``: the
        verdict of the time model, clock and power under load, L2 rate, launch gap.
    """
    found: dict[str, Any] = {"batch": MAIN_BATCH, "within": f"{CLOSE:.0%} of the likely time", "layers": {}}
    sentences: list[str] = []
    if device in devices() and len(samples):
        timer, cache = LAYER_TIMER
        rows = samples[(samples["timer"] == timer) & (samples["cache"] == cache) & (samples["batch"] == MAIN_BATCH)]
        rows = rows[rows["variant"].str.startswith("ours_") & (rows["network"] == "vgg19")]
        for (variant, tier), group in rows[rows["layer"] != "network"].groupby(["variant", "tier"], sort=False):
            measured = group.groupby("layer", sort=False)["time_ms"].median() * 1e3
            found["layers"][variant] = _compared(tier, device, measured)
        for variant, layers in found["layers"].items():
            sentences.append(_verdict(variant, layers))
    found["sentences"] = [*sentences, *_load(notes), *_constants(notes)]
    return found


def _compared(tier: str, device: str, measured: Mapping[str, float]) -> list[dict[str, Any]]:
    """Predicted and measured time of each layer. An interval of the model's goes in here, for ``CLOSE``."""
    rows = []
    for layer in predict(network("vgg19"), tier, device, MAIN_BATCH):
        if layer.layer in measured:
            likely, got = layer.time_us, float(measured[layer.layer])
            within = abs(got / likely - 1) <= CLOSE
            about = {"layer": layer.layer, "predicted": f"{likely:.1f}", "likely_us": likely}
            rows.append({**about, "measured_us": got, "ratio": got / likely, "within": within})
    return rows


def _verdict(variant: str, layers: Sequence[Mapping[str, Any]]) -> str:
    likely, got = (sum(row[key] for row in layers) for key in ("likely_us", "measured_us"))
    good = sum(row["within"] for row in layers)
    return (
        f"Time model {MODEL_VERSION}, {variant}: {len(layers)} layers predicted {likely:.0f} us (modelled), measured "
        f"{got:.0f} us, ratio {got / likely:.2f}; {good} of {len(layers)} layers within {CLOSE:.0%}."
    )


def _load(notes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The clock and power while our tiers ran the whole network."""
    seen: dict[str, list[Mapping[str, Any]]] = {}
    for note in notes:
        payload = note["payload"]
        if note["kind"] == "conditions" and payload["layer"] == "network" and payload["variant"].startswith("ours_"):
            seen.setdefault(payload["variant"], []).append(payload)
    for variant, payloads in seen.items():
        parts = []
        for key, unit in (("sm_mhz", "MHz"), ("power_w", "W")):
            values = [payload[key]["median"] for payload in payloads if key in payload]
            if values:
                parts.append(f"{median(values):.0f} {unit}")
        if parts:
            yield f"Under {variant} (measured): {', '.join(parts)} at the median."


def _constants(notes: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The peak rates that stand for constants of the time model."""
    rates = {row["quantity"]: row["value"] for n in notes if n["kind"] == "ceilings" for row in n["payload"]["rows"]}
    if "l2_bytes_per_sm_clock" in rates:
        yield (
            f"L2: {rates['l2_bytes_per_sm_clock']:.1f} B a clock an SM (measured); the model has "
            f"{constant('l2_bytes_per_clock'):.1f}."
        )
    if "graph_launch_gap" in rates:
        gap = rates["graph_launch_gap"] * 1e6
        yield f"Launch gap in a graph: {gap:.2f} us (measured); the model has {constant('launch_us'):.2f}."
