"""The command: what it refuses, what it prints, and its exit status, on a small network of this CPU or a simulated
lack of everything else.
"""

import json
import os
import sys

import pytest

from vgg_kernels.cli import measure
from vgg_kernels.measure import run as runs_of
from vgg_kernels.measure.run import DeviceLost
from vgg_kernels.measure.worker import FolderLost
from vgg_kernels.records import session
from vgg_kernels.records.reading import read_runs
from vgg_kernels.workload.lookup import UnknownName

SMALL = {"name": "vgg11", "image": 32, "classes": 10}


def work(out, *, budget=60.0, only=("eager", "time"), batch=(1,), json=False):
    return measure.measure(out, budget, only, batch, json, SMALL)


@pytest.fixture
def described(monkeypatch, fake):
    """Nothing is started: the device describes itself at once, as a CPU that does not exist."""
    monkeypatch.setattr(runs_of.Device, "describe", lambda _: fake.provenance("a CPU", "cpu"))
    monkeypatch.setattr(runs_of.Device, "start", None)


@pytest.mark.parametrize("budget", [0.0, -1.0, float("nan"), float("inf")])
def test_a_budget_that_is_no_number_of_seconds_is_refused(tmp_path, budget):
    with pytest.raises(ValueError, match="budget must be a positive number of seconds, got"):
        measure.command(out=tmp_path, budget=budget)


@pytest.mark.parametrize("batch", [[0], [10, -1]])
def test_an_empty_batch_is_refused(tmp_path, batch):
    with pytest.raises(ValueError, match=f"batch must be >= 1, got {min(batch)}"):
        measure.command(out=tmp_path, batch=batch)


def test_an_unknown_only_is_refused_with_what_is_known(described, tmp_path):
    with pytest.raises(UnknownName, match=r"eager.*inductor"):
        work(tmp_path, only=("eagre",))
    assert not list(tmp_path.iterdir())


def test_a_run_prints_a_table_and_says_what_a_gpu_would_add(tmp_path, capfd):
    assert work(tmp_path) == 0
    shown = capfd.readouterr()
    assert "eager" in shown.out
    assert "median" in shown.out
    lines = shown.err.splitlines()
    assert "sees no NVIDIA GPU, so this measures the CPU" in lines[0]
    assert "begins   time/eager/1, about" in shown.err
    assert "done     time/eager/1" in shown.err
    assert lines[-1].startswith("No NVIDIA GPU")
    assert len(read_runs(tmp_path).samples) > 0


def test_json_is_one_document_and_nothing_else(tmp_path, capfd):
    assert work(tmp_path, json=True) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["evidence"] == "measured"
    assert document["steps"]["time/eager/1"] == "done"
    [row] = document["rows"]
    assert row["vs_eager"] == 1.0
    assert row["vs_inductor"] is None
    assert document["sealed"] is True
    assert document["answers"]["layers"] == {}


def test_a_budget_too_small_says_so_and_fails(described, tmp_path, capsys):
    assert work(tmp_path, budget=0.01, only=("eager",)) == 1
    shown = capsys.readouterr().err
    assert "too small" in shown
    assert "not begun, 4 steps, which a larger --budget may reach: time/eager/1, repeat/eager/1" in shown


def test_a_folder_that_cannot_be_written_says_so_and_fails(described, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert work(tmp_path / "file" / "runs") == 1
    assert "no run can be begun in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            FolderLost("the run's folder cannot be written: No space left on device"),
            "No space left on device; what",
        ),
        (DeviceLost("CUDA error: device unavailable"), "the device does not answer: CUDA error: device unavailable"),
    ],
)
def test_what_ends_a_run_is_said_in_a_line(described, tmp_path, monkeypatch, capsys, error, said):
    def lost(*_):
        raise error

    monkeypatch.setattr(session, "run", lost)
    assert work(tmp_path) == 1
    assert said in capsys.readouterr().err


def test_an_interruption_before_the_first_step_is_said(tmp_path, monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs_of.Device, "describe", interrupted)
    assert work(tmp_path) == 130
    assert "interrupted outside any step" in capsys.readouterr().err


def test_an_errors_own_brackets_are_printed_as_they_are(capsys):
    from vgg_kernels.cli.steps import Steps
    from vgg_kernels.measure.plan import Step

    with Steps("a card", 1, 10.0, lambda: 0.0) as steps:
        steps.tell(Step("peak_rates"), "failed", "shape [/10, 3] of [bold]x[/bold] in [/usr/lib]", 1.0)
    assert "shape [/10, 3] of [bold]x[/bold] in [/usr/lib]" in capsys.readouterr().err


@pytest.mark.parametrize(("card", "started"), [("a card", 1), (None, 0)])
def test_the_study_measures_first_on_a_gpu_alone(monkeypatch, tmp_path, card, started):
    seen = []
    monkeypatch.setenv("VGG_STUDY_ROOT", str(tmp_path))
    monkeypatch.delenv("VGG_STUDY", raising=False)
    (tmp_path / "data").mkdir()
    monkeypatch.setattr("vgg_kernels.records.fresh.gpu_name", lambda: card)
    monkeypatch.setattr(measure, "measure", lambda *arguments: seen.append(arguments) or 0)
    measure.measure_first()
    assert len(seen) == started


def test_the_study_stops_where_its_measuring_is_interrupted(monkeypatch, tmp_path):
    monkeypatch.setenv("VGG_STUDY_ROOT", str(tmp_path))
    monkeypatch.delenv("VGG_STUDY", raising=False)
    (tmp_path / "data").mkdir()
    monkeypatch.setattr("vgg_kernels.records.fresh.gpu_name", lambda: "a card")
    monkeypatch.setattr(measure, "measure", lambda *_: measure.INTERRUPTED)
    with pytest.raises(KeyboardInterrupt):
        measure.measure_first()


def test_without_a_study_beside_the_package_a_folder_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("VGG_STUDY_ROOT", str(tmp_path))
    with pytest.raises(ValueError, match="--out"):
        measure._default_folder()
    (tmp_path / "data").mkdir()
    assert measure._default_folder() == tmp_path / "data" / "local"


def test_the_command_itself_measures(tmp_path):
    """``python -m``, its measuring process and all."""
    import subprocess

    words = ["--only", "peak_rates", "--budget", "60", "--out", str(tmp_path / "out"), "--json"]
    command = [sys.executable, "-m", "vgg_kernels", "measure", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == {"peak_rates": "done"}
