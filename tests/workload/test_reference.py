"""The eager reference and the float64 oracle: one mathematics, written twice."""

import math

import pytest
import torch
from torch import nn

from vgg_kernels.workload.inputs import draw
from vgg_kernels.workload.network import network
from vgg_kernels.workload.reference import Reference, activations, oracle, relative_error
from vgg_kernels.workload.weights import reference

SMALL = network("vgg11", image=32, classes=10)


@pytest.fixture(scope="module")
def module():
    return reference(SMALL)


@pytest.fixture(scope="module")
def x():
    return draw(SMALL, batch=2, kind="normal")


def test_the_oracle_is_the_module_in_float64(module, x):
    want = Reference(SMALL).double()
    want.load_state_dict(module.state_dict())
    with torch.no_grad():
        got, expected = oracle(module, SMALL, x), want(x.double())
    assert got.dtype == torch.float64
    assert relative_error(got, expected) < 1e-14


def test_fp32_activations_are_the_eager_modules(module, x):
    seen = activations(module, SMALL, x, torch.float32)
    assert torch.equal(seen["fc8"], module(x))
    assert list(seen) == [layer.name for layer in SMALL.layers]
    for layer in SMALL.layers:
        assert tuple(seen[layer.name].shape) == (2, *layer.output_shape)
    behind_relu = [values.min() for name, values in seen.items() if name != "fc8"]
    assert min(behind_relu) >= 0
    assert seen["fc8"].min() < 0


def test_the_module_is_left_alone(module, x):
    before = {name: value.clone() for name, value in module.state_dict().items()}
    given = x.clone()
    oracle(module, SMALL, x)
    assert torch.equal(x, given)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert module.classifier[0].weight.dtype == torch.float32


def test_dropout_is_none_so_that_both_modes_agree(module, x):
    rates = [child.p for child in module.modules() if isinstance(child, nn.Dropout)]
    assert rates == [0.0, 0.0]
    logits = module(x)
    module.train()
    assert torch.equal(module(x), logits)
    module.eval()


def test_relative_error_is_frobenius_in_float64():
    want = torch.tensor([3.0, 4.0])
    assert relative_error(want, want) == 0
    assert relative_error(torch.tensor([3.0, 4.5]), want) == pytest.approx(0.1)
    assert relative_error(want * (1 + 2**-20), want.double()) == pytest.approx(2**-20, rel=1e-3)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_infinitely_wrong(bad):
    assert relative_error(torch.tensor([bad, 1.0]), torch.tensor([bad, 1.0])) == math.inf
