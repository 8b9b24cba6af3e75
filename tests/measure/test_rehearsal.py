"""``measure`` from its start to a sealed run, rehearsed on a simulated H100: what is measured by when, and what each
fault costs. Its seconds are assumed and its times modelled; nothing here is measured.
"""

import json
from pathlib import Path

import pytest

import vgg_kernels
from vgg_kernels.measure.plan import GPU_ORDER
from vgg_kernels.measure.run import OVERRUN_S, DeviceLost
from vgg_kernels.measure.summary import answers, remarks, throttled
from vgg_kernels.measure.worker import FolderLost
from vgg_kernels.records.reading import read_runs

H100 = "NVIDIA H100 80GB HBM3"
FIRST = ("eager", "inductor", "ours_fp16", "ours_fp16x3", "ours_tf32")
SAMPLE = ["variant", "batch", "layer", "timer", "cache", "sample"]
BUDGETS = (60, 120, 480, 1800)
TABLE = Path(vgg_kernels.__file__).parents[1] / "docs" / "rehearsal.md"


def ends(card):
    """When each step ended, and how, by name."""
    return {name: (at, state) for at, name, state, _ in card.began if state != "begun"}


@pytest.mark.parametrize("slow", [1.0, 2.0])
@pytest.mark.parametrize("budget", BUDGETS)
def test_a_time_budget_is_kept_and_the_run_is_sealed(card, tmp_path, budget, slow):
    made = card(slow=slow)
    found = made.measure(tmp_path, budget)
    assert found.sealed
    assert found.measured
    assert made.now() <= budget + (0 if slow == 1 else OVERRUN_S)
    runs = read_runs(tmp_path)
    assert runs.problems == []
    assert len(runs.samples) == len(found.samples) > 0
    assert not runs.samples.duplicated(SAMPLE).any()
    assert not list(tmp_path.rglob("*.json.part"))


def test_what_matters_most_is_verified_and_timed_within_180_s(card, tmp_path):
    made = card()
    found = made.measure(tmp_path, 480)
    at = ends(made)
    for variant in FIRST:
        assert at[f"time/{variant}/10"] == (at[f"time/{variant}/10"][0], "done")
        assert at[f"time/{variant}/10"][0] <= 180, variant
    assert all(at[f"verify/{name}"][0] < at[f"time/{name}/10"][0] for name in FIRST[2:])
    assert {"time/eager_strict/10", "peak_rates", "layers/ours_fp16/10", "profile/eager/10"} <= {
        name for name, state in found.outcome.ended.items() if state == "done"
    }


def test_profiles_come_last_and_the_main_ones_find_their_time(card, tmp_path):
    made = card()
    made.measure(tmp_path, 480)
    done = [name for name, (_, state) in ends(made).items() if state == "done"]
    profiles = [i for i, name in enumerate(done) if name.startswith("profile/")]
    assert profiles == list(range(len(done) - len(profiles), len(done)))
    assert {"profile/eager/10", "profile/inductor/10", "profile/ours_fp16/10"} <= set(done)


def test_estimates_are_told_before_each_step_and_corrected_by_what_was_seen(card, tmp_path):
    made = card(slow=3.0)
    made.measure(tmp_path, 1800)
    told = {name: seconds for _, name, state, seconds in made.began if state == "begun"}
    took = {name: seconds for _, name, state, seconds in made.began if state == "done"}
    assert told.keys() >= took.keys()
    first, later = "time/eager/10", "time/ours_tf32/10"
    assert abs(told[later] - took[later]) < 1 < abs(told[first] - took[first])
    assert told["verify/ours_fp16"] > 1.3 * 12.0  # another kind of step, on a host that was seen to be slow


