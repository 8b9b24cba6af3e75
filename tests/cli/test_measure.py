"""The command: what it refuses, what it prints, and its exit status. The bench is this CPU with a small network."""

import json
import os
import re
import subprocess
import sys
import tomllib

import pytest

from vgg_kernels.cli import measure
from vgg_kernels.measure import provenance, supervisor, torch_device, variants
from vgg_kernels.measure.schedule import PARTS
from vgg_kernels.measure.writing import OutputLost
from vgg_kernels.records import session
from vgg_kernels.records.store import read_runs
from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.network import network


@pytest.fixture
def small(monkeypatch):
    """The worker measures a small network and does not tie itself to the test process's parent."""
    made = torch_device.TorchBench
    monkeypatch.setattr(torch_device, "TorchBench", lambda: made("cpu", table=network("vgg11", image=32, classes=10)))
    monkeypatch.setattr(supervisor, "die_with_parent", lambda: None)


def work(out, *, budget=60.0, only=("eager",), batch=(1,), json=False):
    return measure._worker(out, budget, only, batch, json)


@pytest.mark.parametrize("budget", [0.0, -1.0, float("nan"), float("inf")])
def test_a_budget_that_is_no_number_of_seconds_is_refused(tmp_path, budget):
    with pytest.raises(ValueError, match="budget"):
        measure.command(out=tmp_path, budget=budget)


@pytest.mark.parametrize("batch", [[0], [10, -1]])
def test_an_empty_batch_is_refused(tmp_path, batch):
    with pytest.raises(ValueError, match="at least 1"):
        measure.command(out=tmp_path, batch=batch)


def test_an_unknown_only_is_refused_with_what_is_known(small, tmp_path):
    with pytest.raises(UnknownName, match="eager.*inductor"):  # noqa: RUF043
        work(tmp_path, only=("eagre",))
    assert not list(tmp_path.iterdir())


def test_a_run_prints_a_table_and_says_what_a_gpu_would_add(small, tmp_path, capsys):
    assert work(tmp_path) == 0
    shown = capsys.readouterr()
    assert "eager" in shown.out
    assert "median" in shown.out
    assert "time/eager/1" in shown.err
    lines = shown.err.splitlines()
    assert "sees no NVIDIA GPU, so this measures the CPU" in lines[0]
    assert lines[-1].startswith("No NVIDIA GPU")
    assert len(read_runs(tmp_path).samples) > 0


def test_json_is_one_document_and_nothing_else(small, tmp_path, capsys):
    assert work(tmp_path, json=True) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["evidence"] == "measured"
    assert document["steps"]["time/eager/1"] == "done"
    [row] = document["rows"]
    assert row["vs_eager"] == 1.0
    assert row["vs_inductor"] is None
    assert document["sealed"] is True


