"""Recorded checks as tidy rows, and their figures. Every document here is made up, and small."""

import json

import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex

from vgg_kernels.correctness.kill_matrix import GATES
from vgg_kernels.correctness.ladder import EAGER
from vgg_kernels.report import accuracy, workload
from vgg_kernels.report.plots import accuracy as plots
from vgg_kernels.report.plots import workload as workload_plots
from vgg_kernels.report.study import reported
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import TIERS

LAYERS = ("conv1_1", "fc8")


@pytest.fixture
def document():
    errors = [
        {
            "arithmetic": name,
            "tier": "fp32" if name == EAGER else name,
            "layer": layer,
            "depth": depth,
            "relative_error": depth * 10.0**-i,
            "expected": None if name == EAGER else depth * 2 * 10.0**-i,
            "budget": None if name == EAGER else depth * 4 * 10.0**-i,
        }
        for i, name in enumerate((*reversed(TIERS), EAGER), start=1)
        for depth, layer in enumerate(LAYERS, start=1)
    ]
    spread = [
        {"weights": weights, "layer": layer, "depth": depth, "spread": 1e-3, "scale": 1.0, "largest": value}
        for weights, value in (("kernelbench", 1e-6), ("kaiming", 1e-1))
        for depth, layer in enumerate(LAYERS, start=1)
    ]
    certificate = {"check": "rule", "weights": "kaiming", "inputs": "uniform", "spread": 1.0, "tolerance": 2.0}
    certificates = [certificate | {"sensitivity": 0.5, "vacuous": True}]
    sums = [{"sums": name, "depth": depth, "relative_error": error * depth}
            for name, error in ((EAGER, 1e-7), ("truncated, all", 3e-7)) for depth in (1, 2)]  # fmt: skip
    rows = {"errors": errors, "spread": spread, "certificates": certificates, "truncation": sums}
    return {"evidence": "measured"} | rows


@pytest.fixture
def kills():
    row = {"claims": "fp16", "group": "right", "detail": "", "found_by": {GATES[-1]: "values"}}
    return {
        "evidence": "measured",
        "mutants": [
            {
                "name": "Bad",
                "intent": "is bad",
                "killed_by": [GATES[-1]],
                "survives": list(GATES[:-1]),
                **row,
                "group": "contract",
            },
            {**row, "name": "Worse", "group": "beyond", "intent": "is worse", "killed_by": list(GATES), "survives": []},
        ],
        "correct": [
            {
                "name": "correct fp8",
                "intent": "is right",
                "killed_by": [GATES[0]],
                "survives": list(GATES[1:]),
                "group": "right",
                **row,
            }
        ],
    }


