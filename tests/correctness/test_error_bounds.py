"""The error budget: derived, tight, and at least as strict as the study's ceilings."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vgg_kernels.correctness.emulation import ROUND, ROUND_WEIGHT, Emulation, products
from vgg_kernels.correctness.error_bounds import (
    CEILING,
    KAPPA,
    MARGIN,
    budgets,
    chain,
    consult,
    emulated_limit,
    predicted_errors,
)
from vgg_kernels.correctness.mutants.arithmetic import FirstLayerInBF16
from vgg_kernels.workload.inputs import draw
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import TIERS, tier
from vgg_kernels.workload.reference import activations
from vgg_kernels.workload.weights import reference


def test_kappa_is_the_measured_rms_of_rounding_to_nearest():
    numbers = torch.exp(torch.rand(200_000, dtype=torch.float64) * 20).float()
    relative = (numbers.half().double() - numbers.double()) / numbers.double()
    keep = (numbers > 1e-4) & (numbers < 6e4)
    assert relative[keep].square().mean().sqrt() / 2**-11 == pytest.approx(KAPPA, rel=0.02)


def test_undamped_budgets_of_vgg19_stay_within_the_ceilings():
    vgg19 = network("vgg19")
    undamped = {layer.name: torch.ones(1, dtype=torch.float64) for layer in vgg19.layers}
    for name, ceiling in (("fp32", 5e-6), ("tf32", 3e-3), ("fp16", 3e-3), ("bf16", 2e-2)):
        assert CEILING[name] <= ceiling
        assert float(budgets(vgg19, tier(name), undamped)["fc8"]) <= ceiling


def test_a_budget_grows_with_depth_and_with_the_roundoff():
    vgg19 = network("vgg19")
    undamped = {layer.name: torch.ones(1, dtype=torch.float64) for layer in vgg19.layers}
    fp16, bf16 = (predicted_errors(vgg19, tier(name), undamped) for name in ("fp16", "bf16"))
    values = [float(e) for e in fp16.values()]
    assert values == sorted(values)
    assert float(bf16["fc8"] / fp16["fc8"]) == pytest.approx(8, rel=1e-3)
    assert chain(vgg19.layer("fc6")) == 25088
    assert chain(vgg19.layer("conv1_1")) == 27


@pytest.mark.parametrize("name", TIERS)
@pytest.mark.parametrize("kind", ["normal", "uniform", "photographs"])
def test_every_tier_stays_within_its_budget_and_uses_it(tiny_network, name, kind):
    model = reference(tiny_network, "kaiming", 5)
    x = draw(tiny_network, 4, kind, 6)
    oracle = consult(model, x)
    allowed = budgets(tiny_network, tier(name), oracle.damping)
    for layer, got in Emulation(model, name).trace(x).items():
        want = oracle.outputs[layer].flatten(1)
        error = (got.double().flatten(1) - want).norm(dim=1) / want.norm(dim=1)
        assert (error <= allowed[layer]).all(), layer
        loosest = 2 * MARGIN if name not in ("fp32", "fp16x3") else 6 * MARGIN  # the fp32 chain assumes no blocking
        assert (error >= allowed[layer] / loosest).all(), layer


def test_the_oracle_is_the_float64_network(tiny_network):
    model = reference(tiny_network, "kaiming", 5)
    x = draw(tiny_network, 2, "normal", 1)
    for name, want in activations(model, tiny_network, x).items():
        torch.testing.assert_close(consult(model, x).outputs[name], want, rtol=1e-12, atol=1e-12)


@given(st.floats(0.01, 1.0), st.sampled_from(sorted(TIERS)))
def test_damping_never_widens_a_budget(damping, name):
    vgg11 = network("vgg11", image=32)
    plain = {layer.name: torch.ones(1, dtype=torch.float64) for layer in vgg11.layers}
    damped = {layer: d * damping for layer, d in plain.items()}
    for layer, wide in budgets(vgg11, tier(name), plain).items():
        assert float(budgets(vgg11, tier(name), damped)[layer]) <= float(wide)


class SumsInFP64(Emulation):
    """The same operands in another order of summation."""

    def multiply(self, layer, x, weight):
        rounded = ROUND[self.tier.name](x).double(), ROUND_WEIGHT[self.tier.name](weight).double()
        return products(layer, *rounded).float()


@pytest.mark.parametrize("name", ["tf32", "fp16", "bf16", "fp8"])
def test_the_emulations_limit_is_kept_by_another_order_of_summation(tiny_network, name):
    model = reference(tiny_network, "kaiming", 5)
    x = 16 * draw(tiny_network, 8, "normal", 6)
    want = consult(model, x).logits
    limit = emulated_limit(Emulation(model, name), x, want)
    error = (SumsInFP64(model, name)(x).double() - want).norm(dim=1) / want.norm(dim=1)
    assert (error <= limit).all()
    assert (error >= limit / 2).all()


def test_the_emulations_limit_finds_one_layer_in_the_next_coarser_arithmetic():
    """The first of nineteen, whose error is the most diluted; the derived budget does not see it."""
    deep = network("vgg19", image=32)
    model = reference(deep, "kaiming", 1)
    x = 64 * draw(deep, 3, "normal", 3)
    oracle = consult(model, x)
    error = (FirstLayerInBF16(model)(x).double() - oracle.logits).norm(dim=1) / oracle.logits.norm(dim=1)
    assert (error <= budgets(deep, tier("fp16"), oracle.damping)["fc8"]).any()
    assert (error > emulated_limit(Emulation(model, "fp16"), x, oracle.logits)).all()


def test_the_emulations_limit_is_none_where_it_says_nothing(tiny_network):
    model = reference(tiny_network, "kaiming", 5)
    x = draw(tiny_network, 2, "normal", 6)
    want = consult(model, x).logits
    assert torch.isinf(emulated_limit(Emulation(model, "fp16x3"), x, want)).all()
    assert torch.isinf(emulated_limit(Emulation(model, "fp16"), x * 2.0**20, want)).all()
