"""A record: one variant's time on one device, with everything that was stated about it, and nothing that was concluded.

What follows from the facts (trust, rank, quarantine) is computed by ``records.trust`` and ``records.ranking`` each
time, so it cannot be typed in.
"""

from datetime import date
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..workload.identity import sha256
from . import statistics

DIGITS = 6  # of every statistic that is stored: another CPU gives the same


class Facts(BaseModel):
    """A frozen document that takes no other keys: what the JSON Schema is made from."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Cohort(Facts):
    """What must be equal for two records to be ranked together."""

    network: str
    batch: int = Field(description="images a call")
    device: str = Field(description="key of the device's data sheet, or a name made from its own")
    tier: str = Field(description="precision of the least precise operand of any product")
    timer: str = Field(description="how a call was timed")
    cache: str = Field(description="cold: L2 emptied before each call; warm: as the call before left it")

    def __str__(self) -> str:
        return f"{self.device}, batch {self.batch}, {self.tier}, {self.timer} timer, {self.cache} cache"


class Times(Facts):
    """Statistics of the timed calls, in milliseconds, to six digits; null where the samples do not allow one."""

    n: int = Field(description="timed calls")
    mean_ms: float
    std_ms: float | None
    median_ms: float | None = Field(description="null where only mean and deviation were published")
    min_ms: float
    max_ms: float
    low_ms: float | None = Field(description="lower end of the 95 % interval of the mean")
    high_ms: float | None = Field(description="upper end of the 95 % interval of the mean")
    p95_ms: float | None = Field(description="null below 59 samples")
    p99_ms: float | None = Field(description="null below 299 samples")
    as_published_ms: float = Field(
        description="the mean as the public protocol rounds it, to three significant figures"
    )
    interval: str = Field(description="how the interval was made")

    @classmethod
    def of(cls, summary: statistics.Summary) -> "Times":
        """The summary, rounded for storing."""
        values: dict[str, Any] = {
            k: float(f"{v:.{DIGITS}g}") if isinstance(v, float) else v for k, v in vars(summary).items()
        }
        return cls(**values, as_published_ms=statistics.as_published(summary.mean_ms))


class Origin(Facts):
    """Who observed it, when, where the evidence is."""

    evidence: Literal["reported", "measured"]
    observer: str = Field(description="whose measurement it is")
    observed: date = Field(description="day of the measurement, or of its publication where only that is known")
    device_name: str
    card: str | None = Field(description="digest that tells equal cards apart; null where it is not known")
    torch: str
    source: str = Field(description="address of the publication, or the run's folder")
    revision: str | None = Field(description="git revision of the publication or of the source that was run")
    file: str = Field(description="the file that holds it, from the repository's folder")
    row: int | None = Field(description="row of that file, where the record is one row")


class Certificate(Facts):
    """What one of the gate's checks could see: under 1 it accepts the answer to another question."""

    check: str
    weights: str
    sensitivity: float
    vacuous: bool


class Verdict(Facts):
    """What the gate said: whether the result was right before its speed was looked at."""

    state: Literal["passed", "failed", "missing", "reference"]
    why: str
    certificates: list[Certificate]


class Record(Facts):
    """One observation of one variant, as stated by its evidence."""

    variant: str
    cohort: Cohort
    dtype: str
    cudnn_allow_tf32: bool
    matmul_allow_tf32: bool
    times: Times
    origin: Origin
    gate: Verdict
    workload_sha256: str | None = Field(
        description="identity of the workload it was sealed with, or its problem file's"
    )
    samples_sha256: str | None = Field(
        description="seal of the run that holds its raw samples; null where none is public"
    )
    recipe: str | None = Field(description="how to repeat it; null where the source that ran cannot be had")
    caveats: list[str] = Field(description="what the evidence leaves open")
    withdrawn: date | None = Field(description="day on which its publisher replaced or removed it")
    superseded_by: str | None = Field(description="id of the run that corrects it")

    @property
    def sha256(self) -> str:
        """The record's identity: SHA-256 of its RFC 8785 canonical JSON."""
        return sha256(self.model_dump(mode="json"))

    @property
    def where(self) -> str:
        """File and row, for messages."""
        return self.origin.file + (f" row {self.origin.row}" if self.origin.row else "")
