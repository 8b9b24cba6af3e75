"""Where a run's rows and notes go, and the one failure there that ends it."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import pandas as pd


class Writer(Protocol):
    """The part of ``ledger.RunWriter`` that the runner uses."""

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append sample rows, durably."""

    def note(self, kind: str, payload: object) -> None:
        """Append one finding, durably."""

    def samples(self) -> pd.DataFrame:
        """What the run holds so far."""


class OutputLost(RuntimeError):
    """The run's folder can no longer be written; what it holds stays.

    Attributes:
        kept: samples that it holds.
    """

    kept = 0


@contextmanager
def writing() -> Iterator[None]:
    """Tell the one failure that ends a run, that its folder cannot be written, from a variant's own.

    Raises:
        OutputLost: for an ``OSError`` within.
    """
    try:
        yield
    except OSError as error:
        raise OutputLost(f"the run's folder cannot be written: {error.strerror or error}") from error


class SafeWriter:
    """The writer, ``writing``."""

    def __init__(self, writer: Writer):
        self._writer = writer

    def append(self, rows: list[dict[str, Any]]) -> None:
        """As the writer's; ``OutputLost`` where its folder cannot be written."""
        with writing():
            self._writer.append(rows)

    def note(self, kind: str, payload: object) -> None:
        """As the writer's; ``OutputLost`` where its folder cannot be written."""
        with writing():
            self._writer.note(kind, payload)
