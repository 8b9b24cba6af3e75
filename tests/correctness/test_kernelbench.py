"""The public rule, and what it can see."""

import torch

from vgg_kernels.correctness.emulation import Emulation
from vgg_kernels.correctness.kernelbench import FIRST_TOLERANCE, TOLERANCE, Rule, accepts, certify, trial_inputs
from vgg_kernels.workload.network import network

BOTH = (TOLERANCE, FIRST_TOLERANCE)


def test_trials_are_drawn_from_seed_42_and_all_different(tiny_network):
    images = trial_inputs(tiny_network, batch=2, trials=3)
    again = trial_inputs(tiny_network, batch=2, trials=3)
    assert all(torch.equal(a, b) for a, b in zip(images, again, strict=True))
    assert not torch.equal(images[0], images[1])
    torch.manual_seed(42)
    torch.manual_seed(int(torch.randint(0, 2**32 - 1, (1,))))
    assert torch.equal(images[0], torch.rand(2, 3, 64, 64))


def test_the_callers_generator_is_left_alone(tiny_network):
    torch.manual_seed(3)
    want = torch.rand(1)
    torch.manual_seed(3)
    trial_inputs(tiny_network, batch=1, trials=1)
    assert torch.equal(torch.rand(1), want)


def test_the_rule_is_allclose_and_nan_matches_nothing():
    zero = torch.zeros(2, 3)
    assert accepts(zero, zero + 0.9e-4, TOLERANCE)
    assert not accepts(zero, zero + 1.1e-4, TOLERANCE)
    assert not accepts(zero, torch.zeros(2, 4), TOLERANCE)
    broken = torch.tensor([[float("nan")]])
    assert not accepts(broken, broken, FIRST_TOLERANCE)


def test_a_right_network_is_accepted_and_a_raising_one_is_not(tiny_network):
    rule = Rule(tiny_network, trials=2, batch=2)
    assert rule.accepts(lambda model: Emulation(model, "fp32"), BOTH) == (True, True)
    assert rule.accepts(lambda model: (_ for _ in ()).throw(RuntimeError), BOTH) == (False, False)
    assert rule.accepts(lambda model: lambda x: exit(0), BOTH) == (False, False)


def test_on_the_real_problem_the_rule_accepts_a_constant():
    """KernelBench's VGG19, with smaller images: what it computes for one image passes for every other."""
    deep = network("vgg19", image=32)
    seen = certify(deep, images=3)
    assert seen.vacuous
    assert seen.sensitivity < 0.1
    model = Rule(deep, trials=1, batch=1)
    black = model.model(torch.zeros(1, 3, 32, 32))
    assert model.accepts(lambda reference: lambda x: black.repeat(len(x), 1), BOTH) == (True, True)
