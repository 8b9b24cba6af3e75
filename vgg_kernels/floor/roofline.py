"""The least time each layer can take: operations over a rate, bytes over a bandwidth, whichever is more.

Williams, Waterman and Patterson's roofline, once per layer. A floor has a name with five parts: the precision (a
tier), the algorithm, what stays on chip (the fusion), whose rates, and the device. Weights are cold: every parameter
crosses HBM once a forward pass. The network's floor is the sum over its stages, except under perfect fusion, where
stages overlap and only the larger of the two sums binds.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..workload.lookup import lookup
from ..workload.network import Conv, Layer, Network
from ..workload.precision import Tier
from ..workload.precision import tier as find_tier
from .algorithms import ALGORITHMS, Cost
from .hardware import Device
from .hardware import device as find_device
from .rates import RATES, Rates, at_clock

FP32_BYTES = 4  # the network takes and returns fp32 in every tier, and biases are fp32


@dataclass(frozen=True)
class LayerFloor:
    """One layer's floor.

    Attributes:
        layer: the layer's name.
        flops: operations of the products on the tier's units, all of the tier's products counted.
        instructions: instructions of the transforms on the FMA units (0 for direct convolution).
        bytes: bytes that cross HBM.
        arithmetic_us: what the operations take, in microseconds.
        traffic_us: what the bytes take, in microseconds.
    """

    layer: str
    flops: float
    instructions: float
    bytes: float
    arithmetic_us: float
    traffic_us: float

    @property
    def floor_us(self) -> float:
        """The larger of the two, in microseconds."""
        return max(self.arithmetic_us, self.traffic_us)

    @property
    def bound(self) -> str:
        """What binds: "arithmetic" or "hbm"."""
        return "arithmetic" if self.arithmetic_us >= self.traffic_us else "hbm"

    @property
    def intensity(self) -> float:
        """Operations per byte of HBM traffic; infinite where nothing crosses HBM."""
        return self.flops / self.bytes if self.bytes else float("inf")


def input_bytes(network: Network, batch: int) -> int:
    """Bytes of the network's fp32 input, ``[batch, 3, image, image]``."""
    return FP32_BYTES * batch * 3 * network.image**2


def activation_bytes(network: Network, layer: Layer, tier: Tier, batch: int) -> tuple[int, int]:
    """Bytes of a layer's input and of its output behind the pool; fp32 at the two ends of the network."""
    sizes = []
    for shape, end in ((layer.input_shape, network.layers[0]), (layer.output_shape, network.layers[-1])):
        count = batch
        for extent in shape:
            count *= extent
        sizes.append(count * (FP32_BYTES if layer is end else tier.operand_bytes))
    return sizes[0], sizes[1]


def _through_hbm(network: Network, layer: Layer, tier: Tier, batch: int, device: Device) -> int:
    return sum(activation_bytes(network, layer, tier, batch))


def _within_l2(network: Network, layer: Layer, tier: Tier, batch: int, device: Device) -> int:
    ends = (layer is network.layers[0], layer is network.layers[-1])
    sizes = activation_bytes(network, layer, tier, batch)
    return sum(size for size, end in zip(sizes, ends, strict=True) if end or size > device.l2_bytes)


def _on_chip(network: Network, layer: Layer, tier: Tier, batch: int, device: Device) -> int:
    read, written = activation_bytes(network, layer, tier, batch)
    return read * (layer is network.layers[0]) + written * (layer is network.layers[-1])


# Which activations cross HBM: all of them; those that do not fit L2 by themselves; only the network's two ends.
FUSIONS: dict[str, Callable[[Network, Layer, Tier, int, Device], int]] = {
    "layerwise": _through_hbm,
    "l2": _within_l2,
    "perfect": _on_chip,
}


def layer_floors(
    network: Network,
    tier: str,
    device: str,
    batch: int,
    *,
    algorithm: str = "direct",
    fusion: str = "layerwise",
    rates: str | Rates = "data-sheet",
) -> tuple[LayerFloor, ...]:
    """Each layer's floor, in the order of the network.

    Args:
        network: the layer table.
        tier: precision tier: it sets the rate, the products per operation and the bytes of an operand.
        device: key of the card.
        batch: images, at least 1.
        algorithm: of the convolutions, a name in ``ALGORITHMS``; classifier layers are matrix products throughout.
        fusion: which activations cross HBM, a name in ``FUSIONS``.
        rates: a name in ``RATES``, or rates of your own (a card's measured ones, say).

    Raises:
        UnknownName: for a name that is in none of the tables, or a rate that the rates lack.
        ValueError: for a batch below 1.
    """
    lookup("algorithm", algorithm, ALGORITHMS)
    if isinstance(rates, str):
        rates = lookup("rates", rates, RATES)(find_device(device))
    return tuple(
        min(_candidates(network, layer, tier, device, batch, (algorithm,), fusion, rates), key=_least)
        for layer in network.layers
    )


