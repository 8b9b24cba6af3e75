"""Data sheets of the devices, read from ``devices.toml``: one table a card, each figure with its source.

To add a card, add a table to that file; no code changes.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

from ..workload.lookup import UnknownName, lookup


@dataclass(frozen=True)
class Device:
    """One card's data-sheet figures (dense rates, no sparsity).

    Attributes:
        key: its name on the command line, "h100_sxm".
        title: its name in tables and figures.
        torch_names: what ``torch.cuda.get_device_name`` calls it.
        arch: compute capability as one number, 90 for sm_90.
        sms: streaming multiprocessors.
        clock_hz: the boost clock at which the tensor-core peaks are stated.
        max_clock_hz: the highest clock the card allows, at which the FMA peak is stated.
        peaks: FLOP/s by rate: "fp32" (FMA units), "tf32", "fp16" and "fp8" (tensor cores).
        hbm_bytes_per_s: memory bandwidth.
        hbm_bytes: memory size.
        l2_bytes: L2 cache size.
        shared_bytes_per_sm: shared memory that one SM's blocks can hold together.
        shared_bytes_per_block: the most that one block can ask for.
        sources: where each figure comes from, by the name of its field.
    """

    key: str
    title: str
    torch_names: tuple[str, ...]
    arch: int
    sms: int
    clock_hz: float
    max_clock_hz: float
    peaks: Mapping[str, float]
    hbm_bytes_per_s: float
    hbm_bytes: float
    l2_bytes: float
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    sources: Mapping[str, str]

    def clock_of(self, rate: str) -> float:
        """The clock in Hz at which the peak of ``rate`` is stated: FMA units clock higher than tensor cores."""
        return self.max_clock_hz if rate == "fp32" else self.clock_hz

    def flops_per_clock(self, rate: str) -> float:
        """Operations of one SM in one clock at its peak: 256 of fp32, 4096 of fp16 on Hopper.

        Raises:
            UnknownName: for a rate that the data sheet does not state.
        """
        return lookup("rate", rate, self.peaks) / (self.sms * self.clock_of(rate))


@cache
def devices() -> dict[str, Device]:
    """Every device of ``devices.toml``, by key.

    Raises:
        ValueError: a table lacks a figure or has one that is none; the message names it.
    """
    return parse(files(__package__).joinpath("devices.toml").read_text())


def parse(text: str) -> dict[str, Device]:
    """The devices of a text like ``devices.toml``; errors as ``devices`` raises them."""
    cards = {}
    wanted = {field.name for field in fields(Device)} - {"key"}
    for key, row in tomllib.loads(text).items():
        if set(row) != wanted:
            missing, unknown = sorted(wanted - set(row)), sorted(set(row) - wanted)
            raise ValueError(f"devices.toml, [{key}]: missing {missing}, unknown {unknown}; accepted: {sorted(wanted)}")
        cards[key] = Device(key=key, **{**row, "torch_names": tuple(row["torch_names"])})
    return cards


def device(key: str) -> Device:
    """The device of that key.

    Raises:
        UnknownName: naming the devices that the table has.
    """
    return lookup("device", key, devices())


def device_by_torch_name(name: str) -> Device:
    """The device that ``torch.cuda.get_device_name`` calls ``name``.

    Raises:
        UnknownName: never guesses; the message says how to add a card.
    """
    for candidate in devices().values():
        if name in candidate.torch_names:
            return candidate
    known = ", ".join(n for d in devices().values() for n in d.torch_names)
    raise UnknownName(
        f"no data sheet for the GPU {name!r}, so no floor and no prediction for it; known: {known}. "
        "To add it, add a table with its figures and their sources to vgg_kernels/floor/devices.toml"
    )
