from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vgg_kernels.emulator.fma import fma, multiply_add

normal = st.floats(-(2.0**40), 2.0**40, width=32, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 2**-40)


def nearest(exact: Fraction) -> np.float32:
    """The fp32 value nearest to a fraction, ties to even."""
    guess = np.float32(float(exact))
    around = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    distance = [abs(Fraction(float(x)) - exact) for x in around]
    best = [x for x, d in zip(around, distance, strict=True) if d == min(distance)]
    return min(best, key=lambda x: int(x.view(np.uint32)) & 1)


@settings(deadline=None)  # the first call compiles
@given(normal, normal, normal)
def test_one_rounding_of_the_exact_result(a, b, c):
    out = np.empty(1, "f4")
    fma(*(np.array([x], "f4") for x in (a, b, c)), out)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    assert out[0] == (nearest(exact) if exact else 0)


def test_a_product_is_a_chain_along_k():
    random = np.random.default_rng(0)
    a, b, c = (random.standard_normal(shape).astype("f4") for shape in ((2, 5), (5, 3), (2, 3)))
    chained = c.copy()
    for k in range(5):
        for i, j in np.ndindex(2, 3):
            fma(a[i, k : k + 1], b[k, j : j + 1], chained[i, j : j + 1].copy(), chained[i, j : j + 1])
    assert np.array_equal(multiply_add(a, b, c), chained)
