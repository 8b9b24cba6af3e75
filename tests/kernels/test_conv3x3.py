"""conv3x3 against float64: all views, swapped or not, pooled, split; nothing unwritten, nothing outside."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from vgg_kernels.kernels import backend
from vgg_kernels.kernels.tiles import Tile
from vgg_kernels.workload.network import Conv
from vgg_kernels.workload.precision import TIERS

CONV = Conv("conv", "conv", 32, 32, 8, 10, False)
POOLED = replace(CONV, pooled=True)
# pixels x channels x depth: two tiles of channels and two slabs of depth for CONV
TILES = {
    "flat": Tile(64, 16, 16, 2, 4),
    "flat swapped": Tile(64, 16, 16, 2, 4, swapped=True),
    "flat split": Tile(64, 32, 16, 2, 4, split_k=2),
    "flat split unevenly": Tile(64, 32, 16, 2, 4, split_k=4, swapped=True),
    "box": Tile(32, 16, 16, 2, 4, (1, 4, 8), True),
    "box split": Tile(32, 32, 16, 2, 4, (1, 4, 8), True, split_k=2),
    "box of images": Tile(64, 32, 16, 2, 4, (2, 4, 8), True),
    "pairs": Tile(64, 16, 16, 2, 4, (1, 4, 16), True, pairs=True),
    "one pair": Tile(64, 32, 16, 2, 4, (1, 2, 32), True, pairs=True),
}


def padding(planes, height, width):
    return torch.cat([values.flatten() for p in planes for values in (p[:, height:], p[:, :height, width:])]).float()


@pytest.mark.parametrize(
    ("tile", "tier"),
    [
        (tile, tier)
        for tile in ("flat", "flat split", "box", "pairs")
        for tier in TIERS
        if (tile, tier) != ("pairs", "fp16x3")  # refused, as tested below
    ],
)
def test_every_tier_keeps_to_its_rounding(one, tile, tier):
    one.conv(CONV, tier, 2, TILES[tile]).check(one.budget(tier, 9 * CONV.c_in))


@settings(max_examples=24, deadline=None)
@given(st.data())
def test_any_image_and_batch_under_any_tile(one, data):
    pooled = data.draw(st.booleans(), "pooled")
    tile = TILES[data.draw(st.sampled_from(sorted(TILES)), "tile")]
    step = tile.box[1] if tile.pairs else 2 if pooled else 1
    height = step * data.draw(st.integers(1, 11 // step), "height")
    width = data.draw(st.integers(1, 5), "width") * 2 if pooled else data.draw(st.integers(1, 11), "width")
    conv = Conv("conv", "conv", 16 * data.draw(st.integers(1, 2), "slabs"), 32, height, width, pooled)
    tier = data.draw(st.sampled_from([name for name in sorted(TIERS) if not tile.pairs or name != "fp16x3"]), "tier")
    pad = data.draw(st.integers(0, 1), "pad") if pooled else 1  # a layer without a pool is never the last
    result = one.conv(conv, tier, data.draw(st.integers(1, 3), "batch"), tile, pad=pad, seed=height * width)
    result.check(1.3 * one.budget(tier, 9 * conv.c_in))  # few numbers average less well


@pytest.mark.parametrize("conv", [CONV, POOLED], ids=["plain", "pooled"])
@pytest.mark.parametrize("tile", TILES)
def test_each_pixel_is_written_and_padding_is_left_zero(one, conv, tile):
    """Everything was NaN before: what a kernel writes outside the image is zero, what it leaves alone stays NaN."""
    result = one.conv(conv, "fp16", 2, TILES[tile])
    assert torch.isfinite(result.got).all()
    _, height, width = conv.output_shape
    outside = padding(result.planes, height, width)
    assert bool(((outside == 0) | outside.isnan()).all())
    if result.launches[-1].tile.box is None:  # flat tiles and the second launch own the padding
        assert not outside.isnan().any()


@pytest.mark.parametrize("conv", [CONV, POOLED], ids=["plain", "pooled"])
@pytest.mark.parametrize("tile", TILES)
def test_nan_reaches_the_pixels_that_torch_gives_nan(one, conv, tile):
    x, weight, bias = one.operands(conv, 2)
    x[0, 3, 0, 9] = float("nan")  # a corner: its neighbours in memory are other rows and another image
    x[1, 0, 5, 4] = float("nan")
    result = one.conv(conv, "fp16", 2, TILES[tile], operands=(x, weight, bias))
    assert torch.equal(result.got.isnan(), result.want.isnan())
    assert result.want.isnan().any()
    assert not result.want.isnan().all()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # infinity less infinity, in numpy
@pytest.mark.parametrize("tier", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize("tile", ["flat", "flat split", "box"])
def test_infinity_is_torchs_where_the_tier_has_fp32s_range(one, tier, tile):
    x, weight, bias = one.operands(POOLED, 1)
    x[0, 3, 2, 2] = float("inf")
    x[0, 5, 3, 3] = float("-inf")
    result = one.conv(POOLED, tier, 1, TILES[tile], operands=(x, weight, bias))
    want = F.max_pool2d(F.relu(F.conv2d(x, weight, bias, padding=1)), 2)
    assert torch.equal(result.got.isnan(), want.isnan())
    assert torch.equal(result.got.isinf(), want.isinf())
    assert want.isnan().any()
    assert want.isinf().any()


@pytest.mark.parametrize("tier", ["fp16", "fp16x3", "fp8"])
@pytest.mark.parametrize("tile", ["flat", "flat split", "box"])
def test_overflow_is_not_a_number_and_touches_nothing_else(one, tier, tile):
    x, weight, bias = one.operands(CONV, 1)
    weight[7] *= 1e6  # its activations pass every 16- and 8-bit type; its weights are scaled and do not
    result = one.conv(CONV, tier, 1, TILES[tile], operands=(x, weight, bias))
    too_large = result.want > TIERS[tier].largest + result.allowed
    assert too_large.any()
    assert result.got[too_large].isnan().all()
    right = (result.got - result.want).abs() <= result.allowed
    others = torch.arange(CONV.c_out) != 7
    assert right[:, others].all()
    assert bool((right | result.got.isnan()).all())


@pytest.mark.parametrize("exponents", [(3, -2), (-5, 4)])
@pytest.mark.parametrize("tile", ["flat", "flat split", "box"])
def test_scales_of_activations_are_exact(one, exponents, tile):
    scaled, plain = (one.conv(POOLED, "fp16", 1, TILES[tile], exponents=e) for e in (exponents, (0, 0)))
    normal = plain.got > 2.0**-8  # clear of subnormals in both
    assert torch.equal(scaled.got[normal], plain.got[normal])
    assert normal.any()


def test_the_same_bits_twice(one):
    for tile in ("flat split", "box"):
        first, second = (one.conv(POOLED, "fp16x3", 2, TILES[tile]) for _ in range(2))
        assert first.got.numpy().tobytes() == second.got.numpy().tobytes()


def test_no_index_overflows_in_the_interpreters_own_check(one):
    backend.check_overflow(True)
    try:
        result = one.conv(Conv("conv", "conv", 16, 16, 2, 4, True), "fp16", 1, Tile(32, 16, 16, 2, 4, split_k=2))
        result.check(one.budget("fp16", 144))
    finally:
        backend.check_overflow(False)


SEVERAL_IMAGES = Tile(64, 32, 16, 2, 4, (2, 4, 8), True, pairs=True)


@pytest.mark.parametrize(
    ("conv", "tier", "tile"),
    [
        (CONV, "fp16x3", TILES["pairs"]),
        (replace(CONV, height=5), "fp16", TILES["pairs"]),
        (replace(CONV, height=6), "fp16", TILES["pairs"]),
        (CONV, "fp16", SEVERAL_IMAGES),
    ],
)
def test_row_pairs_are_refused_where_they_cannot_be(one, conv, tier, tile):
    with pytest.raises(ValueError, match=r"pairs .* accepted: one image, an even number of rows that divides the heig"):
        one.conv(conv, tier, 1, tile)
