"""The rows behind the prediction's tables and figures, as tidy DataFrames with their evidence words."""

from dataclasses import asdict

import pandas as pd

from ..floor.hardware import device as find_device
from ..floor.hardware import devices
from ..floor.rates import best_published
from ..floor.roofline import floor_us
from ..kernels.tile_selection import candidates
from ..predict.baselines import BASELINES, by_cause, waterfall
from ..predict.constants import constants
from ..predict.published import CARDS, compare
from ..predict.search import launches_of
from ..predict.second_opinion import recorded
from ..predict.timemodel import CHANGES, another_tile, predict, time_of
from ..predict.work import from_launch
from ..workload.lookup import UnknownName
from ..workload.network import Network, network
from ..workload.precision import TIERS
from ..workload.precision import tier as find_tier
from .floors import reported_networks

BATCHES = (1, 2, 4, 8, 10, 16, 32, 64)
ANOTHER_TILE = "another tile"
LARGE = 4096  # rows of a product that fills the card for several waves
BAND = 0.20  # the band drawn around agreement


def constant_rows() -> pd.DataFrame:
    """Every constant of the time model: value, unit, source."""
    rows = [{"constant": c.name, "value": c.value, "unit": c.unit, "source": c.source} for c in constants().values()]
    return pd.DataFrame(rows)


