"""The classifier against float64: ragged rows, ragged K, any batch, split K finished by whoever comes last."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vgg_kernels.kernels.tiles import Tile
from vgg_kernels.workload.network import Linear
from vgg_kernels.workload.precision import TIERS

HIDDEN = Linear("fc6", "classifier.0", 320, 96, relu=True)
LAST = Linear("fc8", "classifier.6", 320, 50, relu=False)
WHOLE = Tile(16, 32, 64, 2, 4, None, True)
SPLIT = Tile(16, 32, 64, 2, 4, None, True, split_k=2)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("tile", [WHOLE, SPLIT], ids=["whole", "split"])
@pytest.mark.parametrize("layer", [HIDDEN, LAST], ids=["hidden", "last"])
def test_every_tier_keeps_to_its_rounding(one, tier, tile, layer):
    one.linear(layer, tier, 3, tile).check(one.budget(tier, layer.features_in))


@settings(max_examples=16, deadline=None)
@given(st.data())
def test_any_size_and_batch(one, data):
    relu = data.draw(st.booleans(), "relu")
    # 16-byte rows: multiples of 16 suit every tier; K need not be whole steps, nor the outputs whole tiles
    layer = Linear("fc", "fc", 16 * data.draw(st.integers(1, 24), "K / 16"), data.draw(st.integers(1, 70), "N"), relu)
    steps = -(-layer.features_in // 64)
    tile = Tile(16, 32, 64, 2, 4, None, True, split_k=data.draw(st.integers(1, steps), "split"))
    tier = data.draw(st.sampled_from(sorted(TIERS)), "tier")
    result = one.linear(layer, tier, data.draw(st.integers(1, 20), "batch"), tile, seed=layer.features_out)
    result.check(1.6 * one.budget(tier, layer.features_in))  # a few outputs average less well


def test_logits_are_fp32_and_may_be_negative(one):
    result = one.linear(LAST, "fp16", 3, SPLIT)
    assert result.planes[0].dtype == torch.float32
    assert (result.got < 0).any()
    hidden = one.linear(HIDDEN, "fp16", 3, SPLIT)
    assert (hidden.got >= 0).all()


def test_the_same_bits_twice_and_counters_ready_for_the_next_launch(one):
    once, twice = (one.linear(HIDDEN, "fp16x3", 3, SPLIT, calls=calls) for calls in (1, 2))
    assert once.got.numpy().tobytes() == twice.got.numpy().tobytes()


def test_nan_and_overflow_stay_in_their_image(one):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 320, generator=generator)
    weight, bias = torch.randn(96, 320, generator=generator) / 18, torch.zeros(96)
    x[1, 17] = float("nan")
    weight[5] *= 1e6
    for tier in ("fp16", "fp16x3", "bf16", "fp32"):
        result = one.linear(HIDDEN, tier, 3, SPLIT, operands=(x, weight, bias))
        assert result.got[1].isnan().all()
        others = torch.arange(96) != 5
        assert result.got[[0, 2]][:, others].isfinite().all()
        too_large = result.want[[0, 2], 5] > 1.1 * TIERS[tier].largest
        assert not result.got[[0, 2], 5][too_large].isfinite().any()
        assert bool(too_large.any()) == (tier in ("fp16", "fp16x3"))
