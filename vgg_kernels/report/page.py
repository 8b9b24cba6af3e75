"""The workload page, computed: every record, what follows from it, and what nobody has measured."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import date
from itertools import groupby
from pathlib import Path

import pandas as pd

from ..floor.hardware import devices
from ..floor.public import audit, public_floor_us, record_ratio
from ..floor.roofline import floor_us
from ..predict.timemodel import MODEL_VERSION, predict
from ..records import ranking
from ..records.ranking import Standing
from ..records.records import Cohort, Record, from_reported, from_runs, newest
from ..records.store import Runs
from ..workload.identity import IDENTITY, KERNELBENCH, PUBLIC_INDEX_PREFIX, manifest
from ..workload.network import network
from ..workload.precision import TIERS
from . import compiled, study
from .charter import charter
from .page_model import (
    Challenge,
    Claim,
    Counts,
    Environment,
    Estimate,
    Event,
    FloorAudit,
    Implementation,
    Page,
    Ranking,
    RunDetail,
    TierParts,
    Workload,
)

VGG19 = network("vgg19")
BATCH = KERNELBENCH.batch
SUBJECT = "h100_sxm"  # the card of the public record
REPORTED = "data/reported/kernelbench_vgg19.csv"
OBSERVERS = {
    "data/measured": "this project",
    "data/local": "this machine",
    "data/submitted": "a contributor",
}
STATUS_WORDS = {"withdrawn": "replaced or removed"}  # what a publisher did to a row that it no longer has
TIMER_TITLES = {
    "kernelbench": "device events around one call",
    "cuda_events": "device events around one call",
    "graph": "replay of a CUDA graph",
    "do_bench": "Triton's do_bench",
    "host": "host clock around a call and a synchronisation",
}


def records(runs: dict[str, Runs]) -> list[Record]:
    """Every record of the study: the published rows, and those of ``runs`` (by the folder they are kept in)."""
    found = from_reported(study.reported_vgg19(), REPORTED)
    for place, ledger in runs.items():
        found += from_runs(ledger, place, OBSERVERS[place])
    return found


def page() -> Page:
    """The page over the recorded data, and over this machine's as ``VGG_STUDY`` decides."""
    runs = study.runs()
    found = records(runs)
    standings = ranking.rank(found)
    rankings = [
        Ranking(cohort=cohort, claim=claim(rows), standings=[row.id for row in rows])
        for cohort, rows in sorted(ranking.cohorts(standings).items(), key=_subject_first)
    ]
    return Page(
        as_of=newest(found),
        workload=workload(),
        counts=counts(standings, runs),
        headline=headline(rankings),
        remarks=remarks(standings, headline(rankings)),
        environments=environments(standings),
        rankings=rankings,
        standings=standings,
        implementations=implementations(standings),
        history=history(found),
        semantics=charter().semantics,
        rules=charter().rules,
        challenges=challenges(standings),
        floor=floor_audit(),
        runs=[detail for place, ledger in runs.items() for detail in run_details(ledger, place, standings)],
        problems=[f"{place}/{problem}" for place, ledger in runs.items() for problem in ledger.problems],
        sources=charter().sources,
        contributing=charter().contributing,
    )


def workload() -> Workload:
    """The workload and its identities."""
    return Workload(
        name="VGG19 forward",
        statement=charter().statement,
        identity=IDENTITY,
        manifest=manifest(),
        problem_source=f"{KERNELBENCH.repository}/blob/{KERNELBENCH.revision}/{KERNELBENCH.path}",
        problem_revision=KERNELBENCH.revision,
        problem_sha256=KERNELBENCH.sha256,
        index_prefix=PUBLIC_INDEX_PREFIX,
        reproducible=charter().identities,
    )


