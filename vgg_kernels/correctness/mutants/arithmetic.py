"""Arithmetic that is not what it claims, and numbers beyond the range or no numbers at all."""

# ruff: noqa: D102  (a class's docstring is its intent; its one method is the base's)
import torch

from ...workload.network import Conv
from ...workload.precision import TIERS
from ..emulation import LOW_SHIFT, ROUND, ROUND_WEIGHT, products, split
from .base import BEYOND, PRECISION, WrongNetwork


class FP8CalledFP16(WrongNetwork):
    """computes in fp8 and calls it fp16"""

    group = PRECISION
    arithmetic = "fp8"


class BF16CalledFP16(WrongNetwork):
    """computes in bf16 and calls it fp16"""

    group = PRECISION
    arithmetic = "bf16"


class TF32CalledFP32(WrongNetwork):
    """computes in tf32 and calls it fp32"""

    group = PRECISION
    claims, arithmetic = "fp32", "tf32"


class CrossProductMissing(WrongNetwork):
    """leaves one of fp16x3's three products out"""

    group = PRECISION
    claims = "fp16x3"

    def multiply(self, layer, x, weight):
        (high, low), (weight_high, _) = split(x), split(weight)
        return products(layer, high, weight_high) + products(layer, low, weight_high) / LOW_SHIFT


class FP16Accumulation(WrongNetwork):
    """accumulates in fp16, nine products at a time"""

    group = PRECISION

    def multiply(self, layer, x, weight):
        total = None
        x, depth = (x, 1) if isinstance(layer, Conv) else (x.flatten(1), 9)
        for a, w in zip(x.split(depth, dim=1), weight.split(depth, dim=1), strict=True):
            part = super().multiply(layer, a, w)
            total = (part if total is None else total + part).half().float()
        return total


class OneLayerInBF16(WrongNetwork):
    """(computes one layer in bf16)"""

    group = PRECISION
    where = ""

    def multiply(self, layer, x, weight):
        last = self.where == "classifier" and layer == self.network.layers[-1]
        if last or (self.where != "classifier" and self.at(layer, self.where)):
            return products(layer, ROUND["bf16"](x), ROUND_WEIGHT["bf16"](weight))
        return super().multiply(layer, x, weight)


class FirstLayerInBF16(OneLayerInBF16):
    """computes the first layer in bf16"""

    where = "first"


class MiddleLayerInBF16(OneLayerInBF16):
    """computes the middle convolution in bf16"""

    where = "middle"


class LastLayerInBF16(OneLayerInBF16):
    """computes the last layer of the classifier in bf16"""

    where = "classifier"


class Truncated(WrongNetwork):
    """truncates operands to 10 bits where fp16 rounds to nearest"""

    group = PRECISION

    def multiply(self, layer, x, weight):
        cut = [(t.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32) for t in (x, weight)]
        return products(layer, *cut)


class OverflowSaturates(WrongNetwork):
    """saturates at fp16's largest number where a finite one overflows"""

    group = BEYOND

    def multiply(self, layer, x, weight):
        largest = TIERS["fp16"].largest
        return super().multiply(layer, torch.where(torch.isfinite(x), x.clamp(-largest, largest), x), weight)


class InfinityClamped(WrongNetwork):
    """takes an infinite pixel for a large one"""

    group = BEYOND
    claims = "fp32"

    def run(self, x):
        return super().run(x.clamp(-1e9, 1e9))


class NaNSwallowed(WrongNetwork):
    """turns NaN into zero, as a max with zero does"""

    group = BEYOND

    def run(self, x):
        return super().run(torch.nan_to_num(x, nan=0.0))


class NaNSpreads(WrongNetwork):
    """lets one image's NaN into all"""

    group = BEYOND

    def run(self, x):
        return super().run(x + 0 * x.sum())
