"""Trust: a level that follows from a record's facts, with the facts that carried it and those that were missing.

The levels, each holding what the one before it holds:

1. ``reported``: someone says so.
2. ``reproducible``: its source, the workload's identity, the raw samples and a recipe are all there.
3. ``measured here``: by this project's own harness, sealed in its ledger, and not refused by the gate.
4. ``replicated``: measured on two cards that are known to differ, and the two intervals overlap.
"""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from ..workload.identity import IDENTITY, KERNELBENCH
from .facts import Facts, Record
from .statistics import overlap

Level = Literal["reported", "reproducible", "measured here", "replicated"]
LEVELS: tuple[Level, ...] = ("reported", "reproducible", "measured here", "replicated")
KNOWN_WORKLOADS = (IDENTITY, KERNELBENCH.sha256)


class Trust(Facts):
    """A record's level and why it is not another."""

    level: Level
    why: list[str] = Field(description="facts that carry the level")
    missing: list[str] = Field(description="what the next level would need")


def trust(record: Record, others: Iterable[Record]) -> Trust:
    """The level of ``record``, given every other record of the study."""
    held = [f"{record.origin.observer} states it, {record.origin.observed}"]
    for level, (has, lacks) in zip(LEVELS[1:], _steps(record, others), strict=True):
        held += has
        if lacks:
            return Trust(level=LEVELS[LEVELS.index(level) - 1], why=held, missing=lacks)
    return Trust(level=LEVELS[-1], why=held, missing=[])


def _steps(record: Record, others: Iterable[Record]) -> list[tuple[list[str], list[str]]]:
    return [_reproducible(record), _measured_here(record), _replicated(record, others)]


def _sort(facts: list[tuple[bool, str, str]]) -> tuple[list[str], list[str]]:
    return [yes for holds, yes, _ in facts if holds], [no for holds, _, no in facts if not holds]


def _reproducible(record: Record) -> tuple[list[str], list[str]]:
    return _sort(
        [
            (bool(record.origin.source), "its source is given", "a source"),
            (
                record.workload_sha256 in KNOWN_WORKLOADS,
                "the workload's identity holds",
                "the workload's identity",
            ),
            (record.samples_sha256 is not None, "its raw samples are sealed", "raw samples under a seal"),
            (record.recipe is not None, "a recipe repeats it", "a recipe (the source that ran cannot be had)"),
        ]
    )


def _measured_here(record: Record) -> tuple[list[str], list[str]]:
    return _sort(
        [
            (
                record.origin.evidence == "measured" and record.origin.file.startswith("data/measured/"),
                "measured by this project's harness, in its ledger",
                "a measurement by this project's harness",
            ),
            (
                record.gate.state in ("passed", "reference"),
                f"gate: {record.gate.state}",
                f"a passed gate (it is {record.gate.state})",
            ),
        ]
    )


def _replicated(record: Record, others: Iterable[Record]) -> tuple[list[str], list[str]]:
    agreeing = [other for other in others if _independent(record, other) and overlap(record.times, other.times)]
    cards = sorted({str(other.origin.card) for other in agreeing})
    return _sort(
        [(bool(agreeing), f"agrees with card {', '.join(cards)}", "a second card whose interval overlaps this one's")]
    )


def _independent(record: Record, other: Record) -> bool:
    known = record.origin.card is not None and other.origin.card is not None
    same = (record.variant, record.cohort) == (other.variant, other.cohort)
    return known and same and record.origin.card != other.origin.card and other.samples_sha256 is not None
