"""What it costs where tensor cores truncate the sums that they keep, emulated: why fp16x3 adds up outside of them.

NVIDIA does not document how tensor cores round. Fasi et al. (PeerJ Computer Science 7:e330, 2021) measured it on V100,
T4 and A100; Ootomo and Yokota (IJHPCA, 2022) found truncation to be what split products lose, and avoid it by adding
outside; triton-lang/triton#4603 reports the loss of Triton's own 3xTF32 against CUTLASS's. Nobody has measured it here.
Truncation is one-sided, so the loss of K products grows with K, where that of rounding to nearest grows with its root,
and so does the loss of L layers.
"""

import torch
from torch import Tensor
from torch.nn.functional import unfold

from ..workload.network import Conv, Layer
from ..workload.reference import Reference
from .emulation import LOW_SHIFT, Emulation, products, split

INSTRUCTION = 16  # products that one fp16 instruction adds to each sum
STEP = 64  # of each operand, in one step of our main loops


def truncated(x: Tensor) -> Tensor:
    """fp64 values cut to fp32's 24 bits, towards zero; as fp64."""
    nearest = x.float()
    away = nearest.double().abs() > x.abs()
    return (nearest.view(torch.int32) - away.int()).view(torch.float32).double()


def sum_products(a: Tensor, b: Tensor, *, truncating: bool, outer: int = 0) -> Tensor:
    """``a @ b.T`` as tensor cores add it up: fp32 sums, ``INSTRUCTION`` products at a time.

    Args:
        a: ``[M, K]`` fp64, of exact operands.
        b: ``[N, K]`` fp64.
        truncating: cut each sum as ``truncated`` does; else round it to nearest.
        outer: products after which a sum is added, rounded to nearest, to one outside; 0 keeps all of K inside.

    Returns:
        ``[M, N]`` fp64 values on fp32's grid.
    """
    kept = truncated if truncating else lambda x: x.float().double()
    outside = torch.zeros(len(a), len(b), dtype=torch.float64)
    inside = outside.clone()
    for k in range(0, a.shape[1], INSTRUCTION):
        inside = kept(inside + a[:, k : k + INSTRUCTION] @ b[:, k : k + INSTRUCTION].T)
        if outer and (k + INSTRUCTION) % outer == 0:
            outside, inside = (outside + inside).float().double(), torch.zeros_like(inside)
    return (outside + inside).float().double()


class Truncating(Emulation):
    """fp16x3 on tensor cores that truncate the sums of its high halves; the cross products, 2^-11 as large, are exact.

    Args:
        reference: whose parameters are copied.
        outer: as of ``sum_products``.
        truncating: likewise; False rounds to nearest, in an order of its own and not the CPU library's.
    """

    def __init__(self, reference: Reference, outer: int, truncating: bool = True):
        super().__init__(reference, "fp16x3")
        self.outer, self.truncating = outer, truncating

    def multiply(self, layer: Layer, x: Tensor, weight: Tensor) -> Tensor:
        """The products; those of the first layer, 27 for each output, as ``Emulation`` has them."""
        if isinstance(layer, Conv) and layer.c_in < STEP:
            return super().multiply(layer, x, weight)
        (high, low), (weight_high, weight_low) = split(x), split(weight)
        cross = products(layer, high, weight_low) + products(layer, low, weight_high)
        rows = weight_high.flatten(1).double()
        if isinstance(layer, Conv):
            columns = (unfold(image[None].double(), 3, padding=1)[0].T for image in high)
            sums = [sum_products(rows, c, truncating=self.truncating, outer=self.outer) for c in columns]
            main = torch.stack(sums).view_as(cross)
        else:
            main = sum_products(high.flatten(1).double(), rows, truncating=self.truncating, outer=self.outer)
        return main.float() + cross / LOW_SHIFT
