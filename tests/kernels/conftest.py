"""One layer at a time: operands, poisoned outputs, float64 and the budget of a tier's rounding.

Interpreted, a main-loop step costs two milliseconds and a CTA ten, so layers here are a few pixels large.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from vgg_kernels.kernels import conv3x3, linear, reduce, stem
from vgg_kernels.kernels.layout import LARGEST_EXPONENT, Activation, encode, pack, weight_matrix
from vgg_kernels.kernels.plan import Launch, conv_launches, linear_launch, plan, share_rows
from vgg_kernels.kernels.tiles import Tile
from vgg_kernels.workload.network import Conv, Layer, Linear, Network
from vgg_kernels.workload.precision import Tier, tier
from vgg_kernels.workload.weights import reference

CPU = torch.device("cpu")
ENOUGH = 100  # numbers among which independent roundings average
SMALLEST_NORMAL = {"fp16": 2.0**-14, "fp8": 2.0**-6}


@dataclass(frozen=True)
class Result:
    """What came and what should have come: ``got`` fp32, ``want`` float64, the raw output and the error allowed.

    ``allowed`` holds of each element: both operands and the result are off by at most the unit roundoff (a subnormal
    by as much as the smallest normal), and fp32 sums of K products by K * 2^-24.
    """

    got: Tensor
    want: Tensor
    allowed: Tensor
    planes: list[Tensor]
    launches: tuple[Launch, ...]

    @property
    def error(self) -> float:
        """Of the norm."""
        return float((self.got - self.want).norm() / self.want.norm())

    def check(self, budget: float) -> None:
        """Every element within what is allowed, and the norm of enough of them within ``budget``."""
        off = (self.got - self.want).abs()
        assert bool((off <= self.allowed).all()), f"worst element: {float((off / self.allowed).max()):.2f} of allowed"
        assert self.got.numel() < ENOUGH or self.error <= budget


def budget(tier: Tier, depth: int) -> float:
    """Of the norm: independent roundings, 0.41 u rms each, of two operands and a result make 0.71 u; one of them
    truncated would make 1 u, all 1.4 u. An fp32 sum of K products walks some sqrt(K) of its own roundings."""
    return 0.85 * tier.unit_roundoff + 0.3 * depth**0.5 * 2.0**-24


def _allowed(tier: Tier, x: Tensor, weight: Tensor, bias: Tensor, product: Callable, depth: int) -> Tensor:
    u, normal = tier.unit_roundoff, SMALLEST_NORMAL.get(tier.name, 0.0)
    largest = weight.abs().flatten(1).amax(1).view(-1, *[1] * (weight.ndim - 1))
    x = x.abs().clamp(min=normal)
    weight = weight.abs().maximum(largest * normal * 2.0 ** -LARGEST_EXPONENT.get(tier.name, 0))
    summed = product(x, weight, bias.abs())
    dropped = u if tier.products > 1 else 0.0  # the product of the two low halves
    return (2 * u + u * u + dropped + depth * 2.0**-24) * summed + u * summed.clamp(min=normal) + 2.0**-24 * summed


def launches(layer: Layer, tier: Tier, batch: int, tile: Tile | None, pad: int) -> tuple[Launch, ...]:
    """The plan's launches of one layer under a tile of our own (the stem has its one tile)."""
    if isinstance(layer, Linear):
        return (linear_launch(layer, tier, batch, tile),)
    if layer.c_in != 3:
        return tuple(conv_launches(layer, tier, batch, tile, pad))
    network = Network("case", layer.height, 1, (layer,), ())
    return plan(network, tier.name, batch)


def poisoned(shape: tuple[int, ...], tier: Tier, pad: int, exponent: int) -> Activation:
    activation = Activation.empty(shape, tier, CPU, pad, exponent)
    for plane in activation.planes:
        plane.fill_(float("nan"))
    return activation


def stored(x: Tensor, tier: Tier, exponent: int) -> Activation:
    """NCHW values as the padded activation that a layer before would have left."""
    n, c, height, width = x.shape
    activation = Activation.empty((n, height, width, c), tier, CPU, 1, exponent)
    for plane, part in zip(activation.planes, encode(x.permute(0, 2, 3, 1) * 2.0**-exponent, tier), strict=True):
        plane[:, :height, :width] = part
    return activation


