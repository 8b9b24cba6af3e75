"""How an H100's tensor cores add: matrix products bit for bit as ``wgmma`` computes them.

One instruction multiplies K operand pairs exactly, aligns the products and the accumulator to the largest exponent
among them, truncates each towards zero to a fixed number of fraction bits, adds exactly, and rounds the sum towards
zero. The exponent of a product is the sum of its operands' exponents, so its significand lies in [1, 4).

Sources of ``UNITS``, which agree: Khattak and Mikaitis, arXiv:2512.07004 (north-numerical-computing/MATLAB-tensor-core,
H100 model); Xie et al. (microsoft/MMA-Sim); Hawkeye (badasherez/gpu-simulator). A test compares it with outputs that
an H100 gave, 500 of each kind.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit, prange

from ..workload.lookup import lookup

LEAST = 2.0**-100  # exponents below count as this one: products of normal images and weights lie far above
_BLOCK = 256  # columns at a time: five fp32 rows of them stay in the first cache


@dataclass(frozen=True)
class Unit:
    """One kind of tensor-core addition.

    Attributes:
        products: operand pairs that one instruction adds at once.
        bits: fraction bits kept below the largest exponent.
        dropped: low bits of the fp32 result that are zero.
        least_normal: smallest normal operand; a subnormal one has its exponent.
    """

    products: int
    bits: int
    dropped: int
    least_normal: float


UNITS = {
    "fp16": Unit(16, 25, 0, 2.0**-14),
    "bf16": Unit(16, 25, 0, 2.0**-126),
    "tf32": Unit(8, 25, 0, 2.0**-126),
    "fp8": Unit(32, 13, 10, 2.0**-6),
}


def multiply_add(kind: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, unit: Unit | None = None) -> np.ndarray:
    """``a @ b + c`` as the tensor cores compute it, instruction after instruction along K.

    Args:
        kind: "fp16", "bf16", "tf32" or "fp8" (e4m3).
        a: ``[M, K]`` or ``[batch, M, K]`` fp32, each value exactly an operand of that kind.
        b: ``[K, N]`` or ``[batch, K, N]`` fp32, likewise; a batch of one serves all of ``a``'s.
        c: ``[M, N]`` or ``[batch, M, N]`` fp32, the accumulator.
        unit: another addition than the kind's own.

    Returns:
        fp32 like ``c``. Exact where nonzero products and sums are at least 2^-100 in magnitude (``LEAST``). NaN and
        infinities propagate as in IEEE arithmetic; every NaN is the canonical one, 0x7FFFFFFF.

    Raises:
        UnknownName: for a kind that does not exist.
        ValueError: for shapes that do not match.
    """
    unit = unit or lookup("operand kind", kind, UNITS)
    shape = c.shape
    a, b, c = (np.ascontiguousarray(x if x.ndim == 3 else x[None], np.float32) for x in (a, b, c))
    if len(b) not in (1, len(a)) or a.shape[2] != b.shape[1] or c.shape != (len(a), a.shape[1], b.shape[2]):
        raise ValueError(f"shapes must be [M, K], [K, N] and [M, N], got {a.shape}, {b.shape} and {c.shape}")
    if not all(np.isfinite(x).all() for x in (a, b, c)):
        with np.errstate(invalid="ignore"):
            special = a @ b + c  # not finite wherever a factor is not, for infinity times zero is NaN
        a, b, c = (np.where(np.isfinite(x), x, np.float32(0)) for x in (a, b, c))
        finite = multiply_add(kind, a, b, c, unit)
        special = np.where(np.isnan(special), np.uint32(0x7FFFFFFF).view(np.float32), special)
        return np.where(np.isfinite(special), finite, special).reshape(shape)
    if short := -a.shape[2] % unit.products:  # an instruction with zeros
        a = np.pad(a, ((0, 0), (0, 0), (0, short)))
        b = np.pad(b, ((0, 0), (0, short), (0, 0)))
    least = np.float32(unit.least_normal)
    scale = np.float32(2.0**unit.bits)
    out = np.empty_like(c)
    _chain(a, b, _exponents(a, least), _exponents(b, least), c, out, unit.products, scale, unit.dropped)
    return out.reshape(shape)


def _exponents(x: np.ndarray, least: np.float32) -> np.ndarray:
    """2^exponent of each operand, 0 of a zero."""
    power = (x.view(np.uint32) & np.uint32(0x7F800000)).view(np.float32)
    return np.where(x == 0, np.float32(0), np.maximum(power, least))


@njit(parallel=True, cache=True, error_model="numpy")  # a division that may raise is not vectorised
def _chain(a, b, ea, eb, c, out, products, scale, dropped):  # pragma: no cover - compiled
    batch, rows, depth = a.shape
    columns = b.shape[2]
    for i in prange(batch * rows):
        g, m = i // rows, i % rows
        h = g if b.shape[0] > 1 else 0
        acc = np.empty(_BLOCK, np.float32)
        top = np.empty(_BLOCK, np.float32)
        shift = np.empty(_BLOCK, np.float32)
        total = np.empty(_BLOCK, np.int32)
        exact = np.empty(_BLOCK, np.float64)
        bits, exponent, exact_bits = acc.view(np.int32), top.view(np.int32), exact.view(np.int64)
        for n0 in range(0, columns, _BLOCK):
            n1 = min(_BLOCK, columns - n0)
            for n in range(n1):
                acc[n] = c[g, m, n0 + n]
            for k0 in range(0, depth, products):
                for n in range(n1):
                    exponent[n] = bits[n] & 0x7F800000
                    total[n] = 0
                for n in range(n1):
                    top[n] = max(top[n], np.float32(LEAST))
                for k in range(k0, k0 + products):
                    power, row = ea[g, m, k], eb[h, k, n0 : n0 + n1]
                    for n in range(n1):
                        top[n] = max(top[n], power * row[n])
                for n in range(n1):
                    shift[n] = scale / top[n]
                for k in range(k0, k0 + products):
                    x, row = a[g, m, k], b[h, k, n0 : n0 + n1]
                    for n in range(n1):
                        total[n] += np.int32((x * row[n]) * shift[n])
                for n in range(n1):  # the sum is an integer below 2^33, exact in fp64; its low bits go
                    exact[n] = (np.float64(total[n]) + np.float64(np.int32(acc[n] * shift[n]))) / np.float64(shift[n])
                for n in range(n1):
                    exact_bits[n] &= np.int64(-1) << np.int64(29)
                for n in range(n1):
                    acc[n] = np.float32(exact[n])
                for n in range(n1):
                    bits[n] &= np.int32(-1) << np.int32(dropped)
            for n in range(n1):
                out[g, m, n0 + n] = acc[n]
