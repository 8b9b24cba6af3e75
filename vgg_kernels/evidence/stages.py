"""Our layers one by one, inside the network: what comes before a layer runs untimed, then its launches alone."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..kernels.model import VGG
from ..workload.network import Network
from ..workload.precision import TIERS
from ..workload.reference import Reference, activations, relative_error
from .subject import ROUNDINGS, SLACK, Check, fill_images


class Stage:
    """One layer of ours as a subject of timing; its input is what the layers before it made of fresh images.

    Args:
        model: ours.
        images: the static input of the network, ``[N, 3, image, image]`` fp32, on the model's device.
        layer: the layer's name.
    """

    def __init__(self, model: VGG, images: Tensor, layer: str):
        self.layer, self._images = layer, images
        self._forward, self._packed = model._prepare(images)
        launches = self._forward.launches
        self._mine = [launch for launch in launches if launch.layer == layer]
        self._before = launches[: launches.index(self._mine[0])]
        self._generator = torch.Generator(images.device)
        self._draw = 0

    def _run(self, launches) -> None:
        for launch in launches:
            self._forward._launch(launch, self._images, self._packed[launch.layer])

    def _write(self, draw: int) -> None:
        fill_images(self._images, self._generator.manual_seed(draw))

    def feed(self) -> None:
        """New images, taken through every layer before this one; this one's buffer still holds older images' output."""
        self._draw += 1
        self._write(self._draw)
        with torch.no_grad():
            self._run(self._before)

    def call(self) -> Tensor:
        """The layer's own launches. What is returned stands for an output; the layer's own stays in the workspace."""
        with torch.no_grad():
            self._run(self._mine)
        return self._forward.logits

    def keep(self, output: Tensor) -> None:
        """Nothing to copy: the buffer itself is compared after timing."""

    def check(self, module: Reference, tier: str) -> Check:
        """The last call's output against the reference's for the same images, and for those of the call before it."""
        values = self._forward.outputs.get(self.layer)
        got = self._forward.logits if values is None else values.values()
        errors = []
        for draw in (self._draw, self._draw - 1):
            self._write(draw)
            want = activations(module, module.network, self._images, torch.float32)[self.layer]
            errors.append(relative_error(got, want))
        bound = ROUNDINGS * TIERS[tier].unit_roundoff + SLACK
        return Check(1, errors[0], bound, mistaken=int(not errors[0] < errors[1]))


def stages(module: Reference, tier: str, batch: int) -> Iterator[Stage]:
    """Every layer of ours, in order, as a subject to time.

    Args:
        module: the fp32 reference, on the device.
        tier: precision tier of ours.
        batch: images.
    """
    network: Network = module.network
    model = VGG.from_reference(module, tier=tier)
    images = torch.zeros(batch, *network.convs[0].input_shape, device=next(module.parameters()).device)
    for layer in network.layers:
        yield Stage(model, images, layer.name)
