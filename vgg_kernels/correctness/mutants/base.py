"""What every wrong network starts from: a right one.

A mutant is ``Emulation`` with one step overridden, so it has its tier's true rounding wherever it is not wrong. It
offers no trace: the gate has to find it by its logits and by what it does to memory.
"""

import torch
from torch import Tensor

from ...workload.network import Layer, Network
from ...workload.reference import Reference
from ..emulation import Emulation


class Mutant(Emulation):
    """A wrong network. A subclass overrides one step; its docstring is its intent."""

    claims = "fp16"
    arithmetic = ""  # the tier that it really computes in, where that is not what it claims
    trace = None  # type: ignore[assignment]  # unlike its base, a mutant cannot be traced

    def __init__(self, reference: Reference):
        super().__init__(reference, self.arithmetic or self.claims)

    @classmethod
    def differs(cls, network: Network) -> bool:
        """False on a network where the mistake changes nothing, so that there is nothing to find."""
        return True

    def at(self, layer: Layer, where: str) -> bool:
        """True for the one layer that is wrong: "first", "middle" (a convolution) or "last" of the convolutions."""
        convs = self.network.convs
        return layer == {"first": convs[0], "middle": convs[len(convs) // 2], "last": convs[-1]}[where]

    def run(self, x: Tensor) -> Tensor:
        """The logits, layer by layer, with whatever a subclass overrides."""
        return super().trace(x)[self.network.layers[-1].name]

    def forward(self, x: Tensor) -> Tensor:
        """``[N, 3, image, image]`` to ``[N, classes]``."""
        return self.run(x)


def swapped(size: int, a: int, b: int) -> Tensor:
    """The numbers below ``size`` in order, but for two."""
    order = torch.arange(size)
    order[a], order[b] = b, a
    return order
