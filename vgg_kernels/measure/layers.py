"""Our layers one by one, inside the network: what comes before a layer runs untimed, then its launches alone."""

from collections.abc import Iterator

import torch
from torch import Tensor

from ..kernels.model import VGG
from ..workload.network import Network
from ..workload.reference import Reference, activations, relative_error
from .timed_call import Check, fill_images, mistaken


class LayerCall:
    """One layer of ours as a subject of timing; its input is what the layers before it made of fresh images.

    Args:
        model: ours.
        images: the static input of the network, ``[N, 3, image, image]`` fp32, on the model's device.
        layer: the layer's name.
    """

    def __init__(self, model: VGG, images: Tensor, layer: str):
        self.layer, self._images = layer, images
        self._forward, self._packed = model.prepare(images)
        launches = self._forward.launches
        self._mine = [launch for launch in launches if launch.layer == layer]
        self._before = launches[: launches.index(self._mine[0])]
        self._generator = torch.Generator(images.device)
        self._draw = 0
        self._outputs: list[Tensor] = []
        self._answers: list[Tensor] = []

    def _run(self, launches) -> None:
        for launch in launches:
            self._forward.launch(launch, self._images, self._packed[launch.layer])

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

    def repeat(self) -> None:
        """Take what the last call left in the buffer, then this layer's answers for its images and for those before."""
        self._outputs = [self._forward.values(self.layer)]
        self._answers = []
        for draw in (self._draw, self._draw - 1):
            self._write(draw)
            with torch.no_grad():
                self._run([*self._before, *self._mine])
            self._answers.append(self._forward.values(self.layer))

    def check(self, module: Reference, bound: float) -> Check:
        """The last call's output against the reference's for the same images, and against ``repeat``'s answers."""
        (output,), (own, other) = self._outputs, self._answers
        self._outputs, self._answers = [], []
        self._write(self._draw)
        want = activations(module, module.network, self._images, torch.float32)[self.layer]
        wrong = mistaken([output, other], [own, other])
        return Check(1, relative_error(output, want), bound, wrong)


def layer_calls(module: Reference, tier: str, batch: int) -> Iterator[LayerCall]:
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
        yield LayerCall(model, images, layer.name)
