"""A progress bar on stderr, in the shape of the callbacks that the package calls."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """Yield ``update(done, total, text)``; the bar disappears when the block ends."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, TextColumn("{task.fields[text]}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, text="")

        def update(done: int, total: int, text: str) -> None:
            bar.update(task, completed=done, total=total, text=text)

        yield update
