"""Wrong networks that claim the tiers with the widest error bounds."""

# ruff: noqa: D102  (a class's docstring is its intent; its one method is the base's)
import torch

from ...workload.network import Conv
from ..emulation import products, round_fp8_weight
from .base import PRECISION, WrongNetwork


class TapsSwapped(WrongNetwork):
    """(swaps the taps above and below the middle of one convolution)"""

    convolution = 1

    def weight(self, layer):
        w = super().weight(layer)
        if layer != self.network.convs[self.convolution]:
            return w
        w = w.clone()
        w[..., 0, 1], w[..., 2, 1] = w[..., 2, 1].clone(), w[..., 0, 1].clone()
        return w


class TapsSwappedInFP8(TapsSwapped):
    """swaps two taps of the second convolution, in fp8"""

    claims, depends_on_size = "fp8", True


class TapsSwappedInBF16(TapsSwapped):
    """swaps two taps of the second convolution, in bf16"""

    claims = "bf16"


class TapsSwappedInTF32(TapsSwapped):
    """swaps two taps of the second convolution, in tf32"""

    claims = "tf32"


class ChannelBiasDropped(WrongNetwork):
    """(forgets the bias of one channel of one convolution)"""

    convolution, channel = -1, 5

    def bias(self, layer):
        b = super().bias(layer)
        if layer != self.network.convs[self.convolution]:
            return b
        b = b.clone()
        b[self.channel] = 0
        return b


class ChannelBiasDroppedInFP8(ChannelBiasDropped):
    """forgets the bias of one channel of the last convolution, in fp8"""

    claims, depends_on_size = "fp8", True


class ChannelBiasDroppedInBF16(ChannelBiasDropped):
    """forgets the bias of one channel of the last convolution, in bf16"""

    claims = "bf16"


class ChannelBiasDroppedInFP16x3(ChannelBiasDropped):
    """forgets the bias of one channel of the last convolution, in fp16x3"""

    claims = "fp16x3"


class E5M2CalledFP8(WrongNetwork):
    """rounds activations to e5m2's two mantissa bits, not to e4m3's three"""

    group, claims = PRECISION, "fp8"

    def multiply(self, layer, x, weight):
        return products(layer, x.to(torch.float8_e5m2).float(), round_fp8_weight(weight))


class FP8CalledBF16(WrongNetwork):
    """computes in fp8 and calls it bf16"""

    group, claims, arithmetic = PRECISION, "bf16", "fp8"


class BF16CalledTF32(WrongNetwork):
    """computes in bf16 and calls it tf32"""

    group, claims, arithmetic = PRECISION, "tf32", "bf16"


class LastRowDroppedInFP8(WrongNetwork):
    """leaves the last row of the second convolution's output at zero, in fp8"""

    claims = "fp8"

    def layer(self, layer, x):
        y = super().layer(layer, x)
        if isinstance(layer, Conv) and layer == self.network.convs[1]:
            y[:, :, -1] = 0
        return y
