"""The time model's constants, read from ``constants.toml``: one table, each value with its unit and its source."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ..workload.lookup import UnknownName, lookup


@dataclass(frozen=True)
class Constant:
    """One value the model assumes.

    Attributes:
        name: "l2_bytes_per_clock".
        value: in ``unit``.
        unit: what it counts.
        source: where it comes from.
        taken_from: rows of data/reported it is read off, which are therefore no test of the model; "" where none.
    """

    name: str
    value: float
    unit: str
    source: str
    taken_from: str


@cache
def constants() -> dict[str, Constant]:
    """Every constant by name; a card's own are ``hbm.<card>.read``, ``hbm.<card>.copy``, ``loaded_clock_hz.<card>``."""
    tables = tomllib.loads(files(__package__).joinpath("constants.toml").read_text())
    memory, clocks = tables.pop("hbm"), tables.pop("loaded_clock_hz")
    flat = tables | {f"loaded_clock_hz.{card}": row for card, row in clocks.items()}
    flat |= {f"hbm.{card}.{kind}": {**row, "value": row[kind]} for card, row in memory.items() for kind in HBM_KINDS}
    return {
        name: Constant(name, row["value"], row["unit"], row["source"], row.get("from", ""))
        for name, row in flat.items()
    }


HBM_KINDS = ("read", "copy")


def constant(name: str) -> float:
    """The value of that name.

    Raises:
        UnknownName: naming the constants that exist.
    """
    return lookup("constant of the time model", name, constants()).value


def hbm_us(device_key: str, read_bytes: float, write_bytes: float) -> float:
    """Microseconds that a card's memory takes for a kernel's reads and writes.

    Reads go at the read rate. The copy rate counts a byte read and a byte written, so a written byte costs what is
    left of a copy: ``2 / copy - 1 / read``.

    Raises:
        UnknownName: for a card of which no rate is stored; it says where to add one.
    """
    if f"hbm.{device_key}.read" not in constants():
        known = ", ".join(sorted({name.split(".")[1] for name in constants() if name.startswith("hbm.")}))
        raise UnknownName(
            f"no achieved memory rate of {device_key!r}, so no prediction for it; known: {known}. "
            f"To add it, add a table [hbm.{device_key}] with its source to vgg_kernels/predict/constants.toml"
        )
    read, copy = (constant(f"hbm.{device_key}.{kind}") for kind in HBM_KINDS)
    return 1e6 * (read_bytes / read + write_bytes * (2 / copy - 1 / read))
