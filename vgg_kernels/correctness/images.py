"""Images that find mistakes, and the strides in which they may come."""

from collections.abc import Callable
from math import log2

import torch
from torch import Tensor

from ..workload.inputs import draw
from ..workload.network import Network

REAL_KINDS = ("normal", "photographs", "uniform")
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
