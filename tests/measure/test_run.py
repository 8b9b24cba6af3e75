"""The runner on a device that does not exist: what is tried, what is kept, and what a failure costs."""

import json

import pandas as pd
import pytest
import torch

from vgg_kernels.correctness.suite import batch_sizes
from vgg_kernels.measure.history import History
from vgg_kernels.measure.run import ATTEMPTS, DeviceLost, measure
from vgg_kernels.measure.schedule import Budget, steps
from vgg_kernels.measure.variants import select
from vgg_kernels.measure.writing import OutputLost
from vgg_kernels.records.store import COLUMNS


@pytest.fixture
def go(fakes):
    """Run a fake bench through a schedule; returns (outcome, writer)."""

    def run(bench=None, only=("eager", "inductor", "fp16"), batches=(10,), total=1e6, writer=None, **options):
        bench, writer = bench or fakes.FakeBench(), writer or fakes.FakeWriter()
        plan = steps(bench.kind, select(bench.kind, only), batches)
        left = Budget(bench.now, bench.now() + total, total, lambda s: bench.guess(s.part, s.variant, s.batch))
        options.setdefault("watchdog", fakes.NoWatchdog)
        return measure(bench, writer, plan, left, **options), writer

    return run


def test_a_whole_run_leaves_rows_gates_profiles_and_ceilings(go):
    outcome, writer = go()
    assert set(outcome.ended.values()) == {"done"}
    assert outcome.complete
    assert all(set(row) == set(COLUMNS) for row in writer.rows)
    assert {row["layer"] for row in writer.rows} == {"network", "conv1_1", "fc8"}
    assert writer.of("compile")[0]["rows"][0]["tier"] == "fp16"
    assert writer.of("repeat")[0]["ratio"] == 1.0
    for kind in ("gate", "profile", "ceilings", "timers", "conditions"):
        assert writer.of(kind), kind
    assert [note["state"] for note in writer.of("step")] == ["begun", "done"] * len(outcome.ended)


def test_kernels_are_compiled_for_all_that_the_gate_asks_and_for_each_batch_when_it_comes(go, fakes):
    bench = fakes.FakeBench()
    _, writer = go(bench, only=("fp16",), batches=(10, 1, 64))
    assert bench.compiled == [[10, *batch_sizes(bench.gate_seed)], [64]]
    assert {note["gate_seed"] for note in writer.of("compile")} == {bench.gate_seed}


def test_compiling_that_came_to_nothing_has_failed(go, fakes):
    outcome, writer = go(fakes.FakeBench(uncompiled={"fp16": "no such tile"}), only=("fp16",))
    assert outcome.ended["compile/10"] == "failed"
    assert outcome.reasons["compile/10"] == "nothing was compiled: no such tile"
    assert all(row["error"] for row in writer.of("compile")[0]["rows"])
    assert outcome.ended["time/ours_fp16/10"] == "done"
    partly, _ = go(fakes.FakeBench(uncompiled={"fp16": "no such tile"}), only=("fp16", "tf32"))
    assert partly.ended["compile/10"] == "done"


def test_ceilings_of_which_none_could_be_taken_have_failed(go, fakes):
    bench = fakes.FakeBench()
    bench.ceilings = lambda: ([], ["a card: a ceiling could not be taken: RuntimeError: no"])
    outcome, writer = go(bench, only=("eager",))
    assert outcome.ended["ceilings"] == "failed"
    assert outcome.reasons["ceilings"] == writer.of("ceilings")[0]["failures"][0]


def test_profiles_are_taken_behind_everything_else_and_in_their_order(go, fakes):
    """The profiler stays in its process, and slows what comes after it."""
    bench = fakes.FakeBench(uncompiled={"tf32": "crashed"})  # a tier that is put off as well
    outcome, _ = go(bench, only=("eager", "inductor", "fp16", "tf32"), batches=(10, 64))
    assert set(outcome.ended.values()) == {"done"}
    profiles = [i for i, name in enumerate(bench.ran) if name.startswith("profile/")]
    assert profiles == list(range(len(bench.ran) - len(profiles), len(bench.ran)))
    assert bench.ran[profiles[0]] == "profile/eager/10"
    assert bench.ran[-1] == "profile/ours_tf32/10"


