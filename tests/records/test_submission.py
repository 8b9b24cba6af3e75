"""An implementation of somebody's own goes the same way as ours: loaded, gated, timed, written down."""

import pytest

from vgg_kernels.records.reading import read_runs
from vgg_kernels.records.submission import attempt, load


@pytest.fixture
def module(tmp_path):
    def write(body, name="mine.py"):
        path = tmp_path / name
        path.write_text(body)
        return path

    return write


SMALL = {"name": "vgg11", "image": 32, "classes": 10}


def test_a_right_module_is_gated_timed_and_sealed(module, tmp_path):
    path = module("def build(reference):\n    return lambda x: reference(x)\n")
    run = attempt(path, SMALL, "mine", "fp32", 2, tmp_path / "out", 120.0, kind="cpu")
    assert run.sealed
    runs = read_runs(tmp_path / "out")
    assert runs.problems == []
    assert set(runs.samples["variant"]) == {"mine"}
    (gate,) = runs.notes[runs.notes["kind"] == "gate"]["payload"]
    assert gate["passed"] is True
    assert gate["network"] == "vgg11"
    assert gate["verdict"]["passed"] is True


def test_a_wrong_module_is_not_timed(module, tmp_path):
    path = module("def build(reference):\n    return lambda x: reference(x) * 0\n")
    run = attempt(path, SMALL, "mine", "fp32", 2, tmp_path / "out", 120.0, kind="cpu")
    assert run.outcome.ended == {"verify/mine": "failed", "time/mine/2": "refused"}
    assert read_runs(tmp_path / "out").samples.empty


def test_a_module_that_ends_its_process_costs_the_gate_alone(module, tmp_path):
    path = module("import os\n\n\ndef build(reference):\n    os.abort()\n")
    run = attempt(path, SMALL, "mine", "fp32", 2, tmp_path / "out", 120.0, kind="cpu")
    assert run.outcome.reasons["verify/mine"] == "its process was lost (SIGABRT)"
    assert run.sealed


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
def test_a_name_that_would_be_taken_for_another_is_refused(module, tmp_path, name):
    path = module("def build(r):\n    return r\n")
    with pytest.raises(ValueError, match="is not accepted: letters, digits"):
        attempt(path, SMALL, name, "fp32", 1, tmp_path / "out", 10.0)


def test_a_small_vgg19_is_not_taken_for_the_workload(module, tmp_path):
    path = module("def build(r):\n    return r\n")
    with pytest.raises(ValueError, match="vgg19 at 32 pixels is not the workload"):
        attempt(path, {"name": "vgg19", "image": 32}, "mine", "fp32", 1, tmp_path / "out", 10.0)
