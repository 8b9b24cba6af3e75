"""The rows behind the floor's tables and figures, as tidy DataFrames; every one of them is derived."""

from contextlib import suppress
from itertools import product

import pandas as pd

from ..floor.algorithms import ALGORITHMS
from ..floor.hardware import device as find_device
from ..floor.hardware import devices
from ..floor.public import audit
from ..floor.rates import RATES
from ..floor.reported_times import Reported, Verdict, card_ratios, isolated, verdicts
from ..floor.roofline import FUSIONS, floor_us, impossible, layer_floors, lowest, turning_batch
from ..workload.lookup import UnknownName
from ..workload.network import Network
from ..workload.precision import TIERS, tier

BATCHES = (1, 2, 4, 8, 10, 16, 32, 64, 128, 256)
MARGIN = 0.05  # a floor that exceeds a time by less is only marginally above it
AUDITED = ("fp32", "fp16x3", "tf32", "fp16", "fp8")  # bf16 costs what fp16 costs


def audit_rows(network: Network, device: str, batch: int) -> pd.DataFrame:
    """What the public floor leaves out, by tier: parameters_us, activations_us, arithmetic_us, and floor_us of all."""
    rows = audit(network, device, batch, AUDITED)
    return pd.DataFrame([vars(row) for row in rows]).assign(device=device, batch=batch, evidence="derived")


