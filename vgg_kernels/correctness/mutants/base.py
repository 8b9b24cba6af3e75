"""What every wrong network starts from: a right one.

A wrong network is ``Emulation`` with one step overridden, so it has its tier's true rounding wherever it is not wrong.
It has no trace: the gate has to find it by its logits and by what it does to memory.
"""

import torch
from torch import Tensor

from ...workload.network import Layer, Network
from ...workload.reference import Reference
from ..emulation import Emulation

CONTRACT, BEYOND, PRECISION, DISHONEST = "contract", "beyond", "precision", "dishonest"
GROUPS = {
    CONTRACT: "wrong logits on inputs that the benchmark itself runs",
    BEYOND: "right logits there, wrong on other inputs, batch sizes or weights, or in what they do to memory and state",
    PRECISION: "a coarser arithmetic than claimed",
    DISHONEST: "memoises, or attacks the check",
}


class WrongNetwork(Emulation):
    """A wrong network. A subclass overrides one step; its docstring is its intent."""

    group = CONTRACT
    depends_on_size = False  # whether a check's result may be another one for larger images
    claims = "fp16"
    arithmetic = ""  # the tier that it really computes in, where that is not what it claims
    trace = None  # type: ignore[assignment]  # unlike its base, it cannot be traced

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
