"""Where the time goes in eager and inductor: the tables of notebook 02, one device at a time."""

from collections.abc import Mapping

import pandas as pd

from ..evidence.ledger import Runs
from ..evidence.profiling import OTHER, PURPOSES
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


def network_times(newest: pd.DataFrame, reported: pd.DataFrame, network: str = "vgg19") -> pd.DataFrame:
    """Eager and inductor side by side, one row a device and batch; a ratio never leaves its row.

    Returns:
        ``evidence``, ``device``, ``device_name``, ``batch``, ``timer``, ``n`` (samples of each), ``eager_ms``,
        ``inductor_ms`` (means, as the reported ones are) and ``ratio`` (eager over inductor).
    """
    rows = newest[(newest["layer"] == "network") & newest["variant"].isin(BASELINES) & (newest["network"] == network)]
    shown = rows.groupby("device")["timer"].transform(lambda t: next(n for n in TIMERS if n in set(t)))
    key = ["evidence", "device", "device_name", "batch", "timer"]
    ours = rows[rows["timer"] == shown].groupby([*key, "variant"])["time_ms"].agg(["mean", "count"]).reset_index()
    theirs = reported[(reported["op"] == "network") & reported["shape"].str.contains(f"network={network} ")]
    batch = theirs["shape"].str.extract(r"batch=(\d+)")[0].astype(int)
    theirs = theirs.assign(batch=batch, timer="kernelbench").rename(columns={"mean_ms": "mean", "trials": "count"})
    table = pd.concat([theirs[[*key, "variant", "mean", "count"]], ours], ignore_index=True)
    wide = table.pivot_table(index=key, columns="variant", values="mean", sort=False)
    wide["n"] = table.groupby(key, sort=False)["count"].min()
    wide = wide.dropna().rename(columns={v: f"{v}_ms" for v in BASELINES}).reset_index()
    wide["ratio"] = wide["eager_ms"] / wide["inductor_ms"]
    wide.columns.name = None
    return wide[[*key, "n", "eager_ms", "inductor_ms", "ratio"]]


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


def saved_by_inductor(purposes: pd.DataFrame, device: str) -> pd.DataFrame:
    """What eager and inductor spend on each purpose, and the difference, in ms a forward; one device."""
    here = purposes[purposes["device"] == device]
    wide = here.pivot_table(index="purpose", columns="variant", values="time_us", aggfunc="sum", fill_value=0.0) / 1000
    wide = wide.reindex([name for name in ORDER if name in wide.index])
    return wide.assign(saved_ms=wide["eager"] - wide["inductor"]).rename(columns={v: f"{v}_ms" for v in BASELINES})


def ms(value: float) -> str:
    """Milliseconds in a sentence: three significant digits, "1,380 ms"."""
    return f"{float(f'{value:.3g}'):,g} ms"
