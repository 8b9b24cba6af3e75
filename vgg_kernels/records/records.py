"""Records from evidence: from the published rows, and from the ledger's runs."""

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from ..workload.identity import IDENTITY, KERNELBENCH
from . import statistics
from .facts import DIGITS, Certificate, Cohort, Origin, Record, Times, Verdict
from .facts import Facts as Facts
from .store import Runs

NETWORK = "vgg19"
WHOLE = "network"  # the ``layer`` of rows that time the whole forward
PYTORCH_OWN = ("eager", "inductor", "cudagraphs")  # how names of PyTorch's own executions of the reference begin


def is_pytorch_own(variant: str) -> bool:
    """Whether a variant is PyTorch's own execution of the reference module, which candidates are held against."""
    return variant.startswith(PYTORCH_OWN)


def tier_of(dtype: str, cudnn_allow_tf32: bool, matmul_allow_tf32: bool) -> str:
    """The tier of the least precise operand: fp32 tensors whose convolutions or products may use TF32 are ``tf32``.

    Raises:
        ValueError: for a dtype other than float32, float16 and bfloat16.
    """
    narrow = {"float16": "fp16", "bfloat16": "bf16"}
    if dtype in narrow:
        return narrow[dtype]
    if dtype != "float32":
        raise ValueError(f"dtype {dtype!r} is not accepted: float32, float16 and bfloat16 are")
    return "tf32" if cudnn_allow_tf32 or matmul_allow_tf32 else "fp32"


def from_reported(rows: pd.DataFrame, file: str) -> list[Record]:
    """The published rows of ``data/reported/kernelbench_vgg19.csv`` as records."""
    return [_reported(row, file, number) for number, row in enumerate(rows.itertuples(), start=2)]


def _reported(row: Any, file: str, number: int) -> Record:
    caveats = ["no raw samples are public", "the day is that of publication", "no check of the outputs is public"]
    if row.torch_stated.split("+")[0] != row.torch_pinned:
        caveats.append(f"its source states torch {row.torch_stated} and pins torch {row.torch_pinned}")
    caveats.append(f"{row.cache} cache: read from the timing code of the publishing revision, not stated by it")
    if row.problem_sha256 != KERNELBENCH.sha256:
        caveats.append(f"another problem file: input from {KERNELBENCH.earlier_inputs[row.problem_sha256]}")
    tier = tier_of(row.dtype, row.cudnn_allow_tf32, row.matmul_allow_tf32)
    return Record(
        variant=row.variant,
        cohort=Cohort(network=NETWORK, batch=row.batch, device=row.device, tier=tier, timer=row.timer, cache=row.cache),
        dtype=row.dtype,
        cudnn_allow_tf32=row.cudnn_allow_tf32,
        matmul_allow_tf32=row.matmul_allow_tf32,
        times=Times.of(statistics.from_published(row.mean_ms, row.std_ms, row.min_ms, row.max_ms, row.trials)),
        origin=Origin(
            evidence="reported",
            observer=f"KernelBench, on {row.host}",
            observed=date.fromisoformat(row.date),
            device_name=row.device_name,
            card=None,
            torch=row.torch_stated,
            source=f"{row.source}/blob/{row.commit}/{row.path}",
            revision=row.commit,
            file=file,
            row=number,
        ),
        gate=_verdict(row.variant, []),
        workload_sha256=row.problem_sha256,
        samples_sha256=None,
        recipe=f"scripts/generate_baseline_time*.py of {row.source} at {row.commit[:10]}",
        caveats=caveats,
        withdrawn=date.fromisoformat(row.withdrawn) if row.withdrawn else None,
        superseded_by=None,
    )


def _verdict(variant: str, notes: list[dict[str, Any]]) -> Verdict:
    if notes:
        seen = [found for note in notes for found in note.get("verdict", {}).get("certificates", [])]
        certificates = [
            Certificate(
                check=found["check"],
                weights=found["weights"],
                sensitivity=float(f"{found['sensitivity']:.{DIGITS}g}"),
                vacuous=found["vacuous"],
            )
            for found in seen
        ]
        passed = all(note["passed"] for note in notes)
        why = "the run's own gate verdict"
        return Verdict(state="passed" if passed else "failed", why=why, certificates=certificates)
    if is_pytorch_own(variant):
        why = "PyTorch's own execution of the reference: candidates are held against it"
        return Verdict(state="reference", why=why, certificates=[])
    return Verdict(state="missing", why="no gate verdict in the run", certificates=[])


