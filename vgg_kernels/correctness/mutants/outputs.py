"""Wrong outputs as a whole: no computation, images or logits mixed up, a layer too many."""

# ruff: noqa: D102  (a class's docstring is its intent; its one method is the base's)
import torch
import torch.nn.functional as F

from .base import BEYOND, WrongNetwork, swapped


class Zeros(WrongNetwork):
    """returns zeros"""

    def forward(self, x):
        return torch.zeros(len(x), self.network.classes, device=x.device)


class Constant(WrongNetwork):
    """returns the logits of a black image whatever comes"""

    depends_on_size = True

    def forward(self, x):
        return self.run(torch.zeros_like(x))


class LastBias(WrongNetwork):
    """returns the last layer's bias"""

    def forward(self, x):
        return self.bias(self.network.layers[-1]).repeat(len(x), 1)


class ReLUOnLogits(WrongNetwork):
    """applies a ReLU to the logits"""

    def run(self, x):
        return F.relu(super().run(x))


class LastClassesMissing(WrongNetwork):
    """leaves the last, ragged tile of logits at zero"""

    def run(self, x):
        y = super().run(x).clone()
        y[:, y.shape[1] - y.shape[1] % 128 :] = 0
        return y


class ColoursSwapped(WrongNetwork):
    """reads BGR"""

    depends_on_size = True

    def run(self, x):
        return super().run(x.flip(1))


class MirroredImage(WrongNetwork):
    """reads the image mirrored"""

    depends_on_size = True

    def run(self, x):
        return super().run(x.flip(3))


class ImagesSwapped(WrongNetwork):
    """swaps the outputs of two images"""

    depends_on_size = True

    def run(self, x):
        y = super().run(x)
        return y.index_select(0, swapped(len(x), 0, len(x) - 1))


class BatchIndexIgnored(WrongNetwork):
    """computes image 0 for every image"""

    depends_on_size = True

    def run(self, x):
        return super().run(x[:1]).repeat(len(x), 1)


class LastImageSkipped(WrongNetwork):
    """leaves the last image of an odd batch at zero"""

    group = BEYOND

    def run(self, x):
        y = super().run(x).clone()
        y[len(x) - len(x) % 2 :] = 0
        return y


class ImagesMixed(WrongNetwork):
    """scales by the whole batch's largest pixel when it rounds the images"""

    def run(self, x):
        step = x.abs().max() / 2**9
        return super().run((x / step).round() * step)


class LoneImageSpecial(WrongNetwork):
    """forgets the last bias where an image comes alone"""

    group = BEYOND

    def run(self, x):
        y = super().run(x)
        return y - self.bias(self.network.layers[-1]) if len(x) == 1 else y


class ImagesBeyondTenSkipped(WrongNetwork):
    """leaves every image after the tenth at zero"""

    group = BEYOND

    def run(self, x):
        y = super().run(x).clone()
        y[10:] = 0
        return y


class OtherBatchesZero(WrongNetwork):
    """is right for 1, 3 and 10 images, which are what checks use, and returns zeros for any other number"""

    group = BEYOND

    def run(self, x):
        return super().run(x) * (len(x) in (1, 3, 10))


class NegativePixelsZero(WrongNetwork):
    """takes negative pixels for zero, as if every image were one of KernelBench's"""

    group = BEYOND

    def run(self, x):
        return super().run(x.clamp_min(0))


class LoudPixelsClamped(WrongNetwork):
    """clamps pixels to what photographs have"""

    group = BEYOND

    def run(self, x):
        return super().run(x.clamp(-8, 8))


class DropoutApplied(WrongNetwork):
    """applies dropout before the last layer"""

    def layer(self, layer, x):
        return super().layer(layer, F.dropout(x, 0.5) if layer == self.network.layers[-1] else x)


class SoftmaxAdded(WrongNetwork):
    """returns probabilities"""

    def run(self, x):
        return super().run(x).softmax(1)
