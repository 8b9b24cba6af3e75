"""The public floor, reproduced and audited: 1.80 us is the time to read the input tensor, and nothing else.

The public index of KernelBench runs prints an "estimated floor" beside each record. For VGG19 at batch 10 on the
H100 SXM it is the 6,021,120 input bytes over 3,350 GB/s. ``audit`` adds what that leaves out, one bar at a time.
"""

from dataclasses import dataclass

from ..workload.network import Network
from ..workload.precision import tier as find_tier
from .hardware import device as find_device
from .roofline import FP32_BYTES, floor_us, input_bytes

# The fastest public run, torch.compile (inductor), batch 10: ScalingIntelligence/KernelBench level 3 problem 12,
# results/timing/H100_Modal and H100_PCIe_LambdaLabs, commit of 2026-03-05. A test holds them against data/reported.
RECORD_MS = {"h100_sxm": 2.43, "h100_pcie": 3.64}
RECORD_BATCH = 10


@dataclass(frozen=True)
class Bar:
    """One step of the audit: what is added, and the floor once it is (microseconds)."""

    name: str
    added_us: float
    total_us: float


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


def audit(network: Network, device: str, batch: int, tiers: tuple[str, ...]) -> list[Bar]:
    """What the public floor leaves out, one bar at a time.

    Bytes first, in fp32 as the problem states them: input, output, parameters. Then the arithmetic of each tier, as
    the stage-wise floor of that tier: these bars are alternatives and each starts from the bytes.

    Args:
        network: the layer table.
        device: key of the card.
        batch: images.
        tiers: the precisions whose arithmetic is shown, each with its own bar.
    """
    bandwidth = find_device(device).hbm_bytes_per_s
    bars: list[Bar] = []
    total = 0.0
    pieces = {
        "input": input_bytes(network, batch),
        "output": FP32_BYTES * batch * network.classes,
        "parameters": FP32_BYTES * network.parameters,
    }
    for name, size in pieces.items():
        added = 1e6 * size / bandwidth
        total += added
        bars.append(Bar(name, added, total))
    for name in tiers:
        floor = floor_us(network, find_tier(name).name, device, batch)
        bars.append(Bar(f"{name} arithmetic", floor - total, floor))
    return bars