def test_what_is_less_important_than_a_profile_leaves_it_its_seconds(go, fakes):
    bench = fakes.FakeBench(takes={"profile": 5.0})
    outcome, _ = go(bench, only=("eager",), batches=(10, 64), total=40.0)
    assert "skipped" not in outcome.ended.values()
    full = bench.now()
    bench = fakes.FakeBench(takes={"profile": 5.0})
    outcome, _ = go(bench, only=("eager",), batches=(10, 64), total=full - 1.0)
    skipped = {name for name, state in outcome.ended.items() if state == "skipped"}
    assert outcome.ended["profile/eager/10"] == "done"
    assert skipped
    assert bench.now() <= full - 1.0


def test_a_tier_that_did_not_compile_waits_for_the_others(go, fakes):
    """Its gate may crash as its compiling did, and cost a process."""
    bench = fakes.FakeBench(uncompiled={"fp16": "exit status -11"})
    _, writer = go(bench, only=("eager", "fp16", "tf32"))
    order = [name for name in bench.ran if not name.startswith(("compile", "profile"))]
    assert order[-3:] == ["verify/ours_fp16", "time/ours_fp16/10", "layers/ours_fp16/10"]
    again = fakes.FakeBench()
    kept = [note for note in writer.notes if note["kind"] == "compile" or note["payload"].get("step") == "compile/10"]
    go(again, only=("eager", "fp16", "tf32"), history=History.read(kept, pd.DataFrame()))
    assert [name for name in again.ran if not name.startswith("profile")] == order
    assert "compile/10" not in again.ran


def test_a_tier_that_compiled_too_slowly_waits_for_nobody(go, fakes):
    """The time was up, which says that the host is slow and nothing of the tier."""
    bench, plain = fakes.FakeBench(slow=("fp16",)), fakes.FakeBench()
    for each in (bench, plain):
        go(each, only=("eager", "fp16", "tf32"))
    assert bench.ran == plain.ran


def test_a_timer_that_fails_costs_its_own_rows_and_no_others(go, fakes):
    outcome, writer = go(fakes.FakeBench(errors={"graph": "raised: RuntimeError: not permitted"}), only=("eager",))
    assert outcome.ended["time/eager/10"] == "failed"
    assert outcome.reasons["time/eager/10"] == "network, graph warm: raised: RuntimeError: not permitted"
    assert {row["timer"] for row in writer.rows if row["layer"] == "network"} == {"kernelbench"}
    assert writer.of("timers")[0]["rows"][0]["timer"] == "kernelbench"
    assert outcome.ended["repeat/eager/10"] == "done"


def test_a_repetition_that_fails_is_no_repetition(go, fakes):
    bench = fakes.FakeBench()
    bench.breaks["ceilings"] = lambda: bench.checks.update(eager=fakes.WRONG)  # between the time and its repetition
    outcome, writer = go(bench, only=("eager",))
    assert outcome.ended["repeat/eager/10"] == "failed"
    assert not writer.of("repeat")


def test_what_was_not_timed_cannot_be_repeated(go, fakes):
    outcome, writer = go(only=("eager",), batches=(10,))
    repeat = fakes.FakeWriter()
    timed = [n for n in writer.notes if n["payload"].get("step", "").startswith("time/")]
    resumed, _ = go(only=("eager",), writer=repeat, history=History.read(timed, pd.DataFrame()))
    assert outcome.ended["repeat/eager/10"] == "done"
    assert resumed.ended["repeat/eager/10"] == "failed"
    assert not repeat.of("repeat")


def test_rows_are_written_as_each_timer_ends_not_at_the_end_of_a_step(go, fakes):
    bench = fakes.FakeBench(breaks={"time/eager/10": KeyboardInterrupt()})  # comes in the second of two timers
    _, writer = go(bench)
    assert [row["timer"] for row in writer.rows] == ["kernelbench"] * 3


def test_a_tier_that_fails_the_gate_is_on_record_and_not_timed(go, fakes):
    bench = fakes.FakeBench(gates={"fp16": False})
    outcome, writer = go(bench)
    assert outcome.ended["verify/ours_fp16"] == "failed"
    assert outcome.ended["time/ours_fp16/10"] == "refused"
    assert "gate" in outcome.reasons["time/ours_fp16/10"]
    assert not [name for name in bench.ran if name.startswith(("time/ours_fp16/", "layers/ours_fp16/"))]
    assert [g["passed"] for g in writer.of("gate") if g["variant"] == "ours_fp16"] == [False]
    assert outcome.ended["time/eager/10"] == "done"


