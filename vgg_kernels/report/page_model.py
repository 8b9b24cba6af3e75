"""The workload page as data: what ``records --json`` prints, and the source of its published JSON Schema."""

from datetime import date
from typing import Any, Literal

from pydantic import Field

from ..records.ranking import Standing
from ..records.records import Cohort, Facts

Evidence = Literal["reported", "measured", "derived", "modelled"]


class Workload(Facts):
    """What is computed, and under which identities it goes."""

    name: str
    statement: str
    identity: str = Field(description="SHA-256 of the RFC 8785 canonical JSON of the manifest")
    manifest: dict[str, Any]
    problem_source: str
    problem_revision: str
    problem_sha256: str = Field(description="SHA-256 of the problem file's bytes")
    index_prefix: str = Field(description="how the public index's own identity begins")
    reproducible: list[str] = Field(description="what of these can be recomputed, and what cannot")


class Counts(Facts):
    """How many of what."""

    observations: int
    ranked: int
    quarantined: int
    withdrawn: int
    superseded: int
    runs: int
    samples: int


class Claim(Facts):
    """The fastest known in one cohort, with all that qualifies it."""

    sentence: str
    standing: str = Field(description="id of the record")
    protocol: str


class Estimate(Facts):
    """A figure that nobody measured, in microseconds, and what kind of figure it is."""

    tier: str
    floor_us: float = Field(description="stage by stage, direct convolution, data-sheet rates: derived")
    predicted_us: float = Field(description="the time model's: modelled")


class Environment(Facts):
    """One device: its records, or that there are none and what is known instead."""

    device: str
    title: str
    state: Literal["reported", "measured", "not measured"]
    fastest: list[Claim] = Field(description="the fastest of each of its cohorts")
    estimates: list[Estimate]
    compiled: str | None = Field(
        description="what compiling for it shows; null for a device that is not a GPU we compile for"
    )


class Ranking(Facts):
    """One cohort's records, best first."""

    cohort: Cohort
    claim: Claim
    standings: list[str]


class Implementation(Facts):
    """A way to run the workload."""

    name: str
    runtime: str
    best: list[str] = Field(description="ids of its fastest ranked record on each device")
    state: str
    availability: str
    licence: str


class Event(Facts):
    """A day on which the fastest known of a device and protocol changed."""

    day: date
    device: str
    protocol: str
    change: str
    variant: str | None
    mean_ms: float | None


class Semantic(Facts):
    """A property of the workload, and the test that holds it."""

    property: str
    statement: str
    test: str


class Rule(Facts):
    """One step of how records are decided."""

    name: str
    text: str


class Challenge(Facts):
    """Something that nobody has measured."""

    device: str
    tier: str
    batch: int
    floor_us: float
    predicted_us: float
    gap: str


class TierParts(Facts):
    """What one forward needs at a tier, each part by itself: `floor.public.Parts`."""

    tier: str
    parameters_us: float
    activations_us: float
    arithmetic_us: float
    floor_us: float


class FloorAudit(Facts):
    """The public floor, what it leaves out, and what replaces it."""

    device: str
    batch: int
    public_us: float
    record_ratio: float | None
    parts: list[TierParts]
    verdict: str


class RunDetail(Facts):
    """One run of the ledger."""

    run: str
    folder: str
    device: str
    device_name: str
    observed: str
    torch: str
    revision: str | None
    sealed_sha256: str | None
    samples: int
    notes: dict[str, int] = Field(description="how many notes of each kind")
    failures: list[str]
    supersedes: list[str]
    records: list[str] = Field(description="ids")


class Source(Facts):
    """Where figures come from."""

    name: str
    address: str
    licence: str
    used_for: str


class Page(Facts):
    """The workload page."""

    version: Literal[1] = 1
    as_of: date = Field(description="the day of the newest record; nothing here depends on the clock")
    workload: Workload
    counts: Counts
    headline: Claim
    remarks: list[str] = Field(description="what stands out, computed from the records")
    environments: list[Environment]
    rankings: list[Ranking]
    standings: list[Standing]
    implementations: list[Implementation]
    history: list[Event]
    semantics: list[Semantic]
    rules: list[Rule]
    challenges: list[Challenge]
    floor: FloorAudit
    runs: list[RunDetail]
    problems: list[str] = Field(description="what could not be read, by file and row")
    sources: list[Source]
    contributing: list[Rule]

    def standing(self, identity: str) -> Standing:
        """The standing of the record whose id begins with ``identity``.

        Raises:
            ValueError: for no such record, or more than one.
        """
        found = [standing for standing in self.standings if standing.id.startswith(identity)]
        if len(found) != 1:
            raise ValueError(f"{len(found)} records have an id that begins with {identity!r}; one is needed")
        return found[0]
