"""Rounding, ReLU and maximum against torch's own, on the values where they could differ."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vgg_kernels.kernels.numerics import INTERPRETED, low_half, max_over, relu, round_bits, storage, to_operand
from vgg_kernels.workload.precision import TIERS, tier

import triton  # isort: skip  (behind the package, which decides whether it interprets)
import triton.language as tl  # isort: skip

TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
DEVICE = "cpu" if INTERPRETED else "cuda"
MOST = 1024


@triton.jit
def operand_kernel(x_ptr, y_ptr, lo_ptr, N: tl.constexpr, TIER: tl.constexpr, OUT: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    hi = to_operand(x, TIER, OUT)
    tl.store(y_ptr + i, hi)
    if TIER == "fp16x3":
        tl.store(lo_ptr + i, low_half(x, hi))


@triton.jit
def relu_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, relu(tl.load(x_ptr + i)))


@triton.jit
def max_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    j = tl.arange(0, 4)
    x = relu(tl.load(x_ptr + i[:, None] * 4 + j[None, :]))
    tl.store(y_ptr + i, max_over(x, 1))


@triton.jit
def round_kernel(x_ptr, y_ptr, N: tl.constexpr, DROP: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, round_bits(tl.load(x_ptr + i), DROP))


def padded(values):
    x = torch.zeros(MOST)
    x[: len(values)] = torch.as_tensor(values, dtype=torch.float32)
    return x.to(DEVICE)


def operands(values, name):
    """(high half or operand, low half) as fp32."""
    torch_type, triton_type = storage(tier(name))
    x = padded(values)
    y, lo = (torch.zeros(MOST, dtype=torch_type, device=DEVICE) for _ in range(2))
    operand_kernel[(1,)](x, y, lo, N=MOST, TIER=name, OUT=triton_type)
    return y[: len(values)].float().cpu(), lo[: len(values)].float().cpu()


def every(kind):
    """Every finite value of an 8-bit type, or a sample of a 16-bit one's, with the midpoints between neighbours."""
    bits = torch.arange(256, dtype=torch.uint8) if kind.itemsize == 1 else torch.arange(0, 2**16, 37).to(torch.int16)
    values = bits.view(kind).double()
    values = values[values.isfinite()].unique()
    middle = (values[1:] + values[:-1]) / 2
    return torch.cat([values, middle]).float()[:: 1 if kind.itemsize == 1 else 4][:MOST]


@pytest.mark.parametrize("name", TYPES)
def test_rounding_is_torchs_ties_and_subnormals_included(name):
    kind = TYPES[name]
    smallest = torch.finfo(kind).smallest_normal
    tiny = torch.arange(-40, 41) * (smallest / 16)
    x = torch.cat([every(kind)[: MOST - 200], tiny, torch.tensor([0.0, -0.0])])
    got, _ = operands(x, name)
    want = x.to(kind).float()
    assert torch.equal(got, want)
    assert (want != x).any()  # some of them had to be rounded


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(TYPES)), st.lists(st.floats(width=32), min_size=1, max_size=MOST))
def test_any_float_is_torchs_or_not_finite(name, values):
    x = torch.tensor(values, dtype=torch.float32)
    got, _ = operands(x, name)
    want = x.to(TYPES[name]).float()
    largest = 464.0 if name == "fp8" else float("inf")  # past it torch saturates in some versions, we never
    overflow = x.isfinite() & (~want.isfinite() | (x.abs() > largest))
    fits = ~overflow & ~x.isnan() & (x.abs() <= largest)
    assert torch.equal(got[fits], want[fits])
    assert got[x.isnan()].isnan().all()
    assert not got[overflow].isfinite().any()


