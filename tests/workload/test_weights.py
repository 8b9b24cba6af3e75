"""The weight schemes: KernelBench's bit for bit, and Kaiming's with the spread that it promises."""

from math import sqrt

import pytest
import torch
from torch import nn

from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.network import network
from vgg_kernels.workload.weights import KERNELBENCH_SEED, reference

SMALL = network("vgg11", image=32, classes=10)


def test_the_kernelbench_scheme_is_torchs_default_after_its_seed():
    module = reference(SMALL, "kernelbench")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(KERNELBENCH_SEED)
        first = nn.Conv2d(3, 64, 3, padding=1)
        second = nn.Conv2d(64, 128, 3, padding=1)
    assert torch.equal(module.features[0].weight, first.weight)
    assert torch.equal(module.features[0].bias, first.bias)
    assert torch.equal(module.features[3].weight, second.weight)


def test_kaiming_weights_have_the_variance_of_fan_out():
    module = reference(SMALL)
    for conv in SMALL.convs[1:]:
        layer = module.get_submodule(conv.key)
        assert layer.weight.std().item() == pytest.approx(sqrt(2 / (9 * conv.c_out)), rel=0.02)
        assert layer.bias.abs().max() > 0  # a kernel that forgets the bias must show
    for linear in SMALL.linears:
        assert module.get_submodule(linear.key).weight.std().item() == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("scheme", ["kaiming", "kernelbench"])
def test_weights_are_a_function_of_the_seed_and_leave_the_global_generator_alone(scheme):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, again, other = (reference(SMALL, scheme, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.classifier[6].weight, again.classifier[6].weight)
    assert not torch.equal(one.classifier[6].weight, other.classifier[6].weight)
    assert not one.training
    assert not any(p.requires_grad for p in one.parameters())


def test_kaiming_keeps_the_network_alive_where_the_default_lets_it_die():
    deep = network("vgg19", image=32, classes=10)
    x = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    spread = {}
    for scheme in ("kaiming", "kernelbench"):
        logits = reference(deep, scheme)(x)
        spread[scheme] = float((logits[0] - logits[1]).norm() / logits.norm())
    assert spread["kernelbench"] < 1e-6  # fp32's own rounding: the logits do not see the input
    assert spread["kaiming"] > 100 * spread["kernelbench"]


def test_another_scheme_is_an_unknown_name():
    with pytest.raises(UnknownName, match="unknown weight scheme 'xavier'; accepted: kernelbench, kaiming"):
        reference(SMALL, "xavier")
