"""The stem against float64: any strides, any odd image, NaN where torch has it, the padding written as zeros."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vgg_kernels.workload.network import Conv
from vgg_kernels.workload.precision import TIERS

STEM = Conv("conv1_1", "features.0", 3, 64, 7, 9, False)


@pytest.mark.parametrize("tier", TIERS)
def test_every_tier_keeps_to_its_rounding_and_writes_all(one, tier):
    result = one.conv(STEM, tier, 2, None)
    result.check(one.budget(tier, 27))
    for plane in result.planes:
        assert not plane[:, 7].float().any()
        assert not plane[:, :, 9].float().any()


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 13), st.integers(1, 13), st.integers(1, 3), st.sampled_from(sorted(TIERS)), st.booleans())
def test_any_image_and_batch(one, height, width, batch, tier, pooled):
    """Pooled as in VGG11, whose stem has a max-pool of its own behind it."""
    step = 2 if pooled else 1
    conv = Conv("conv1_1", "features.0", 3, 64, height * step, width * step, pooled)
    one.conv(conv, tier, batch, None, seed=height).check(1.3 * one.budget(tier, 27))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: torch.stack([x, -x], 1).flatten(0, 1)[::2],
        lambda x: torch.nn.functional.pad(x, (3, 2, 1, 4), value=float("nan"))[:, :, 1:8, 3:12],
        lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    ],
    ids=["channels_last", "slice of a larger batch", "window of a larger image", "transposed"],
)
def test_strides_do_not_matter(one, view):
    x, weight, bias = one.operands(STEM, 2)
    strided = view(x)
    assert torch.equal(strided, x)
    assert strided.stride() != x.stride()
    got, want = (one.conv(STEM, "fp16", 2, None, operands=(v, weight, bias)).got for v in (strided, x))
    assert torch.equal(got, want)


def test_an_expanded_image_is_read_again_and_again(one):
    x, weight, bias = one.operands(STEM, 1)
    result = one.conv(STEM, "fp16", 3, None, operands=(x.expand(3, -1, -1, -1), weight, bias))
    assert torch.equal(result.got[0], result.got[2])
    result.check(one.budget("fp16", 27))


def test_nan_and_infinity_reach_the_pixels_that_torch_gives_them(one):
    x, weight, bias = one.operands(STEM, 2)
    x[0, 1, 0, 8] = float("nan")
    x[1, 2, 6, 0] = float("inf")
    for tier in ("fp32", "tf32", "fp16", "bf16"):
        result = one.conv(STEM, tier, 2, None, operands=(x, weight, bias))
        assert torch.equal(result.got.isnan(), result.want.isnan())
        assert torch.equal(result.got.isinf(), result.want.isinf())
        assert 0 < result.want.isnan().sum() < result.want.numel() / 2


@pytest.mark.parametrize("tier", ["fp16", "fp16x3", "fp8"])
def test_a_pixel_too_large_for_the_tier_is_not_a_number_unless_it_is_scaled(one, tier):
    x, weight, bias = one.operands(STEM, 1)
    x[0, 0, 3, 4] = 1e5
    plain = one.conv(STEM, tier, 1, None, operands=(x, weight, bias))
    assert plain.got[0, :, 3, 4].isnan().all()
    assert plain.got[0, :, 6, 8].isfinite().all()
    scaled = one.conv(STEM, tier, 1, None, operands=(x, weight, bias), exponents=(10, 10))
    assert scaled.got.isfinite().all()
    lost = scaled.want.abs().max() * TIERS[tier].unit_roundoff  # of small pixels beside one so large
    assert ((scaled.got - scaled.want).abs() <= 4 * lost).all()
