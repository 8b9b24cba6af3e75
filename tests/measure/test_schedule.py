import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgg_kernels.measure.schedule import GPU_ESTIMATES, PARTS, Budget, Step, choose, steps
from vgg_kernels.measure.variants import GPU_VARIANTS, OURS, VARIANTS
from vgg_kernels.workload.lookup import UnknownName

EAGER = GPU_VARIANTS[0]


def names(kind="cuda", batches=(10, 1, 64), parts=PARTS):
    return [step.name for step in steps(kind, VARIANTS[kind], batches, parts)]


def budget(clock, total=480.0, **options):
    return Budget(clock, clock() + total, total, lambda step: 10.0, **options)


def test_the_baseline_comes_first_then_our_first_tier_then_the_public_records_own():
    first = ("time/eager/10", "compile/10", "verify/ours_fp16", "time/ours_fp16/10", "time/inductor/10")
    assert tuple(names()[:5]) == first


def test_each_tiers_gate_comes_just_before_its_first_time():
    order = names()
    for v in OURS:
        assert order[order.index(f"verify/{v.name}") + 1] == f"time/{v.name}/10"


def test_compiling_comes_just_before_the_first_that_needs_it():
    order = names()
    assert order[order.index("compile/64") + 1] == "time/eager/64"
    assert order.index("compile/64") < min(order.index(f"time/{v.name}/64") for v in OURS)


def test_a_batch_in_which_the_gate_asks_is_compiled_with_the_gate_alone():
    assert [name for name in names(batches=(10, 1, 3, 64)) if name.startswith("compile")] == [
        "compile/10",
        "compile/64",
    ]
    assert [name for name in names(batches=(1, 64)) if name.startswith("compile")] == ["compile/1", "compile/64"]


def test_what_is_timed_twice_is_timed_before_any_profile():
    for kind, batches in (("cuda", (10, 1, 64)), ("cpu", (10, 1))):
        order = names(kind, batches)
        first = min(i for i, name in enumerate(order) if name.startswith("profile"))
        assert all(i < first for i, name in enumerate(order) if name.startswith("repeat"))


def test_eight_minutes_hold_every_gate_the_headline_the_first_layers_and_the_first_profiles(fakes):
    """By the estimates, with fp32's gate at the 40 s that it takes, and 15 s gone before the first step."""
    clock, begun = fakes.FakeClock(15.0), []
    left = Budget(clock, 480.0, 480.0, lambda step: GPU_ESTIMATES[step.family])
    for step in steps("cuda", GPU_VARIANTS, (10, 1, 64)):
        if left.refuses(step):
            continue
        begun.append(step.name)
        if step.part == "profile":
            left.keep(step)
            continue
        took = 40.0 if step.name == "verify/ours_fp32" else GPU_ESTIMATES[step.family]
        clock.seconds += took
        left.learn(step, took, done=True)
    assert {f"verify/{v.name}" for v in OURS} <= set(begun)
    assert {f"time/{v.name}/10" for v in GPU_VARIANTS if not v.name.startswith("inductor_max")} <= set(begun)
    assert {"ceilings", "layers/eager/10", "layers/ours_fp16/10"} <= set(begun)
    assert {f"profile/{name}/10" for name in ("eager", "inductor", "ours_fp16")} <= set(begun)


def test_the_workloads_batch_comes_before_others():
    order = names()
    assert order.index("time/ours_fp32/10") < order.index("ceilings") < order.index("time/eager/1")


def test_what_compiles_longest_comes_last_but_for_what_a_user_would_pick():
    order = names()
    assert order.index("layers/ours_fp16/10") < order.index("time/inductor_max_fp16_channels_last/10")
    tuned = [name for name in order if name.startswith("time/inductor_max")]
    assert tuned[:2] == ["time/inductor_max_fp16_channels_last/10", "time/inductor_max_tf32/10"]
    assert order.index("time/eager/64") < order.index(tuned[2])
    assert all("max" in name for name in order[-4:])


def test_every_variant_is_timed_at_every_batch_and_profiled_once():
    order = names()
    assert len(set(order)) == len(order)
    for v in GPU_VARIANTS:
        assert {f"time/{v.name}/{b}" for b in (1, 10, 64)} <= set(order)
        assert f"profile/{v.name}/10" in order
        assert (f"layers/{v.name}/10" in order) == (not v.graphs)  # a graph cannot be captured of a graph's replay


def test_on_a_cpu_ours_are_verified_and_never_timed():
    order = names("cpu", (10, 1))
    assert order[:3] == ["time/eager/1", "verify/ours_fp16", "time/inductor/1"]
    assert "profile/eager/10" in order
    assert order[-5:] == [f"verify/ours_{tier}" for tier in ("fp16x3", "tf32", "bf16", "fp8", "fp32")]
    assert not [name for name in order if "ours" in name and not name.startswith("verify")]


