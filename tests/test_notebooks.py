"""The stored notebooks: the house rules, and that they run from anywhere. Their outputs are nbval's to compare."""

import shutil
import subprocess
import sys

import nbformat
import pytest

from vgg_kernels.report.publish.notebooks import execute, notebooks, problems
from vgg_kernels.report.study import root

TITLES = [
    "01_workload",
    "02_baselines",
    "03_floor",
    "04_kernels",
    "05_prediction",
    "06_accuracy_and_speed",
    "07_records",
]
STORED = notebooks(root() / "notebooks")


def nbval(path):
    options = ["--nbval", "--nbval-current-env", f"--nbval-sanitize-with={root() / 'tests' / 'nbval_sanitize.cfg'}"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", *options, str(path)]
    return subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=False)


def write(path, *sources):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbformat.write(notebook, path)
    return path


def test_there_is_one_notebook_a_question():
    assert [path.stem for path in STORED] == TITLES


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_the_notebook_keeps_the_house_rules(path):
    assert problems(path) == []


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_the_notebook_says_what_it_asks_and_links_to_its_neighbours(path):
    cells = nbformat.read(path, as_version=4).cells
    first, limits, last = cells[0].source, cells[-2], cells[-1]
    place = STORED.index(path)
    assert first.startswith("# ")
    for neighbour in STORED[max(place - 1, 0) : place] + STORED[place + 1 : place + 2]:
        assert f"({neighbour.name})" in first
    assert limits.cell_type == "markdown"
    assert limits.source.startswith("## Limits")
    assert last.source.startswith("assert ")  # the page is held to what it says


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_every_picture_has_alternative_text(path):
    code = (cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    pictures = [output for cell in code for output in cell.outputs if "image/png" in output.get("data", {})]
    assert pictures
    assert all(output.metadata.get("image/png", {}).get("alt") for output in pictures)


def test_stale_committed_outputs_and_timing_text_are_caught(tmp_path):
    path = write(tmp_path / "01_stale.ipynb", "print('measured: 2.43 ms')")
    execute(path)
    assert nbval(path).returncode == 0
    stale = path.read_text().replace("measured: 2.43 ms\\n", "measured: 2.40 ms\\n")
    path.write_text(stale)
    assert nbval(path).returncode == 1
    timed = write(tmp_path / "02_timed.ipynb", "import time\nprint(time.perf_counter())")
    execute(timed)
    assert nbval(timed).returncode == 1


def test_cleared_outputs_are_caught_though_nbval_passes_them(tmp_path):
    path = write(tmp_path / "01_cleared.ipynb", "print(1)")
    execute(path)
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].outputs, notebook.cells[0].execution_count = [], None
    nbformat.write(notebook, path)
    assert any("not all executed" in problem for problem in problems(path))


def test_notebooks_run_from_another_folder_and_store_no_absolute_path(tmp_path):
    elsewhere = tmp_path / "a folder with spaces"
    elsewhere.mkdir()
    path = elsewhere / STORED[0].name
    shutil.copy(STORED[0], path)
    execute(path)
    assert path.read_bytes() == STORED[0].read_bytes()
    assert [problem for problem in problems(path) if "leads nowhere" not in problem] == []
