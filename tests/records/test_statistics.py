"""What samples say, and what they do not allow to be said."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgg_kernels.records.statistics import (
    as_published,
    bootstrap,
    from_published,
    overlap,
    rounding_ms,
    samples_needed,
    summarise,
    tail_ms,
)

TIMES = st.lists(st.floats(0.1, 100, allow_nan=False), min_size=1, max_size=200)


@given(TIMES)
@settings(max_examples=50, deadline=None)
def test_a_summary_is_that_of_its_samples(times):
    summary = summarise(times)
    assert summary.n == len(times)
    assert summary.mean_ms == pytest.approx(np.mean(times))
    assert summary.median_ms == pytest.approx(np.median(times))
    assert (summary.min_ms, summary.max_ms) == (min(times), max(times))
    if summary.low_ms is not None:
        slack = 1e-9 * summary.mean_ms
        assert summary.min_ms - slack <= summary.low_ms <= summary.high_ms <= summary.max_ms + slack


def test_the_interval_covers_the_mean_about_as_often_as_it_says():
    generator = np.random.default_rng(7)
    hits = sum(low <= 2.43 <= high for low, high in (bootstrap(generator.normal(2.43, 0.01, 100)) for _ in range(200)))
    assert 0.88 <= hits / 200 <= 0.99  # the percentile bootstrap is a little narrow at n = 100


def test_blocks_widen_the_interval_of_drifting_samples():
    drift = 2.43 + 0.05 * np.sin(np.linspace(0, 6, 100))
    shuffled = np.random.default_rng(0).permutation(drift)
    (a, b), (c, d) = bootstrap(drift), bootstrap(shuffled)
    assert b - a > 1.3 * (d - c)


def test_the_same_samples_give_the_same_interval():
    times = np.random.default_rng(3).normal(2, 0.1, 50)
    assert bootstrap(times) == bootstrap(list(times))


@pytest.mark.parametrize(("quantile", "n"), [(0.95, 59), (0.99, 299)])
def test_tails_need_samples(quantile, n):
    assert samples_needed(quantile) == n
    assert 1 - quantile**n >= 0.95 > 1 - quantile ** (n - 1)
    times = np.linspace(1, 2, n)
    assert tail_ms(times[:-1], quantile) is None
    assert tail_ms(times, quantile) == pytest.approx(np.quantile(times, quantile))


def test_case_19_no_p95_from_15_samples():
    assert summarise([2.0 + 0.01 * i for i in range(15)]).p95_ms is None


def test_few_samples_have_no_interval():
    assert summarise([1.0, 1.1, 1.2, 1.3]).low_ms is None
    assert summarise([1.0]).std_ms is None


@pytest.mark.parametrize("times", [[], [1.0, -1.0], [0.0], [float("nan")], [float("inf")]])
def test_no_statistics_of_no_times(times):
    with pytest.raises(ValueError, match=r"at least one|positive and finite"):
        summarise(times)


def test_a_published_row_has_a_normal_interval_and_no_median():
    summary = from_published(2.43, 0.0107, 2.41, 2.48, 100)
    half = 1.96 * 0.0107 / 10 + 0.005
    assert summary.low_ms == pytest.approx(2.43 - half, abs=1e-5)
    assert summary.high_ms == pytest.approx(2.43 + half, abs=1e-5)
    assert summary.median_ms is summary.p95_ms is None


@pytest.mark.parametrize(("time", "unit"), [(2.43, 0.01), (0.985, 0.001), (12.6, 0.1), (999.0, 1.0)])
def test_rounding_of_the_public_protocol(time, unit):
    assert rounding_ms(time) == pytest.approx(unit)
    assert as_published(time + 0.1 * unit) == pytest.approx(time)


@given(st.floats(1, 10), st.floats(1, 10))
@settings(max_examples=30, deadline=None)
def test_overlap_is_symmetric_and_true_of_equals(a, b):
    x, y = (from_published(round(m, 2), 0.01, m, m, 100) for m in (a, b))
    assert overlap(x, y) == overlap(y, x)
    assert overlap(x, x)


@pytest.mark.parametrize(("quantile", "confidence"), [(0, 0.9), (1, 0.9), (0.9, 1), (0.9, 0)])
def test_no_quantile_outside_its_range(quantile, confidence):
    with pytest.raises(ValueError, match="between 0 and 1"):
        samples_needed(quantile, confidence)


def test_without_an_interval_nothing_overlaps():
    assert not overlap(summarise([1.0]), summarise([1.0] * 10))