KEYS = [
    "run", "variant", "network", "batch", "device", "tier", "timer", "cache", "dtype",
    "cudnn_allow_tf32", "matmul_allow_tf32",
]  # fmt: skip


def from_runs(runs: Runs, place: str, observer: str) -> list[Record]:
    """The whole-network times of VGG19 in the ledger's runs, one record a run and variant.

    Args:
        runs: what ``read_runs`` returned.
        place: the folder they were read from, as it is written in the record ("data/measured").
        observer: whose measurements they are.
    """
    samples = runs.samples[(runs.samples["layer"] == WHOLE) & (runs.samples["network"] == NETWORK)]
    groups = samples.groupby(KEYS, sort=True, observed=True)
    return [_measured(dict(zip(KEYS, key, strict=True)), group, runs, place, observer) for key, group in groups]


def _measured(key: dict[str, Any], group: pd.DataFrame, runs: Runs, place: str, observer: str) -> Record:
    run = key["run"]
    facts = runs.provenance[run]
    folder = Path(place, runs.folders[run]).as_posix()
    sealed = run in runs.seals
    clean = facts["git_revision"] and facts["git_dirty"] is False
    caveats = [] if sealed else ["the run is not sealed: it was interrupted, or is still measuring"]
    if not clean:
        caveats.append("the source that ran differs from any revision (uncommitted changes, or no git)")
    if facts.get("revision_stated"):
        caveats.append("its revision was stated where git was not at hand; the source's SHA-256 is on record")
    caveats += conditions(runs.notes, key) + busy(facts)
    times = group.sort_values("sample")["time_ms"].to_numpy()
    return Record(
        variant=key["variant"],
        cohort=Cohort(**{name: key[name] for name in Cohort.model_fields}),
        dtype=key["dtype"],
        cudnn_allow_tf32=key["cudnn_allow_tf32"],
        matmul_allow_tf32=key["matmul_allow_tf32"],
        times=Times.of(statistics.summarise(times)),
        origin=Origin(
            evidence="measured",
            observer=observer,
            observed=pd.Timestamp(facts["observed"]).date(),
            device_name=facts["device_name"],
            card=facts["card"],
            torch=facts["torch"],
            source=folder,
            revision=facts["git_revision"],
            file=f"{folder}/samples.csv",
            row=None,
        ),
        gate=_verdict(key["variant"], gate_notes(runs.notes, key)),
        workload_sha256=IDENTITY if sealed else None,
        samples_sha256=runs.seals.get(run),
        recipe=f"python -m vgg_kernels measure --only {key['variant']} at {facts['git_revision'][:10]}"
        if clean
        else None,
        caveats=caveats,
        withdrawn=None,
        superseded_by=runs.superseded.get(run),
    )


def gate_notes(notes: pd.DataFrame, key: dict[str, Any]) -> list[dict[str, Any]]:
    """The gate notes of one run, variant, tier and network: none, one, or (after a resumption) several."""
    payloads = notes[(notes["run"] == key["run"]) & (notes["kind"] == "gate")]["payload"]
    return [found for found in payloads if all(found[name] == key[name] for name in ("variant", "tier", "network"))]


def conditions(notes: pd.DataFrame, key: dict[str, Any]) -> list[str]:
    """What the run noted against its own timing: a card that lowered its clock meanwhile."""
    same = ("variant", "batch", "timer", "cache")
    payloads = notes[(notes["run"] == key["run"]) & (notes["kind"] == "conditions")]["payload"]
    return [
        f"the card lowered its clock during timing: {', '.join(found['throttled'])}"
        for found in payloads
        if found.get("throttled") and found.get("layer") == WHOLE and all(found.get(name) == key[name] for name in same)
    ]


def busy(facts: dict[str, Any]) -> list[str]:
    """Whether a CPU had other work than the measurement when it began: more runnable processes than cores."""
    host = facts.get("host", {})
    load, cores = host.get("load_average"), host.get("usable_cores")
    if facts["hardware"]["kind"] != "cpu" or not load or not cores or load[0] <= cores:
        return []
    return [f"the machine was busy: load average {load[0]:g} on {cores} cores"]


def newest(records: Iterable[Record]) -> date:
    """The day of the newest record: what "as of" and "stale" are counted from, never the clock.

    Raises:
        ValueError: for no records.
    """
    days = [record.origin.observed for record in records]
    if not days:
        raise ValueError("no records: data/reported holds none, and no run could be read")
    return max(days)
