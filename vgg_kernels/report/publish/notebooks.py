"""Executing the notebooks so that the same content always gives the same bytes, and the rules they keep."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import nbformat
from nbclient import NotebookClient

MAX_CELLS = 25
MAX_LINES = 8
MAX_BYTES = 300_000
TIMEOUT_S = 300
WIDGET = "application/vnd.jupyter.widget-view+json"


def notebooks(folder: Path, only: str = "") -> list[Path]:
    """The notebooks of ``folder`` in order; ``only`` keeps those whose name starts with it ("03").

    Raises:
        ValueError: none is left; the message names those that there are.
    """
    found = sorted(Path(folder).glob("[0-9][0-9]_*.ipynb"))
    chosen = [path for path in found if path.name.startswith(only)]
    if not chosen:
        raise ValueError(
            f"no notebook {only!r} in {folder}; accepted: {', '.join(p.stem for p in found) or 'none yet'}"
        )
    return chosen


def execute(path: Path, on_cell: Callable[[], None] = lambda: None) -> None:
    """Run a notebook top to bottom in a fresh kernel and store it, tidied, in its place.

    Args:
        path: the notebook; it stays as it was where a cell fails.
        on_cell: called after each code cell.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised; the message shows the cell and the traceback.
        nbclient.exceptions.CellTimeoutError: a cell took more than ``TIMEOUT_S`` seconds.
    """
    os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")  # this environment's python3 kernel before the user's
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        timeout=TIMEOUT_S,
        kernel_name="python3",
        coalesce_streams=True,
        extra_arguments=["--log-level=40"],  # its warnings would land between the progress bars
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_executed=lambda **_: on_cell(),
    ).execute()
    text = nbformat.writes(tidy(notebook)) + "\n"
    if text != path.read_text(encoding="utf-8"):
        path.write_text(text, encoding="utf-8")


def tidy(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Drop what differs from run to run: times, widget state and views, the interpreter's version."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python", "file_extension": ".py", "pygments_lexer": "ipython3"},
        }
    )
    for cell in notebook.cells:
        tags = cell.metadata.get("tags")
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
    return notebook


def problems(path: Path) -> list[str]:
    """What a stored notebook breaks of the house rules, one line each; an empty list is a good notebook.

    The rules are those of CONTRIBUTING.md: executed in order and without stderr, small, short cells, no logic of
    its own, no absolute path, links that lead somewhere. nbval alone passes a notebook with cleared outputs.
    """
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    found = []
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        found.append("code cells were not all executed, once each, in order")
    if len(notebook.cells) > MAX_CELLS:
        found.append(f"{len(notebook.cells)} cells; at most {MAX_CELLS}")
    if path.stat().st_size > MAX_BYTES:
        found.append(f"{path.stat().st_size} bytes; at most {MAX_BYTES}")
    if not any(cell.outputs for cell in code):
        found.append("no code cell has a stored output")
    for cell in code:
        found += [f"[{cell.execution_count}] {problem}" for problem in _cell_problems(cell)]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            found += _dead_links(cell.source, path.parent)
    if nbformat.writes(tidy(notebook)) + "\n" != path.read_text(encoding="utf-8"):
        found.append("not stored as `python -m vgg_kernels study` stores it (times, widget state or versions in it)")
    return found


# An absolute path of some machine: at least two known first folders deep, or a drive.
ABSOLUTE = re.compile(
    r"(?<![\w.:/])(?:/(?:home|root|tmp|usr|opt|work|mnt|Users|var|private|workspace)/\S+|[A-Z]:\\\S+)"
)


def _cell_problems(cell: nbformat.NotebookNode) -> list[str]:
    found = []
    lines = [line for line in cell.source.splitlines() if line.strip()]
    if len(lines) > MAX_LINES:
        found.append(f"{len(lines)} lines; at most {MAX_LINES}")
    if re.search(r"^\s*(async\s+def|def|class)\s", cell.source, re.MULTILINE):
        found.append("defines something; logic lives in the package")
    for output in cell.outputs:
        if output.output_type == "error":
            found.append(f"stored an error: {output.ename}")
        if output.get("name") == "stderr":
            found.append(f"wrote to stderr: {output.text.strip()[:80]}")
    texts = [cell.source, *(_text(output) for output in cell.outputs)]
    found += [f"absolute path {match[0][:80]}" for text in texts if (match := ABSOLUTE.search(text))]
    return found


def _text(output: nbformat.NotebookNode) -> str:
    data = output.get("data", {})
    texts = [text for kind, text in data.items() if not kind.startswith("image/") and isinstance(text, str)]
    return "\n".join([output.get("text", ""), *texts])


def _dead_links(markdown: str, folder: Path) -> list[str]:
    targets = re.findall(r"\]\(([^)\s]+)\)", markdown)
    local = [target for target in targets if not re.match(r"[a-z]+:|#", target)]
    return [
        f"link to {target} leads nowhere" for target in local if not (folder / unquote(target.split("#")[0])).exists()
    ]
