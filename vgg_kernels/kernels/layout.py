"""Layouts in memory: padded channels-last activations and K-contiguous weights, in a tier's operands.

An activation is ``[N, H+1, W+1, C]`` with a zero last row and column that neighbours share: flat, as
``[N*(H+1)*(W+1), C]``, each tap of a 3x3 convolution is the same matrix shifted by ``(r-1)*(W+1) + (s-1)`` rows.
The last convolution's output, which the classifier reads, is dense: ``[N, H, W, C]``.
fp16x3 keeps two planes, the high and the low halves of every operand.
"""

from .backend import INTERPRETED  # isort: skip  (before triton)

from dataclasses import dataclass

import torch
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from ..workload.network import Conv, Layer
from ..workload.precision import Tier
from .numerics import LO_SCALE, storage

LARGEST_EXPONENT = {"fp16": 14, "fp16x3": 14, "fp8": 7}  # scaled weights lie in [2^e, 2^(e+1)), under the type's max
MAX_SHIFT = 110  # scales stay normal fp32 numbers


def planes(tier: Tier) -> int:
    """Arrays that hold one tensor's operands: two for fp16x3, else one."""
    return 2 if tier.products > 1 else 1


def encode(values: Tensor, tier: Tier) -> list[Tensor]:
    """fp32 or fp64 values rounded to the tier's operands, one tensor a plane; to nearest even, overflow not finite."""
    dtype, _ = storage(tier, interpreted=False)
    values = values.float()
    if tier.name == "tf32":
        bits = values.view(torch.int32)
        rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF
        return [torch.where(values.isnan(), bits, rounded).view(torch.float32)]
    if tier.name == "fp8":  # PyTorch saturates, infinities too; 464 is the last to round to e4m3's largest, 448
        values = torch.where(values.abs() <= 464, values, torch.nan)
    hi = values.to(dtype)
    if planes(tier) == 2:
        return [hi, ((values - hi.float()) * LO_SCALE.value).to(dtype)]
    return [hi.float() if INTERPRETED and storage(tier)[0] != dtype else hi]


def decode(stored: list[Tensor]) -> Tensor:
    """The fp32 values that planes of operands stand for."""
    value = stored[0].float()
    return value + stored[1].float() / LO_SCALE.value if len(stored) == 2 else value


@dataclass(frozen=True)
class Activation:
    """One layer's output in the tier's operands.

    Attributes:
        planes: ``[N, H + pad, W + pad, C]`` (or ``[N, features]``), one tensor a plane.
        pad: 1 with the shared zero row and column, 0 for what the classifier reads.
        exponent: the values stored are the true ones times 2^-exponent.
    """

    planes: list[Tensor]
    pad: int
    exponent: int = 0

    @classmethod
    def empty(cls, shape: tuple[int, ...], tier: Tier, device: torch.device, pad: int, exponent: int) -> "Activation":
        """Storage for ``[N, H, W, C]`` or ``[N, features]`` values; the padding is zero and no kernel changes it."""
        n, *space, c = shape
        full = (n, *(extent + pad for extent in space), c)
        dtype, _ = storage(tier)
        return cls([torch.zeros(full, dtype=dtype, device=device) for _ in range(planes(tier))], pad, exponent)

    def rows(self) -> list[Tensor]:
        """The flat view: every pixel, padding included, as a row of channels."""
        return [plane.view(-1, plane.shape[-1]) for plane in self.planes]

    def row_pairs(self) -> list[Tensor]:
        """``[N*(H + pad)/2, 2, W + pad, C]``: the rows of all images in pairs, an odd last one left out."""
        rows = [plane.flatten(0, 1) for plane in self.planes]
        return [row[: len(row) // 2 * 2].unflatten(0, (-1, 2)) for row in rows]

    def features(self) -> list[Tensor]:
        """The classifier's view: every image as one row."""
        return [plane.view(plane.shape[0], -1) for plane in self.planes]

    def values(self) -> Tensor:
        """The fp32 values, ``[N, C, H, W]`` or ``[N, features]``, a copy."""
        value = torch.ldexp(decode(self.planes), torch.tensor(self.exponent, device=self.planes[0].device))
        if value.ndim == 2:
            return value
        _, height, width, _ = value.shape
        return value[:, : height - self.pad, : width - self.pad].permute(0, 3, 1, 2).contiguous()


@dataclass(frozen=True)
class Packed:
    """One layer's weights as its kernel reads them.

    The epilogue computes ``relu(acc * alpha + beta)``: ``alpha`` undoes the power-of-two scales of weights and input
    and applies the output's, ``beta`` is the bias in the output's scale.

    Attributes:
        planes: ``[outputs, K]``, K contiguous, one tensor a plane.
        alpha: ``[outputs]`` fp32.
        beta: ``[outputs]`` fp32.
    """

    planes: list[Tensor]
    alpha: Tensor
    beta: Tensor


def channel_exponents(matrix: Tensor, tier: Tier) -> Tensor:
    """Per row of ``[outputs, K]``, the e with which ``row * 2^-e`` fills the tier's range; zero where it need not."""
    if tier.name not in LARGEST_EXPONENT:
        return torch.zeros(len(matrix), dtype=torch.int32, device=matrix.device)
    _, exponent = torch.frexp(matrix.double().abs().amax(1))  # largest = f * 2^exponent, 0.5 <= f < 1
    shift = (exponent - 1 - LARGEST_EXPONENT[tier.name]).clamp(-MAX_SHIFT, MAX_SHIFT)
    usable = torch.isfinite(matrix).all(1) & (matrix != 0).any(1)
    return torch.where(usable, shift, torch.zeros_like(shift)).int()


def pack(matrix: Tensor, bias: Tensor, tier: Tier, in_exponent: int, out_exponent: int) -> Packed:
    """Scale ``[outputs, K]`` per output by an exact power of two, round it to the tier, and prepare the epilogue."""
    exponents = channel_exponents(matrix, tier)
    scaled = torch.ldexp(matrix.double(), -exponents[:, None])
    one = torch.ones_like(bias, dtype=torch.float64)
    alpha = torch.ldexp(one, exponents + (in_exponent - out_exponent))
    beta = torch.ldexp(bias.double(), torch.tensor(-out_exponent, device=bias.device))
    return Packed([p.contiguous() for p in encode(scaled, tier)], alpha.float(), beta.float())


def weight_matrix(weight: Tensor, layer: Layer, source: Conv | None = None) -> Tensor:
    """A layer's weights as ``[outputs, K]`` in the order in which its kernel walks K.

    Convolutions: K = tap * C_in + channel. The stem, whose three channels fill no tile: K as PyTorch stores it,
    padded from 27 to 32. The first linear layer (``source`` is the convolution before it): PyTorch flattens
    channels first, our activation is channels-last, so its columns are permuted once here.
    """
    if isinstance(layer, Conv):
        if layer.c_in == 3:
            return torch.nn.functional.pad(weight.reshape(layer.c_out, -1), (0, 5))
        return weight.permute(0, 2, 3, 1).reshape(layer.c_out, -1)
    if source is None:
        return weight
    channels, height, width = source.output_shape
    grid = weight.view(layer.features_out, channels, height, width)
    return grid.permute(0, 2, 3, 1).reshape(layer.features_out, -1)


def descriptors(tensors: list[Tensor], block: list[int]) -> list[TensorDescriptor | None]:
    """Tensor descriptors of up to two planes, None for a plane that the tier does not have."""
    made: list[TensorDescriptor | None] = [TensorDescriptor.from_tensor(t, block) for t in tensors]
    return made + [None] * (2 - len(made))