def conv_operands(conv: Conv, batch: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """N(0, 1) pixels and bias, weights that keep the output near 1."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, conv.c_in, conv.height, conv.width, generator=generator)
    weight = torch.randn(conv.c_out, conv.c_in, 3, 3, generator=generator) / (9 * conv.c_in) ** 0.5
    return x, weight, torch.randn(conv.c_out, generator=generator)


def run_conv(
    conv: Conv, tier_name: str, batch: int, tile: Tile | None, *, pad: int = 1, seed: int = 0,
    operands: tuple[Tensor, Tensor, Tensor] | None = None, exponents: tuple[int, int] = (0, 0),
) -> Result:  # fmt: skip
    """One convolution (the stem where it has three channels) with everything it may leave unwritten poisoned."""
    found = tier(tier_name)
    x, weight, bias = operands or conv_operands(conv, batch, seed)
    packed = pack(weight_matrix(weight, conv), bias, found, *exponents)
    main, *second = made = launches(conv, found, batch, tile, pad)
    channels, height, width = conv.output_shape
    y = poisoned((batch, height, width, channels), found, pad, exponents[1])
    whole = poisoned((batch, conv.height, conv.width, channels), found, 1, exponents[1])
    shares = torch.full((main.tile.split_k * share_rows(conv, batch), channels), float("nan"))
    if main.kernel == "stem":
        stem.run(main, x, exponents[0], packed, whole if second else y)
    else:
        out = shares if main.tile.split_k > 1 else whole if second else y
        conv3x3.run(main, stored(x, found, exponents[0]), packed, out)
    for launch in second:
        reduce.run(launch, shares if main.tile.split_k > 1 else whole, packed, y)

    def product(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        out = F.relu(F.conv2d(x.double(), weight.double(), bias.double(), padding=1))
        return F.max_pool2d(out, 2) if conv.pooled else out

    allowed = _allowed(found, x, weight, bias, product, 9 * conv.c_in)
    return Result(y.values(), product(x, weight, bias), allowed, y.planes, made)


def run_linear(
    layer: Linear, tier_name: str, batch: int, tile: Tile, *, seed: int = 0,
    operands: tuple[Tensor, Tensor, Tensor] | None = None, calls: int = 1,
) -> Result:  # fmt: skip
    """One linear layer, its output and its shares poisoned, run ``calls`` times on the same workspace."""
    found = tier(tier_name)
    generator = torch.Generator().manual_seed(seed)
    x, weight, bias = operands or (
        torch.randn(batch, layer.features_in, generator=generator),
        torch.randn(layer.features_out, layer.features_in, generator=generator) / layer.features_in**0.5,
        torch.randn(layer.features_out, generator=generator),
    )
    (launch,) = launches(layer, found, batch, tile, 0)
    packed = pack(weight_matrix(weight, layer), bias, found, 0, 0)
    source = Activation([part.contiguous() for part in encode(x, found)], 0)
    arrived = torch.zeros(linear.output_tiles(launch), dtype=torch.int32)
    for _ in range(calls):
        shares = torch.full((linear.partial_size(launch),), float("nan"))
        if layer.relu:
            y = poisoned((batch, layer.features_out), found, 0, 0)
        else:
            y = torch.full((batch, layer.features_out), float("nan"))
        linear.run(launch, source, packed, y, shares, arrived)
    assert not arrived.any(), "the counters must be zero for the next launch"

    def product(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        out = F.linear(x.double(), weight.double(), bias.double())
        return F.relu(out) if layer.relu else out

    allowed = _allowed(found, x, weight, bias, product, layer.features_in)
    got, planes = (y.values(), y.planes) if layer.relu else (y, [y])
    return Result(got, product(x, weight, bias), allowed, planes, (launch,))


@pytest.fixture(scope="session")
def one():
    """Run one layer: ``one.conv``, ``one.linear``; ``one.operands``, ``one.budget``, ``one.launches``."""

    class One:
        conv = staticmethod(run_conv)
        linear = staticmethod(run_linear)
        operands = staticmethod(conv_operands)
        budget = staticmethod(lambda name, depth: budget(tier(name), depth))
        launches = staticmethod(launches)

    return One


@pytest.fixture(scope="session")
def narrow():
    """A VGG of 64 channels and 16 x 16 pixels, with and without pools: a fraction of a second interpreted."""
    convs = (
        Conv("conv1_1", "features.0", 3, 64, 16, 16, False),
        Conv("conv1_2", "features.2", 64, 64, 16, 16, True),
        Conv("conv2_1", "features.5", 64, 64, 8, 8, False),
        Conv("conv2_2", "features.7", 64, 64, 8, 8, True),
        Conv("conv3_1", "features.10", 64, 64, 4, 4, True),
    )
    sizes = ((256, 256), (256, 256), (256, 10))
    linears = tuple(Linear(f"fc{6 + i}", f"classifier.{3 * i}", *size, relu=i < 2) for i, size in enumerate(sizes))
    return Network("narrow", 16, 10, convs, linears)


@pytest.fixture(scope="session")
def alive(narrow):
    """Its reference with Kaiming weights in the classifier too, so that logits depend on every layer as much."""
    module = reference(narrow)
    generator = torch.Generator().manual_seed(3)
    for layer in narrow.linears:
        weight = module.get_submodule(layer.key).weight
        weight.copy_(torch.randn(weight.shape, generator=generator) * (2 / layer.features_in) ** 0.5)
    return module
