"""Each tier's arithmetic in plain PyTorch: operands rounded to the tier, products summed in fp32.

It answers in seconds what error a tier must have at full size, on any machine, with no kernel involved: a second
opinion on the kernels, and the correct candidate that every mutant of ``mutants.py`` differs from by one line.
What it does not know is the order in which a tensor core adds.
"""

from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..workload.network import Conv, Layer
from ..workload.precision import tier
from ..workload.reference import Reference

LOW_SHIFT = 2.0**11  # fp16x3: the low half is stored times 2^11, so that it is as far from underflow as the high half
FP8_LARGEST = tier("fp8").largest


def round_tf32(x: Tensor) -> Tensor:
    """fp32 to the nearest tf32 (10 fraction bits, ties to even), still stored as fp32; NaN and infinity are kept."""
    bits = x.contiguous().view(torch.int32)
    nearest = (bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF
    return torch.where(torch.isfinite(x), nearest.view(torch.float32), x)


def round_fp8(x: Tensor) -> Tensor:
    """fp32 to the nearest e4m3, still stored as fp32; what rounds beyond 448 is NaN (the format has no infinity).

    PyTorch's own cast may saturate instead, and a saturated activation is a wrong finite number.
    """
    overflow = x.abs() > FP8_LARGEST * (1 + tier("fp8").unit_roundoff / 1.75)  # half a step above 448 = 1.75 * 2^8
    return x.to(torch.float8_e4m3fn).float().masked_fill(overflow, float("nan"))


def round_fp8_weight(weight: Tensor) -> Tensor:
    """e4m3 with one exact power-of-two scale per output channel, chosen so that the largest weight just fits."""
    largest = weight.abs().amax(dim=tuple(range(1, weight.dim())), keepdim=True)
    scale = torch.exp2(
        torch.floor(torch.log2(FP8_LARGEST / largest.clamp_min(2.0**-100)))
    )  # a zero channel has one too
    return round_fp8(weight * scale) / scale


ROUND = {
    "fp32": lambda x: x,
    "tf32": round_tf32,
    "fp16": lambda x: x.half().float(),
    "bf16": lambda x: x.bfloat16().float(),
    "fp8": round_fp8,
}
ROUND_WEIGHT = ROUND | {"fp8": round_fp8_weight}


def products(layer: Layer, x: Tensor, weight: Tensor) -> Tensor:
    """The layer's matrix products alone, no bias: ``[N, C, H, W]`` or ``[N, features]`` in, pre-bias sums out."""
    return F.conv2d(x, weight, padding=1) if isinstance(layer, Conv) else F.linear(x.flatten(1), weight)


def epilogue(layer: Layer, sums: Tensor, bias: Tensor) -> Tensor:
    """Bias, then ReLU and max-pool where the layer has them."""
    if isinstance(layer, Conv):
        y = F.relu(sums + bias.view(1, -1, 1, 1))
        return F.max_pool2d(y, 2) if layer.pooled else y
    return F.relu(sums + bias) if layer.relu else sums + bias


def split(x: Tensor) -> tuple[Tensor, Tensor]:
    """fp32 as two fp16 halves, ``x = high + low / LOW_SHIFT`` to 22 bits; both are returned stored as fp32."""
    high = x.half().float()
    return high, ((x - high) * LOW_SHIFT).half().float()


class Emulation(nn.Module):
    """The network in one tier's arithmetic; state_dict keys as the reference's.

    Every step of a layer is a method, so that a wrong network is a subclass that overrides one.

    Args:
        reference: whose parameters are copied.
        tier_name: "fp32", "fp16x3", "tf32", "fp16", "bf16" or "fp8".

    Raises:
        UnknownName: for a tier that does not exist.
    """

    def __init__(self, reference: Reference, tier_name: str):
        super().__init__()
        self.network = reference.network
        self.tier = tier(tier_name)
        self.features = deepcopy(reference.features)
        self.classifier = deepcopy(reference.classifier)

    def weight(self, layer: Layer) -> Tensor:
        """The layer's weight, ``[C_out, C_in, 3, 3]`` or ``[out, in]``, fp32."""
        return self.get_parameter(f"{layer.key}.weight")

    def bias(self, layer: Layer) -> Tensor:
        """The layer's bias, ``[C_out]``, fp32."""
        return self.get_parameter(f"{layer.key}.bias")

    def multiply(self, layer: Layer, x: Tensor, weight: Tensor) -> Tensor:
        """The products in the tier's arithmetic."""
        if self.tier.name == "fp16x3":
            (high, low), (weight_high, weight_low) = split(x), split(weight)
            cross = products(layer, high, weight_low) + products(layer, low, weight_high)
            return products(layer, high, weight_high) + cross / LOW_SHIFT
        return products(layer, ROUND[self.tier.name](x), ROUND_WEIGHT[self.tier.name](weight))

    def epilogue(self, layer: Layer, sums: Tensor, bias: Tensor) -> Tensor:
        """Bias, ReLU and pool, in fp32."""
        return epilogue(layer, sums, bias)

    def layer(self, layer: Layer, x: Tensor) -> Tensor:
        """One layer, from its input to what the next layer reads."""
        return self.epilogue(layer, self.multiply(layer, x, self.weight(layer)), self.bias(layer))

    def trace(self, x: Tensor) -> dict[str, Tensor]:
        """Every layer's output, by layer name, fp32."""
        outputs: dict[str, Tensor] = {}
        y = x
        with torch.no_grad():
            for layer in self.network.layers:
                y = outputs[layer.name] = self.layer(layer, y)
        return outputs

    def forward(self, x: Tensor) -> Tensor:
        """``[N, 3, image, image]`` fp32 to ``[N, classes]`` fp32."""
        return self.trace(x)[self.network.layers[-1].name]
