"""The public floor, reproduced and audited: 1.80 us is the time to read the input tensor, and nothing else.

KernelIndex, a public index of KernelBench runs, prints an "estimated floor" beside each record. For VGG19 at batch 10
on the H100 SXM, as read on 2026-11-29, it is the 6,021,120 input bytes over 3,350 GB/s. ``audit`` lists what that
leaves out.
"""

from dataclasses import dataclass

from ..workload.network import Network
from ..workload.precision import tier as find_tier
from .hardware import device as find_device
from .roofline import FP32_BYTES, input_bytes, layer_floors

# The fastest public run, torch.compile (inductor), batch 10: ScalingIntelligence/KernelBench level 3 problem 12,
# results/timing/H100_Modal and H100_PCIe_LambdaLabs, commit of 2026-03-05. A test holds them against data/reported.
RECORD_MS = {"h100_sxm": 2.43, "h100_pcie": 3.64}
RECORD_BATCH = 10


@dataclass(frozen=True)
class Parts:
    """What one forward needs at a tier, each part by itself, in microseconds at data-sheet rates.

    Attributes:
        tier: precision tier.
        parameters_us: reading every weight and bias once.
        activations_us: the bytes of layers' inputs and outputs that cross HBM.
        arithmetic_us: the operations.
        floor_us: layer by layer the larger of bytes and operations, summed: less than the sum of the parts.
    """

    tier: str
    parameters_us: float
    activations_us: float
    arithmetic_us: float
    floor_us: float


def public_floor_us(network: Network, device: str, batch: int) -> float:
    """The index's floor: the input's bytes over the card's memory bandwidth, in microseconds."""
    if batch < 1:
        raise ValueError(f"batch {batch} is not accepted: at least 1 is")
    return 1e6 * input_bytes(network, batch) / find_device(device).hbm_bytes_per_s


def record_ratio(network: Network, device: str, batch: int) -> float | None:
    """The public record over the public floor; None where no record of that network, card and batch is public."""
    if network.name != "vgg19" or network.image != 224 or batch != RECORD_BATCH or device not in RECORD_MS:
        return None
    return 1e3 * RECORD_MS[device] / public_floor_us(network, device, batch)


def audit(network: Network, device: str, batch: int, tiers: tuple[str, ...]) -> list[Parts]:
    """What the public floor leaves out, by tier.

    Args:
        network: the layer table.
        device: key of the card.
        batch: images.
        tiers: the precisions, each a row of its own.
    """
    bandwidth = find_device(device).hbm_bytes_per_s
    biases = sum(layer.output_shape[0] for layer in network.layers)
    weights = network.parameters - biases
    found = []
    for name in tiers:
        rows = layer_floors(network, name, device, batch)
        parameters = 1e6 * (weights * find_tier(name).operand_bytes + biases * FP32_BYTES) / bandwidth
        traffic, arithmetic = sum(row.traffic_us for row in rows), sum(row.arithmetic_us for row in rows)
        floor = sum(row.floor_us for row in rows)
        found.append(Parts(name, parameters, traffic - parameters, arithmetic, floor))
    return found
