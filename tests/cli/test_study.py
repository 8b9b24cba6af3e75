import nbformat
from nbformat.v4 import new_code_cell, new_notebook
from typer.testing import CliRunner

from vgg_kernels.__main__ import build


def study(*arguments):
    return CliRunner().invoke(build(), ["study", *map(str, arguments)])


def write(path, source):
    nbformat.write(new_notebook(cells=[new_code_cell(source)]), path)


def test_a_failing_notebook_is_named_and_the_others_still_run(tmp_path):
    write(tmp_path / "01_fails.ipynb", "raise RuntimeError('it broke')")
    write(tmp_path / "02_runs.ipynb", "print('it ran')")
    result = study("--folder", tmp_path)
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
    assert "01_fails.ipynb" in result.stderr
    assert "it broke" in result.stderr
    assert "it ran" in (tmp_path / "02_runs.ipynb").read_text()


def test_only_runs_what_was_asked_for(tmp_path):
    write(tmp_path / "01_fails.ipynb", "1/0")
    write(tmp_path / "02_runs.ipynb", "print('it ran')")
    result = study("--folder", tmp_path, "--only", "02")
    assert result.exit_code == 0
    assert "01_fails" not in result.stdout


def test_an_unknown_notebook_is_a_clear_error(tmp_path):
    write(tmp_path / "01_runs.ipynb", "print(1)")
    result = study("--folder", tmp_path, "--only", "9")
    assert isinstance(result.exception, ValueError)
    assert "accepted: 01_runs" in str(result.exception)
