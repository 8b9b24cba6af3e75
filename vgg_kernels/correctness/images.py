"""Images that find mistakes, the strides in which they may come, and integer weights that no tier rounds."""

from collections.abc import Callable
from math import log2

import torch
from torch import Tensor

from ..workload.inputs import draw
from ..workload.network import Conv, Network
from ..workload.reference import Reference
from .emulation import epilogue, products

REAL_KINDS = ("normal", "photographs", "uniform")
LARGEST_INTEGER = 16.0  # up to it e4m3, and so every tier, holds each integer
CONV_TERMS, LINEAR_TERMS = 4, 8
DUSK = 2.0**-3  # the light on the far side of a side-lit image, of that on the near side


def one_hot(network: Network, batch: int, value: float) -> Tensor:
    """Black images with one lit pixel each: corners, borders, the middle; the last of a full batch stays black.

    A tap that reads across the border, or a row that bleeds into the next, moves the pixel.
    """
    end, middle = network.image - 1, network.image // 2
    places = [(0, 0), (end, end), (0, end), (end, 0), (0, middle), (middle, end), (end, middle), (middle, 0)]
    places.append((middle, middle))
    x = torch.zeros(batch, 3, network.image, network.image)
    for i, (row, column) in zip(range(batch), places, strict=False):
        x[i, i % 3, row, column] = value
    return x


def mixed(network: Network, batch: int, seed: int) -> Tensor:
    """Images of every real kind in turn, all different."""
    drawn = [draw(network, batch, kind, seed + i) for i, kind in enumerate(REAL_KINDS)]
    return torch.stack([drawn[i % len(drawn)][i] for i in range(batch)])


def side_lit(x: Tensor, light: float, *, other_side: bool = False) -> Tensor:
    """Images ``[N, 3, H, W]`` times ``light`` at their left edge, falling evenly in octaves to ``DUSK`` of it."""
    falling = torch.exp2(torch.linspace(log2(light), log2(light * DUSK), x.shape[3], device=x.device))
    return x * (falling.flip(0) if other_side else falling)


def integer_images(network: Network, batch: int, seed: int) -> Tensor:
    """Images of integers from -8 to 8, ``[batch, 3, image, image]`` fp32."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-8, 9, (batch, 3, network.image, network.image), generator=generator).float()


@torch.no_grad()
def integer_weights(network: Network, x: Tensor, seed: int) -> Reference:
    """A reference of weights -1, 0 and 1, whose activations on ``x`` are integers from 0 to ``LARGEST_INTEGER``.

    Every tier holds these operands exactly and every order of summation gives the same sums, so all tiers have equal
    logits, on any machine. Each output channel adds and subtracts a few inputs, and each input is read several times,
    so that a wrong tap or bias reaches the logits. Biases, none of them zero, centre each channel on its median.

    Args:
        network: the network.
        x: of ``integer_images``.
        seed: of the weights.
    """
    generator = torch.Generator().manual_seed(seed)
    model = Reference(network).eval().requires_grad_(False)
    y = x
    for layer in network.layers:
        weight, bias = (model.get_parameter(f"{layer.key}.{part}") for part in ("weight", "bias"))
        rows, inputs = weight.shape[0], weight.shape[1]
        terms = CONV_TERMS if isinstance(layer, Conv) else max(LINEAR_TERMS, 2 * inputs // rows)
        repeats = -(-rows // inputs)
        flat = weight.zero_().view(rows, inputs, -1)
        for term in range(terms):
            channels = torch.cat([torch.randperm(inputs, generator=generator) for _ in range(repeats)])[:rows]
            taps = torch.randint(flat.shape[2], (rows,), generator=generator)
            flat[torch.arange(rows), channels, taps] = 1.0 - 2.0 * (term % 2)
        sums = products(layer, y, weight)
        lines = sums.transpose(0, 1).flatten(1)
        offset = torch.randint(1, 4, (rows,), generator=generator).float()
        largest = LARGEST_INTEGER - lines.amax(1)
        centred = torch.minimum(offset - lines.median(1).values, largest)
        bias.copy_(torch.where(centred == 0, torch.where(largest > 0, 1.0, -1.0), centred))
        y = epilogue(layer, sums, bias)
    return model


def _slice(x: Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> Tensor:
    """Every other image of a batch, from the second on."""
    wide = torch.full((2 * len(x), *x.shape[1:]), 7.0, device=x.device).contiguous(memory_format=memory_format)
    wide[1::2] = x
    return wide[1::2]


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "strided slice": _slice,
    "channels_last slice": lambda x: _slice(x, torch.channels_last),
    "expanded": lambda x: x[:1].expand_as(x),
}