def counts(standings: Sequence[Standing], runs: dict[str, Runs]) -> Counts:
    """How many observations there are, and of what standing."""
    of = {status: sum(s.status == status for s in standings) for status in ranking.STATUSES}
    return Counts(
        observations=len(standings),
        **of,
        runs=sum(len(ledger.provenance) for ledger in runs.values()),
        samples=sum(len(ledger.samples) for ledger in runs.values()),
    )


def read_day() -> date:
    """The day up to which the public rows were read: that of the revision of KernelBench that was gone through."""
    return date.fromisoformat(study.reported()["date"].max())


def claim(rows: Sequence[Standing]) -> Claim:
    """What may be said of a cohort's first: fastest in the files read, as of a day, tied with whom.

    The day is the newest that the cohort's own rows speak for: of a published row the day up to which its publisher was
    read, of a measured one its own. A run on another card makes no claim newer.
    """
    first = rows[0]
    times = first.record.times
    days = [read_day() if row.record.origin.evidence == "reported" else row.record.origin.observed for row in rows]
    tie = f", tied with {len(first.tied_with)}" if first.tied_with else ""
    return Claim(
        sentence=f"Fastest of this cohort in the files read here, as of {max(days)}: "
        f"{first.record.variant}, {times.as_published_ms:g} ms{tie}",
        standing=first.id,
        protocol=protocol(first.record.cohort, times.n),
    )


def protocol(cohort: Cohort, n: int) -> str:
    """How the times of a cohort were taken, in words."""
    return f"mean of {n} calls, {TIMER_TITLES[cohort.timer]}, {cohort.cache} cache, batch {cohort.batch}"


def _subject_first(item: tuple[Cohort, list[Standing]]) -> tuple:
    cohort = item[0]
    known = list(devices())
    place = known.index(cohort.device) if cohort.device in known else len(known)
    return place, cohort.device, abs(cohort.batch - BATCH), str(cohort)


def remarks(standings: Sequence[Standing], first: Claim) -> list[str]:
    """What stands out about the public record, each sentence computed from the records or left out."""
    lead = next(standing.record for standing in standings if standing.id == first.standing)
    card = [s.record for s in standings if s.record.cohort.device == lead.cohort.device]
    gone = [r for r in card if r.withdrawn and r.times.mean_ms < lead.times.mean_ms]
    found = []
    if gone:
        fastest = min(gone, key=lambda r: r.times.mean_ms)
        found.append(
            f"The same publisher had faster times on this card: {fastest.times.as_published_ms:g} ms "
            f"({fastest.variant}, {fastest.cohort.cache} cache), published {fastest.origin.observed} and replaced or "
            f"removed {fastest.withdrawn}. {len(gone)} such rows are kept here, unranked."
        )
    protocols = {
        s.record.cohort.cache for s in standings if s.status == "ranked" and s.record.origin.evidence == "reported"
    }
    if len(protocols) > 1:
        found.append(
            "The two current public records are not of one protocol: the timing code of one's revision empties L2 "
            "before each call, the other's does not. They are ranked apart."
        )
    strict = floor_us(VGG19, "fp32", lead.cohort.device, BATCH) / 1e3
    eager = [r for r in card if r.variant == ranking.BASELINE and r.cohort == lead.cohort]
    if eager and eager[0].times.mean_ms < strict:
        found.append(
            f"Eager's {eager[0].times.as_published_ms:g} ms is below the {strict:.2f} ms that direct convolution takes "
            "in plain fp32 (derived). PyTorch's default lets convolutions round fp32 operands to TF32, so these rows "
            "rank as tf32, whatever their tensors' type."
        )
    return found


def headline(rankings: Sequence[Ranking]) -> Claim:
    """The claim of the public record's cohort: its card, batch, tier and protocol."""
    for row in rankings:
        c = row.cohort
        if (c.device, c.batch, c.tier, c.timer, c.cache) == (SUBJECT, BATCH, "tf32", "kernelbench", "cold"):
            return row.claim
    raise ValueError(f"{REPORTED} holds no current record of the public protocol on {SUBJECT}")


