"""How an H100's tensor cores add, compared with outputs that an H100 gave (data/README.md names their origin)."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vgg_kernels.emulator.tensor_core import UNITS, multiply_add

RECORDED = Path(__file__).resolve().parents[2] / "data" / "reported" / "h100_mma_vectors.npz"


def different(kind, unit):
    """How many of the recorded products come out otherwise."""
    with np.load(RECORDED) as recorded:
        a, b, c, d = (recorded[f"{kind}_{name}"] for name in "abcd")
    got = multiply_add(kind, a[:, None, :].astype("f4"), b[:, :, None].astype("f4"), c[:, None, None], unit)
    assert len(d) == 500
    return int((got.ravel().view(np.uint32) != d).sum())


@pytest.mark.parametrize("kind", UNITS)
def test_every_recorded_output_comes_out(kind):
    assert different(kind, UNITS[kind]) == 0


@pytest.mark.parametrize("kind", UNITS)
@pytest.mark.parametrize("change", [{"bits": -1}, {"bits": 1}], ids=["one bit less", "one bit more"])
def test_another_number_of_bits_is_seen(kind, change):
    unit = UNITS[kind]
    assert different(kind, replace(unit, bits=unit.bits + change["bits"])) > 10


@pytest.mark.parametrize("kind", ["fp16", "bf16", "fp8"])  # the recorded tf32 products have four terms: one half group
def test_half_the_products_at_once_are_seen(kind):
    assert different(kind, replace(UNITS[kind], products=UNITS[kind].products // 2)) > 10


def test_a_full_fp32_result_of_fp8_is_seen():
    assert different("fp8", replace(UNITS["fp8"], dropped=0)) > 10


@pytest.mark.parametrize("kind", UNITS)
def test_rounding_to_nearest_is_seen(kind):
    with np.load(RECORDED) as recorded:
        a, b, c, d = (recorded[f"{kind}_{name}"] for name in "abcd")
    nearest = ((a.astype(np.float64) * b).sum(1) + c).astype(np.float32)
    assert (nearest.view(np.uint32) != d).sum() > 10


@pytest.mark.parametrize("kind", UNITS)
def test_a_long_product_is_a_chain_of_instructions(kind):
    random = np.random.default_rng(0)
    k = 3 * UNITS[kind].products
    a, b = random.integers(-8, 9, (5, k)) / np.float32(4), random.integers(-8, 9, (k, 300)) / np.float32(4)
    c = random.standard_normal((5, 300)).astype("f4")
    chained = c
    for at in range(0, k, UNITS[kind].products):
        some = slice(at, at + UNITS[kind].products)
        chained = multiply_add(kind, a[:, some], b[some], chained)
    assert np.array_equal(multiply_add(kind, a, b, c), chained)


def test_a_short_product_is_an_instruction_with_zeros():
    a, b = np.full((1, 3), 1.5, "f4"), np.full((3, 1), 2.0, "f4")
    assert multiply_add("fp16", a, b, np.ones((1, 1), "f4")) == 10


def test_small_integers_are_exact():
    random = np.random.default_rng(1)
    a, b = random.integers(-2, 3, (4, 64)).astype("f4"), random.integers(-2, 3, (64, 7)).astype("f4")
    for kind in UNITS:
        assert np.array_equal(multiply_add(kind, a, b, np.zeros((4, 7), "f4")), a @ b)


def test_what_is_not_finite_reaches_its_row_or_column_alone():
    a, b, c = np.ones((3, 20), "f4"), np.ones((20, 4), "f4"), np.zeros((3, 4), "f4")
    a[0, 3], b[5, 1], c[2, 2] = np.inf, np.nan, -np.inf
    got = multiply_add("fp16", a, b, c)
    want = np.full((3, 4), 20, "f4")
    want[0], want[:, 1], want[2, 2] = np.inf, np.nan, -np.inf
    assert np.array_equal(got, want, equal_nan=True)
    b[3] = 0  # infinity times zero
    assert np.isnan(multiply_add("fp16", a, b, c)[0]).all()


def test_shapes_that_do_not_match_are_named():
    with pytest.raises(ValueError, match=r"shapes must be \[M, K\], \[K, N\] and \[M, N\], got"):
        multiply_add("fp16", np.zeros((2, 3), "f4"), np.zeros((4, 5), "f4"), np.zeros((2, 5), "f4"))
    with pytest.raises(ValueError, match="fp16"):
        multiply_add("int4", np.zeros((2, 3), "f4"), np.zeros((3, 5), "f4"), np.zeros((2, 5), "f4"))
