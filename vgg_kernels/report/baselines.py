"""Where the time goes in eager and inductor: the tables of notebook 02, one device at a time."""

from collections.abc import Mapping

import pandas as pd

from ..measure.profile import OTHER, PURPOSES
from ..records import statistics
from ..records.store import Runs
from ..workload.network import Network

BASELINES = ("eager", "inductor")
ORDER = (*dict.fromkeys(what for what, _ in PURPOSES), OTHER)
TIMERS = (
    "kernelbench",
    "host",
)  # of a device's timers, the one that the network's times are shown by: the first it has


def newest_runs(measured: pd.DataFrame) -> pd.DataFrame:
    """The samples of each device's newest run that timed the whole network as eager and as inductor.

    Args:
        measured: ``study.measured()``.
    """
    whole = measured[(measured["layer"] == "network") & measured["variant"].isin(BASELINES)]
    both = whole.groupby(["device", "run", "observed"])["variant"].nunique().loc[lambda n: n == len(BASELINES)]
    newest = both.reset_index().sort_values("observed").groupby("device")["run"].last()
    return measured[measured["run"].isin(newest)]


def network_times(newest: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Eager and inductor of VGG19 side by side, one row a device, batch and protocol; a ratio never leaves its row.

    Args:
        newest: ``newest_runs``.
        published: ``study.reported_vgg19()``; of its rows those that stand.

    Returns:
        ``evidence``, ``device``, ``device_name``, ``batch``, ``timer``, ``cache``, ``n`` (samples of each),
        ``eager_ms``, ``inductor_ms`` (means, as the reported ones are), ``ratio`` (eager over inductor), ``ratio_low``
        and ``ratio_high`` (from the far ends of the means' 95 % intervals; missing where there are too few samples).
    """
    rows = newest[(newest["layer"] == "network") & newest["variant"].isin(BASELINES) & (newest["network"] == "vgg19")]
    shown = rows.groupby("device")["timer"].transform(lambda t: next(n for n in TIMERS if n in set(t)))
    key = ["evidence", "device", "device_name", "batch", "timer", "cache"]
    stands = published[(published["withdrawn"] == "") & published["variant"].isin(BASELINES)]
    found: dict[tuple, dict[str, statistics.Summary]] = {}
    for row in stands.itertuples():
        summary = statistics.from_published(row.mean_ms, row.std_ms, row.min_ms, row.max_ms, row.trials)
        found.setdefault(tuple(getattr(row, name) for name in key), {})[row.variant] = summary
    for (*where, variant), calls in rows[rows["timer"] == shown].groupby([*key, "variant"]):
        found.setdefault(tuple(where), {})[variant] = statistics.summarise(calls.sort_values("sample")["time_ms"])
    table = [(*where, *_ratio(by["eager"], by["inductor"])) for where, by in found.items() if len(by) == len(BASELINES)]
    columns = ["n", *(f"{name}_ms" for name in BASELINES), "ratio", "ratio_low", "ratio_high"]
    return pd.DataFrame(table, columns=[*key, *columns])


def _ratio(eager: statistics.Summary, inductor: statistics.Summary) -> tuple:
    means = eager.mean_ms, inductor.mean_ms
    ends = _over(eager.low_ms, inductor.high_ms), _over(eager.high_ms, inductor.low_ms)
    return min(eager.n, inductor.n), *means, means[0] / means[1], *ends


def _over(a: float | None, b: float | None) -> float:
    return float("nan") if a is None or b is None else a / b


def apart(row) -> bool:
    """Whether one of a row's two means is lower beyond doubt: their intervals do not overlap, as a ranking asks."""
    return row.ratio_low > 1 or row.ratio_high < 1  # False where an interval is missing


def comparison(row) -> str:
    """One row of ``network_times`` in words: what inductor saves, or that the two tie."""
    where = f"{row.device_name}, batch {row.batch} ({row.evidence}; {row.timer} timer, {row.cache} cache)"
    if apart(row):
        least, most = sorted(abs(1 - 1 / end) for end in (row.ratio_low, row.ratio_high))
        return (
            f"{where}: inductor takes {abs(1 - 1 / row.ratio):.0%} ({least:.0%} to {most:.0%}) "
            f"{'less' if row.ratio > 1 else 'more'} time than eager, {ms(abs(row.eager_ms - row.inductor_ms))} of "
            f"{ms(row.eager_ms)}"
        )
    both = f"eager takes {ms(row.eager_ms)} and inductor {ms(row.inductor_ms)}"
    if pd.isna(row.ratio_low):
        return f"{where}: {both}; {row.n} calls of each are too few to tell them apart"
    return f"{where}: a tie; {both}, a ratio of {row.ratio_low:.2f} to {row.ratio_high:.2f}"


def profiles(runs: Mapping[str, Runs], newest: pd.DataFrame) -> pd.DataFrame:
    """The kernels of one forward, from the profile notes of the newest runs.

    Returns:
        ``evidence``, ``device``, ``device_name``, ``variant``, ``batch``, ``kernel``, ``purpose``, ``calls``,
        ``time_us``, ``share``.
    """
    names = newest.drop_duplicates("run").set_index("run")["device_name"].to_dict()
    rows = [
        {"evidence": "measured", "device": note.device, "device_name": names[note.run],
         "variant": note.payload["variant"], "batch": note.payload["batch"], **row}
        for ledger in runs.values()
        for note in ledger.notes.itertuples()
        if note.kind == "profile" and note.run in names and note.payload["variant"] in BASELINES
        for row in note.payload["rows"]
    ]  # fmt: skip
    columns = [
        "evidence",
        "device",
        "device_name",
        "variant",
        "batch",
        "kernel",
        "purpose",
        "calls",
        "time_us",
        "share",
    ]
    return pd.DataFrame(rows, columns=columns)


def by_purpose(kernels: pd.DataFrame) -> pd.DataFrame:
    """The profile by what kernels are for: ``time_us``, ``share`` and ``kernels`` (calls in one forward)."""
    key = ["evidence", "device", "device_name", "batch", "variant", "purpose"]
    table = kernels.groupby(key, sort=False).agg(time_us=("time_us", "sum"), share=("share", "sum"),
                                                 kernels=("calls", "sum")).reset_index()  # fmt: skip
    place = table["purpose"].map({name: i for i, name in enumerate(ORDER)})
    return (
        table.assign(place=place).sort_values(["device", "variant", "place"], ignore_index=True).drop(columns="place")
    )


def layer_times(newest: pd.DataFrame, network: Network, variant: str = "eager") -> pd.DataFrame:
    """Each layer timed by itself, on every device that did so, beside its operations.

    Returns:
        ``evidence``, ``device``, ``device_name``, ``batch``, ``layer``, ``time_ms`` (median), ``share`` (of the
        layers' sum), ``flop_share`` and ``gflop_per_s``.
    """
    names = [layer.name for layer in network.layers]
    rows = newest[newest["layer"].isin(names) & (newest["variant"] == variant) & (newest["network"] == network.name)]
    rows = rows[rows["cache"] == rows.groupby("device")["cache"].transform("min")]  # cold where there is a choice
    key = ["evidence", "device", "device_name", "batch", "layer"]
    table = rows.groupby(key, sort=False)["time_ms"].median().reset_index()
    table["layer"] = pd.Categorical(table["layer"], names, ordered=True)
    table = table.sort_values(["device", "batch", "layer"], ignore_index=True).astype({"layer": str})
    flops = [network.layer(r.layer).flops(r.batch) for r in table.itertuples()]
    sums = table.groupby(["device", "batch"])["time_ms"].transform("sum")
    table["share"] = table["time_ms"] / sums
    table["flop_share"] = [f / network.flops(b) for f, b in zip(flops, table["batch"], strict=True)]
    table["gflop_per_s"] = [f / (1e6 * t) for f, t in zip(flops, table["time_ms"], strict=True)]
    return table


def ceilings(runs: Mapping[str, Runs], newest: pd.DataFrame) -> pd.DataFrame:
    """What each device reached in its own run: ``device``, ``quantity``, ``value``, ``unit``, ``how``."""
    chosen = set(newest["run"])
    rows = [
        {"evidence": "measured", "device": note.device, **row}
        for ledger in runs.values()
        for note in ledger.notes.itertuples()
        if note.kind == "ceilings" and note.run in chosen
        for row in note.payload["rows"]
    ]
    return pd.DataFrame(rows, columns=["evidence", "device", "quantity", "value", "unit", "how"])


def conditions(runs: Mapping[str, Runs], newest: pd.DataFrame) -> pd.DataFrame:
    """What each device was doing meanwhile, one row a run.

    Returns:
        ``device``, ``device_name``, ``torch``, ``observed`` (date), ``gpu``, ``cores``, ``load`` (highest sampled load
        average), ``busy`` (more runnable processes than cores) and ``throttled`` (timers with a lowered clock).
    """
    rows = []
    for ledger in runs.values():
        for run in sorted(set(newest["run"]) & set(ledger.provenance)):
            found, notes = ledger.provenance[run], ledger.notes[ledger.notes["run"] == run]
            timers = [
                payload for kind, payload in zip(notes["kind"], notes["payload"], strict=True) if kind == "conditions"
            ]
            loads = [p["load_average"]["max"] for p in timers if "load_average" in p]
            host = found.get("host", {})
            load = max([*loads, *host.get("load_average", [])[:1]], default=0.0)
            cores, gpu = host.get("usable_cores", 0), found["hardware"]["kind"] == "cuda"
            rows.append(
                {"device": found["device"], "device_name": found["device_name"], "torch": found["torch"],
                 "observed": found["observed"][:10], "gpu": gpu, "cores": cores, "load": load,
                 "busy": not gpu and load > cores + 0.5,
                 "throttled": sum(bool(p.get("throttled")) for p in timers)}
            )  # fmt: skip
    return pd.DataFrame(rows)


def timer_ratios(newest: pd.DataFrame) -> pd.DataFrame:
    """Where a device's timers disagree: median of each over the public protocol's, for the whole network.

    A device with one timer (a CPU) has no rows.
    """
    rows = newest[newest["layer"] == "network"]
    key = ["evidence", "device", "device_name", "variant", "batch"]
    table = rows.groupby([*key, "timer", "cache"])["time_ms"].median().reset_index()
    first = table[(table["timer"] == "kernelbench") & (table["cache"] == "cold")].set_index(key)["time_ms"]
    base = first.reindex(pd.MultiIndex.from_frame(table[key])).to_numpy()
    return table.assign(ratio=table["time_ms"] / base).dropna(subset=["ratio"]).reset_index(drop=True)


def foremost(found: pd.DataFrame) -> str:
    """Key of the device that a figure of one device shows: a GPU before a CPU, then the newest; from ``conditions``."""
    return found.sort_values(["gpu", "observed"])["device"].iloc[-1]


def whose(found: pd.DataFrame) -> str:
    """One sentence for each measured device, and what to do for one's own; from ``conditions``."""
    sentences = []
    for row in found.itertuples():
        state = f"with up to {row.load:.1f} runnable processes on {row.cores} cores" if not row.gpu else (
            f"with {row.throttled} of its timers throttled")  # fmt: skip
        busy = ", so it was **busy** and its times are too long; their shares say more than their lengths"
        sentences.append(
            f"- **{row.device_name}** ({'GPU' if row.gpu else 'CPU'}), torch {row.torch}, {row.observed}, {state}"
            + (busy if row.busy else "")
        )
    more = "" if found["gpu"].any() else " No GPU has been measured yet."
    return "\n".join(sentences) + f"\n\nShowing recorded data.{more} Run `python -m vgg_kernels measure` for yours."


PRODUCTS = ["convolution", "matrix product"]


def purpose_shares(purposes: pd.DataFrame, device: str) -> pd.DataFrame:
    """By purpose, the calls of one forward's kernels (of a CPU's operators) and their share of its time in kernels."""
    here = purposes[purposes["device"] == device]
    wide = here.pivot_table(index="purpose", columns="variant", values=["kernels", "share"], fill_value=0.0)
    wide = wide.reindex([name for name in ORDER if name in wide.index])
    names = {"kernels": "calls", "share": "share"}
    columns = {f"{v}_{name}": wide[what, v] for what, name in names.items() for v in BASELINES}
    return pd.DataFrame(columns).astype({f"{v}_calls": int for v in BASELINES})


def division(purposes: pd.DataFrame, device: str) -> str:
    """The shares of one device's profiles in a sentence. Lengths are left to the timers: each variant is profiled once.

    Args:
        purposes: ``by_purpose``.
        device: key of the device.
    """
    here = purposes[(purposes["device"] == device) & purposes["purpose"].isin(PRODUCTS)]
    share = here.groupby("variant")["share"].sum()
    parts = " and ".join(f"{part:.0%} of {variant}'s" for variant, part in share.items())
    return f"Convolutions and matrix products take {parts} time in kernels."


def ms(value: float) -> str:
    """Milliseconds in a sentence: three significant digits, "1,380 ms"."""
    return f"{float(f'{value:.3g}'):,g} ms"
