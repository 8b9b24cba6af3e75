"""One layer wrong: skipped, its taps, bias, ReLU, pool, padding, or the edge of a tile."""

# ruff: noqa: D102  (a class's docstring is its intent; its one method is the base's)
import torch
import torch.nn.functional as F

from ...workload.network import Conv
from ..emulation import epilogue
from .base import WrongNetwork, swapped


class WrongLayer(WrongNetwork):
    """(one layer is wrong, by how much depends on how many pixels it has)"""

    depends_on_size = True


class SkippedConvolution(WrongLayer):
    """skips the first convolution that keeps its shape"""

    def layer(self, layer, x):
        skipped = next(c for c in self.network.convs if c.output_shape == c.input_shape or c == self.network.convs[-1])
        shortcut = F.max_pool2d(x, 2) if layer == skipped and skipped.pooled else x
        return shortcut if layer == skipped else super().layer(layer, x)


class SkippedLinear(WrongLayer):
    """skips the second classifier layer"""

    def layer(self, layer, x):
        return x if layer == self.network.linears[1] else super().layer(layer, x)


class TapsTransposed(WrongLayer):
    """swaps rows and columns of the taps of the middle convolution"""

    def weight(self, layer):
        w = super().weight(layer)
        return w.transpose(2, 3) if self.at(layer, "middle") else w


class TapsFlipped(WrongLayer):
    """convolves instead of correlating"""

    def weight(self, layer):
        w = super().weight(layer)
        return w.flip(2, 3) if isinstance(layer, Conv) else w


class TapDropped(WrongLayer):
    """drops one tap of one convolution"""

    def weight(self, layer):
        w = super().weight(layer).clone()
        if self.at(layer, "middle"):
            w[..., 2, 2] = 0
        return w


class BiasDropped(WrongLayer):
    """forgets the bias of the middle convolution"""

    def bias(self, layer):
        return torch.zeros_like(super().bias(layer)) if self.at(layer, "middle") else super().bias(layer)


class BiasesSwapped(WrongLayer):
    """swaps the biases of the two hidden classifier layers"""

    def bias(self, layer):
        first, second = self.network.linears[:2]
        return super().bias({first: second, second: first}.get(layer, layer))


class BiasAfterReLU(WrongLayer):
    """adds the bias after the ReLU in the middle convolution"""

    def epilogue(self, layer, sums, bias):
        if self.at(layer, "middle"):
            y = F.relu(sums) + bias.view(1, -1, 1, 1)
            return F.max_pool2d(y, 2) if layer.pooled else y
        return epilogue(layer, sums, bias)


class ReLUMissing(WrongLayer):
    """leaves the ReLU of the middle convolution out"""

    def epilogue(self, layer, sums, bias):
        if self.at(layer, "middle"):
            y = sums + bias.view(1, -1, 1, 1)
            return F.max_pool2d(y, 2) if layer.pooled else y
        return epilogue(layer, sums, bias)


class AveragePool(WrongLayer):
    """averages instead of taking the maximum"""

    def epilogue(self, layer, sums, bias):
        if isinstance(layer, Conv) and layer.pooled:
            return F.avg_pool2d(F.relu(sums + bias.view(1, -1, 1, 1)), 2)
        return epilogue(layer, sums, bias)


class PoolOffByOne(WrongLayer):
    """starts the first pool's windows one pixel late"""

    def epilogue(self, layer, sums, bias):
        if layer == next(c for c in self.network.convs if c.pooled):
            y = F.relu(sums + bias.view(1, -1, 1, 1))
            return F.max_pool2d(F.pad(y, (0, 1, 0, 1))[..., 1:, 1:], 2)
        return epilogue(layer, sums, bias)


class PaddedWith(WrongLayer):
    """(pads the first convolution in another way than with zeros)"""

    mode = ""

    def multiply(self, layer, x, weight):
        if self.at(layer, "first"):
            padded = F.pad(x.half().float(), (1, 1, 1, 1), mode=self.mode)
            return F.conv2d(padded, weight.half().float())
        return super().multiply(layer, x, weight)


class EdgePadding(PaddedWith):
    """repeats the edge instead of padding with zeros in the first convolution"""

    mode = "replicate"


class WrapPadding(PaddedWith):
    """reads around the border in the first convolution"""

    mode = "circular"


class RowsBleed(WrongLayer):
    """has no zero column between rows: the right neighbour of a row's end is the next row's start"""

    def multiply(self, layer, x, weight):
        if not self.at(layer, "last"):
            return super().multiply(layer, x, weight)
        bled = F.pad(x.half().float(), (0, 1, 1, 1))
        bled[:, :, 1:-2, -1] = bled[:, :, 2:-1, 0]
        return F.conv2d(F.pad(bled, (1, 0)), weight.half().float())


class LastRowDropped(WrongLayer):
    """never writes the last row of the first convolution's output"""

    def layer(self, layer, x):
        y = super().layer(layer, x)
        if self.at(layer, "first"):
            y[:, :, -1] = 0
        return y


class LastColumnDropped(WrongLayer):
    """never writes the last column of the middle convolution's output"""

    def layer(self, layer, x):
        y = super().layer(layer, x)
        if self.at(layer, "middle"):
            y[:, :, :, -1] = 0
        return y


class CornerPixelDropped(WrongLayer):
    """never writes one corner pixel of the first convolution's output"""

    def layer(self, layer, x):
        y = super().layer(layer, x)
        if self.at(layer, "first"):
            y[:, :, -1, -1] = 0
        return y


class ChannelsSwapped(WrongLayer):
    """swaps two channels of the middle convolution's output"""

    def layer(self, layer, x):
        y = super().layer(layer, x)
        return y.index_select(1, swapped(y.shape[1], 0, 1)) if self.at(layer, "middle") else y


class LastChannelsIgnored(WrongLayer):
    """ends the K loop of the last convolution a sixteenth of the channels early"""

    def weight(self, layer):
        w = super().weight(layer).clone()
        if self.at(layer, "last"):
            w[:, -max(1, w.shape[1] // 16) :] = 0
        return w


class FlattenedChannelsLast(WrongLayer):
    """flattens the features channels-last for weights that are channels-first"""

    @classmethod
    def differs(cls, network):
        return network.convs[-1].output_shape[1:] != (1, 1)

    def layer(self, layer, x):
        return super().layer(layer, x.permute(0, 2, 3, 1).contiguous() if layer == self.network.linears[0] else x)
