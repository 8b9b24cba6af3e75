"""What the reported VGG times prove about the arithmetic behind them, and what they do not.

Three arguments, each from reported times and derived floors alone: a time under a floor excludes that floor's
arithmetic; the difference of two networks isolates the layers in which they differ; two cards give two ratios.
"""

from collections import Counter
from dataclasses import dataclass

from ..workload.network import Conv, Network
from .hardware import device as find_device
from .roofline import LayerFloor, layer_floors

ARITHMETICS = (
    ("fp32", "direct"),
    ("fp32", "winograd-2x2"),
    ("fp32", "winograd-4x4"),
    ("fp32", "fft"),
    ("tf32", "direct"),
    ("fp16", "direct"),
)


@dataclass(frozen=True)
class Reported:
    """A reported mean and the half width of its rounding, in milliseconds: 2.43 stands for 2.425 to 2.435."""

    mean_ms: float
    half_width_ms: float

    @classmethod
    def three_digits(cls, mean_ms: float) -> "Reported":
        """A figure that was rounded to three significant digits, as KernelBench stores its own."""
        digits = 0
        while mean_ms * 10**digits < 100:
            digits += 1
        return cls(mean_ms, 0.5 / 10**digits)

    def __sub__(self, other: "Reported") -> "Reported":
        return Reported(self.mean_ms - other.mean_ms, self.half_width_ms + other.half_width_ms)

    @property
    def longest_us(self) -> float:
        """The most that the figure can stand for, in microseconds."""
        return 1e3 * (self.mean_ms + self.half_width_ms)


@dataclass(frozen=True)
class Verdict:
    """One arithmetic held against one reported time.

    Attributes:
        tier: the arithmetic's precision.
        algorithm: of the convolutions.
        floor_us: the least it takes, at the card's highest clock.
        reported_us: the reported time, rounded up as far as its digits allow.
        excluded: whether the time is under the floor, so that this arithmetic alone cannot have made it.
    """

    tier: str
    algorithm: str
    floor_us: float
    reported_us: float

    @property
    def excluded(self) -> bool:
        """True where even the longest reading of the report is under the floor."""
        return self.reported_us < self.floor_us


def verdicts(
    reported: Reported, network: Network, device: str, batch: int, layers: set[str] | None = None
) -> list[Verdict]:
    """Each arithmetic against a reported time of the network, or of some of its layers.

    The bar is as low as it can be made: activations that fit stay in L2, and the card runs at its highest clock.
    """
    rows = []
    for tier, algorithm in ARITHMETICS:
        floors = layer_floors(
            network, tier, device, batch, algorithm=algorithm, fusion="l2", rates="highest-clock"
        )  # fmt: skip
        chosen = [floor for floor in floors if layers is None or floor.layer in layers]
        rows.append(Verdict(tier, algorithm, _sum(chosen), reported.longest_us))
    return rows


def _sum(floors: list[LayerFloor]) -> float:
    return sum(floor.floor_us for floor in floors)


def isolated(larger: Network, smaller: Network) -> tuple[str, ...]:
    """Layers that the larger network has beyond the smaller one, one for each shape that repeats more often.

    Pools are left out of the comparison: both networks pool five times behind the same shapes. The layer named is
    the last of its shape that does not pool.

    Raises:
        ValueError: where the smaller network has a layer that the larger one lacks.
    """
    counts, fewer = (Counter(_kind(layer) for layer in net.layers) for net in (larger, smaller))
    if fewer - counts:
        raise ValueError(f"{smaller.name} is not contained in {larger.name}: {fewer - counts} is missing there")
    names: list[str] = []
    for kind, extra in (counts - fewer).items():
        alike = [layer.name for layer in larger.layers if _kind(layer) == kind and not getattr(layer, "pooled", False)]
        names += alike[-extra:]
    return tuple(names)


def _kind(layer) -> tuple:
    if isinstance(layer, Conv):
        return layer.c_in, layer.c_out, layer.height, layer.width
    return layer.features_in, layer.features_out


@dataclass(frozen=True)
class Ratios:
    """How much slower one card is than another: as reported, and by what could bind, each as a ratio above 1."""

    reported: float
    tensor: float
    fma: float
    memory: float

    @property
    def mixed(self) -> bool:
        """True where the report lies strictly between what arithmetic and what memory alone would give."""
        low, high = sorted((self.tensor, self.memory))
        return low < self.reported < high


def card_ratios(slow: Reported, slow_device: str, fast: Reported, fast_device: str) -> Ratios:
    """The ratio of two cards' reported times beside those of their data sheets."""
    a, b = find_device(slow_device), find_device(fast_device)
    return Ratios(
        reported=slow.mean_ms / fast.mean_ms,
        tensor=b.peaks["tf32"] / a.peaks["tf32"],
        fma=b.peaks["fp32"] / a.peaks["fp32"],
        memory=b.hbm_bytes_per_s / a.hbm_bytes_per_s,
    )
