"""Wrong answers as a whole: no computation, images or logits mixed up, a layer too many."""

# ruff: noqa: D102  (a mutant's class docstring is its intent; its one method is the base's)
import torch
import torch.nn.functional as F

from .base import Mutant, swapped


class Zeros(Mutant):
    """returns zeros"""

    def forward(self, x):
        return torch.zeros(len(x), self.network.classes, device=x.device)


class Constant(Mutant):
    """returns the logits of a black image whatever comes"""

    def forward(self, x):
        return self.run(torch.zeros_like(x))


class LastBias(Mutant):
    """returns the last layer's bias"""

    def forward(self, x):
        return self.bias(self.network.layers[-1]).repeat(len(x), 1)


class ReLUOnLogits(Mutant):
    """applies a ReLU to the logits"""

    def run(self, x):
        return F.relu(super().run(x))


class LastClassesMissing(Mutant):
    """leaves the last, ragged tile of logits at zero"""

    def run(self, x):
        y = super().run(x).clone()
        y[:, y.shape[1] - y.shape[1] % 128 :] = 0
        return y


class ColoursSwapped(Mutant):
    """reads BGR"""

    def run(self, x):
        return super().run(x.flip(1))


class MirroredImage(Mutant):
    """sees the image mirrored"""

    def run(self, x):
        return super().run(x.flip(3))


class ImagesSwapped(Mutant):
    """swaps the outputs of two images"""

    def run(self, x):
        y = super().run(x)
        return y.index_select(0, swapped(len(x), 0, len(x) - 1))


class BatchIndexIgnored(Mutant):
    """computes image 0 for every image"""

    def run(self, x):
        return super().run(x[:1]).repeat(len(x), 1)


class LastImageSkipped(Mutant):
    """leaves the last image of an odd batch at zero"""

    def run(self, x):
        y = super().run(x).clone()
        y[len(x) - len(x) % 2 :] = 0
        return y


class ImagesMixed(Mutant):
    """scales by the whole batch's largest pixel when it rounds the images"""

    def run(self, x):
        step = x.abs().max() / 2**9
        return super().run((x / step).round() * step)


class LoneImageSpecial(Mutant):
    """forgets the last bias where an image comes alone"""

    def run(self, x):
        y = super().run(x)
        return y - self.bias(self.network.layers[-1]) if len(x) == 1 else y


class ImagesBeyondTenSkipped(Mutant):
    """leaves every image behind the tenth at zero"""

    def run(self, x):
        y = super().run(x).clone()
        y[10:] = 0
        return y


class OtherBatchesZero(Mutant):
    """is right for 1, 3 and 10 images, which are what a checker asks, and returns zeros for any other number"""

    def run(self, x):
        return super().run(x) * (len(x) in (1, 3, 10))


class NegativePixelsZero(Mutant):
    """takes negative pixels for zero, as if every image were one of KernelBench's"""

    def run(self, x):
        return super().run(x.clamp_min(0))


class LoudPixelsClamped(Mutant):
    """clamps pixels to what photographs have"""

    def run(self, x):
        return super().run(x.clamp(-8, 8))


class DropoutApplied(Mutant):
    """applies dropout in front of the last layer"""

    def layer(self, layer, x):
        return super().layer(layer, F.dropout(x, 0.5) if layer == self.network.layers[-1] else x)


class SoftmaxAdded(Mutant):
    """returns probabilities"""

    def run(self, x):
        return super().run(x).softmax(1)
