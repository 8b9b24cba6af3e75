"""The bits that a card must print, and where the first ones differ if it prints others."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..kernels.forward import Forward
from ..kernels.model import DEFAULT_DEVICE
from ..workload.inputs import draw
from ..workload.network import Network
from ..workload.reference import Reference
from ..workload.weights import reference
from .execute import ExecutedVGG, run, sha256, stored
from .group import Options
from .launch import launching

SEED = 0
SHOWN = 4  # logits printed in full


def predict(tier: str, network: Network, batch: int) -> dict[str, Any]:
    """Digests of every layer's output and of the logits, for the "dyadic" weights and images of ``SEED``."""
    x = draw(network, batch, "dyadic", SEED)
    found = run(reference(network, "dyadic", SEED), network, tier, x)
    assert found.logits is not None
    return {
        "evidence": "executed",
        "tier": tier,
        "network": network.name,
        "image": network.image,
        "batch": batch,
        "seed": SEED,
        "relative_error": found.relative_error,
        "hazards": sum(launch.executed.report.hazards.total() for launch in found.launches),
        "logits_sha256": sha256(found.logits),
        "logits": [float(value).hex() for value in found.logits.flatten()[:SHOWN]],
        "layers": {name: sha256(*planes) for name, planes in found.stored.items()},
    }


@dataclass(frozen=True)
class Difference:
    """The first place where a card's output is not what the executed code gives on the card's own input.

    Attributes:
        layer: the first layer that differs.
        plane: 0, or 1 for fp16x3's low halves.
        index: (image, row, column, channel) or (image, feature).
        card: the card's value.
        executed: the emulator's.
        elements: how many of the layer's differ.
    """

    layer: str
    plane: int
    index: tuple[int, ...]
    card: float
    executed: float
    elements: int

    def __str__(self) -> str:
        place = ", ".join(map(str, self.index))
        return (
            f"{self.layer}: {self.elements} values differ, the first at [{place}] of plane {self.plane}: "
            f"{self.card!r} on the card, {self.executed!r} executed"
        )


def first_difference(
    module: Reference,
    network: Network,
    tier: str,
    x: Tensor,
    card: Mapping[str, list[Tensor]],
    *,
    exponents: Mapping[str, int],
    device_key: str = DEFAULT_DEVICE,
    options: Options = Options(),  # noqa: B008 - frozen
) -> Difference | None:
    """Execute each layer on the card's own input and compare its output bit by bit.

    Args:
        module: the weights.
        network: its layer table.
        tier: precision tier.
        x: the images, on the CPU.
        card: each layer's output as it lay in the card's memory (``execute.stored``), on the CPU.
        exponents: the card's model's.
        device_key: the card whose tiles were used.
        options: arithmetic and effects.
    """
    model = ExecutedVGG.from_reference(module, tier)
    assert isinstance(model, ExecutedVGG)
    model.exponents = dict(exponents)
    model.launcher.options = options
    _, packed = model.prepare(x)
    forward = Forward(network, model.tier, len(x), torch.device("cpu"), device_key, exponents)
    for layer in network.layers:
        with launching(model.launcher):
            for launch in forward.launches:
                if launch.layer == layer.name:
                    forward.launch(launch, x, packed[layer.name])
        for number, (mine, theirs) in enumerate(zip(stored(forward, layer.name), card[layer.name], strict=True)):
            raw = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[mine.element_size()]
            differs = mine.view(raw) != theirs.view(raw)
            if differs.any():
                at = tuple(int(i) for i in differs.nonzero()[0])
                return Difference(layer.name, number, at, float(theirs[at]), float(mine[at]), int(differs.sum()))
            mine.copy_(theirs)
    return None