def test_recorded_documents_are_found_by_name_and_missing_ones_named(tmp_path, monkeypatch):
    for folder in ("notebooks", "data/gate"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setenv("VGG_STUDY_ROOT", str(tmp_path))
    (tmp_path / "data/gate/ladder.json").write_text(json.dumps({"errors": []}))
    assert accuracy.recorded("ladder") == {"errors": []}
    with pytest.raises(FileNotFoundError, match=r"data/gate/kill_matrix\.json is missing"):
        accuracy.recorded("kill_matrix")
    assert accuracy.verdict_rows().empty


def test_the_ladder_is_read_off_at_the_last_layer(document):
    table = accuracy.ladder_table(accuracy.error_rows(document)).set_index("arithmetic")
    assert table.loc["fp8", "relative_error"] == pytest.approx(0.2)
    assert table.loc["fp16", "of_expected"] == pytest.approx(0.5)
    assert table.loc["fp32", "of_eager"] == pytest.approx(10)
    assert set(table["evidence"]) == {"measured"}


def test_a_tier_is_dominated_by_one_as_accurate_and_faster(document):
    table = accuracy.ladder_table(accuracy.error_rows(document))
    times = dict(zip(TIERS, (6.0, 2.0, 1.5, 1.0, 1.0, 0.5), strict=True))
    table.loc[table["arithmetic"] == "fp16", "relative_error"] = 1.05e-2  # tf32 has 1e-2 times a power
    table.loc[table["arithmetic"] == "tf32", "relative_error"] = 1e-2
    table.loc[table["arithmetic"] == "fp16x3", "relative_error"] = 1e-4
    table.loc[table["arithmetic"] == "fp32", "relative_error"] = 1e-4
    assert accuracy.undominated(table, times) == ["fp16x3", "fp16", "fp8"]


def test_the_matrix_counts_mutants_and_right_networks_apart(kills):
    table = accuracy.matrix_table(accuracy.matrix_rows(kills)).set_index("gate")
    assert table.loc[GATES[0]].tolist() == [2, 1, 1, 1]
    assert table.loc[GATES[-1]].tolist() == [2, 2, 0, 0]
    table = accuracy.matrix_table(accuracy.matrix_rows(kills), "contract").set_index("gate")
    assert table.loc[GATES[0]].tolist() == [1, 0, 1, 1]


def test_groups_are_counted_apart(kills):
    accepted = dict.fromkeys(GATES, 1)
    kills["groups"] = {"contract": {"meaning": "wrong", "networks": 2, "accepted": accepted}}
    table = accuracy.group_table(kills)
    assert table.loc[0, ["group", "meaning", "networks", GATES[0]]].tolist() == ["contract", "wrong", 2, 1]


def test_pareto_pairs_errors_with_times_and_keeps_their_evidence(document):
    rows = accuracy.pareto_rows(accuracy.error_rows(document), reported(), network("vgg19"), ("h100_sxm",), 10)
    assert set(rows["evidence"]) == {"modelled", "derived", "reported"}
    assert set(rows.loc[rows["evidence"] == "reported", "tier"]) == {"tf32"}
    wide = rows.pivot_table(index="tier", columns="what", values="time_ms")
    assert (wide["our kernels"] >= wide["floor"]).all()
    assert wide.loc["tf32", "inductor"] == 2.43


def test_the_workload_adds_up():
    rows = workload.layer_rows(network("vgg19"), 10)
    assert rows["parameters"].sum() == 143_667_240
    assert rows["gflop"].sum() == pytest.approx(392.6, abs=0.1)
    assert workload.identity_rows()["recomputable"].tolist() == [True, True, False]


def test_figures_draw_what_they_were_given(document, kills):
    errors, spread, matrix = accuracy.error_rows(document), accuracy.spread_rows(document), accuracy.matrix_rows(kills)
    ax = workload_plots.signal(spread, {"tolerance": 1e-4}, "made up").axes[0]
    assert ax.lines[0].get_ydata().tolist() == [1e-1, 1e-1]
    assert ax.lines[2].get_ydata()[0] == 1e-4
    ax = workload_plots.matrix(matrix, "made up").axes[0]
    filled = [to_hex(patch.get_facecolor()) != "#ffffff" for patch in ax.patches]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["Bad", "Worse", "correct fp8"]
    others = len(GATES) - 1
    assert filled == [*[False] * others, True, *[True] * len(GATES), True, *[False] * others]
    ax = plots.growth(errors, "made up").axes[0]
    measured = [line for line in ax.lines if line.get_label() == "fp16"]
    assert measured[0].get_ydata().tolist() == errors[errors["arithmetic"] == "fp16"]["relative_error"].tolist()
    rows = accuracy.pareto_rows(errors, reported(), network("vgg19"), ("h100_sxm", "h100_pcie"), 10)
    ax = plots.pareto(rows).axes[0]
    points = sorted(
        (float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in ax.lines if len(line.get_xdata()) == 1
    )
    shown = rows[rows["evidence"] != "derived"]
    error = shown["relative_error"].where(shown["device"] == "h100_sxm", shown["relative_error"] / plots.ASIDE)
    assert points == sorted(zip(error, shown["time_ms"], strict=True))
    plt.close("all")


def test_truncated_sums_are_read_off_at_the_logits(document):
    table = accuracy.truncation_table(document).set_index("sums")
    assert table.loc["truncated, all", "relative_error"] == pytest.approx(6e-7)
    assert table["of_eager"].tolist() == pytest.approx([1, 3])


def test_truncating_sums_cost_more_the_deeper_and_adding_outside_keeps_fp32s_error():
    rows = accuracy.truncation_rows(network("vgg19")).set_index("K")
    assert list(rows.index) == [576, 1152, 2304, 4608]
    nearest, inside, outside = (rows[name] for name in accuracy.SUMS)
    assert inside.is_monotonic_increasing
    assert (inside > 5 * nearest).all()
    assert (outside < 1.5 * nearest).all()
