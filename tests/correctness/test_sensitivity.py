"""Certificates, and references that are refused with their numbers."""

import pytest
import torch

from vgg_kernels.correctness.sensitivity import (
    Certificate,
    UnfitReference,
    elementwise,
    nearest,
    normwise,
    require_fit,
)
from vgg_kernels.correctness.suite import prepare
from vgg_kernels.workload import weights


def certificate(outputs, tolerance=1e-3):
    return normwise("gate", "kaiming", "uniform", outputs, torch.full((len(outputs),), tolerance))


def test_sensitivity_is_spread_over_tolerance():
    outputs = torch.tensor([[1.0, 2.0], [1.0, 2.5]], dtype=torch.float64)
    assert elementwise("rule", "kernelbench", "uniform", outputs, 0.25).sensitivity == pytest.approx(2)
    assert elementwise("rule", "kernelbench", "uniform", outputs, 1.0).vacuous
    assert certificate(outputs).spread == pytest.approx(0.5 / 5**0.5)


def test_one_image_alone_is_as_far_as_the_nearest_other():
    output = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    others = torch.tensor([[3.0, 5.0], [30.0, 40.0]], dtype=torch.float64)
    assert nearest("gate", "kaiming", "lit", output, others, 0.1).spread == pytest.approx(0.2)
    assert nearest("gate", "kaiming", "lit", output, others, 0.1).sensitivity == pytest.approx(2)
    assert nearest("gate", "kaiming", "lit", output, output, 0.1).vacuous


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (torch.zeros(3, 4), "all its 12 outputs are zero"),
        (torch.full((3, 4), 0.25), "all its 12 outputs are 0.25"),
        (torch.tensor([[1.0, float("nan")], [1.0, 2.0]]), "1 of its 4 outputs are not finite"),
        (torch.arange(4.0).repeat(3, 1), "hardly depends on its input; over 3 inputs the spread is 0 "),
    ],
)
def test_a_reference_that_can_fail_nothing_is_refused_with_the_numbers(outputs, message):
    outputs = outputs.double()
    with pytest.raises(UnfitReference, match=message):
        require_fit(outputs, certificate(outputs))


def test_the_gate_refuses_dead_kaiming_weights(tiny_network, monkeypatch):
    def dead(module):
        for p in module.parameters():
            p.mul_(0)

    with torch.no_grad():
        monkeypatch.setitem(weights.SCHEMES, "kaiming", dead)
        with pytest.raises(UnfitReference, match=r"kaiming weights is refused: all its .* outputs are zero"):
            prepare(tiny_network, "fp16", "quick", seed=0)


def test_a_spread_that_is_no_number_certifies_nothing():
    assert Certificate("c", "w", "i", float("nan"), 1.0).vacuous
    assert Certificate("c", "w", "i", float("inf"), 1.0).vacuous
