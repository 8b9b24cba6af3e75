"""The gate from outside: whom it passes, whom it does not, and what it asks."""

import pytest
import torch

from vgg_kernels.correctness.emulation import Emulation
from vgg_kernels.correctness.suite import prepare
from vgg_kernels.correctness.verify import examine, verify
from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.precision import TIERS


@pytest.mark.parametrize(("name", "effort"), [*((name, "quick") for name in TIERS), ("fp16", "full"), ("fp8", "full")])
def test_every_tiers_own_arithmetic_passes(tiny_network, name, effort):
    verdict = verify(lambda model: Emulation(model, name), tiny_network, name, effort=effort, seed=3)
    assert verdict.failures == []
    assert verdict.passed
    assert verdict.deterministic is True
    assert {check.weights for check in verdict.checks} == {"kernelbench", "kaiming"}
    assert [row.layer for row in verdict.layers] == [layer.name for layer in tiny_network.layers]


def test_fresh_seeds_differ_and_a_given_one_repeats(tiny_network):
    one, two = (prepare(tiny_network, "bf16", "single") for _ in range(2))
    assert one.seed != two.seed
    again = prepare(tiny_network, "bf16", "single", seed=one.seed)
    assert torch.equal(one.papers[0].questions[0].x, again.papers[0].questions[0].x)
    assert not torch.equal(one.papers[0].questions[0].x, two.papers[0].questions[0].x)


def test_a_tier_is_held_to_its_own_budget(tiny_network):
    build = lambda model: Emulation(model, "tf32")  # noqa: E731
    assert verify(build, tiny_network, "bf16", seed=1).passed
    failure = verify(build, tiny_network, "fp32", seed=1).failures[0]
    assert failure.name == "values"
    assert failure.relative_error > failure.budget


def test_progress_reaches_its_total(exam):
    seen = []
    examine(lambda model: Emulation(model, "fp16"), exam, progress=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == list(range(exam.calls + 1))
    assert all(total == exam.calls for _, total, _ in seen)


def test_an_unknown_effort_or_tier_is_named(tiny_network):
    with pytest.raises(UnknownName, match="effort 'lazy'; accepted: single, quick, full"):
        verify(lambda model: model, tiny_network, "fp16", effort="lazy")
    with pytest.raises(UnknownName, match="tier 'fp12'"):
        verify(lambda model: model, tiny_network, "fp12")
