"""The input generators: a function of their arguments, with the spread that each promises."""

import pytest
import torch

from vgg_kernels.workload.inputs import IMAGENET_MEAN, IMAGENET_STD, KINDS, draw
from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.network import network

SMALL = network("vgg11", image=64, classes=10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_a_function_of_its_arguments(kind):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, again, other = (draw(SMALL, 3, kind, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert one.dtype == torch.float32
    assert tuple(one.shape) == (3, 3, 64, 64)
    assert torch.isfinite(one).all()
    assert not torch.equal(one[0], one[1])


def test_uniform_is_what_kernelbench_draws():
    x = draw(SMALL, 2, "uniform", seed=7)
    torch.manual_seed(7)
    assert torch.equal(x, torch.rand(2, 3, 64, 64))
    assert x.min() >= 0
    assert x.max() < 1


def test_normal_has_both_signs():
    x = draw(SMALL, 4, "normal")
    assert abs(x.mean().item()) < 0.02
    assert x.std().item() == pytest.approx(1, rel=0.02)


def test_photographs_are_smooth_and_normalised_as_torchvision_does():
    x = draw(SMALL, 4, "photographs")
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
    pixels = x * std + mean
    assert pixels.min() >= -1e-5
    assert pixels.max() <= 1 + 1e-5
    step = (x[..., 1:] - x[..., :-1]).abs().mean()
    noise = draw(SMALL, 4, "normal")
    assert step < 0.35 * (noise[..., 1:] - noise[..., :-1]).abs().mean()  # neighbours are alike, as in no noise


def test_bad_input_is_named():
    with pytest.raises(UnknownName, match="unknown kind of input 'imagenet'; accepted: uniform, normal, photographs"):
        draw(SMALL, 1, "imagenet")
    with pytest.raises(ValueError, match="batch 0 is not accepted"):
        draw(SMALL, 0)