def layer_rows(net: Network, tier: str, device: str, batch: int) -> pd.DataFrame:
    """Each layer's predicted time and floor (us), the tile, what binds, and what each single change would save (us)."""
    better = another_tile(net, tier, device, batch)
    rows = [
        {
            "layer": row.layer, "tile": row.tile, "time_us": row.time_us, "floor_us": row.floor_us,
            "of_floor": row.efficiency, "bound": row.bound, "waves": row.waves, **row.savings_us,
            ANOTHER_TILE: better.get(row.layer, ("", 0.0))[1],
        }
        for row in predict(net, tier, device, batch)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(tier=tier, device=device, batch=batch, evidence="modelled")


def tile_rows(net: Network, layer: str, tier: str, device: str, batch: int, most: int = 15) -> pd.DataFrame:
    """The tiles that a layer could run with, as the model ranks them: the ``most`` fastest, not compiled here.

    Of tiles that are the same to the model, as boxes of other sides often are, the first stands for all.

    Returns:
        tile, time_us (of all the layer's launches), bound and waves (of its main one), evidence.
    """
    card, row = find_device(device), net.layer(layer)
    pad = 0 if row == net.convs[-1] else 1
    found = []
    for tile in candidates(row, find_tier(tier), card, batch):
        times = [time_of(from_launch(launch, card), card)
                 for launch in launches_of(row, find_tier(tier), batch, tile, pad)]  # fmt: skip
        longest = max(times, key=lambda timing: timing.time_us)
        found.append(
            {"tile": str(tile), "time_us": sum(timing.time_us for timing in times), "bound": longest.bound,
             "waves": times[0].waves}
        )  # fmt: skip
    ranked = pd.DataFrame(found).sort_values("time_us", kind="stable").drop_duplicates(["time_us", "bound", "waves"])
    return ranked.head(most).reset_index(drop=True).assign(evidence="modelled")


def with_tile(layers: pd.DataFrame, layer: str, tiles: pd.DataFrame, tile: str) -> pd.DataFrame:
    """``layer_rows`` as they would be if ``layer`` ran with a ``tile`` of its ``tile_rows``."""
    other = tiles.set_index("tile").loc[tile]
    changed = layers.copy()
    place = changed.index[changed["layer"] == layer][0]
    changed.loc[place, ["tile", "time_us", "bound", "waves"]] = [tile, other["time_us"], other["bound"], other["waves"]]
    return changed.assign(of_floor=changed["floor_us"] / changed["time_us"])


def summary_rows(net: Network, batch: int) -> pd.DataFrame:
    """The network's predicted time and floor (us) on every card in every tier, and what binds most of that time."""
    rows = []
    for key, card in devices().items():
        for tier in TIERS:
            layers = predict(net, tier, key, batch)
            time = sum(row.time_us for row in layers)
            shares = pd.Series([row.time_us for row in layers], [row.bound for row in layers]).groupby(level=0).sum()
            rows.append(
                {"device": card.title, "tier": tier, "time_us": time, "floor_us": sum(r.floor_us for r in layers),
                 "bound": shares.idxmax(), "bound_share": shares.max() / time}
            )  # fmt: skip
    return pd.DataFrame(rows).assign(batch=batch, evidence="modelled")


def savings(layers: pd.DataFrame) -> pd.DataFrame:
    """What each change alone would save on the network (us), from ``layer_rows``."""
    total = layers["time_us"].sum()
    rows = [
        {"change": change, "saves_us": layers[change].sum(), "share": layers[change].sum() / total}
        for change in (*CHANGES, ANOTHER_TILE)
    ]
    return pd.DataFrame(rows).assign(evidence="modelled")


def batch_rows(net: Network, tiers: tuple[str, ...], device: str) -> pd.DataFrame:
    """Predicted time and floor per image (us) over the batch."""
    rows = []
    for tier in tiers:
        for batch in BATCHES:
            layers = predict(net, tier, device, batch)
            time, floor = sum(row.time_us for row in layers), sum(row.floor_us for row in layers)
            rows.append(
                {"tier": tier, "batch": batch, "us_per_image": time / batch, "floor_us_per_image": floor / batch}
            )
    return pd.DataFrame(rows).assign(device=device, evidence="modelled")


def comparisons(
    reported: pd.DataFrame, hopper: pd.DataFrame, clocks_hz: dict[str, float] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The model beside every reported measurement that tests it, and the rows left out with their reasons."""
    tests, left_out = compare(
        *(table.astype(str).to_dict("records") for table in (reported, hopper)), clocks_hz=clocks_hz
    )
    frame = pd.DataFrame([{**asdict(row), "error": row.error} for row in tests])
    return frame.assign(evidence="modelled"), pd.DataFrame([asdict(row) for row in left_out])


def errors(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Error of the predictions by group: how many, the median, the median of the size, and the share in the band."""
    return (
        rows.groupby(by, sort=True)["error"]
        .agg(
            rows="size",
            median_error="median",
            median_size=lambda e: e.abs().median(),
            within_band=lambda e: (e.abs() <= BAND).mean(),
        )
        .reset_index()
    )


def kin(compared: pd.DataFrame, tier: str) -> pd.DataFrame:
    """The reported products nearest to our kernels in a tier: plain Triton ones of our tile, cuBLAS's from 4096 up.

    Args:
        compared: the first of ``comparisons``.
        tier: of the network; those whose operands nobody's rows have (bf16, fp8, fp16x3) take fp16's.
    """
    dtype = {"fp32": "float32", "tf32": "tf32"}.get(tier, "float16")
    products = compared[(compared["kind"] == "matrix product") & (compared["dtype"] == dtype)]
    plain, cublas = (products["what"].str.contains(word) for word in ("gluon plain", "cublas"))
    large = products["what"].str.extract(r"m=(\d+)", expand=False).astype(int) >= LARGE
    return products[plain | (cublas & (products["device"] == "h100_sxm") & large)]


def interval(total_us: float, rows: pd.DataFrame) -> tuple[float, float]:
    """A prediction corrected by the smallest and by the largest error of comparable rows, in microseconds."""
    return total_us / (1 + rows["error"].max()), total_us / (1 + rows["error"].min())


def corrected_rows(compared: pd.DataFrame, net: Network, device: str, batch: int) -> pd.DataFrame:
    """Each tier's prediction (ms), and what it becomes by the errors of its ``kin``.

    Returns:
        tier, modelled_ms, the number of kin and their mildest and worst error, from_ms and to_ms, and the floor at the
        best rates that anyone has published for the card (ms; NaN where nobody has); evidence.
    """
    rows = []
    for tier in TIERS:
        total, near = sum(row.time_us for row in predict(net, tier, device, batch)), kin(compared, tier)
        low, high = interval(total, near)
        try:
            published = floor_us(net, tier, device, batch, rates=best_published(find_device(device))) / 1e3
        except UnknownName:
            published = float("nan")
        rows.append(
            {"tier": tier, "modelled_ms": total / 1e3, "kin": len(near), "mildest": near["error"].max(),
             "worst": near["error"].min(), "from_ms": low / 1e3, "to_ms": high / 1e3, "published_floor_ms": published}
        )  # fmt: skip
    return pd.DataFrame(rows).assign(evidence="modelled")


def opinions(rows: pd.DataFrame) -> pd.DataFrame:
    """NVIDIA's heuristics beside the model, on the reported matrix products that both estimate (us)."""
    known = {(o.device, o.rate, o.m, o.n, o.k): o for o in recorded()}
    rates = {"float16": "fp16", "float32": "fp32"}
    products = rows[
        (rows["kind"] == "matrix product") & rows["dtype"].isin(rates) & rows["what"].str.startswith("matmul")
    ]
    table = []
    for row in products.itertuples():
        m, n, k = (int(part.split("=")[1]) for part in row.what.split()[1:4])
        opinion = known.get((CARDS.get(row.device, row.device), rates[row.dtype], m, n, k))
        if opinion is not None and ("cublas" in row.what or "eager" in row.what):
            table.append(
                {"device": row.device, "dtype": row.dtype, "m": m, "n": n, "k": k, "reported_us": row.reported_us,
                 "model_us": row.predicted_us, "heuristics_us": opinion.estimate_us,
                 "model_error": row.error, "heuristics_error": opinion.estimate_us / row.reported_us - 1}
            )  # fmt: skip
    return pd.DataFrame(table).drop_duplicates(["device", "dtype", "m", "n", "k", "reported_us"]).reset_index(drop=True)


def network_rows(reported: pd.DataFrame, batch: int) -> pd.DataFrame:
    """The reported whole networks beside the baselines' model of them (ms)."""
    rows = []
    for (name, device, variant), mean_ms in reported_networks(reported).items():
        modelled = sum(kernel.time_us for kernel in BASELINES[variant](network(name), device, batch)) / 1e3
        rows.append(
            {"network": name, "device": device, "variant": variant, "reported_ms": mean_ms, "modelled_ms": modelled,
             "error": modelled / mean_ms - 1}
        )  # fmt: skip
    return pd.DataFrame(rows)


def cause_rows(net: Network, device: str, batch: int) -> pd.DataFrame:
    """Where eager and inductor spend their modelled time (us), by cause."""
    tables = {name: by_cause(kernels(net, device, batch)) for name, kernels in BASELINES.items()}
    return pd.DataFrame(tables).rename_axis("cause").reset_index().assign(evidence="modelled")


def waterfall_rows(net: Network, device: str, batch: int) -> pd.DataFrame:
    """From eager to inductor to ours, one named cause at a time (us)."""
    return pd.DataFrame([asdict(step) for step in waterfall(net, device, batch)]).assign(
        device=device, batch=batch, evidence="modelled"
    )
