"""What the gate has recorded, as tidy rows: errors, spreads, certificates, the kill matrix, accuracy beside speed.

``data/gate`` holds the documents of ``ladder --out``, ``mutants --out`` and ``verify --out``, each with its provenance.
"""

import json
from typing import Any

import pandas as pd
import torch

from ..correctness.kill_matrix import GATES
from ..correctness.ladder import EAGER
from ..correctness.truncation import STEP, sum_products
from ..floor.roofline import floor_us
from ..predict.timemodel import predict
from ..workload.network import Network
from ..workload.precision import TIERS
from .floors import reported_networks
from .study import root

FOLDER = "data/gate"
ALIKE = 0.1  # errors that differ by less count as equal: another seed moves them by as much
REPORTED_TIER = "tf32"  # KernelBench's flags let convolutions round to tf32; no error was published with its times


def recorded(name: str) -> dict:
    """One document of ``data/gate``.

    Raises:
        FileNotFoundError: naming the file, where there is none.
    """
    path = root() / FOLDER / f"{name}.json"
    if not path.is_file():
        raise FileNotFoundError(f"{FOLDER}/{path.name} is missing: python -m vgg_kernels writes it with --out")
    return json.loads(path.read_text())


def error_rows(document: dict) -> pd.DataFrame:
    """By arithmetic and layer, the worst image's relative error, expected and accepted (``ladder``)."""
    return pd.DataFrame(document["errors"]).assign(evidence=document["evidence"])


def ladder_table(errors: pd.DataFrame) -> pd.DataFrame:
    """The logits' errors: one row an arithmetic, with its error over the expected and over eager fp32's."""
    last = errors[errors["depth"] == errors["depth"].max()].set_index("arithmetic")
    eager = last.loc[EAGER, "relative_error"]
    return pd.DataFrame(
        {
            "relative_error": last["relative_error"],
            "expected": last["expected"],
            "budget": last["budget"],
            "of_expected": last["relative_error"] / last["expected"],
            "of_eager": last["relative_error"] / eager,
            "evidence": last["evidence"],
        }
    ).reset_index()


def undominated(table: pd.DataFrame, times_ms: pd.Series) -> list[str]:
    """The tiers that no other beats: none is as accurate (to ``ALIKE``) and as fast, and better in one of the two.

    Args:
        table: ``ladder_table``.
        times_ms: by tier.
    """
    error = table.set_index("arithmetic")["relative_error"]
    return [
        tier
        for tier in TIERS
        if not any(
            error[other] <= error[tier] * (1 + ALIKE)
            and times_ms[other] <= times_ms[tier]
            and (error[other] * (1 + ALIKE) < error[tier] or times_ms[other] < times_ms[tier])
            for other in TIERS
        )
    ]


def spread_rows(document: dict) -> pd.DataFrame:
    """By weights and layer, how far outputs differ between images (``ladder``)."""
    return pd.DataFrame(document["spread"]).assign(evidence=document["evidence"])


def certificate_rows(document: dict) -> pd.DataFrame:
    """What each check can see: spread, tolerance, their ratio."""
    columns = ["check", "weights", "inputs", "spread", "tolerance", "sensitivity", "vacuous"]
    return pd.DataFrame(document["certificates"])[columns].assign(evidence=document["evidence"])


def matrix_rows(document: dict) -> pd.DataFrame:
    """One row a candidate and gate: its group, and whether it was killed; wrong networks first, then the right ones."""
    rows = [
        {
            "candidate": row["name"],
            "intent": row["intent"],
            "group": row["group"],
            "right": kind == "correct",
            "gate": gate,
            "killed": gate in row["killed_by"],
            "found_by": row["found_by"].get(gate, ""),
            "evidence": document["evidence"],
        }
        for kind in ("mutants", "correct")
        for row in document[kind]
        for gate in GATES
    ]
    return pd.DataFrame(rows)


def matrix_table(rows: pd.DataFrame, group: str | None = None) -> pd.DataFrame:
    """By gate: wrong networks killed and accepted, right ones rejected.

    Args:
        rows: ``matrix_rows``.
        group: of the wrong networks, "contract", "beyond", "precision" or "dishonest"; None counts all.
    """
    counted = rows[rows["right"] | (rows["group"] == group) | (group is None)].groupby("gate", sort=False)
    return pd.DataFrame(
        {
            "mutants": counted.apply(lambda g: int((~g["right"]).sum()), include_groups=False),
            "killed": counted.apply(lambda g: int((~g["right"] & g["killed"]).sum()), include_groups=False),
            "accepted": counted.apply(lambda g: int((~g["right"] & ~g["killed"]).sum()), include_groups=False),
            "right_rejected": counted.apply(lambda g: int((g["right"] & g["killed"]).sum()), include_groups=False),
        }
    ).reset_index()


