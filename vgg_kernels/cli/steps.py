"""Steps as they come and go, on stderr: a live line on a terminal, one plain line a step in a log."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:  # the command line starts without torch
    from ..measure.schedule import Step
    from ..measure.under_test import Bench

STYLES = {"done": "green", "failed": "bold red", "refused": "yellow", "skipped": "yellow", "interrupted": "yellow"}


class Steps(AbstractContextManager):
    """Shows a run's progress; ``tell`` is what ``measure.run.measure`` calls.

    Args:
        bench: whose clock tells how long a step took.
        total: steps.
        budget_s: seconds, for the headline.
    """

    def __init__(self, bench: Bench, total: int, budget_s: float):
        self._bench, self._began, self._since = bench, bench.now(), bench.now()
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._console.print(f"{bench.name}: {total} steps, most important first, in at most {budget_s:.0f} s")
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

    def tell(self, step: Step, state: str, reason: str) -> None:
        """A step begins ("begun") or has ended."""
        if state == "begun":
            self._since = self._bench.now()
            self._live.update(self._task, description=step.name)
            return
        now = self._bench.now()
        took = f" {now - self._since:6.1f} s" if state in ("done", "failed") else ""
        self._since = now
        colour = STYLES.get(state, "default")
        told = escape(f"{took}  {step.name}  {reason}".rstrip())  # an error's own brackets are no mark-up
        self._console.print(f"{now - self._began:6.0f} s  [{colour}]{state:8}[/]{told}")
        self._live.advance(self._task)
