"""How a command answers: a readable table, or one JSON document on stdout and nothing else."""

import json
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


def print_json(document: dict) -> None:
    """Write ``document`` to stdout as strict JSON (no NaN: a missing number is null)."""
    print(json.dumps(document, indent=2, allow_nan=False))


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "", spare: Sequence[str] = ()
) -> None:
    """Write a table to stdout; the first column is text, the others align right.

    Args:
        title: above the table.
        columns: their names.
        rows: one value a column.
        caption: below the table.
        spare: columns that a narrow terminal can do without, the first to go first. With these no cell is wrapped, and
            the caption names what was left out; without, long cells wrap.
    """
    console, texts = Console(soft_wrap=False), [[str(cell) for cell in row] for row in rows]
    left_out, unlimited = list[str](), console.options.update(max_width=1000)
    table = _table(columns, texts, wrap=not spare)
    for name in spare:
        if console.measure(table, options=unlimited).maximum <= console.width:
            break
        left_out.append(name)
        kept = [i for i, column in enumerate(columns) if column not in left_out]
        table = _table([columns[i] for i in kept], [[row[i] for i in kept] for row in texts], wrap=False)
    note = f"left out for want of width (--json has them): {', '.join(left_out)}" if left_out else ""
    table.title, table.caption = title, "\n".join(filter(None, (caption, note))) or None
    console.print(table)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], wrap: bool) -> Table:
    table = Table(title_justify="left", caption_justify="left")
    if not wrap:
        table.box, table.show_edge, table.pad_edge, table.padding = SIMPLE_HEAD, False, False, (0, 1, 0, 0)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=i == 0 or not wrap)
    for row in rows:
        table.add_row(*row)
    return table