def environments(standings: Sequence[Standing]) -> list[Environment]:
    """Every device of the data sheets, measured or not, and every other device that was measured."""
    by_cohort = ranking.cohorts(standings)
    others = sorted({cohort.device for cohort in by_cohort} - set(devices()))
    table = compiled.facts()
    return [_environment(key, by_cohort, table) for key in (*devices(), *others)]


def _environment(key: str, by_cohort: dict[Cohort, list[Standing]], table: pd.DataFrame | None) -> Environment:
    mine = [rows for cohort, rows in by_cohort.items() if cohort.device == key]
    known = devices().get(key)
    kinds = {standing.record.origin.evidence for rows in mine for standing in rows}
    title = known.title if known else mine[0][0].record.origin.device_name
    return Environment(
        device=key,
        title=title,
        state="measured" if "measured" in kinds else "reported" if kinds else "not measured",
        fastest=[claim(rows) for rows in mine],
        estimates=estimates(key) if known else [],
        compiled=compiled.sentence(known.arch, table) if known else None,
    )


def estimates(device: str) -> list[Estimate]:
    """Floor and prediction of every tier at the public batch, in microseconds to 4 digits."""
    return [
        Estimate(
            tier=tier,
            floor_us=_digits(floor_us(VGG19, tier, device, BATCH)),
            predicted_us=_digits(sum(layer.time_us for layer in predict(VGG19, tier, device, BATCH))),
        )
        for tier in TIERS
    ]


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


IMPLEMENTATIONS = {  # by how a variant's name begins; the first that fits
    "eager": ("PyTorch operators (cuDNN, cuBLAS)", "pip install torch", "BSD-3-Clause"),
    "inductor": ("torch.compile (inductor: Triton and libraries)", "pip install torch", "BSD-3-Clause"),
    "cudagraphs": ("torch.compile (cudagraphs backend)", "pip install torch", "BSD-3-Clause"),
    "ours": ("Triton, this package", "vgg_kernels.kernels.model.VGG", "MIT"),
}
OTHER = ("a contributor's module", "see its run", "see its source")


def implementations(standings: Sequence[Standing]) -> list[Implementation]:
    """Every variant that was observed, and ours in every tier, with the fastest ranked record on each device."""
    names = dict.fromkeys([s.record.variant for s in standings] + [f"ours_{tier}" for tier in TIERS])
    return [_implementation(name, [s for s in standings if s.record.variant == name]) for name in names]


def _implementation(name: str, mine: Sequence[Standing]) -> Implementation:
    runtime, availability, licence = next(
        (row for head, row in IMPLEMENTATIONS.items() if name.startswith(head)), OTHER
    )
    ranked = sorted((s for s in mine if s.status == "ranked"), key=lambda s: s.record.times.mean_ms)
    best = {s.record.cohort.device: s.id for s in reversed(ranked)}
    if best:
        state = "ranked"
    elif mine:
        state = ", ".join(sorted({STATUS_WORDS.get(s.status, s.status) for s in mine}))
    else:
        state = "no time recorded on hardware"
    return Implementation(
        name=name, runtime=runtime, best=sorted(best.values()), state=state, availability=availability, licence=licence
    )


def history(found: Sequence[Record]) -> list[Event]:
    """How the fastest on file changed on each device and protocol: by a publication, or because one was replaced.

    Each protocol (timer and cache state) has its own line; on each day that something was published, replaced or
    removed, the fastest among the rows that then stood is compared with the one before.
    """

    def line(record: Record) -> tuple[str, str]:
        return record.cohort.device, f"{record.cohort.tier}, {record.cohort.timer}, {record.cohort.cache}"

    stood = [r for r in found if r.cohort.batch == BATCH and ranking.exclusion(r)[0] in ("ranked", "withdrawn")]
    at_batch = sorted(stood, key=line)
    events: list[Event] = []
    for (device, name), rows in groupby(at_batch, key=line):
        events += _line_events(device, name, list(rows))
    return sorted(events, key=lambda event: (event.day, event.device, event.protocol))


