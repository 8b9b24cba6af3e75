"""Input generators: uniform as KernelBench draws it, and photographs that a well-kept package ships."""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from .lookup import lookup
from .network import Network

IMAGENET_MEAN = (0.485, 0.456, 0.406)  # torchvision's normalisation of natural images, per channel
IMAGENET_STD = (0.229, 0.224, 0.225)
PHOTOGRAPHS = ("astronaut", "cat", "coffee", "rocket")  # colour photographs inside scikit-image's wheel


def uniform(network: Network, batch: int, generator: torch.Generator) -> Tensor:
    """U[0, 1), ``[batch, 3, image, image]`` fp32: what KernelBench's ``get_inputs`` draws."""
    return torch.rand(batch, 3, network.image, network.image, generator=generator)


def normal(network: Network, batch: int, generator: torch.Generator) -> Tensor:
    """N(0, 1), ``[batch, 3, image, image]`` fp32: both signs, as normalised images have."""
    return torch.randn(batch, 3, network.image, network.image, generator=generator)


def dyadic(network: Network, batch: int, generator: torch.Generator) -> Tensor:
    """Bytes over 256, as images have them: ``[batch, 3, image, image]`` fp32, the same to the bit on every machine."""
    return torch.randint(256, (batch, 3, network.image, network.image), generator=generator) / 256


@cache
def _photograph(name: str) -> Tensor:
    from skimage import data  # imported here: a measuring machine without it still has the other inputs

    pixels = getattr(data, name)()
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255


def photographs(network: Network, batch: int, generator: torch.Generator) -> Tensor:
    """Random square crops of real photographs, ImageNet-normalised, ``[batch, 3, image, image]`` fp32."""
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
    images = []
    for i in range(batch):
        photo = _photograph(PHOTOGRAPHS[i % len(PHOTOGRAPHS)])
        side = min(photo.shape[1:])
        crop = int(torch.randint(side // 2, side + 1, (), generator=generator))
        top, left = (int(torch.randint(0, extent - crop + 1, (), generator=generator)) for extent in photo.shape[1:])
        square = photo[None, :, top : top + crop, left : left + crop]
        image = F.interpolate(square, (network.image, network.image), mode="bilinear", antialias=True)[0]
        images.append((image - mean) / std)
    return torch.stack(images)


KINDS = {"uniform": uniform, "normal": normal, "photographs": photographs, "dyadic": dyadic}


def draw(network: Network, batch: int, kind: str = "uniform", seed: int = 0) -> Tensor:
    """A fresh batch, ``[batch, 3, image, image]`` fp32 on the CPU, a function of its arguments alone.

    Raises:
        UnknownName: for a kind that is not in ``KINDS``.
        ValueError: for a batch below 1.
    """
    generate = lookup("kind of input", kind, KINDS)
    if batch < 1:
        raise ValueError(f"batch {batch} is not accepted: at least 1 is")
    return generate(network, batch, torch.Generator().manual_seed(seed))