def _least(row: LayerFloor) -> tuple[float, float]:
    return row.floor_us, row.arithmetic_us  # among equals the one with fewer operations: it matters to their sum


def _candidates(
    network: Network, layer: Layer, tier: str, device: str, batch: int,
    algorithms: Iterable[str], fusion: str, rates: Rates,
) -> list[LayerFloor]:  # fmt: skip
    """One layer by each cost of each algorithm."""
    precision, card = find_tier(tier), find_device(device)
    if batch < 1:
        raise ValueError(f"batch {batch} is not accepted: at least 1 is")
    crossing = lookup("fusion", fusion, FUSIONS)(network, layer, precision, batch, card)
    crossing += FP32_BYTES * layer.output_shape[0]  # biases
    peak = rates.peak(precision.rate)
    rows = []
    for cost in _costs(layer, batch, algorithms):
        moved = crossing + (cost.weights + cost.intermediates) * precision.operand_bytes
        flops = precision.products * cost.flops
        products = flops / peak
        transforms = 2 * cost.transform_instructions / rates.peak("fp32") if cost.transform_instructions else 0.0
        # transforms run on the FMA units beside the tensor cores; the fp32 tier has only the one kind of unit
        arithmetic = products + transforms if precision.rate == "fp32" else max(products, transforms)
        traffic = moved / rates.hbm_bytes_per_s
        rows.append(LayerFloor(layer.name, flops, cost.transform_instructions, moved, 1e6 * arithmetic, 1e6 * traffic))
    return rows


def _costs(layer: Layer, batch: int, algorithms: Iterable[str]) -> list[Cost]:
    if isinstance(layer, Conv):
        return [cost for name in algorithms for cost in ALGORITHMS[name](layer, batch)]
    return [Cost(layer.flops(batch), weights=layer.features_in * layer.features_out)]


def total_us(rows: tuple[LayerFloor, ...], fusion: str) -> float:
    """The network's floor from its layers', in microseconds: a sum of stages, or of overlapping resources."""
    if fusion == "perfect":
        return max(sum(row.arithmetic_us for row in rows), sum(row.traffic_us for row in rows))
    return sum(row.floor_us for row in rows)


def floor_us(network: Network, tier: str, device: str, batch: int, **named) -> float:
    """The network's floor in microseconds; keywords as in ``layer_floors``, by default stage by stage."""
    return total_us(layer_floors(network, tier, device, batch, **named), named.get("fusion", "layerwise"))


def turning_batch(network: Network, tier: str, device: str, layer: str, **named) -> int | None:
    """The smallest batch of 1 to 256 at which a layer is bound by arithmetic; None where none is."""
    position = [row.name for row in network.layers].index(network.layer(layer).name)
    for batch in range(1, 257):
        if layer_floors(network, tier, device, batch, **named)[position].bound == "arithmetic":
            return batch
    return None


def lowest(network: Network, tier: str, device: str, batch: int) -> tuple[float, float]:
    """Sums over the layers of the least operations' and the least bytes' time, in microseconds.

    Each is the least of every algorithm by itself, every activation on chip, the card at its highest clock; the
    larger is under every floor that this module can name.
    """
    card = find_device(device)
    rates = at_clock(card, card.max_clock_hz)
    choices = [
        _candidates(network, layer, tier, device, batch, ALGORITHMS, "perfect", rates) for layer in network.layers
    ]
    arithmetic = sum(min(row.arithmetic_us for row in rows) for rows in choices)
    return arithmetic, sum(min(row.traffic_us for row in rows) for rows in choices)


def impossible(time_ms: float, network: Network, tier: str, device: str, batch: int) -> str | None:
    """Why a time cannot be true, or None where it can. A slower claim is not thereby true.

    The bar is ``lowest``: no algorithm, fusion or clock that this module knows of goes under it.

    Raises:
        UnknownName: for a tier or device that is not in the tables.
        ValueError: for a batch below 1, or a time that is not a positive number.
    """
    if not 0 < time_ms < float("inf"):
        raise ValueError(f"time {time_ms} ms is not accepted: a positive number is")
    arithmetic, traffic = lowest(network, tier, device, batch)
    if 1e3 * time_ms >= max(arithmetic, traffic):
        return None
    card = find_device(device)
    if arithmetic >= traffic:
        reason = f"what the cheapest algorithm of each layer multiplies, at {card.max_clock_hz / 1e6:.0f} MHz"
    else:
        reason = f"reading every {tier} weight once, at {card.hbm_bytes_per_s / 1e12:g} TB/s"
    return (
        f"{1e3 * time_ms:.1f} us is under the lowest {tier} floor of {network.name} at batch {batch} on {card.title}, "
        f"{max(arithmetic, traffic):.1f} us: {reason}"
    )