def test_a_budget_too_small_says_so_and_fails(small, tmp_path, capsys):
    assert work(tmp_path, budget=0.01) == 1
    assert "too small" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_says_so_and_fails(small, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert work(tmp_path / "file" / "runs") == 1
    assert "file" in capsys.readouterr().err


@pytest.mark.parametrize(("kept", "code"), [(0, 1), (15, 0)])
def test_a_folder_that_fills_up_fails_only_where_nothing_was_kept(small, tmp_path, monkeypatch, capsys, kept, code):
    def full(*_):
        lost = OutputLost("the run's folder cannot be written: No space left on device")
        lost.kept = kept
        raise lost

    monkeypatch.setattr(session, "run", full)
    assert work(tmp_path) == code
    assert f"No space left on device; {kept} samples stay" in capsys.readouterr().err


def test_a_reason_with_brackets_is_printed_as_it_is(small, tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise RuntimeError("shape [/10, 3] of [bold]x[/bold] in [/usr/lib]")

    monkeypatch.setattr(variants, "build", fail)
    work(tmp_path, only=("eager", "time"))
    shown = capsys.readouterr().err
    assert shown.count("shape [/10, 3] of [bold]x[/bold] in [/usr/lib]") == 2  # as it happens, and at the end


def test_steps_that_were_not_reached_are_named_in_one_sentence(small, tmp_path, capsys):
    work(tmp_path, budget=0.01)
    shown = capsys.readouterr().err
    assert "not begun, 4 steps, which a larger --budget may reach: time/eager/1, repeat/eager/1" in shown


def test_a_gpu_that_does_not_answer_is_said_not_shown_as_a_traceback(monkeypatch, tmp_path, capsys):
    def broken():
        raise RuntimeError("CUDA error: device unavailable\nlong story")

    monkeypatch.setattr(torch_device, "TorchBench", broken)
    monkeypatch.setattr(supervisor, "die_with_parent", lambda: None)
    assert work(tmp_path) == 1
    assert "device unavailable" in capsys.readouterr().err


def test_the_command_hands_its_options_to_a_worker(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(supervisor, "supervise", lambda arguments, tell: seen.extend(arguments) or 0)
    with pytest.raises(SystemExit) as end:
        measure.command(out=tmp_path, budget=120.0, only=["eager", "time"], batch=[1, 10], json=True)
    assert end.value.code == 0
    assert seen[0] == "measure"
    assert seen.count("--only") == 2
    assert seen.count("--batch") == 2
    assert "--json" in seen
    assert str(tmp_path) in seen


@pytest.mark.parametrize(("card", "runs"), [("a card", 1), (None, 0)])
def test_the_study_measures_first_on_a_gpu_alone(monkeypatch, tmp_path, card, runs):
    started = []
    monkeypatch.setenv("VGG_STUDY_ROOT", str(tmp_path))
    monkeypatch.delenv("VGG_STUDY", raising=False)
    (tmp_path / "data").mkdir()
    monkeypatch.setattr("vgg_kernels.records.fresh.gpu_name", lambda: card)
    monkeypatch.setattr(supervisor, "supervise", lambda arguments, tell: started.append(arguments) or 0)
    measure.measure_first()
    assert len(started) == runs


def test_without_a_study_beside_the_package_a_folder_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("VGG_STUDY_ROOT", str(tmp_path))
    with pytest.raises(ValueError, match="--out"):
        measure._default_folder()
    (tmp_path / "data").mkdir()
    assert measure._default_folder() == tmp_path / "data" / "local"


NEEDED = {
    "matplotlib",
    "numpy",
    "nvidia-ml-py",
    "packaging",
    "pandas",
    "pillow",
    "rich",
    "scikit-image",
    "torch",
    "triton",
}
NEEDED |= {"typer"}
IMPORTED_AS = {"beautifulsoup4": "bs4", "ipython": "IPython"}
OTHERS = {
    "psutil",
    "scipy",
    "sklearn",
    "yaml",
    "hypothesis",
    "pytest",
    "jupyter_core",
    "notebook",
    "tqdm",
    "torchvision",
}

BLOCKING = """
import sys

class NotThere:  # what a package that is there needs of them is its own affair
    blocked = {blocked!r}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.blocked:
            frame = sys._getframe(1)
            while frame and "importlib" in frame.f_code.co_filename:
                frame = frame.f_back
            if frame and frame.f_globals.get("__name__", "").startswith("vgg_kernels"):
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotThere())
"""

SMALL = """
import sys
from pathlib import Path
from vgg_kernels.__main__ import build
from vgg_kernels.cli import measure
from vgg_kernels.measure import torch_device
from vgg_kernels.workload.network import network

made = torch_device.TorchBench
torch_device.TorchBench = lambda: made("cpu", table=network("vgg11", image=32, classes=10))
build()
sys.exit(measure._worker(Path(sys.argv[1]), 200.0, tuple(sys.argv[2:]), (1,), True))
"""


@pytest.fixture
def without(tmp_path):
    """An environment in which our package can import nothing of the study's but what a measuring machine needs."""
    with (provenance.PACKAGE.parent / "pyproject.toml").open("rb") as file:
        declared = tomllib.load(file)["project"]["dependencies"]
    names = {re.split(r"[<>=]", line)[0] for line in declared}
    assert names > NEEDED
    blocked = {IMPORTED_AS.get(name, name) for name in names - NEEDED} | OTHERS
    (tmp_path / "blocking").mkdir()
    (tmp_path / "blocking" / "sitecustomize.py").write_text(BLOCKING.format(blocked=blocked))
    return os.environ | {"PYTHONPATH": str(tmp_path / "blocking"), "OMP_NUM_THREADS": "1"}


def test_it_measures_to_the_end_where_the_studys_other_libraries_are_missing(without, tmp_path):
    """Gate, times, profile, layers and ceilings, of a small network on this CPU."""
    words = ("eager", "fp16", *PARTS)
    command = [sys.executable, "-c", SMALL, str(tmp_path / "out"), *words]
    done = subprocess.run(command, capture_output=True, text=True, env=without)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert set(document["steps"].values()) == {"done"}, document["reasons"]
    assert document["gates"] == {"ours_fp16": True}
    assert document["sealed"] is True
    assert len(document["rows"]) == 1


def test_the_command_itself_runs_where_they_are_missing(without, tmp_path):
    """``python -m``, its worker and all."""
    words = ["--only", "ceilings", "--budget", "60", "--out", str(tmp_path / "out"), "--json"]
    command = [sys.executable, "-m", "vgg_kernels", "measure", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=without)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == {"ceilings": "done"}


def test_what_is_blocked_there_is_blocked(without):
    done = subprocess.run(
        [sys.executable, "-c", "import vgg_kernels.records.tables"], capture_output=True, text=True, env=without
    )
    assert "No module named 'pandera" in done.stderr
