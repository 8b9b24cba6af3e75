"""What a set of timed calls says: location, spread, an interval for the mean, and tails only where they exist.

Timed calls of one process are not independent (clocks and temperature drift), so the interval comes from a moving-block
bootstrap (Künsch, Annals of Statistics 17, 1989). It covers repeating the calls, not repeating the run on another card:
for that there must be two runs.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

CONFIDENCE = 0.95
Z = 1.959963984540054  # the normal's 97.5 % point
RESAMPLES = 2000
FEWEST_FOR_INTERVAL = 5  # below this a bootstrap only repeats the sample
TAILS = (0.95, 0.99)


class Interval(Protocol):
    """Anything with the interval of a mean, in milliseconds."""

    @property
    def low_ms(self) -> float | None:
        """Its lower end; None where there are too few samples for one."""

    @property
    def high_ms(self) -> float | None:
        """Its upper end."""


@dataclass(frozen=True)
class Summary:
    """Times in milliseconds.

    Attributes:
        n: timed calls.
        mean_ms: their mean, which is what KernelBench ranks by.
        std_ms: their standard deviation (n - 1); None for one call.
        median_ms: their median; None where only mean and spread were published.
        low_ms: lower end of the 95 % interval of the mean; None where ``n`` is too small for one.
        high_ms: its upper end.
        p95_ms: None where ``n`` is below ``samples_needed(0.95)``.
        p99_ms: None where ``n`` is below ``samples_needed(0.99)``.
        interval: how the interval was made.
    """

    n: int
    mean_ms: float
    std_ms: float | None
    median_ms: float | None
    min_ms: float
    max_ms: float
    low_ms: float | None
    high_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    interval: str


def samples_needed(quantile: float, confidence: float = CONFIDENCE) -> int:
    """The fewest samples whose largest bounds the ``quantile`` from above with ``confidence``: 59 for p95, 299 for p99.

    All n samples lie below it with probability quantile^n, which must not exceed 1 - confidence (Wilks, Annals of
    Mathematical Statistics 12, 1941).

    Raises:
        ValueError: for a quantile or confidence that is not between 0 and 1.
    """
    if not (0 < quantile < 1 and 0 < confidence < 1):
        raise ValueError(f"quantile {quantile} and confidence {confidence} are not accepted: between 0 and 1 is")
    return math.ceil(math.log(1 - confidence) / math.log(quantile))


def tail_ms(times_ms: ArrayLike, quantile: float) -> float | None:
    """The ``quantile`` of the times, or None where there are too few to say."""
    times = np.asarray(times_ms, dtype=np.float64)
    return None if len(times) < samples_needed(quantile) else float(np.quantile(times, quantile))


def bootstrap(times_ms: ArrayLike) -> tuple[float, float]:
    """The 95 % percentile interval of the mean, from blocks of about n^(1/3) neighbouring calls.

    The order of ``times_ms`` is the order in which they were taken. Resampling is seeded: whoever has the samples gets
    the same interval.
    """
    times = np.asarray(times_ms, dtype=np.float64)
    n = len(times)
    block = max(1, round(n ** (1 / 3)))
    starts = np.random.default_rng(0).integers(0, n - block + 1, size=(RESAMPLES, math.ceil(n / block)))
    index = (starts[:, :, None] + np.arange(block)).reshape(RESAMPLES, -1)[:, :n]
    low, high = np.quantile(times[index].mean(axis=1), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def summarise(times_ms: ArrayLike) -> Summary:
    """The statistics of raw samples, in the order in which they were taken.

    Raises:
        ValueError: for no samples, or a time that is not positive and finite.
    """
    times = np.asarray(times_ms, dtype=np.float64)
    if not len(times):
        raise ValueError("no samples: at least one timed call is needed")
    if not (np.isfinite(times) & (times > 0)).all():
        raise ValueError(f"times must be positive and finite; {times[~(np.isfinite(times) & (times > 0))][0]} is not")
    low, high = bootstrap(times) if len(times) >= FEWEST_FOR_INTERVAL else (None, None)
    return Summary(
        n=len(times),
        mean_ms=float(times.mean()),
        std_ms=float(times.std(ddof=1)) if len(times) > 1 else None,
        median_ms=float(np.median(times)),
        min_ms=float(times.min()),
        max_ms=float(times.max()),
        low_ms=low,
        high_ms=high,
        p95_ms=tail_ms(times, TAILS[0]),
        p99_ms=tail_ms(times, TAILS[1]),
        interval="block bootstrap of the samples" if low is not None else f"none: {len(times)} samples",
    )


def from_published(mean_ms: float, std_ms: float, min_ms: float, max_ms: float, trials: int) -> Summary:
    """The statistics of a published row, of which only mean, spread and count are known.

    The interval is the normal one, 1.96 standard deviations of the mean, widened by half a unit of the third
    significant figure, to which the public protocol rounds. Calls are taken as independent, for want of the samples.
    """
    half = Z * std_ms / math.sqrt(trials) + rounding_ms(mean_ms) / 2
    how = "normal, from the published mean, deviation and count, and their rounding"
    return Summary(
        trials, mean_ms, std_ms, None, min_ms, max_ms, mean_ms - half, mean_ms + half, None, None, interval=how
    )


def rounding_ms(time_ms: float, digits: int = 3) -> float:
    """One unit of the last of ``digits`` significant figures: 0.01 for 2.43."""
    return 10.0 ** (math.floor(math.log10(time_ms)) - digits + 1)


def as_published(time_ms: float, digits: int = 3) -> float:
    """A time rounded as the public protocol rounds it, to three significant figures."""
    return float(f"{time_ms:.{digits}g}")


def overlap(a: Interval, b: Interval) -> bool:
    """Whether two intervals overlap, so that neither mean can be called faster; False where one has none."""
    if a.low_ms is None or a.high_ms is None or b.low_ms is None or b.high_ms is None:
        return False
    return a.low_ms <= b.high_ms and b.low_ms <= a.high_ms
