"""What the cases are, and that the cheapest suite can fail a candidate in the coarsest tier too."""

import pytest
import torch

from vgg_kernels.correctness.emulation import Emulation
from vgg_kernels.correctness.error_bounds import error_bounds, reference_fp64
from vgg_kernels.correctness.gate import examine
from vgg_kernels.correctness.images import LARGEST_INTEGER
from vgg_kernels.correctness.sensitivity import normwise
from vgg_kernels.correctness.suite import ALWAYS_BATCH_SIZES, BRIGHT, batch_sizes, prepare
from vgg_kernels.correctness.test_case import INTEGERS, KAIMING
from vgg_kernels.workload.inputs import draw
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import TIERS, tier
from vgg_kernels.workload.reference import activations
from vgg_kernels.workload.weights import reference

DEEP = network("vgg19", image=96)


def test_one_image_is_enough_for_the_coarsest_tier_on_the_deepest_network():
    prepared = prepare(DEEP, "fp8", "single", seed=100, schemes=(KAIMING,))
    assert sum(len(case.x) for weight_set in prepared.weight_sets for case in weight_set.cases) == 1
    (certificate,) = prepared.certificates
    assert certificate.sensitivity > 1.5
    assert certificate.inputs == "side-lit; no image, another photograph, light from the other side"


def test_two_plain_images_are_not():
    """Their logits are mostly the biases', which every image gives."""
    model = reference(DEEP, "kaiming", 1)
    oracle = reference_fp64(model, torch.cat([draw(DEEP, 1, kind, 0) for kind in ("photographs", "normal")]))
    allowed = {name: error_bounds(DEEP, tier(name), oracle.damping)["fc8"] for name in ("fp8", "bf16")}
    seen = {name: normwise("", "kaiming", "", oracle.logits, bound) for name, bound in allowed.items()}
    assert seen["fp8"].vacuous
    assert not seen["bf16"].vacuous


@pytest.mark.parametrize("name", ["fp32", "fp8"])
def test_light_stays_within_the_tiers_range(name):
    case = prepare(DEEP, name, "single", seed=101).weight_sets[0].cases[0]
    largest = max(float(y.abs().max()) for y in case.oracle.outputs.values())
    assert float(case.x.abs().max()) <= 3 * BRIGHT  # photographs are within 3 before they are lit
    assert largest < {"fp32": torch.inf, "fp8": 448 / 3}[name]


def test_a_quick_suite_calls_in_exactly_the_batch_sizes_that_are_compiled_ahead(wrapped, suite):
    called = set()

    def noting(model, x):
        called.add(len(x))
        return model(x)

    assert examine(wrapped(noting), suite).passed
    assert called == set(batch_sizes(suite.seed))
    assert called > set(ALWAYS_BATCH_SIZES)


def test_another_seed_has_another_unusual_batch_size_and_the_usual_ones_all_the_same():
    found = [batch_sizes(seed) for seed in range(7)]
    assert len(set(found)) == 7
    assert all(sizes[:2] == ALWAYS_BATCH_SIZES == (3, 1) and len(sizes) == 3 for sizes in found)


@pytest.mark.parametrize("name", TIERS)
def test_integer_weights_are_exact_in_every_tier(name):
    """So one bound, fp32's, serves all: no tier rounds an operand, and no order of summation rounds a sum."""
    deep = network("vgg19", image=32)
    (weight_set,) = prepare(deep, name, "quick", seed=7, schemes=(INTEGERS,)).weight_sets
    (case,) = weight_set.cases
    assert torch.equal(Emulation(weight_set.reference, name)(case.x).double(), case.oracle.logits)
    assert float(case.error_bound["fc8"].max()) <= 5e-6
    for layer, y in activations(weight_set.reference, deep, case.x).items():
        assert torch.equal(y, y.round())
        assert float((y > 0).double().mean()) > 0.05, layer
        assert float(y.max()) <= LARGEST_INTEGER or layer == "fc8"
    assert all((weight_set.reference.get_parameter(f"{layer.key}.bias") != 0).all() for layer in deep.layers)


class Faulty(Emulation):
    """fp8 without a trace, one layer's weights and bias changed by ``fault(weight, bias)``."""

    trace = None

    def __init__(self, reference, key, fault):
        super().__init__(reference, "fp8")
        with torch.no_grad():
            fault(self.get_parameter(f"{key}.weight"), self.get_parameter(f"{key}.bias"))

    def forward(self, x):
        return super().trace(x)[self.network.layers[-1].name]


def swap_taps(weight, bias):
    flat = weight.view(*weight.shape[:2], 9)
    flat[..., [1, 7]] = flat[..., [7, 1]]


def drop_bias(channel):
    def fault(weight, bias):
        bias[channel] = 0

    return fault


@pytest.mark.parametrize("seed", range(3))
def test_fp8_without_a_trace_cannot_hide_one_wrong_layer(seed):
    """Under fp8's own error bound on Kaiming weights all of these pass."""
    deep = network("vgg19", image=32)
    suite = prepare(deep, "fp8", "quick", seed=seed, schemes=(INTEGERS,))
    assert examine(lambda model: Faulty(model, deep.layers[0].key, lambda weight, bias: None), suite).checks_passed
    faults = [(layer, swap_taps) for layer in deep.convs[:7]]
    faults += [(layer, drop_bias((37 * seed + 11) % layer.c_out)) for layer in deep.convs[-4:]]
    for layer, fault in faults:
        verdict = examine(lambda model, key=layer.key, fault=fault: Faulty(model, key, fault), suite, stop_early=True)
        assert [check.weights for check in verdict.failures] == ["integers"], layer.name


@pytest.mark.parametrize("effort", ["single", "quick"])
def test_a_candidate_without_a_trace_runs_on_integer_weights_at_every_effort(tiny_network, effort):
    suite = prepare(tiny_network, "fp8", effort, seed=3)
    fault = lambda model: Faulty(model, "features.2", swap_taps)  # noqa: E731
    assert "integers" in {check.weights for check in examine(fault, suite).failures}
