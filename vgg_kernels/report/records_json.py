"""The published records, ``data/records.json``, and their verification: everything recomputed, offline, from the data.

What is published: the fingerprint of every file that records come from, and each record's facts, identity, statistics,
trust, rank and reasons. ``verify`` computes all of it again and names the first row that does not hold.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ..files import fingerprint, first_change, write_whole
from ..records import ranking
from ..records.ranking import Standing
from ..records.records import Facts
from ..records.store import NOTES, PROVENANCE, SAMPLES, SEAL, Runs
from ..records.tables import BadData, Fingerprint, check_document
from ..workload.identity import IDENTITY, manifest, sha256
from . import study
from .page import REPORTED, records

PUBLISHED = "data/records.json"
RECORDED = study.CHOICES["recorded"]
RUN_FILES = (PROVENANCE, SAMPLES, NOTES, SEAL)


class Publication(Facts):
    """Every record with its standing, and the fingerprints of the files they were computed from."""

    version: Literal[1] = 1
    workload: str = Field(description="SHA-256 of the workload's manifest")
    sources: dict[str, Fingerprint] = Field(description="by path from the repository's folder")
    standings: list[Standing]


def publication() -> Publication:
    """What the recorded data say now; local runs are no part of it.

    Raises:
        BadData: where a recorded file does not hold, naming file and row.
    """
    runs = study.read_places(RECORDED)
    problems = [f"{place}/{problem}" for place, ledger in runs.items() for problem in ledger.problems]
    if problems:
        raise BadData(problems[0])
    return Publication(
        workload=sha256(manifest()),
        sources={path: Fingerprint(**fingerprint(study.root() / path)) for path in _files(runs)},
        standings=ranking.rank(records(runs)),
    )


def _files(runs: dict[str, Runs]) -> list[str]:
    folders = [study.root() / place / folder for place, ledger in runs.items() for folder in ledger.folders.values()]
    paths = [folder / name for folder in folders for name in RUN_FILES if (folder / name).exists()]
    reported = sorted((study.root() / REPORTED).parent.glob("*.csv"))
    return [path.relative_to(study.root()).as_posix() for path in (*reported, *sorted(paths))]


def publish() -> Path:
    """Write ``data/records.json`` from the recorded data, and return its path."""
    path = study.root() / PUBLISHED
    write_whole(path, publication().model_dump_json(indent=1) + "\n")
    return path


def verify() -> list[str]:
    """Recompute every hash, statistic, trust level and rank, and say what does not hold, the first row first.

    Returns:
        No sentences where everything holds.
    """
    path = study.root() / PUBLISHED
    if not path.exists():
        return [f"{PUBLISHED}: missing; `python -m vgg_kernels records publish` writes it"]
    try:
        published = check_document(path.read_text(encoding="utf-8"), Publication, PUBLISHED)
    except BadData as error:
        return [str(error)]
    if changed := list(_changed_files(published)):
        return changed
    try:
        now = publication()
    except BadData as error:
        return [str(error)]
    return list(_differences(published, now))


def _changed_files(published: Publication) -> Iterator[str]:
    for name, recorded in published.sources.items():
        path = study.root() / name
        if not path.exists():
            yield f"{name}: published, and now missing"
        elif change := first_change(path, recorded.model_dump()):
            yield f"{name} {change}: changed since it was published"


def _differences(published: Publication, now: Publication) -> Iterator[str]:
    if published.workload != now.workload or now.workload != IDENTITY:
        yield f"workload: published {published.workload}, pinned {IDENTITY}, recomputed {now.workload}"
    new = sorted(set(now.sources) - set(published.sources))
    if new:  # with them every rank may move, so there is nothing to compare yet
        yield from (f"{name}: not in {PUBLISHED} yet; `python -m vgg_kernels records publish` adds it" for name in new)
        return
    for number, (was, row) in enumerate(zip(published.standings, now.standings, strict=False), start=1):
        for key, a, b in _unequal(was.model_dump(mode="json"), row.model_dump(mode="json")):
            yield f"{PUBLISHED} record {number} ({row.record.where}): {key} is published as {a!r}, recomputed {b!r}"
    if len(published.standings) != len(now.standings):
        yield f"{PUBLISHED}: {len(published.standings)} records published, {len(now.standings)} recomputed"


def _unequal(was: Any, now: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The leaves at which two JSON values differ."""
    if isinstance(was, dict) and isinstance(now, dict):
        for name in {**was, **now}:
            yield from _unequal(was.get(name), now.get(name), f"{key}.{name}" if key else name)
    elif was != now:
        yield key, was, now


def summary() -> dict[str, int]:
    """How much ``verify`` went through: files, runs' seals, records."""
    published = json.loads((study.root() / PUBLISHED).read_text(encoding="utf-8"))
    return {
        "files": len(published["sources"]),
        "seals": sum(name.endswith(f"/{SEAL}") for name in published["sources"]),
        "records": len(published["standings"]),
    }
