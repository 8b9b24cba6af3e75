"""The tiers' arithmetic in plain PyTorch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vgg_kernels.correctness.emulation import ROUND, Emulation, round_fp8, round_fp8_weight, round_tf32, split
from vgg_kernels.workload.inputs import draw
from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.precision import TIERS, tier
from vgg_kernels.workload.reference import oracle, relative_error
from vgg_kernels.workload.weights import reference

finite = st.floats(
    allow_nan=False, allow_infinity=False, width=32, allow_subnormal=False, min_value=-(2.0**100), max_value=2.0**100
)


@given(finite)
def test_tf32_keeps_ten_bits_and_is_nearest(value):
    x = torch.tensor([value])
    y = round_tf32(x)
    assert int(y.view(torch.int32)) & 0x1FFF == 0
    assert abs(float(y) - value) <= abs(value) * tier("tf32").unit_roundoff
    assert torch.equal(round_tf32(y), y)


@given(st.floats(-60000, 60000, width=32))
def test_tf32_is_fp16_where_fp16_is_normal(value):
    x = torch.tensor([value])
    if abs(value) > 1e-4:
        assert torch.equal(round_tf32(x), x.half().float())


def test_special_values_survive_rounding():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0])
    for name in ("fp32", "tf32", "fp16", "bf16"):
        torch.testing.assert_close(ROUND[name](x), x, equal_nan=True)
    assert torch.isnan(round_fp8(x)).tolist() == [True, True, True, False]


def test_fp8_overflow_is_not_a_number_and_never_a_smaller_one():
    x = torch.tensor([448.0, 463.0, 465.0, 1e6])
    assert torch.isfinite(round_fp8(x)).tolist() == [True, True, False, False]


def test_fp8_weights_use_exact_scales_of_their_channel():
    w = torch.tensor([[1e-6, 3e-6], [1e4, 2e4], [0.0, 0.0]])
    error = (round_fp8_weight(w) - w).abs() / w.abs().clamp_min(1e-30)
    assert (error <= tier("fp8").unit_roundoff).all()


@given(st.floats(2.0**-10, 2.0**15, width=32))
def test_two_halves_hold_twenty_two_bits(value):
    x = torch.tensor([value])
    high, low = split(x)
    assert abs(float(high.double() + low.double() / 2048) - value) <= abs(value) * 2.0**-21


@pytest.mark.parametrize("name", TIERS)
def test_a_tier_has_the_error_of_its_roundoff(tiny_network, name):
    model = reference(tiny_network, "kaiming", 1)
    x = draw(tiny_network, 2, "normal", 2)
    error = relative_error(Emulation(model, name)(x), oracle(model, tiny_network, x))
    roundoff = tier(name).unit_roundoff
    assert 0.02 * roundoff < error < 5 * max(roundoff, 2.0**-23)


def test_keys_are_the_references_and_the_weights_are_copies(tiny_network):
    model = reference(tiny_network, "kaiming", 1)
    candidate = Emulation(model, "fp16")
    assert list(candidate.state_dict()) == list(model.state_dict())
    candidate.features[0].weight.mul_(2)
    assert not torch.equal(candidate.features[0].weight, model.features[0].weight)


def test_an_unknown_tier_is_named(tiny_network):
    with pytest.raises(UnknownName, match=r"fp12.*accepted: fp32"):
        Emulation(reference(tiny_network), "fp12")
