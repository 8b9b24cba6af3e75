"""``pytest --nbval`` as a person types it: it takes the notebooks, strictly, from every folder of the study."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
SOURCE = "import os\nprint(os.environ['VGG_STUDY'], os.path.isdir(os.environ['VGG_STUDY_FIGURES']))"


@pytest.fixture
def study(tmp_path):
    """A study of one test and one notebook, under the repository's own conftest."""
    for folder in ("tests/deep", "notebooks"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "conftest.py", tmp_path)
    shutil.copy(ROOT / "tests" / "nbval_sanitize.cfg", tmp_path / "tests")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    (tmp_path / "tests" / "deep" / "test_one.py").write_text("def test_one():\n    pass\n")
    output = nbformat.v4.new_output("stream", name="stdout", text="recorded True\n")
    cell = nbformat.v4.new_code_cell(SOURCE, execution_count=1, outputs=[output])
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "notebooks" / "01_first.ipynb")
    return tmp_path


def run(folder, *arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VGG_STUDY")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-rA", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("folder", [".", "notebooks", "tests/deep"])
def test_nbval_takes_the_notebooks_and_the_tests_on_recorded_data(study, folder):
    done = run(study / folder, "--nbval")
    assert done.returncode == 0, done.stdout
    assert "01_first.ipynb::Cell 0" in done.stdout
    assert "2 passed" in done.stdout


def test_a_stored_output_that_does_not_come_out_again_fails(study):
    path = study / "notebooks" / "01_first.ipynb"
    path.write_text(path.read_text().replace("recorded True", "fresh True"))
    assert run(study, "--nbval").returncode == 1


def test_a_path_given_is_the_path_taken(study):
    assert "1 passed" in run(study, "--nbval", "notebooks/01_first.ipynb").stdout
    assert "1 passed" in run(study, "--nbval", "tests/deep/test_one.py").stdout


def test_without_nbval_there_are_the_tests_alone(study):
    done = run(study)
    assert ".ipynb" not in done.stdout
    assert "1 passed" in done.stdout
