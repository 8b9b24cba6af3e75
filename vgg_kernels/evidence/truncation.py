"""What it costs where tensor cores truncate the sums that they keep, emulated: why fp16x3 adds up outside of them.

NVIDIA does not document how tensor cores round. Fasi et al. (PeerJ Computer Science 7:e330, 2021) measured it on V100,
T4 and A100; Ootomo and Yokota (IJHPCA, 2022) found truncation to be what split products lose, and avoid it by adding
outside; triton-lang/triton#4603 reports the loss of Triton's own 3xTF32 against CUTLASS's. Nobody has measured it here.
Truncation is one-sided, so the loss of K products grows with K, where that of rounding to nearest grows with its root.
"""

import torch
from torch import Tensor

INSTRUCTION = 16  # products that one fp16 instruction adds to each sum


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
