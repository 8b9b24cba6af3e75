"""The order of the steps, and the time budget that they must fit."""

import pytest

from vgg_kernels.correctness.suite import batch_sizes
from vgg_kernels.measure.plan import (
    BATCHES,
    GPU_ESTIMATES,
    PARTS,
    Step,
    TimeBudget,
    choose,
    guesses,
    steps,
)
from vgg_kernels.measure.variants import CPU_VARIANTS, GPU_VARIANTS, select
from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.network import network

ALL = steps("cuda", select("cuda"), BATCHES["cuda"], seed=3)
EAGER, INDUCTOR = CPU_VARIANTS[:2]


def names(found):
    return [step.name for step in found]


def test_every_variant_is_timed_at_every_batch_verified_and_profiled_once():
    found = names(ALL)
    assert len(set(found)) == len(found)
    assert {f"time/{v.name}/{batch}" for v in GPU_VARIANTS for batch in BATCHES["cuda"]} <= set(found)
    assert {f"profile/{v.name}/10" for v in GPU_VARIANTS} <= set(found)
    assert {f"verify/{v.name}" for v in GPU_VARIANTS if v.family == "ours"} <= set(found)
    assert {f"layers/{v.name}/10" for v in GPU_VARIANTS if not v.graphs} <= set(found)


def test_every_tier_is_verified_before_it_is_timed_and_compiled_before_that():
    found = names(ALL)
    for tier in ("fp16", "fp16x3", "tf32", "bf16", "fp8", "fp32"):
        compiled = next(i for i, step in enumerate(ALL) if step.part == "compile" and tier in step.tiers)
        verified, timed = found.index(f"verify/ours_{tier}"), found.index(f"time/ours_{tier}/10")
        assert compiled < verified < timed


def test_kernels_are_compiled_for_all_that_the_gate_asks_and_each_batch_once():
    first, other = [step for step in ALL if step.part == "compile" and "fp16" in step.tiers]
    assert first.batches == (10, *batch_sizes(3))
    assert other.batches == (64,)


def test_every_step_has_an_estimate_and_goes_through_json():
    for step in ALL:
        assert GPU_ESTIMATES[step.family] > 0
        assert Step.from_document(step.document()) == step


def test_a_cpu_verifies_ours_and_times_pytorchs():
    found = steps("cpu", select("cpu"), BATCHES["cpu"])
    assert names(found)[0] == "time/eager/1"
    assert not any(step.part != "verify" and step.variant in select("cpu", ("ours",)) for step in found)
    assert names(found)[-1] == "profile/inductor/10"


def test_the_smallest_batch_is_the_main_one_where_the_workloads_is_not_among_them():
    found = steps("cuda", select("cuda", ("eager",)), (8, 4), ("layers",))
    assert names(found)[0] == "layers/eager/4"


def test_only_takes_parts_variants_and_tiers():
    parts, rows = choose("cuda", ("time", "fp16"))
    assert parts == ("compile", "verify", "time")
    assert [v.name for v in rows] == ["ours_fp16"]
    assert choose("cpu", ("peak_rates",))[0] == ("peak_rates",)
    assert choose("cuda", ("inductor",))[0] == tuple(part for part in PARTS if part != "peak_rates")
    with pytest.raises(UnknownName, match=r"unknown --only 'eagre'; accepted on this cuda device: .*eager"):
        choose("cuda", ("eagre",))


def budget(total, guess=10.0, start=0.5):
    return TimeBudget(lambda: 0.0, total, lambda step: guess, start)


def test_what_does_not_fit_is_refused_with_both_figures():
    step = Step("time", EAGER, 10)
    assert budget(11.0).refuses(step, ()) is None
    assert budget(10.0).refuses(step, ()) == "needs about 10 s; 10 s of the budget are left"
    assert budget(10.0).refuses(step, (), started=1.0) is not None


def test_time_is_kept_for_more_important_steps_that_come_later():
    profile = Step("profile", EAGER, 10, rank=3)
    assert budget(20.0).refuses(Step("time", EAGER, 10, rank=4), [profile]) is not None
    assert budget(20.0).refuses(Step("time", EAGER, 10, rank=2), [profile]) is None


def test_estimates_follow_what_was_seen():
    left = budget(1e6)
    left.learn(Step("time", EAGER, 10), 30.0)
    assert left.estimate(Step("time", EAGER, 10)) == 30.0
    assert left.estimate(Step("time", INDUCTOR, 10)) == 30.0  # guesses were three times too short
    left.learn(Step("time", EAGER, 10), 20.0)
    assert left.estimate(Step("time", EAGER, 10)) == 30.0  # the longest counts
    left.learn(Step("verify", INDUCTOR), 1e3)
    assert left.correction <= 4.0


def test_a_cpus_steps_are_guessed_from_their_operations():
    guess = guesses("cpu", network("vgg19"), cores=2, load=0.0)
    assert guess(Step("time", EAGER, 10)) > 5 * guess(Step("time", EAGER, 1))
    assert guess(Step("time", INDUCTOR, 1)) > guess(Step("time", EAGER, 1)) + 10
    assert guesses("cpu", network("vgg19"), 2, 4.0)(Step("verify", EAGER)) == 2 * guess(Step("verify", EAGER))
