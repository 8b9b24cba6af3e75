"""An implementation of somebody's own goes the same way as ours: loaded, gated, timed, written down."""

from dataclasses import replace

import pytest

from vgg_kernels.records.store import read_runs
from vgg_kernels.records.submission import CandidateBench, attempt, load
from vgg_kernels.workload.network import network


@pytest.fixture
def module(tmp_path):
    def write(body, name="mine.py"):
        path = tmp_path / name
        path.write_text(body)
        return path

    return write


@pytest.fixture
def run(tiny_network):
    """Gate and time a module; returns (bench, session)."""
    small = replace(tiny_network, name="vgg11")  # a name that the ledger takes

    def attempted(path, out):
        bench = CandidateBench(load(path), small, kind="cpu")
        return bench, attempt(bench, path.stem, "fp32", 2, out, budget_s=120.0)

    return attempted


def test_a_right_module_is_gated_timed_and_sealed(run, module, tmp_path):
    bench, session = run(module("def build(reference):\n    return lambda x: reference(x)\n"), tmp_path / "out")
    assert bench.verdict.passed
    assert session.sealed
    runs = read_runs(tmp_path / "out")
    assert runs.problems == []
    assert set(runs.samples["variant"]) == {"mine"}
    (gate,) = runs.notes[runs.notes["kind"] == "gate"]["payload"]
    assert gate["passed"] is True
    assert gate["network"] == "vgg11"


def test_a_wrong_module_is_not_timed(run, module, tmp_path):
    bench, session = run(module("def build(reference):\n    return lambda x: reference(x) * 0\n"), tmp_path / "out")
    assert not bench.verdict.passed
    assert session.outcome.ended["time/mine/2"] == "refused"
    assert read_runs(tmp_path / "out").samples.empty


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("x = 1\n", "has no function build"),
        ("build = 3\n", "has no function build"),
        ("import nothing_of_that_name\n", "does not import: ModuleNotFoundError"),
        ("def build(:\n", "does not import: SyntaxError"),
    ],
)
def test_a_module_that_is_none_is_named(module, body, said):
    with pytest.raises(ValueError, match=said):
        load(module(body))


def test_another_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="is no Python file"):
        load(tmp_path / "missing.py")


@pytest.mark.parametrize("name", ["eager_but_better", "inductor2", "ours_fp16", "a b", ""])
def test_a_name_that_would_be_taken_for_another_is_refused(module, tiny_network, tmp_path, name):
    bench = CandidateBench(load(module("def build(r):\n    return r\n")), tiny_network, kind="cpu")
    with pytest.raises(ValueError, match="is not accepted: letters, digits"):
        attempt(bench, name, "fp32", 1, tmp_path / "out", 10.0)


def test_a_small_vgg19_is_not_taken_for_the_workload(module, tmp_path):
    bench = CandidateBench(load(module("def build(r):\n    return r\n")), network("vgg19", image=32), kind="cpu")
    with pytest.raises(ValueError, match="vgg19 at 32 pixels is not the workload"):
        attempt(bench, "mine", "fp32", 1, tmp_path / "out", 10.0)
