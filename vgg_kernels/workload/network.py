"""The one layer table: VGG11, 13, 16 and 19 as frozen rows, from which everything else is derived.

Shapes are those of Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
Recognition" (arXiv:1409.1556), table 1, columns A, B, D and E.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt

from .lookup import lookup

TAPS = 9  # every convolution of a VGG is 3x3, stride 1, one pixel of zero padding
BLOCK_WIDTHS = (64, 128, 256, 512, 512)
CONVS_PER_BLOCK = {
    "vgg11": (1, 1, 2, 2, 2),
    "vgg13": (2, 2, 2, 2, 2),
    "vgg16": (2, 2, 3, 3, 3),
    "vgg19": (2, 2, 4, 4, 4),
}
REDUCTION = 2 ** len(BLOCK_WIDTHS)  # five 2x2 max-pools: the classifier sees image / 32


@dataclass(frozen=True)
class Conv:
    """A 3x3 convolution with bias and ReLU, and the 2x2 max-pool behind it where ``pooled``.

    ``height`` and ``width`` are those of its input, and of its output before the pool.
    """

    name: str
    key: str  # the prefix of its parameters in the state_dict: "features.0"
    c_in: int
    c_out: int
    height: int
    width: int
    pooled: bool

    @property
    def parameters(self) -> int:
        """Weights and biases, as a count of numbers."""
        return self.c_out * (TAPS * self.c_in + 1)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of one image's input."""
        return self.c_in, self.height, self.width

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of one image's output, behind the pool where there is one."""
        shrink = 2 if self.pooled else 1
        return self.c_out, self.height // shrink, self.width // shrink

    def flops(self, batch: int) -> int:
        """Operations of the products, a multiply and an add counted as two, padding included.

        Source: the convention of ``torch.utils.flop_counter``, against which a test holds it.
        """
        return 2 * batch * self.height * self.width * self.c_out * self.c_in * TAPS


@dataclass(frozen=True)
class Linear:
    """A fully connected layer with bias, and a ReLU behind it where ``relu``."""

    name: str
    key: str
    features_in: int
    features_out: int
    relu: bool

    @property
    def parameters(self) -> int:
        """Weights and biases, as a count of numbers."""
        return self.features_out * (self.features_in + 1)

    @property
    def input_shape(self) -> tuple[int]:
        """(features,) of one image's input."""
        return (self.features_in,)

    @property
    def output_shape(self) -> tuple[int]:
        """(features,) of one image's output."""
        return (self.features_out,)

    def flops(self, batch: int) -> int:
        """Operations of the products, a multiply and an add counted as two."""
        return 2 * batch * self.features_in * self.features_out


Layer = Conv | Linear


@dataclass(frozen=True)
class Network:
    """A VGG as a straight line of layers: ``image`` x ``image`` RGB in, ``classes`` logits out."""

    name: str
    image: int
    classes: int
    convs: tuple[Conv, ...]
    linears: tuple[Linear, ...]

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Every layer, in the order in which a batch meets them."""
        return (*self.convs, *self.linears)

    @property
    def parameters(self) -> int:
        """Weights and biases of the whole network (143,667,240 for VGG19)."""
        return sum(layer.parameters for layer in self.layers)

    def flops(self, batch: int) -> int:
        """Operations of one forward pass over ``batch`` images."""
        return sum(layer.flops(batch) for layer in self.layers)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter, by its name in the state_dict."""
        weights: dict[str, tuple[int, ...]]
        weights = {f"{conv.key}.weight": (conv.c_out, conv.c_in, 3, 3) for conv in self.convs}
        weights |= {f"{linear.key}.weight": (linear.features_out, linear.features_in) for linear in self.linears}
        return {
            name.replace("weight", part): shape if part == "weight" else shape[:1]
            for name, shape in weights.items()
            for part in ("weight", "bias")
        }

    def layer(self, name: str) -> Layer:
        """The layer of that name.

        Raises:
            UnknownName: naming the layers that exist.
        """
        return lookup("layer", name, {layer.name: layer for layer in self.layers})


def network(name: str = "vgg19", *, image: int = 224, classes: int = 1000) -> Network:
    """Build the layer table of one VGG.

    Args:
        name: "vgg11", "vgg13", "vgg16" or "vgg19".
        image: height and width of the input in pixels, a multiple of 32. The first classifier layer
            grows with it (512 * (image / 32)^2 inputs), as in KernelBench, which has no adaptive pool.
        classes: number of logits.

    Raises:
        UnknownName: for a network that is not a VGG of the table.
        ValueError: for an image size that five 2x2 pools do not divide, or no classes.
    """
    depths = lookup("network", name, CONVS_PER_BLOCK)
    if image < REDUCTION or image % REDUCTION:
        raise ValueError(f"image size {image} is not accepted: a positive multiple of {REDUCTION} is (five 2x2 pools)")
    if classes < 1:
        raise ValueError(f"{classes} classes are not accepted: at least 1 is")
    convs: list[Conv] = []
    index, c_in, size = 0, 3, image
    for block, (depth, width) in enumerate(zip(depths, BLOCK_WIDTHS, strict=True), start=1):
        for number in range(1, depth + 1):
            pooled = number == depth
            convs.append(Conv(f"conv{block}_{number}", f"features.{index}", c_in, width, size, size, pooled))
            index += 3 if pooled else 2  # convolution, ReLU and, at the end of a block, the pool
            c_in = width
        size //= 2
    widths = (c_in * size * size, 4096, 4096, classes)
    linears = tuple(
        Linear(f"fc{6 + i}", f"classifier.{3 * i}", widths[i], widths[i + 1], relu=i < 2)  # Linear, ReLU, Dropout
        for i in range(3)
    )
    return Network(name, image, classes, tuple(convs), linears)


def infer(shapes: Mapping[str, tuple[int, ...]]) -> Network:
    """The VGG whose state_dict has these shapes, by parameter name.

    Raises:
        ValueError: naming the first parameters that are missing, unexpected or of another shape.
    """
    weights = [shape for name, shape in shapes.items() if name.startswith("features.") and name.endswith(".weight")]
    guess = {sum(depths): name for name, depths in CONVS_PER_BLOCK.items()}.get(len(weights))
    first, last = shapes.get("classifier.0.weight", ()), shapes.get("classifier.6.weight", ())
    if guess is None or len(first) != 2 or len(last) != 2:
        raise ValueError(
            f"this state_dict ({len(shapes)} entries, {len(weights)} convolutions) fits no VGG; accepted: "
            f"{', '.join(f'{name} with {sum(depths)} convolutions' for name, depths in CONVS_PER_BLOCK.items())}, "
            "keys features.N.* and classifier.N.* as in KernelBench and torchvision"
        )
    side = isqrt(first[1] // BLOCK_WIDTHS[-1])
    built = network(guess, image=max(1, side) * REDUCTION, classes=last[0])
    wrong = [
        f"{name}: {tuple(shapes[name]) if name in shapes else 'missing'}, accepted {shape}"
        for name, shape in built.shapes().items()
        if tuple(shapes.get(name, ())) != shape
    ]
    wrong += [f"{name}: unexpected" for name in shapes if name not in built.shapes()]
    if wrong:
        raise ValueError(f"this state_dict does not fit {guess}: {'; '.join(wrong[:3])}")
    return built