def _line_events(device: str, protocol_name: str, rows: Sequence[Record]) -> Iterable[Event]:
    days = sorted({r.origin.observed for r in rows} | {r.withdrawn for r in rows if r.withdrawn})
    before: Record | None = None
    for day in days:
        standing = [r for r in rows if r.origin.observed <= day and not (r.withdrawn and r.withdrawn <= day)]
        now = min(standing, key=lambda r: r.times.mean_ms, default=None)
        if now is before:
            continue
        if now is None:
            change = "all replaced or removed"
        elif before is not None and now.times.mean_ms > before.times.mean_ms:
            change = f"the faster was replaced or removed ({before.variant}, {before.times.as_published_ms:g} ms)"
        else:
            change = "published" if now.origin.evidence == "reported" else "measured"
        yield Event(
            day=day,
            device=device,
            protocol=protocol_name,
            change=change,
            variant=now.variant if now else None,
            mean_ms=now.times.mean_ms if now else None,
        )
        before = now


def challenges(standings: Sequence[Standing]) -> list[Challenge]:
    """Every device and tier of which nobody has a ranked record at the public batch."""
    have = {
        (s.record.cohort.device, s.record.cohort.tier)
        for s in standings
        if s.status == "ranked" and s.record.cohort.batch == BATCH
    }
    open_ = []
    for key, device in devices().items():
        for row in estimates(key):
            if (key, row.tier) not in have:
                gap = f"model {MODEL_VERSION} predicts {row.predicted_us / row.floor_us:.2f} times the floor"
                open_.append(
                    Challenge(
                        device=device.title,
                        tier=row.tier,
                        batch=BATCH,
                        floor_us=row.floor_us,
                        predicted_us=row.predicted_us,
                        gap=gap,
                    )
                )
    return open_


def floor_audit() -> FloorAudit:
    """The index's floor on the card of the public record, and what it leaves out."""
    tiers = ("fp32", "tf32", "fp16")
    parts = audit(VGG19, SUBJECT, BATCH, tiers)
    public = public_floor_us(VGG19, SUBJECT, BATCH)
    return FloorAudit(
        device=SUBJECT,
        batch=BATCH,
        public_us=_digits(public),
        record_ratio=float(f"{record_ratio(VGG19, SUBJECT, BATCH):.6g}"),
        parts=[TierParts(tier=p.tier, **{k: _digits(v) for k, v in asdict(p).items() if k != "tier"}) for p in parts],
        verdict="It is the time to read the input once, and nothing else. Reading the parameters in fp32 takes "
        f"{parts[0].parameters_us / public:.0f} times as long; layer by layer the lowest of these floors is "
        f"{min(p.floor_us for p in parts) / public:.0f} times the public one.",
    )


def run_details(ledger: Runs, place: str, standings: Sequence[Standing]) -> list[RunDetail]:
    """Each run of one folder of the ledger."""
    details = []
    for run, facts in ledger.provenance.items():
        notes = ledger.notes[ledger.notes["run"] == run]
        folder = Path(place, ledger.folders[run]).as_posix()
        failures = [
            f"{note.get('variant', '')} {note.get('tier', '')}: {note.get('error', '')}".strip()
            for note in notes[notes["kind"] == "failure"]["payload"]
        ]
        details.append(
            RunDetail(
                run=run,
                folder=folder,
                device=facts["device"],
                device_name=facts["device_name"],
                observed=facts["observed"],
                torch=facts["torch"],
                revision=facts["git_revision"],
                sealed_sha256=ledger.seals.get(run),
                samples=int((ledger.samples["run"] == run).sum()),
                notes={str(kind): int(n) for kind, n in notes["kind"].value_counts().sort_index().items()},
                failures=failures,
                supersedes=[entry["run"] for entry in facts["supersedes"]],
                records=[s.id for s in standings if s.record.origin.source == folder],
            )
        )
    return details
