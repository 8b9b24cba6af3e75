"""Steps as they begin and end, on stderr: a live line on a terminal, two plain lines a step in a log."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:  # the command line starts without torch
    from collections.abc import Callable

    from ..measure.plan import Step

STYLES = {"done": "green", "failed": "bold red", "refused": "yellow", "skipped": "yellow"}


class Steps(AbstractContextManager):
    """Shows a run's progress; ``tell`` is what ``measure.run.Runner`` calls.

    Args:
        name: of the device.
        total: steps.
        budget_s: seconds, for the headline.
        now: seconds, monotonic.
    """

    def __init__(self, name: str, total: int, budget_s: float, now: Callable[[], float]):
        self._now, self._began = now, now()
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._console.print(f"{name}: {total} steps, most important first, in at most {budget_s:.0f} s", markup=False)
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._live = Progress(*columns, TimeElapsedColumn(), console=self._console, transient=True)
        self._task = self._live.add_task("starting", total=total)

    def __enter__(self) -> Steps:
        """Start drawing, where there is a terminal to draw on."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave only the plain lines."""
        if self._console.is_terminal:
            self._live.stop()

    def tell(self, step: Step, state: str, reason: str, seconds: float) -> None:
        """A step begins ("begun", with the seconds that it is estimated to take) or has ended (after so many)."""
        at = f"{self._now() - self._began:6.0f} s"
        if state == "begun":
            expected = f"{step.name}, about {seconds:.0f} s"
            self._live.update(self._task, description=expected)
            if not self._console.is_terminal:
                self._console.print(f"{at}  begins   {escape(expected)}")
            return
        took = f"  {seconds:.1f} s" if seconds else ""
        colour = STYLES.get(state, "default")
        told = escape(f"{step.name}{took}  {reason}".rstrip())  # an error's own brackets are no mark-up
        self._console.print(f"{at}  [{colour}]{state:8}[/] {told}")
        self._live.advance(self._task)