def test_a_tier_that_never_reached_the_gate_is_not_timed_either(go):
    outcome, _ = go(only=("eager", "ours"), total=5.0)  # the gate's share is two fake seconds
    assert outcome.ended["time/eager/10"] == "done"
    assert outcome.ended["verify/ours_tf32"] == "skipped"
    assert outcome.ended["time/ours_tf32/10"] == "skipped"
    assert "nothing unverified" in outcome.reasons["time/ours_tf32/10"]


def fake_error(module, name):
    return type(name, (Exception,), {"__module__": module})("at 3:1: what went wrong\nand a long listing")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB\nmore"), "out of memory"),
        (RuntimeError("an illegal memory access"), "raised: RuntimeError: an illegal memory access"),
        (ValueError(), "raised: ValueError: no message"),
        (fake_error("torch._inductor.exc", "InductorError"), "does not compile: InductorError"),
        (fake_error("triton.compiler.errors", "CompilationError"), "does not compile: CompilationError"),
    ],
)
def test_one_variants_failure_costs_that_variant_alone(go, fakes, error, kind):
    bench = fakes.FakeBench(breaks={"time/inductor/10": error})
    outcome, writer = go(bench)
    failed = [name for name, state in outcome.ended.items() if state == "failed"]
    assert failed == ["time/inductor/10"]
    [failure] = writer.of("failure")
    assert failure["variant"] == "inductor"
    assert kind in failure["error"]
    assert "\n" not in failure["error"]


def test_a_device_that_no_longer_answers_ends_the_process_not_the_record(go, fakes):
    bench, writer = fakes.FakeBench(), fakes.FakeWriter()

    def poison():
        bench.alive = False
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    bench.breaks["verify/ours_fp16"] = poison
    with pytest.raises(DeviceLost, match="verify/ours_fp16"):
        go(bench, writer=writer)
    assert writer.of("failure")[0]["error"].startswith("raised: RuntimeError: CUDA error")
    history = History.read(writer.notes, writer.samples())
    bench.alive, bench.breaks = True, {}
    outcome, _ = go(bench, writer=writer, history=history)
    assert outcome.ended["verify/ours_fp16"] == "failed"
    assert outcome.ended["time/eager/10"] == "done"


def test_ctrl_c_keeps_everything_and_leaves_the_rest_for_later(go, fakes):
    bench = fakes.FakeBench(breaks={"time/inductor/10": KeyboardInterrupt()})
    outcome, writer = go(bench)
    assert outcome.interrupted
    assert not outcome.complete
    assert outcome.ended["time/inductor/10"] == "interrupted"
    assert "ceilings" not in outcome.ended
    assert len(writer.rows) == 6 + 6 + 3  # eager's two timers, our first tier's two, inductor's first


def test_a_run_taken_up_again_does_only_what_is_missing(go, fakes):
    first = fakes.FakeBench(breaks={"time/inductor/10": KeyboardInterrupt()})
    _, writer = go(first)
    again = fakes.FakeBench()
    outcome, _ = go(again, writer=writer, history=History.read(writer.notes, writer.samples()))
    assert set(outcome.ended.values()) == {"done"}
    assert not set(again.ran) & {"verify/ours_fp16", "time/eager/10"}
    table = pd.DataFrame(writer.rows)
    assert not table.duplicated(["variant", "batch", "layer", "timer", "cache", "sample"]).any()
    _, fresh = go()
    assert len(writer.rows) == len(fresh.rows)


def test_a_step_in_which_the_process_keeps_dying_is_given_up(go, fakes):
    writer = fakes.FakeWriter()
    for _ in range(ATTEMPTS):
        writer.note("step", {"step": "time/eager/10", "state": "begun", "reason": ""})
    outcome, _ = go(writer=writer, history=History.read(writer.notes, writer.samples()))
    assert outcome.ended["time/eager/10"] == "failed"
    assert "died" in outcome.reasons["time/eager/10"]
    assert outcome.ended["time/inductor/10"] == "done"