FAULTS = {
    "out of memory in one variant": ("time/eager/10", MemoryError("CUDA out of memory")),
    "a crash": ("time/ours_fp16/10", "crash"),
    "a poisoned context": ("layers/eager/10", "poison"),
    "a hang": ("verify/ours_fp16", "hang"),
    "a profiler that sees no kernel": ("profile/eager/10", RuntimeError("the profiler saw no kernel at all")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_costs_its_own_step_alone(card, tmp_path, fault):
    step, what = FAULTS[fault]
    found = card(breaks={step: what}).measure(tmp_path, 1800, ("eager", "fp16", "tf32"), (10,))
    states = found.outcome.ended
    lost = {name for name, state in states.items() if state != "done"}
    about = step.split("/")[1]
    expected = {step}
    if step.startswith("time/"):
        expected |= {f"repeat/{about}/10"}  # there is no first time to compare with
    if step.startswith("verify/"):
        expected |= {name for name in states if f"/{about}/" in name}
    assert lost == expected
    assert found.sealed
    runs = read_runs(tmp_path)
    assert step in {p["step"] for p in runs.notes[runs.notes["kind"] == "failure"]["payload"]}


def test_a_hang_ends_at_its_limit_and_says_so(card, tmp_path):
    made = card(breaks={"time/eager/10": "hang"})
    found = made.measure(tmp_path, 480)
    assert "longer than its limit of 90 s" in found.outcome.reasons["time/eager/10"]
    assert found.outcome.ended["time/ours_fp16/10"] == "done"
    assert made.now() <= 480 + OVERRUN_S


def test_what_was_timed_before_a_hang_stays(card, tmp_path):
    found = card(breaks={"timer/eager/host": "hang"}).measure(tmp_path, 480, ("eager", "time"), (10,))
    assert found.outcome.ended["time/eager/10"] == "failed"
    eager = found.samples[found.samples["variant"] == "eager"]
    assert set(eager["timer"]) == {"kernelbench", "graph", "do_bench", "cuda_events"}


def test_a_tier_that_fails_the_gate_is_not_timed(card, tmp_path):
    found = card(gates={"fp16x3": False}).measure(tmp_path, 480)
    assert found.outcome.ended["time/ours_fp16x3/10"] == "refused"
    assert "ours_fp16x3" not in set(found.samples["variant"])
    assert "ours_tf32" in set(found.samples["variant"])


def test_a_lost_device_ends_the_run_and_the_same_command_goes_on(card, tmp_path):
    made = card(breaks={"time/inductor/10": "lost"})
    with pytest.raises(DeviceLost, match="no CUDA-capable device"):
        made.measure(tmp_path, 480)
    assert read_runs(tmp_path).samples["variant"].unique().tolist() == ["eager"]
    again = card()
    found = again.measure(tmp_path, 480)
    assert found.sealed
    assert "time/eager/10" not in {name for _, name, state, _ in again.began if state == "begun"}
    assert found.outcome.ended["time/inductor/10"] == "failed"
    assert len(read_runs(tmp_path).provenance) == 1


def test_a_full_disk_keeps_what_was_measured_and_the_same_command_goes_on(card, tmp_path):
    made = card(breaks={"timer/inductor/graph": "full"})
    with pytest.raises(FolderLost, match="No space left"):
        made.measure(tmp_path, 480)
    kept = read_runs(tmp_path).samples
    assert set(kept["variant"]) == {"eager"}
    made.full = False
    found = card().measure(tmp_path, 480)
    assert found.sealed
    assert found.outcome.ended["time/inductor/10"] == "done"
    assert not found.samples.duplicated(SAMPLE).any()


def test_an_interruption_keeps_the_timers_that_were_through(card, tmp_path):
    found = card(ctrl_c_at_s=18.0).measure(tmp_path, 480, ("eager", "time"), (10,))
    assert found.outcome.interrupted
    assert not found.sealed
    assert found.outcome.ended == {"time/eager/10": "interrupted"}
    held = len(found.samples)
    assert held > 0
    again = card().measure(tmp_path, 480, ("eager", "time"), (10,))
    assert again.folder == found.folder
    assert again.sealed
    assert not again.samples.duplicated(SAMPLE).any()
    assert len(again.samples[again.samples["variant"] == "eager"]) == 30
    assert again.samples[:held].equals(found.samples[:held])


def test_a_step_in_which_two_processes_died_is_not_begun_again(card, tmp_path):
    for _ in range(2):
        found = card(ctrl_c_at_s=16.5).measure(tmp_path, 480, ("eager", "time"), (10,))
        assert found.outcome.interrupted
    found = card().measure(tmp_path, 480, ("eager", "time"), (10,))
    assert found.outcome.reasons["time/eager/10"] == "the process died in it 2 times"


def test_throttling_is_said(card, tmp_path):
    found = card(throttled=True).measure(tmp_path, 120)
    assert any("eager at batch 10: power cap, in 6 of 6 timers" in sentence for sentence in throttled(found.notes))


def test_a_missing_nvml_and_other_processes_are_said_before_anything_runs(card):
    assert "NVML does not answer" in list(remarks(card(nvml=None).describe()))[-1]
    assert "2 other processes are on" in list(remarks(card(nvml={"processes": 3}).describe()))[-1]
    assert list(remarks(card().describe())) == [
        f"Tiles for {H100}: the time model's search (modelled), none chosen by measuring"
    ]


def test_a_missing_nvml_costs_no_measurement(card, tmp_path):
    found = card(nvml=None).measure(tmp_path, 480)
    assert found.outcome.ended["time/ours_tf32/10"] == "done"


def test_an_older_card_is_told_before_anything_and_measures_the_baselines(card, tmp_path):
    made = card(name="NVIDIA A100-SXM4-80GB", arch=80)
    assert "sm_80, and our kernels need sm_90 or later: none is compiled" in next(remarks(made.describe()))
    found = made.measure(tmp_path, 480)
    assert found.outcome.ended["compile/fp16+fp16x3+tf32/10"] == "refused"
    assert found.outcome.ended["verify/ours_fp16"] == "refused"
    assert found.outcome.ended["time/inductor/10"] == "done"
    assert not any(name.startswith("compile") for _, name, state, _ in made.began if state == "begun")


def test_a_card_without_searched_tiles_gets_the_models_and_says_so(card, tmp_path):
    made = card(name="NVIDIA B200", arch=100)
    assert "Tiles for NVIDIA B200: the time model's" in next(remarks(made.describe()))
    unknown = card(name="NVIDIA X999", arch=100)
    assert "NVIDIA X999 has no data sheet: tiles are the time model's" in next(remarks(unknown.describe()))
    assert unknown.measure(tmp_path, 200).outcome.ended["time/ours_fp16/10"] == "done"


def test_the_answers_compare_each_layer_with_the_time_model(card, tmp_path):
    found = card().measure(tmp_path, 480)
    told = answers("h100_sxm", found.samples, found.notes)
    assert list(told["layers"]) == ["ours_fp16", "ours_fp16x3", "ours_tf32"]
    for rows in told["layers"].values():
        assert len(rows) == 19
        assert all(
            row["within"] and abs(row["ratio"] - 1.002) < 1e-6 for row in rows
        )  # the card answers what is modelled
    joined = "\n".join(told["sentences"])
    assert "ours_fp16: 19 layers predicted" in joined
    assert "19 of 19 layers within 15%" in joined
    assert "Under ours_fp16 (measured): 1400 MHz, 690 W" in joined
    assert "L2: 38.0 B a clock an SM (measured)" in joined
    assert "Launch gap in a graph: 1.30 us (measured)" in joined
    json.dumps(told, allow_nan=False)


def test_a_card_that_the_model_does_not_know_is_compared_with_nothing(card, tmp_path):
    found = card().measure(tmp_path, 120)
    assert answers("x999", found.samples, found.notes)["layers"] == {}


def test_every_row_of_the_order_names_a_variant_that_exists():
    from vgg_kernels.measure.plan import BATCHES, PARTS, steps
    from vgg_kernels.measure.variants import select

    for row in GPU_ORDER:
        found = steps("cuda", select("cuda"), BATCHES["cuda"], PARTS)
        names = {step.variant.name for step in found if step.variant}
        for pattern in row[1].split():
            assert "*" in pattern or pattern in names


def table(card):
    """The rehearsed run as Markdown."""
    begun = {name: (at, seconds) for at, name, state, seconds in card.began if state == "begun"}
    lines = ["| begins | step | estimated s | took s | ended |", "|---:|---|---:|---:|---|"]
    for _, name, state, took in card.began:
        if state not in ("begun", "skipped"):
            at, estimate = begun[name]
            lines.append(f"| {at:.0f} | {name} | {estimate:.0f} | {took:.1f} | {state} |")
    left = sum(state == "skipped" for _, _, state, _ in card.began)
    return "\n".join([*lines, "", f"{left} more steps do not fit, and a larger budget reaches them.", ""])


def test_the_documented_run_of_480_s_is_the_rehearsed_one(card, tmp_path):
    made = card()
    made.measure(tmp_path, 480)
    assert table(made) in TABLE.read_text(encoding="utf-8"), table(made)
