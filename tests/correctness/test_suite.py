"""What the questions are, and that the cheapest exam can fail somebody in the coarsest tier too."""

import pytest
import torch

from vgg_kernels.correctness.error_bounds import budgets, consult
from vgg_kernels.correctness.sensitivity import normwise
from vgg_kernels.correctness.suite import LOUD, prepare
from vgg_kernels.workload.inputs import draw
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import tier
from vgg_kernels.workload.weights import reference

DEEP = network("vgg19", image=96)


def test_one_image_is_enough_for_the_coarsest_tier_on_the_deepest_network():
    prepared = prepare(DEEP, "fp8", "single", seed=100)
    assert sum(len(question.x) for paper in prepared.papers for question in paper.questions) == 1
    (certificate,) = prepared.certificates
    assert certificate.sensitivity > 1.5
    assert certificate.inputs == "side-lit; no image, another photograph, light from the other side"


def test_two_plain_images_are_not():
    """Their logits are the biases' first of all, which every image gives."""
    model = reference(DEEP, "kaiming", 1)
    oracle = consult(model, torch.cat([draw(DEEP, 1, kind, 0) for kind in ("photographs", "normal")]))
    allowed = {name: budgets(DEEP, tier(name), oracle.damping)["fc8"] for name in ("fp8", "bf16")}
    seen = {name: normwise("", "kaiming", "", oracle.logits, budget) for name, budget in allowed.items()}
    assert seen["fp8"].vacuous
    assert not seen["bf16"].vacuous


@pytest.mark.parametrize("name", ["fp32", "fp8"])
def test_light_stays_within_the_tiers_range(name):
    question = prepare(DEEP, name, "single", seed=101).papers[0].questions[0]
    largest = max(float(y.abs().max()) for y in question.oracle.outputs.values())
    assert float(question.x.abs().max()) <= 3 * LOUD  # photographs are within 3 before they are lit
    assert largest < {"fp32": torch.inf, "fp8": 448 / 3}[name]
