"""The tables and figures of notebook 02, from runs that nobody measured."""

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from vgg_kernels.measure.profile import tidy
from vgg_kernels.records.reading import read_runs
from vgg_kernels.records.store import RunWriter
from vgg_kernels.report import baselines
from vgg_kernels.report.page import page
from vgg_kernels.report.plots import baselines as figures
from vgg_kernels.report.study import measured, reported_vgg19
from vgg_kernels.workload.network import network

VGG19 = network("vgg19")
KEY = ("device", "batch", "timer", "cache")
CPU = {"name": "a CPU", "kind": "cpu", "card": None, "host": {"usable_cores": 2, "load_average": [1.0, 1.0, 1.0]}}


def write(
    folder,
    fake,
    *,
    eager=(40.0, 41.0, 42.0),
    inductor=(30.0, 31.0, 32.0),
    load=1.2,
    observed="2026-03-10T12:00:00+00:00",
    **where,
):
    timed = fake.row | {"timer": "host", "cache": "warm", "tier": "fp32"}
    run = RunWriter(folder, fake.provenance(**{**CPU, **where}, observed=observed))
    for variant, times in {"eager": eager, "inductor": inductor}.items():
        run.append({**timed, "variant": variant, "sample": i, "time_ms": t} for i, t in enumerate(times))
        rows = tidy([("aten::conv2d", 16, 30e3), ("aten::relu_", 18, 10e3)], 1)
        run.note("profile", {"variant": variant, "tier": "fp32", "batch": 10, "network": "vgg19", "rows": rows})
    for layer in VGG19.layers:
        run.append([{**timed, "variant": "eager", "layer": layer.name, "sample": 0, "time_ms": 2.0}])
    run.note(
        "conditions", {"variant": "eager", "load_average": {"min": 0.5, "median": 1.0, "max": load}, "throttled": []}
    )
    rows = [{"quantity": "matmul_fp32", "value": 1e11, "unit": "FLOP/s", "how": "made up"}]
    run.note("ceilings", {"device_name": "a CPU", "rows": rows, "failures": []})
    run.finish()


@pytest.fixture
def runs(tmp_path, fake):
    write(tmp_path / "first", fake)
    write(tmp_path / "second", fake, eager=(50.0, 51.0, 52.0), observed="2026-03-11T12:00:00+00:00")
    write(tmp_path / "card", fake, name="NVIDIA H200", kind="cuda", eager=(4.0, 4.0, 4.0))
    return {"here": read_runs(tmp_path)}


@pytest.fixture
def newest(runs):
    return baselines.newest_runs(runs["here"].samples.assign(evidence="measured"))


def test_each_device_speaks_through_its_newest_run(newest):
    assert set(newest["run"]) == {"second", "card"}


def test_a_run_without_both_baselines_is_passed_over(runs):
    samples = runs["here"].samples
    cut = samples[~((samples["run"] == "second") & (samples["variant"] == "inductor"))]
    assert set(baselines.newest_runs(cut)["run"]) == {"first", "card"}


def test_devices_stand_side_by_side_and_are_never_mixed(newest):
    table = baselines.network_times(newest, reported_vgg19())
    assert list(table["evidence"]) == ["reported", "reported", "measured", "measured"]
    rows = table.set_index("device_name")
    assert rows.loc["NVIDIA H100 80GB HBM3", "eager_ms"] == 3.88
    assert rows.loc["NVIDIA H100 80GB HBM3", "inductor_ms"] == 2.43
    assert rows.loc["a CPU", "eager_ms"] == 51.0
    assert rows.loc["a CPU", "ratio"] == 51.0 / 31.0
    assert rows.loc["NVIDIA H200", "ratio"] == 4.0 / 31.0
    protocols = rows[["timer", "cache"]].apply(tuple, axis=1)
    assert protocols["NVIDIA H100 80GB HBM3"] == ("kernelbench", "cold")
    assert protocols["NVIDIA H100 PCIe"] == ("cuda_events", "warm")  # as the data say, not as the other row has it
    assert protocols["a CPU"] == ("host", "warm")


def test_the_two_tie_exactly_where_the_records_do(monkeypatch):
    monkeypatch.setenv("VGG_STUDY", "recorded")
    times = baselines.network_times(baselines.newest_runs(measured()), reported_vgg19())
    standings = [s for s in page().standings if s.status == "ranked"]
    for row in times.itertuples():
        where = row.device, row.batch, row.timer, row.cache
        same = [s for s in standings if [s.record.cohort.model_dump()[k] for k in KEY] == list(where)]
        eager, inductor = (next(s for s in same if s.record.variant == name) for name in baselines.BASELINES)
        assert baselines.apart(row) == (inductor.id not in eager.tied_with), row
        assert ("a tie" in baselines.comparison(row)) == (inductor.id in eager.tied_with)


