"""How a command answers: a readable table, or one JSON document on stdout and nothing else."""

import json
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def print_json(document: dict) -> None:
    """Write ``document`` to stdout as strict JSON (no NaN: a missing number is null)."""
    print(json.dumps(document, indent=2, allow_nan=False))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> None:
    """Write a table to stdout; the first column is text, the others align right."""
    table = Table(title=title, caption=caption or None, title_justify="left", caption_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    Console(soft_wrap=False).print(table)