def group_table(document: dict) -> pd.DataFrame:
    """One row a group of wrong networks: what they have in common, how many there are, how many each gate accepts."""
    rows = [
        {"group": name, "meaning": group["meaning"], "networks": group["networks"], **group["accepted"]}
        for name, group in document["groups"].items()
    ]
    return pd.DataFrame(rows).assign(evidence=document["evidence"])


def verdict_rows() -> pd.DataFrame:
    """What ``verify`` has recorded of our kernels: one row a tier, empty where nothing was.

    ``values`` counts the checks on the network itself, ``further`` those on the small one that stands in for it where
    a forward takes minutes.
    """
    rows = []
    for tier in TIERS:
        path = root() / FOLDER / f"verify_{tier}.json"
        if path.is_file():
            document = json.loads(path.read_text())
            whole = [check["network"] == document["network"] for check in document["checks"]]
            rows.append(
                {
                    "tier": tier,
                    "network": document["network"],
                    "image": document["image"],
                    "arithmetic": document["arithmetic"],
                    "device": document["provenance"]["device_name"],
                    "relative_error": document["relative_error"],
                    "values": sum(whole),
                    "further": len(whole) - sum(whole),
                    "passed": document["passed"],
                    "evidence": document["evidence"],
                }
            )
    columns = ["tier", "network", "image", "arithmetic", "device", "relative_error"]
    return pd.DataFrame(rows, columns=[*columns, "values", "further", "passed", "evidence"])


def pareto_rows(
    errors: pd.DataFrame, reported: pd.DataFrame, network: Network, devices: tuple[str, ...], batch: int
) -> pd.DataFrame:
    """Accuracy beside time: our tiers as modelled, their floors as derived, the published runs as reported.

    Args:
        errors: ``error_rows``.
        reported: KernelBench's rows.
        network: the network.
        devices: keys of cards.
        batch: images; reported runs of another batch are left out.
    """
    last = errors[errors["depth"] == errors["depth"].max()].set_index("arithmetic")["relative_error"]
    rows = []
    for device in devices:
        for tier in TIERS:
            common = {"tier": tier, "device": device, "batch": batch, "relative_error": last[tier]}
            modelled = sum(row.time_us for row in predict(network, tier, device, batch)) / 1e3
            derived = floor_us(network, tier, device, batch) / 1e3
            rows.append({"what": "our kernels", **common, "time_ms": modelled, "evidence": "modelled"})
            rows.append({"what": "floor", **common, "time_ms": derived, "evidence": "derived"})
    same_batch = reported[reported["shape"].str.contains(f"batch={batch} ")]
    for (name, device, variant), mean_ms in reported_networks(same_batch).items():
        if name == network.name and device in devices:
            rows.append(
                {"what": variant, "tier": REPORTED_TIER, "device": device, "batch": batch,
                 "relative_error": last[REPORTED_TIER], "time_ms": mean_ms, "evidence": "reported"}
            )  # fmt: skip
    return pd.DataFrame(rows)


def truncation_table(document: dict) -> pd.DataFrame:
    """Through the whole network: fp16x3's logits where sums are kept in various ways, and over eager fp32's error."""
    rows = pd.DataFrame(document["truncation"])
    last = rows[rows["depth"] == rows["depth"].max()].set_index("sums")["relative_error"]
    table = pd.DataFrame({"relative_error": last, "of_eager": last / last[EAGER]})
    return table.assign(evidence=document["evidence"]).reset_index()


SUMS: dict[str, dict[str, Any]] = {  # what a sum of K products is kept in, as ``truncation.sum_products`` takes it
    "rounded to nearest": {"truncating": False},
    "truncated": {"truncating": True},
    "truncated, each step's 64 added outside": {"truncating": True, "outer": STEP},
}


def truncation_rows(network: Network) -> pd.DataFrame:
    """What truncating sums would cost at the depths of a network's convolutions, emulated on random fp16 operands.

    Returns:
        K (products of one output), then one column for each of ``SUMS``: relative error in norm.
    """
    rows = []
    for depth in sorted({9 * conv.c_in for conv in network.convs[1:]}):
        generator = torch.Generator().manual_seed(depth)
        a = torch.randn(64, depth, generator=generator).relu().half().double()  # activations behind a ReLU
        b = torch.randn(64, depth, generator=generator).half().double()
        exact = a @ b.T
        sums = {name: sum_products(a, b, **how) for name, how in SUMS.items()}
        rows.append({"K": depth} | {name: float((got - exact).norm() / exact.norm()) for name, got in sums.items()})
    return pd.DataFrame(rows)