@pytest.mark.parametrize(
    ("eager", "words"),
    [
        ((40.0, 41.0, 42.0), "are too few to tell them apart"),
        ((60.0, 61.0, 62.0, 61.0, 61.0), "inductor takes 49% (48% to 50%) less time than eager, 30 ms of 61 ms"),
        ((15.0, 15.5, 15.0, 15.5, 15.5), "more time than eager"),
        ((20.0, 30.0, 40.0, 30.0, 35.0), "a tie; eager takes 31 ms and inductor 31 ms, a ratio of"),
    ],
    ids=["few", "less", "more", "tie"],
)
def test_a_saving_is_claimed_only_where_the_intervals_are_apart(tmp_path, fake, eager, words):
    write(tmp_path / "run", fake, eager=eager, inductor=(30.0, 31.0, 32.0, 31.0, 31.0)[: len(eager)])
    newest = baselines.newest_runs(read_runs(tmp_path).samples.assign(evidence="measured"))
    times = baselines.network_times(newest, reported_vgg19())
    row = next(row for row in times.itertuples() if row.device == "cpu_a_cpu")
    assert words in baselines.comparison(row)


def test_shares_of_a_profile_add_up_by_purpose(runs, newest):
    kernels = baselines.profiles(runs, newest)
    assert set(kernels["device"]) == {"cpu_a_cpu", "h200"}
    purposes = baselines.by_purpose(kernels)
    assert (purposes.groupby(["device", "variant"])["share"].sum().round(9) == 1).all()
    row = purposes[(purposes["purpose"] == "convolution")].iloc[0]
    assert (row["time_us"], row["share"], row["kernels"]) == (30e3, 0.75, 16.0)


def test_layers_come_in_the_networks_order_with_their_rate(newest):
    table = baselines.layer_times(newest, VGG19)
    cpu = table[table["device"] == "cpu_a_cpu"]
    assert list(cpu["layer"]) == [layer.name for layer in VGG19.layers]
    assert cpu["share"].sum() == pytest.approx(1.0)
    assert cpu["flop_share"].sum() == pytest.approx(1.0)
    assert cpu["gflop_per_s"].iloc[1] == pytest.approx(VGG19.layers[1].flops(10) / 2e6)


@pytest.mark.parametrize(("load", "busy"), [(1.2, False), (6.0, True)])
def test_a_busy_machine_is_called_busy(tmp_path, fake, load, busy):
    write(tmp_path / "run", fake, load=load)
    runs = {"here": read_runs(tmp_path)}
    found = baselines.conditions(runs, baselines.newest_runs(runs["here"].samples))
    assert bool(found["busy"].iloc[0]) == busy
    assert found["load"].iloc[0] == load
    assert found["observed"].iloc[0] == "2026-03-10"


def test_timers_disagree_only_where_there_are_several(newest):
    assert len(baselines.timer_ratios(newest)) == 0
    two = newest.assign(timer="kernelbench", cache="cold")
    other = newest.assign(timer="graph", cache="warm", time_ms=newest["time_ms"] / 2)
    table = baselines.timer_ratios(pd.concat([two, other]))
    assert set(table["ratio"]) == {1.0, 0.5}
    assert len(figures.timers(table).axes) == 2


def test_the_figures_draw_every_row_once(runs, newest):
    purposes = baselines.by_purpose(baselines.profiles(runs, newest))
    fig = figures.composition(purposes)
    assert [len(ax.patches) for ax in fig.axes] == [4, 4]
    assert "a CPU" in fig.axes[0].get_title() + fig.axes[1].get_title()
    colours = [
        (to_hex(patch.get_facecolor()), to_hex(patch.get_edgecolor())) for ax in fig.axes for patch in ax.patches
    ]
    assert all(face != edge for face, edge in colours), "SVG draws a hatch on the opaque colour: it could not be seen"
    table = baselines.layer_times(newest, VGG19)
    fig = figures.layers(table[table["device"] == "cpu_a_cpu"], baselines.ceilings(runs, newest))
    above, below = fig.axes
    assert [bar.get_height() for bar in above.patches] == [2.0] * 19
    assert len(below.lines) == 2
    assert list(below.lines[1].get_ydata()) == [100.0, 100.0]


def test_a_gpu_is_shown_before_a_cpu(runs, newest):
    found = baselines.conditions(runs, newest)
    assert baselines.foremost(found) == "h200"
    assert baselines.foremost(found[~found["gpu"]]) == "cpu_a_cpu"


def test_whose_times_these_are_is_said(runs, newest):
    found = baselines.conditions(runs, newest)
    text = baselines.whose(found)
    assert "NVIDIA H200" in text
    assert "No GPU" not in text
    assert "busy" not in text
    alone = baselines.whose(found[~found["gpu"]].assign(busy=True))
    assert "No GPU has been measured yet" in alone
    assert "busy" in alone


def test_the_shares_of_both_stand_side_by_side(runs, newest):
    purposes = baselines.by_purpose(baselines.profiles(runs, newest))
    table = baselines.purpose_shares(purposes, "h200")
    assert list(table.index) == ["pointwise", "convolution"]
    assert table.loc["convolution"].to_dict() == {
        "eager_calls": 16, "inductor_calls": 16, "eager_share": 0.75, "inductor_share": 0.75,
    }  # fmt: skip


def test_a_profile_is_told_in_shares_and_not_in_lengths(runs, newest):
    purposes = baselines.by_purpose(baselines.profiles(runs, newest))
    told = baselines.division(purposes, "cpu_a_cpu")
    assert told == "Convolutions and matrix products take 75% of eager's and 75% of inductor's time in kernels."
    assert all(ax.get_xlim() == (0, 100) for ax in figures.composition(purposes).axes)