@given(st.permutations([1, 10, 64]))
def test_the_order_does_not_depend_on_how_batches_are_given(batches):
    assert names(batches=batches) == names()


def test_without_the_workloads_batch_the_smallest_is_the_main_one():
    order = names(batches=(64, 2))
    assert "profile/eager/2" in order
    assert order.index("time/eager/2") < order.index("ceilings") < order.index("time/eager/64")


def test_every_step_of_a_gpu_has_an_estimate():
    assert all(step.family in GPU_ESTIMATES for step in steps("cuda", GPU_VARIANTS, (10,)))


def asked(*words, kind="cuda"):
    parts, rows = choose(kind, words)
    return [s.name for s in steps(kind, rows, (10,), parts)]


def test_nothing_asked_for_is_everything():
    assert choose("cuda") == (PARTS, GPU_VARIANTS)


def test_only_parts_leave_every_variant():
    assert asked("ceilings") == ["ceilings"]
    assert asked("verify") == ["compile/10", *(f"verify/{v.name}" for v in OURS)]
    assert asked("verify", "eager") == []


def test_only_variants_leave_every_part_that_is_about_them():
    assert asked("repeat", "fp16") == ["compile/10", "verify/ours_fp16", "repeat/ours_fp16/10"]
    assert asked("eager_tf32") == ["time/eager_tf32/10", "layers/eager_tf32/10", "profile/eager_tf32/10"]
    assert asked("inductor_max_tf32_graphs") == [
        "time/inductor_max_tf32_graphs/10",
        "profile/inductor_max_tf32_graphs/10",
    ]


def test_compiling_comes_with_the_gate_and_the_gate_with_the_times_of_ours():
    assert asked("compile", "fp16") == ["compile/10", "verify/ours_fp16"]
    assert asked("verify", "fp16", kind="cpu") == ["verify/ours_fp16"]
    assert asked("time", "fp16") == ["compile/10", "verify/ours_fp16", "time/ours_fp16/10"]
    assert asked("time", "eager", kind="cpu") == ["time/eager/10"]


@pytest.mark.parametrize(("kind", "word"), [("cuda", "eagre"), ("cpu", "eager_tf32"), ("cuda", "")])
def test_an_unknown_word_is_refused_with_those_that_are_known(kind, word):
    with pytest.raises(UnknownName, match=r"ceilings.*inductor") as error:
        choose(kind, ("eager", word))
    assert repr(word) in str(error.value)


def test_a_step_that_does_not_fit_is_refused_with_both_figures(fakes):
    clock = fakes.FakeClock()
    left = budget(clock, total=25.0)
    assert left.refuses(Step("time", EAGER, 10)) is None
    clock.seconds = 18.0
    assert left.refuses(Step("time", EAGER, 10)) == "needs about 10 s; 7 s of the budget are left"


def test_the_gate_has_a_share_so_that_something_is_timed(fakes):
    clock = fakes.FakeClock()
    left = budget(clock, total=100.0)
    clock.seconds = 35.0  # of anything but gates
    assert left.refuses(Step("verify", EAGER)) is None
    left.learn(Step("verify", EAGER), 45.0, done=False)
    assert left.refuses(Step("verify", EAGER)) == "needs about 10 s; 5 s of the gates' share of the budget are left"
    assert left.refuses(Step("time", EAGER, 10)) is None
    all_of_it = budget(clock, total=100.0, gate_share=1.0)
    all_of_it.learn(Step("verify", EAGER), 45.0, done=False)
    assert all_of_it.refuses(Step("verify", EAGER)) is None


def test_seconds_that_a_step_was_promised_are_left_for_it_alone(fakes):
    left = budget(fakes.FakeClock(), total=25.0)
    promised, other = Step("profile", EAGER, 10), Step("time", EAGER, 10)
    left.keep(promised)
    left.keep(promised)  # a promise given twice is one
    assert left.left_s == 15.0
    left.keep(Step("profile", EAGER, 64))
    assert left.refuses(other) == "needs about 10 s; 5 s of the budget are left"
    left.begin(promised)
    assert left.refuses(promised) is None


def test_a_budget_learns_the_longest_step_of_a_kind(fakes):
    left = budget(fakes.FakeClock())
    left.learn(Step("time", EAGER, 10), 3.0, done=True)
    left.learn(Step("time", EAGER, 10), 2.0, done=True)
    left.learn(Step("time", EAGER, 10), 90.0, done=False)  # one that hung
    assert left.estimate(Step("time", EAGER, 10)) == 3.0
    assert left.estimate(Step("time", EAGER, 64)) == 10.0


@given(st.floats(0, 1e4), st.floats(0, 1e4))
def test_what_is_left_is_never_negative(total, passed):
    clock = [0.0]
    left = Budget(lambda: clock[0], total, total, lambda step: 1.0)
    clock[0] = passed
    assert left.left_s == pytest.approx(max(0.0, total - passed))
