"""Ranking: within one cohort, by mean, with ties where intervals overlap, and nothing that cannot be true.

"Fastest known in this cohort as of a day" is all that a ranking can say; it never says "fastest possible".
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Literal

from packaging.version import Version
from pydantic import Field

from ..floor.roofline import impossible
from ..workload.identity import IDENTITY, KERNELBENCH
from ..workload.lookup import UnknownName
from ..workload.network import network
from .facts import Cohort, Facts, Record
from .records import newest
from .trust import Trust, trust

BASELINE = "eager"
STALE_AFTER = timedelta(days=180)
Status = Literal["ranked", "quarantined", "withdrawn", "superseded"]
STATUSES: tuple[Status, ...] = ("ranked", "quarantined", "withdrawn", "superseded")


class Standing(Facts):
    """A record with all that follows from it and from the others."""

    id: str = Field(description="SHA-256 of the record's RFC 8785 canonical JSON")
    record: Record
    status: Status
    reasons: list[str] = Field(description="why it is not ranked, with the figures; empty where it is")
    rank: int | None = Field(description="1 + the number of records in the cohort that are faster beyond doubt")
    tied_with: list[str] = Field(description="ids of the records whose intervals overlap this one's")
    versus_first: float | None = Field(description="its mean over the cohort's lowest mean")
    baseline: str | None = Field(description="id of the eager record that it is compared with")
    speedup: float | None = Field(description="the baseline's mean over this one's, same device, torch and protocol")
    speedup_refused: str | None = Field(description="why no speed-up is stated")
    trust: Trust
    stale: list[str] = Field(description="why it may no longer hold; empty where it is fresh")


def ratio(record: Record, baseline: Record) -> float:
    """How many times faster ``record`` is than ``baseline``: the means' ratio.

    Raises:
        ValueError: naming the two where device, torch version, batch, network, timer or cache state differ: a time from
            another machine or library is no baseline.
    """
    a, b = record, baseline
    pairs = {
        "device": (a.origin.device_name, b.origin.device_name),
        "torch": (a.origin.torch, b.origin.torch),
        **{name: (getattr(a.cohort, name), getattr(b.cohort, name)) for name in ("network", "batch", "timer", "cache")},
    }
    differences = [f"{name} {mine} against {theirs}" for name, (mine, theirs) in pairs.items() if mine != theirs]
    if differences:
        raise ValueError(
            f"no ratio of {a.variant!r} ({a.where}) to {b.variant!r} ({b.where}): {'; '.join(differences)}"
        )
    return b.times.mean_ms / a.times.mean_ms


def rank(records: Sequence[Record]) -> list[Standing]:
    """Every record with its standing: ranked ones by cohort and rank, then the others.

    Raises:
        ValueError: for no records.
    """
    as_of, torch = newest(records), newest_torch(records)
    excluded = {id(record): exclusion(record) for record in records}
    cohorts: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if excluded[id(record)][0] == "ranked":
            cohorts[str(record.cohort)].append(record)
    standings = []
    for record in records:
        status, reasons = excluded[id(record)]
        peers = cohorts[str(record.cohort)] if status == "ranked" else []
        others = [other for other in records if other is not record]
        standings.append(
            Standing(
                id=record.sha256,
                record=record,
                status=status,
                reasons=reasons,
                **_place(record, peers),
                **_speedup(record, peers, [r for r in records if excluded[id(r)][0] == "ranked"]),
                trust=trust(record, others),
                stale=staleness(record, as_of, torch),
            )
        )
    return sorted(standings, key=_order)


def _order(standing: Standing) -> tuple:
    record = standing.record
    return standing.status != "ranked", str(record.cohort), record.times.mean_ms, record.variant, standing.id


def _place(record: Record, peers: Sequence[Record]) -> dict:
    if not peers:
        return {"rank": None, "tied_with": [], "versus_first": None}
    faster = [peer for peer in peers if _faster(peer, record)]
    tied = [peer for peer in peers if peer is not record and not _faster(peer, record) and not _faster(record, peer)]
    best = min(peer.times.mean_ms for peer in peers)
    return {
        "rank": 1 + len(faster),
        "tied_with": [peer.sha256 for peer in tied],
        "versus_first": _round(record.times.mean_ms / best),
    }


def _faster(a: Record, b: Record) -> bool:
    """Whether a's whole interval lies below b's; a record without an interval is tied with all."""
    high, low = a.times.high_ms, b.times.low_ms
    return high is not None and low is not None and high < low


def _speedup(record: Record, peers: Sequence[Record], ranked: Sequence[Record]) -> dict:
    if not peers:
        return {"baseline": None, "speedup": None, "speedup_refused": "the record is not ranked"}
    eager = [r for r in ranked if r.variant == BASELINE and r.cohort.device == record.cohort.device]
    eager.sort(key=lambda r: r.origin.file != record.origin.file)  # the run's own first: same clocks, same driver
    if not eager:
        return {"baseline": None, "speedup": None, "speedup_refused": f"no {BASELINE} record on this device"}
    refusals = []
    for other in eager:
        try:
            return {"baseline": other.sha256, "speedup": _round(ratio(record, other)), "speedup_refused": None}
        except ValueError as error:
            refusals.append(str(error))
    return {"baseline": None, "speedup": None, "speedup_refused": refusals[0]}


def _round(value: float) -> float:
    return float(f"{value:.6g}")


def exclusion(record: Record) -> tuple[Status, list[str]]:
    """Whether a record is ranked, and if not, why."""
    if record.superseded_by:
        return "superseded", [f"run {record.superseded_by} corrects it"]
    if record.withdrawn:
        return "withdrawn", [f"its publisher replaced or removed it on {record.withdrawn}"]
    reasons = []
    if record.workload_sha256 not in (None, IDENTITY, KERNELBENCH.sha256):
        reasons.append(f"another workload: {record.workload_sha256[:12]}")
    if record.gate.state in ("failed", "missing"):
        reasons.append(f"gate {record.gate.state}: {record.gate.why}")
    if too_fast := below_floor(record):
        reasons.append(too_fast)
    return ("quarantined", reasons) if reasons else ("ranked", [])


def below_floor(record: Record) -> str | None:
    """Why the record's time cannot be true, or None; a device without a data sheet has no floor to hold it against."""
    cohort = record.cohort
    try:
        return impossible(record.times.mean_ms, network(cohort.network), cohort.tier, cohort.device, cohort.batch)
    except UnknownName:
        return None


def newest_torch(records: Sequence[Record]) -> str | None:
    """The newest torch release among measured records; None where nothing was measured."""
    versions = [r.origin.torch for r in records if r.origin.evidence == "measured"]
    return max(versions, key=Version, default=None)


def staleness(record: Record, as_of: date, torch: str | None) -> list[str]:
    """Why a record may no longer hold: its age against the newest record's, its torch against the newest measured."""
    reasons = []
    age = as_of - record.origin.observed
    if age > STALE_AFTER:
        reasons.append(f"{age.days} days older than the newest record ({as_of}); {STALE_AFTER.days} are allowed")
    if torch and Version(record.origin.torch).release[:2] < Version(torch).release[:2]:
        reasons.append(f"torch {record.origin.torch}, and {torch} has been measured")
    return reasons


def cohorts(standings: Sequence[Standing]) -> dict[Cohort, list[Standing]]:
    """The ranked standings by cohort, in order of rank."""
    table: dict[Cohort, list[Standing]] = defaultdict(list)
    for standing in standings:
        if standing.status == "ranked":
            table[standing.record.cohort].append(standing)
    return dict(table)
