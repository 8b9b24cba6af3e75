"""The rates a floor is computed with: the data sheet's, the best published ones that we found, or a card's own.

Each choice gives another floor, so a floor carries the name of its rates.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ..workload.lookup import UnknownName, lookup
from .hardware import Device


@dataclass(frozen=True)
class Rates:
    """What bounds a layer.

    Attributes:
        name: "data sheet", "best published", "1.98 GHz" or "measured": it stands beside every floor.
        peaks: FLOP/s by rate ("fp32", "tf32", "fp16", "fp8").
        hbm_bytes_per_s: memory bandwidth in B/s.
        sources: where each figure comes from.
    """

    name: str
    peaks: Mapping[str, float]
    hbm_bytes_per_s: float
    sources: Mapping[str, str]

    def peak(self, rate: str) -> float:
        """FLOP/s of ``rate``.

        Raises:
            UnknownName: where these rates do not have it, naming those they have.
        """
        return lookup(f"rate among the {self.name!r} rates", rate, self.peaks)


def data_sheet(device: Device) -> Rates:
    """What the maker states. A floor by these is the least that the maker's own figures allow."""
    return Rates("data sheet", device.peaks, device.hbm_bytes_per_s, device.sources)


@cache
def _published() -> dict[str, dict]:
    return tomllib.loads(files(__package__).joinpath("achieved.toml").read_text())


def best_published(device: Device) -> Rates:
    """The best achieved rates that we found published for this card (``achieved.toml``), each with its source.

    Raises:
        UnknownName: for a card of whose memory bandwidth no achieved figure is known.
    """
    row = _published().get(device.key, {})
    if "hbm_bytes_per_s" not in row:
        known = ", ".join(key for key, value in _published().items() if "hbm_bytes_per_s" in value)
        raise UnknownName(f"no achieved bandwidth is published for {device.key!r}; it is for: {known}")
    return Rates("best published", row["peaks"], row["hbm_bytes_per_s"], row["sources"])


def at_clock(device: Device, clock_hz: float) -> Rates:
    """The data sheet's operations per clock at a clock that a card was sampled at; HBM has its own clock.

    Raises:
        ValueError: for a clock that the card does not reach.
    """
    if not 0 < clock_hz <= device.max_clock_hz:
        raise ValueError(
            f"clock {clock_hz / 1e6:g} MHz is not accepted for {device.key}: "
            f"above 0 and at most {device.max_clock_hz / 1e6:g} MHz is"
        )
    peaks = {rate: device.flops_per_clock(rate) * device.sms * clock_hz for rate in device.peaks}
    source = f"operations per clock of the data sheet at {clock_hz / 1e6:g} MHz"
    sources = {**dict.fromkeys(peaks, source), "hbm_bytes_per_s": device.sources["hbm_bytes_per_s"]}
    return Rates(f"{clock_hz / 1e9:g} GHz", peaks, device.hbm_bytes_per_s, sources)


RATES = {
    "data-sheet": data_sheet,
    "best-published": best_published,
    "highest-clock": lambda device: at_clock(device, device.max_clock_hz),
}
