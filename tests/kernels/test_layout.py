"""Operands in memory: rounding against torch, scales that are exact, and K in the order that kernels walk."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from vgg_kernels.kernels.layout import (
    LARGEST_EXPONENT,
    Activation,
    channel_exponents,
    decode,
    descriptors,
    encode,
    pack,
    planes,
    weight_matrix,
)
from vgg_kernels.workload.network import Conv, Linear
from vgg_kernels.workload.precision import TIERS, tier

CPU = torch.device("cpu")
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
ORDINARY = st.floats(2.0**-10, 256.0, width=32)


def unscaled(packed):
    """The true weights that a packed layer multiplies by, for input and output scales of 1."""
    return decode([plane for plane in packed.planes]).double() * packed.alpha.double()[:, None]


@settings(max_examples=30, deadline=None)
@given(st.lists(ORDINARY, min_size=1, max_size=50), st.sampled_from(sorted(TIERS)), st.booleans())
def test_an_operand_is_off_by_at_most_the_unit_roundoff(values, name, negative):
    x = torch.tensor(values) * (-1 if negative else 1)
    kept = decode(encode(x, tier(name)))
    normal = x.abs() >= 2.0**-6
    off = (kept.double() - x.double()).abs()
    assert bool((off <= TIERS[name].unit_roundoff * x.abs().double())[normal].all())
    assert len(encode(x, tier(name))) == planes(tier(name)) == (2 if name == "fp16x3" else 1)
    assert torch.equal(decode(encode(kept, tier(name))), kept)  # what is on the grid stays


@pytest.mark.parametrize("name", TYPES)
def test_rounding_is_torchs_conversion(name):
    x = torch.randn(5000, generator=torch.Generator().manual_seed(0)) * 4
    assert torch.equal(decode(encode(x, tier(name))), x.to(TYPES[name]).float())


def test_tf32_rounds_ties_to_even_and_never_truncates():
    x = 1 + torch.tensor([1, 3, 5, 7, 4, 8]) * 2.0**-13
    want = 1 + torch.tensor([0, 0, 1, 1, 0, 1]) * 2.0**-10  # 4 is the tie: to the even neighbour, below
    assert torch.equal(decode(encode(x, tier("tf32"))), want)
    assert torch.equal(decode(encode(-x, tier("tf32"))), -want)


@pytest.mark.parametrize("name", TIERS)
def test_what_is_not_finite_is_never_stored_as_a_finite_number(name):
    x = torch.tensor([float("nan"), float("inf"), float("-inf"), 1.0])
    kept = decode(encode(x, tier(name)))
    assert kept.isfinite().tolist() == [False, False, False, True]
    assert kept[0].isnan()


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["fp16", "fp16x3", "fp8"]), st.integers(-60, 60), st.integers(0, 1000))
def test_a_power_of_two_on_the_weights_is_exact(name, shift, seed):
    """Scaling a channel by 2^s changes nothing but its alpha: the operands are the same bits."""
    matrix = torch.randn(4, 32, generator=torch.Generator().manual_seed(seed))
    plain = pack(matrix, torch.zeros(4), tier(name), 0, 0)
    scaled = pack(torch.ldexp(matrix, torch.tensor(shift)), torch.zeros(4), tier(name), 0, 0)
    for a, b in zip(plain.planes, scaled.planes, strict=True):
        assert torch.equal(a.float(), b.float())
    assert torch.equal(scaled.alpha, torch.ldexp(plain.alpha, torch.tensor(shift)))


@pytest.mark.parametrize("name", TIERS)
@pytest.mark.parametrize("size", [1.0, 1e-30, 1e30])
def test_weights_tiny_or_huge_keep_their_relative_precision(name, size):
    matrix = torch.randn(8, 64, generator=torch.Generator().manual_seed(1)) * size
    packed = pack(matrix, torch.zeros(8), tier(name), 0, 0)
    assert torch.isfinite(packed.alpha).all()
    error = (unscaled(packed) - matrix.double()).norm() / matrix.double().norm()
    assert error <= TIERS[name].unit_roundoff
    mantissa, _ = torch.frexp(packed.alpha)
    assert (mantissa == 0.5).all()  # powers of two


@pytest.mark.parametrize("name", LARGEST_EXPONENT)
def test_scaled_weights_fill_the_range_and_do_not_pass_it(name):
    matrix = torch.randn(16, 64, generator=torch.Generator().manual_seed(2)) * torch.logspace(-20, 20, 16)[:, None]
    largest = pack(matrix, torch.zeros(16), tier(name), 0, 0).planes[0].float().abs().amax(1)
    assert (largest >= 2.0 ** LARGEST_EXPONENT[name]).all()
    assert (largest <= min(2.0 ** (LARGEST_EXPONENT[name] + 1), TIERS[name].largest)).all()


@pytest.mark.parametrize("name", TIERS)
def test_zero_channels_and_channels_that_are_not_finite(name):
    matrix = torch.randn(4, 32, generator=torch.Generator().manual_seed(3))
    matrix[1] = 0
    matrix[2, 5], matrix[3, 6] = float("nan"), float("inf")
    packed = pack(matrix, torch.ones(4), tier(name), 0, 0)
    kept = unscaled(packed)
    assert not kept[1].any()
    assert packed.beta.tolist() == [1, 1, 1, 1]
    assert (~kept.isfinite()).nonzero().tolist() == [[2, 5], [3, 6]]
    assert channel_exponents(matrix, tier(name))[1:].tolist() == [0, 0, 0]


@given(st.integers(-20, 20), st.integers(-20, 20))
@settings(max_examples=20, deadline=None)
def test_the_epilogue_undoes_the_inputs_scale_and_applies_the_outputs(before, after):
    matrix, bias = torch.eye(4), torch.tensor([1.0, -2.0, 3.5, 0.0])
    packed = pack(matrix, bias, tier("fp16"), before, after)
    stored = torch.arange(4.0)  # of true values stored * 2^before
    out = (packed.planes[0].float() @ stored) * packed.alpha + packed.beta
    assert torch.equal(out * 2.0**after, stored * 2.0**before + bias)


def test_a_convolutions_k_is_tap_then_channel():
    conv = Conv("conv", "conv", 16, 4, 5, 6, False)
    x, weight = torch.randn(1, 16, 5, 6, dtype=torch.double), torch.randn(4, 16, 3, 3, dtype=torch.double)
    matrix = weight_matrix(weight, conv)
    taps = F.pad(x, (1, 1, 1, 1))
    shifted = torch.cat([taps[0, :, r : r + 5, s : s + 6] for r in range(3) for s in range(3)])
    want = F.conv2d(x, weight, padding=1)[0]
    assert torch.allclose(torch.einsum("ok,khw->ohw", matrix, shifted), want)


def test_the_stems_k_is_torchs_and_five_zeros():
    conv = Conv("conv1_1", "features.0", 3, 64, 5, 6, False)
    weight = torch.randn(64, 3, 3, 3)
    matrix = weight_matrix(weight, conv)
    assert tuple(matrix.shape) == (64, 32)
    assert torch.equal(matrix[:, :27], weight.flatten(1))
    assert not matrix[:, 27:].any()


def test_the_first_linear_layers_columns_follow_channels_last():
    source, layer = Conv("conv", "conv", 8, 6, 4, 4, True), Linear("fc6", "fc6", 24, 5, True)
    x, weight = torch.randn(3, 6, 2, 2), torch.randn(5, 24)
    got = x.permute(0, 2, 3, 1).flatten(1) @ weight_matrix(weight, layer, source).T
    assert torch.allclose(got, x.flatten(1) @ weight.T, atol=1e-5)
    assert weight_matrix(weight, layer) is weight


@pytest.mark.parametrize("name", TIERS)
def test_an_activation_gives_back_its_values_with_their_scale(name):
    x = torch.randn(2, 6, 3, 5, generator=torch.Generator().manual_seed(0))
    stored = Activation.empty((2, 3, 5, 6), tier(name), CPU, 1, 3)
    for plane, part in zip(stored.planes, encode(x.permute(0, 2, 3, 1) / 8, tier(name)), strict=True):
        plane[:, :3, :5] = part
    got = stored.values()
    assert tuple(got.shape) == (2, 6, 3, 5)
    smallest = 8 * {"fp8": 2.0**-10, "fp16": 2.0**-25}.get(name, 0)  # half of the smallest subnormal
    assert ((got - x).abs() <= x.abs() * TIERS[name].unit_roundoff + smallest).all()
    assert [tuple(rows.shape) for rows in stored.rows()] == [(2 * 4 * 6, 6)] * len(stored.planes)
    got.fill_(math.nan)
    assert not stored.values().isnan().any()


def test_a_plane_that_a_tier_does_not_have_has_no_descriptor():
    one, two = (descriptors([torch.zeros(8, 16, dtype=torch.float16)] * n, [8, 16]) for n in (1, 2))
    assert one[1] is None
    assert None not in two
    assert one[0].block_shape == [8, 16]
