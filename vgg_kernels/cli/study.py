"""``study``: execute the notebooks and write the figures."""

import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .output import print_table


def command(
    only: Annotated[str, typer.Option(help="Only the notebooks whose name starts so, as 03.")] = "",
    folder: Annotated[Path | None, typer.Option(help="Another folder of notebooks.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Notebooks at a time.")] = min(4, os.cpu_count() or 1),
) -> None:
    """Execute the notebooks in place, several at a time, and write figures/.

    On a GPU that has no run under data/local/ yet, measures first; VGG_STUDY=recorded leaves that out and shows
    recorded data alone. A notebook that fails stays as it was, the others still run, and the exit status is 1.
    """
    import nbformat
    from nbclient.exceptions import CellControlSignal, CellTimeoutError, DeadKernelError

    from ..report.publish.notebooks import execute, notebooks
    from ..report.study import root
    from .measure import measure_first

    if not only and folder is None:
        measure_first()
    paths = notebooks(folder or root() / "notebooks", only)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // min(jobs, len(paths)))))
    outcome: dict[Path, str] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress, ThreadPoolExecutor(jobs) as pool:
        running = {}
        for path in paths:
            cells = sum(cell.cell_type == "code" for cell in nbformat.read(path, as_version=4).cells)
            task = progress.add_task(path.stem, total=cells, start=True)
            running[pool.submit(execute, path, partial(progress.advance, task))] = path
        for done in as_completed(running):
            try:
                done.result()
                outcome[running[done]] = "done"
            except (CellControlSignal, CellTimeoutError, DeadKernelError) as error:
                outcome[running[done]] = "FAILED"
                progress.console.print(f"[bold red]{running[done].name}[/]\n", highlight=False)
                progress.console.print(str(error), markup=False, highlight=False)
    print_table("Notebooks", ["notebook", "outcome"], [(path.name, outcome[path]) for path in paths])
    if "FAILED" in outcome.values():
        raise typer.Exit(1)