def roofline_rows(network: Network, tiers: tuple[str, ...], device: str, batch: int) -> pd.DataFrame:
    """Each layer's operations, bytes and intensity by tier, and the rate that its floor amounts to (TFLOP/s)."""
    rows = [
        {
            "tier": name, "layer": row.layer, "flops": row.flops, "bytes": row.bytes, "flop_per_byte": row.intensity,
            "floor_us": row.floor_us, "bound": row.bound, "tflop_per_s": row.flops / row.floor_us / 1e6,
        }
        for name in tiers
        for row in layer_floors(network, name, device, batch)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(device=device, batch=batch, evidence="derived")


def ceilings(tiers: tuple[str, ...], device: str) -> pd.DataFrame:
    """A card's roofs: TFLOP/s by tier, and TB/s of its memory."""
    card = find_device(device)
    rows = [{"tier": name, "tflop_per_s": card.peaks[tier(name).rate] / 1e12} for name in tiers]
    return pd.DataFrame(rows).assign(device=device, tb_per_s=card.hbm_bytes_per_s / 1e12, evidence="derived")


def named_floors(network: Network, device: str, batch: int) -> pd.DataFrame:
    """Every floor that has a name on this card: tier, algorithm, fusion and rates, in microseconds.

    Where we found no published rate that a floor needs, that floor is absent.
    """
    rows = []
    for name, algorithm, fusion, rates in product(TIERS, ALGORITHMS, FUSIONS, RATES):
        named = {"algorithm": algorithm, "fusion": fusion, "rates": rates}
        with suppress(UnknownName):
            rows.append({"tier": name, **named, "floor_us": floor_us(network, name, device, batch, **named)})
    return pd.DataFrame(rows).assign(device=device, batch=batch, evidence="derived")


def lowest_rows(network: Network, device: str, batch: int) -> pd.DataFrame:
    """By tier, the bar that no algorithm counted here goes under (microseconds), and which of the two sums sets it."""
    rows = []
    for name in TIERS:
        arithmetic, traffic = lowest(network, name, device, batch)
        rows.append(
            {"tier": name, "lowest_us": max(arithmetic, traffic), "arithmetic_us": arithmetic, "hbm_us": traffic}
        )
    return pd.DataFrame(rows).assign(device=device, batch=batch, evidence="derived")


def device_rows(network: Network, batch: int) -> pd.DataFrame:
    """The stage-wise floor of every tier on every card, in microseconds."""
    rows = [
        {"device": card.title, "tier": name, "floor_us": floor_us(network, name, key, batch)}
        for key, card in devices().items()
        for name in TIERS
    ]
    return pd.DataFrame(rows).assign(batch=batch, evidence="derived")


def batch_rows(network: Network, tiers: tuple[str, ...], device: str) -> pd.DataFrame:
    """The stage-wise floor over the batch: microseconds in all and per image, and how many layers memory binds."""
    rows = []
    for name in tiers:
        for batch in BATCHES:
            layers = layer_floors(network, name, device, batch)
            total = sum(row.floor_us for row in layers)
            bound = sum(row.bound == "hbm" for row in layers)
            rows.append(
                {"tier": name, "batch": batch, "floor_us": total, "us_per_image": total / batch, "by_hbm": bound,
                 "layers": len(layers)}
            )  # fmt: skip
    return pd.DataFrame(rows).assign(device=device, evidence="derived")


def turning_rows(network: Network, tiers: tuple[str, ...], device: str) -> pd.DataFrame:
    """By layer and tier, the smallest batch at which arithmetic binds; missing where it never does up to 256."""
    rows = {
        row.name: {name: turning_batch(network, name, device, row.name) for name in tiers} for row in network.layers
    }
    return pd.DataFrame.from_dict(rows, orient="index").astype("Int64").rename_axis("layer")


def reported_networks(reported: pd.DataFrame) -> dict[tuple[str, str, str], float]:
    """Mean milliseconds of whole networks by (network, device, variant), from the reported rows."""
    rows = reported[reported["op"] == "network"]
    names = rows["shape"].str.extract(r"network=(\w+)")[0]
    return dict(zip(zip(names, rows["device"], rows["variant"], strict=True), rows["mean_ms"], strict=True))


def finding_rows(
    reported: pd.DataFrame, published: pd.DataFrame, larger: Network, smaller: Network, batch: int
) -> pd.DataFrame:
    """What follows from the reported times and what does not, one sentence a row.

    Args:
        reported: ``study.reported()``, for the times of both networks.
        published: ``study.reported_vgg19()``, for the protocol by which each of its times was taken.
        larger: VGG19.
        smaller: VGG16.
        batch: images of every reported run.
    """
    means, names = reported_networks(reported), set(isolated(larger, smaller))
    times = {key: Reported.three_digits(ms) for key, ms in means.items()}
    flops = sum(larger.layer(name).flops(batch) for name in names)
    found: list[tuple[bool, str]] = []
    for variant in ("eager", "inductor"):
        whole = times[larger.name, "h100_sxm", variant]
        part = whole - times[smaller.name, "h100_sxm", variant]
        found += _held(f"{larger.name} {variant}, {whole.mean_ms:g} ms", verdicts(whole, larger, "h100_sxm", batch))
        beyond = verdicts(part, larger, "h100_sxm", batch, names)
        found += _held(f"its three layers beyond {smaller.name}, {_range(part)} ms", beyond)
        rates = [flops / ms / 1e9 for ms in (part.mean_ms + part.half_width_ms, part.mean_ms - part.half_width_ms)]
        found.append(
            (
                True,
                f"{variant}: {flops / 1e9:.1f} GFLOP in {_range(part)} ms are {rates[0]:.0f} to {rates[1]:.0f} TFLOP/s",
            )
        )
    found += [_cards(variant, times, published, larger) for variant in ("eager", "inductor")]
    clocks = "a card short of power runs its arithmetic slower than the data sheet, and no report states a clock"
    found.append((False, f"how the time divides between arithmetic and memory: {clocks}"))
    return pd.DataFrame(found, columns=["follows", "finding"])


def _range(time: Reported) -> str:
    """What a difference of rounded figures can stand for: "0.30 to 0.32"."""
    return f"{time.mean_ms - time.half_width_ms:.2f} to {time.mean_ms + time.half_width_ms:.2f}"


def _held(what: str, held: list[Verdict]) -> list[tuple[bool, str]]:
    """The arithmetics that a time excludes, those that it excludes by less than ``MARGIN``, and those it allows."""
    over = {verdict: verdict.floor_us / verdict.reported_us - 1 for verdict in held}
    named = {v: f"{v.tier} {v.algorithm} ({v.floor_us / 1e3:.2f} ms)" for v in held}
    groups = (
        (True, "cannot have been made by", [named[v] for v in held if over[v] >= MARGIN]),
        (False, "marginally excluded:", [f"{named[v]}, by {over[v]:.1%}" for v in held if 0 < over[v] < MARGIN]),
        (False, "can have been made by", [named[v] for v in held if over[v] <= 0]),
    )
    return [(follows, f"{what}: {verb} {', '.join(words)}") for follows, verb, words in groups if words]


def _cards(
    variant: str, times: dict[tuple[str, str, str], Reported], published: pd.DataFrame, network: Network
) -> tuple[bool, str]:
    """The ratio of two cards' times: a conclusion only where both were taken by one protocol."""
    slow, fast = (times[network.name, device, variant] for device in ("h100_pcie", "h100_sxm"))
    ratios = card_ratios(slow, "h100_pcie", fast, "h100_sxm")
    stands = published[(published["withdrawn"] == "") & (published["variant"] == variant)].set_index("device")
    pcie, sxm = (
        f"{row['timer']} timer, {row['cache']} cache" for row in (stands.loc["h100_pcie"], stands.loc["h100_sxm"])
    )
    text = (
        f"{variant}: the PCIe card takes {ratios.reported:.2f} times as long; its tensor cores alone would give "
        f"{ratios.tensor:.2f}, its memory alone {ratios.memory:.2f}"
    )
    if pcie == sxm:
        return ratios.mixed, text
    days = [stands.loc[device, "date"] for device in ("h100_pcie", "h100_sxm")]
    return False, f"{text}. But the protocols differ: PCIe {pcie} ({days[0]}), SXM {sxm} ({days[1]})"


def claim_rows(
    network: Network, tiers: tuple[str, ...], device: str, batch: int, times_ms: dict[str, float]
) -> pd.DataFrame:
    """Each claimed time against each tier's lowest floor: why it is below all that are counted, or "not excluded"."""
    rows = []
    for claim, ms in times_ms.items():
        for name in tiers:
            reason = impossible(ms, network, name, device, batch)
            verdict = f"below every floor counted here ({reason})" if reason else "not excluded"
            rows.append({"claim": claim, "tier": name, "time_ms": ms, "verdict": verdict})
    return pd.DataFrame(rows)
