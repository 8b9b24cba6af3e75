"""Runs that are not in the ledger yet: checked, sealed, and shown where they would stand."""

from pathlib import Path

from ..records import ranking, store, tables
from ..records.ranking import Standing
from ..records.reading import read_runs
from ..records.records import from_runs
from . import study
from .page import OBSERVERS, records

PLACE = "data/submitted"


def standings_of(folder: Path) -> tuple[list[Standing], list[str]]:
    """How the runs below ``folder`` would stand among the study's records, and what is wrong with them.

    Raises:
        ValueError: where there is no such folder.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; a run's folder, or one of several runs, is accepted")
    runs = read_runs(folder)
    theirs = from_runs(runs, PLACE, OBSERVERS[PLACE])
    known = {record.samples_sha256 for record in theirs if record.samples_sha256}
    others = [record for record in records(study.runs()) if record.samples_sha256 not in known]
    mine = {record.sha256 for record in theirs}
    return [standing for standing in ranking.rank(others + theirs) if standing.id in mine], runs.problems


def seal(folder: Path) -> str:
    """Check a run and seal it; returns the seal's SHA-256.

    Raises:
        ValueError: naming file and row of what does not hold; nothing is sealed then.
    """
    notes = folder / store.NOTES
    if folder.is_dir() and not notes.exists():
        notes.touch()
    runs = read_runs(folder)
    problems = [problem for problem in runs.problems if store.SEAL not in problem]
    if problems or len(runs.provenance) != 1:
        raise tables.BadData(problems[0] if problems else f"{folder} holds {len(runs.provenance)} runs; one is sealed")
    (run,) = runs.provenance
    store.seal(folder, run)
    return read_runs(folder).seals[run]
