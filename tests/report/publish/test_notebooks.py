import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from vgg_kernels.report.publish.notebooks import execute, notebooks, problems, tidy


def store(path, *cells):
    """The cells as an executed, tidied notebook."""
    count = 0
    for cell in cells:
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
    path.write_text(nbformat.writes(tidy(new_notebook(cells=list(cells)))) + "\n")
    return path


def printed(source, text, name="stdout"):
    return new_code_cell(source, outputs=[new_output("stream", name=name, text=text)])


def test_a_good_notebook_has_no_problems(tmp_path):
    path = tmp_path / "01_good.ipynb"
    store(
        path,
        new_markdown_cell(f"# Title\n[itself]({path.name}), [web](https://example.org)"),
        printed("print(1)", "1\n"),
    )
    assert problems(path) == []


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ([printed("\n".join(["x = 1"] * 9), "1\n")], "9 lines; at most 8"),
        ([printed("def f(): pass", "1\n")], "logic lives in the package"),
        ([printed("import warnings", "look out", name="stderr")], "wrote to stderr: look out"),
        ([printed("print(p)", "/home/someone/study/data.csv\n")], "absolute path /home/someone"),
        ([printed("open('/tmp/x')", "1\n")], "absolute path /tmp/x"),
        ([printed("print(1)", "x" * 300_001)], "at most 300000"),
        ([printed("print(1)", "1\n") for _ in range(26)], "26 cells; at most 25"),
        ([new_code_cell("x = 1")], "no code cell has a stored output"),
        ([printed("1", "1"), new_markdown_cell("[next](09_missing.ipynb)")], "09_missing.ipynb leads nowhere"),
        ([new_code_cell("1/0", outputs=[new_output("error", ename="ZeroDivisionError")])], "stored an error"),
    ],
)
def test_each_broken_rule_is_told(tmp_path, cells, told):
    path = store(tmp_path / "01_bad.ipynb", *cells)
    assert any(told in problem for problem in problems(path)), problems(path)


def test_rates_and_links_are_no_absolute_paths(tmp_path):
    path = store(
        tmp_path / "01_good.ipynb", printed("print(1)", "3.35e12 B/s, 37 B/clk, see https://x.org/usr/lib/a\n")
    )
    assert problems(path) == []


def test_untidied_metadata_is_told(tmp_path):
    path = store(tmp_path / "01_times.ipynb", printed("print(1)", "1\n"))
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].metadata["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00Z"}
    nbformat.write(notebook, path)
    assert any("not stored as" in problem for problem in problems(path))


def test_executing_twice_gives_the_same_bytes_and_keeps_tags(tmp_path):
    path = tmp_path / "01_widget.ipynb"
    slider = new_code_cell("import ipywidgets\nipywidgets.IntSlider()", metadata={"tags": ["nbval-ignore-output"]})
    nbformat.write(new_notebook(cells=[new_code_cell("print(1)\nprint(2)"), slider]), path)
    ran = []
    execute(path, on_cell=lambda: ran.append(1))
    first = path.read_bytes()
    execute(path)
    assert path.read_bytes() == first
    assert ran == [1, 1]
    assert problems(path) == []
    cells = nbformat.read(path, as_version=4).cells
    assert cells[0].outputs[0].text == "1\n2\n"
    assert cells[1].metadata.tags == ["nbval-ignore-output"]
    assert b"widget-view" not in first


def test_a_failing_notebook_stays_as_it_was(tmp_path):
    path = tmp_path / "01_fails.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("print(1)"), new_code_cell("1/0")]), path)
    before = path.read_bytes()
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        execute(path)
    assert path.read_bytes() == before


def test_only_chooses_by_the_beginning_of_the_name(tmp_path):
    for name in ("01_a", "02_b", "scratch"):
        (tmp_path / f"{name}.ipynb").touch()
    assert [path.stem for path in notebooks(tmp_path)] == ["01_a", "02_b"]
    assert [path.stem for path in notebooks(tmp_path, "02")] == ["02_b"]
    with pytest.raises(ValueError, match=r"no notebook '09' in .*; accepted: 01_a, 02_b"):
        notebooks(tmp_path, "09")