def tf32(x):
    """Round to nearest even at 10 mantissa bits, by arithmetic: an ulp is 2^(exponent - 11) of frexp's exponent."""
    x = x.double()
    ulp = torch.ldexp(torch.ones_like(x), torch.frexp(x).exponent - 11)
    return ((x / ulp).round() * ulp).float()  # torch.round is half to even


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(-(2.0**126), 2.0**126, width=32, allow_subnormal=False), min_size=1, max_size=200))
def test_tf32_is_nearest_even_at_ten_bits(values):
    x = torch.tensor(values, dtype=torch.float32)
    x = torch.cat([x, (1 + torch.arange(0, 64) * 2.0**-12), -(1 + torch.arange(0, 64) * 2.0**-12)])
    got, _ = operands(x, "tf32")
    assert torch.equal(got, tf32(x))


@pytest.mark.parametrize("name", TIERS)
def test_nan_and_infinity_stay_what_they_are(name):
    got, lo = operands([float("nan"), float("inf"), float("-inf")], name)
    if name == "fp8":  # e4m3 has no infinity
        assert got.isnan().all()
    else:
        assert got[0].isnan()
        assert got[1:].tolist() == [float("inf"), float("-inf")]
    assert lo[1:].tolist() == [0, 0]


@pytest.mark.parametrize(("name", "last", "first"), [("fp16", 65519.99, 65520.0), ("fp16x3", 65519.99, 65520.0),
                                                     ("fp8", 464.0, 464.00003)])  # fmt: skip
def test_the_first_value_that_does_not_fit_is_nan(name, last, first):
    got, _ = operands([last, -last, first, -first, 3e38], name)
    assert got[:2].tolist() == [TIERS[name].largest, -TIERS[name].largest]
    assert got[2:].isnan().all()


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(2.0**-10, 60000, width=32), min_size=1, max_size=200))
def test_two_halves_hold_21_bits(values):
    x = torch.tensor(values, dtype=torch.float32)
    hi, lo = operands(x, "fp16x3")
    assert torch.equal(hi, x.half().float())
    kept = hi.double() + lo.double() / 2048
    assert ((kept - x.double()).abs() <= x.double() * TIERS["fp16x3"].unit_roundoff).all()


def test_relu_keeps_nan_of_either_sign_and_returns_plus_zero():
    nans = torch.tensor([0x7FC00000, -0x400000, 0x7F800001], dtype=torch.int32).view(torch.float32)
    x = torch.cat([nans, torch.tensor([-1.0, -0.0, 0.0, 2.0, float("inf"), float("-inf"), 1e-40, -1e-40])])
    y = torch.zeros(MOST, device=DEVICE)
    relu_kernel[(1,)](padded(x), y, N=MOST)
    got = y[: len(x)].cpu()
    assert torch.equal(got.isnan(), x.isnan())
    assert torch.equal(got[3:], torch.relu(x[3:]))
    assert not torch.signbit(got).any()  # else a NaN would lose the integer maximum


def test_a_maximum_is_torchs_with_nan_anywhere_in_the_window():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(MOST // 4, 4, generator=generator)
    x[torch.rand(x.shape, generator=generator) < 0.1] = float("nan")
    x[torch.rand(x.shape, generator=generator) < 0.1] = float("inf")
    x[0] = torch.tensor([0xFFC00000 - 2**32, 0, 0, 0], dtype=torch.int32).view(torch.float32)  # a negative NaN
    y = torch.zeros(MOST // 4, device=DEVICE)
    max_kernel[(1,)](x.to(DEVICE), y, N=MOST // 4)
    want = torch.relu(x).amax(1)
    assert torch.equal(y.cpu().isnan(), want.isnan())
    assert torch.equal(y.cpu().nan_to_num(-1), want.nan_to_num(-1))


def test_rounding_past_the_largest_carries_into_infinity():
    y = torch.zeros(MOST, device=DEVICE)
    largest = torch.finfo(torch.float32).max
    round_kernel[(1,)](padded([largest, -largest, float("nan")]), y, N=MOST, DROP=13)
    assert y[:2].tolist() == [float("inf"), float("-inf")]
    assert y[2].isnan()
