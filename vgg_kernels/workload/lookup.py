"""One way to look a name up, and one error that says what would have been accepted."""

from collections.abc import Mapping
from typing import TypeVar

Name = TypeVar("Name", str, int)
T = TypeVar("T")


class UnknownName(ValueError):
    """A name that is in none of our tables; the message lists the names that are."""


def lookup(kind: str, name: Name, table: Mapping[Name, T]) -> T:
    """Return ``table[name]``.

    Raises:
        UnknownName: naming the ``kind``, what came, and every accepted name.
    """
    if name in table:
        return table[name]
    raise UnknownName(f"unknown {kind} {name!r}; accepted: {', '.join(map(str, table))}")