def test_a_skipped_step_is_tried_again_by_the_next_run(go, fakes):
    _, writer = go(total=3.0)
    bench = fakes.FakeBench()
    outcome, _ = go(bench, writer=writer, history=History.read(writer.notes, writer.samples()))
    assert set(outcome.ended.values()) == {"done"}


@pytest.mark.parametrize("total", [0.0, 1.0, 5.0, 12.0, 30.0])
def test_the_budget_is_kept(go, fakes, total):
    bench = fakes.FakeBench(takes={"time": 3.0, "layers": 7.0})
    outcome, _ = go(bench, total=total)
    assert bench.now() <= total
    assert outcome.complete == (total == 30.0) or "skipped" in outcome.ended.values()


def test_a_budget_too_small_measures_nothing_and_says_so(go):
    outcome, writer = go(total=0.5)
    assert outcome.rows == 0
    assert set(outcome.ended.values()) <= {"skipped", "refused"}
    assert not writer.rows


def test_what_was_timed_but_wrong_is_not_recorded(go, fakes):
    bench = fakes.FakeBench(checks={"inductor": fakes.WRONG})
    outcome, writer = go(bench)
    assert outcome.ended["time/inductor/10"] == "failed"
    assert "timed but wrong" in outcome.reasons["time/inductor/10"]
    assert not [row for row in writer.rows if row["variant"] == "inductor" and row["layer"] == "network"]


def test_an_old_gpu_measures_eager_and_inductor_and_refuses_ours_by_name(go, fakes):
    outcome, _ = go(fakes.FakeBench(arch=80, name="NVIDIA A100"))
    assert outcome.ended["time/eager/10"] == "done"
    assert outcome.ended["compile/10"] == "refused"
    assert outcome.ended["verify/ours_fp16"] == "refused"
    assert "NVIDIA A100 is sm_80" in outcome.reasons["verify/ours_fp16"]


def test_too_little_memory_refuses_the_large_batch_alone(go, fakes):
    outcome, _ = go(fakes.FakeBench(memory_bytes=1e9), only=("eager",), batches=(10, 64))
    assert outcome.ended["time/eager/10"] == "done"
    assert outcome.ended["time/eager/64"] == "refused"


@pytest.mark.parametrize("room", [0, 1, 5, 10, 20])
def test_a_full_folder_ends_the_run_with_what_it_has(go, fakes, room):
    writer = fakes.FakeWriter(room=room)
    with pytest.raises(OutputLost, match="No space left on device"):
        go(writer=writer)
    assert len(writer.notes) <= room


def test_an_os_error_of_a_variant_is_not_the_folders(go, fakes):
    outcome, _ = go(fakes.FakeBench(breaks={"time/eager/10": OSError(2, "No such file: cc1plus")}))
    assert outcome.ended["time/eager/10"] == "failed"
    assert outcome.ended["time/inductor/10"] == "done"


def test_a_step_over_its_limit_is_failed_and_the_next_begins(go, fakes):
    class Bites(fakes.NoWatchdog):
        expired = True

    outcome, _ = go(fakes.FakeBench(breaks={"time/eager/10": KeyboardInterrupt()}), watchdog=Bites)
    assert outcome.ended["time/eager/10"] == "failed"
    assert "limit" in outcome.reasons["time/eager/10"]
    assert outcome.ended["time/inductor/10"] == "done"
    assert not outcome.interrupted


def test_a_device_that_never_says_whether_it_answers_is_lost(go, fakes):
    class Bites(fakes.NoWatchdog):
        expired = True

    bench = fakes.FakeBench()

    def hang():
        raise KeyboardInterrupt

    bench.usable = hang
    with pytest.raises(DeviceLost):
        go(bench, watchdog=Bites)


def test_the_limit_grows_with_the_estimate_and_ends_with_the_budget(go, fakes):
    limits = []

    class Notes(fakes.NoWatchdog):
        def __init__(self, limit_s, last_words):
            limits.append(limit_s)

    go(fakes.FakeBench(takes={"verify": 40.0}), total=200.0, watchdog=Notes)
    assert limits[0] == 90.0  # eager: one fake second is expected, and every step may take so much
    assert limits[4] == 200.0  # the gate: five times its estimate
    assert min(limits) >= 30.0


def test_notes_are_strict_json(go):
    _, writer = go()
    json.dumps(writer.notes, allow_nan=False)
    assert writer.of("gate")[0]["verdict"] == {"relative_error": None}
