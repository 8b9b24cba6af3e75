"""One forward pass for one batch size: its workspace, its launches in order, and on a GPU its CUDA graph."""

from collections.abc import Mapping
from contextlib import ExitStack
from math import prod

import torch
from torch import Tensor

from ..workload.network import Conv, Layer, Linear, Network
from ..workload.precision import Tier
from . import conv3x3, linear, reduce, stem
from .layout import Activation, Packed
from .plan import Launch, plan, share_rows


class Forward:
    """Buffers and launches of one (network, tier, batch) on one device; nothing is allocated after construction.

    Every layer has a buffer of its own, so that the zero rows and columns of one layout are never another's pixels,
    and so that every layer's output can be looked at afterwards.

    Args:
        network: the layer table.
        tier: precision tier.
        batch: images.
        device: where the buffers lie.
        device_key: the card whose data sheet chooses the tiles.
        exponents: power-of-two scale of each layer's output, by layer name.
    """

    def __init__(
        self,
        network: Network,
        tier: Tier,
        batch: int,
        device: torch.device,
        device_key: str,
        exponents: Mapping[str, int],
    ):
        self.network, self.tier, self.batch, self.exponents = network, tier, batch, exponents
        self.launches = plan(network, tier.name, batch, device_key)
        self.images = torch.zeros(batch, 3, network.image, network.image, device=device)
        self.logits = torch.zeros(batch, network.classes, device=device)
        self.outputs: dict[str, Activation] = {}
        self.unpooled: dict[str, Activation] = {}
        partial, tiles = 1, 1
        for launch in self.launches:
            layer, exponent = launch.shape, exponents.get(launch.layer, 0)
            if isinstance(layer, Conv):
                channels, height, width = layer.output_shape
                self.outputs[layer.name] = Activation.empty(
                    (batch, height, width, channels), tier, device, launch.pad, exponent
                )
                if launch.kernel == "maxpool":
                    shape = (batch, layer.height, layer.width, channels)
                    self.unpooled[layer.name] = Activation.empty(shape, tier, device, 1, exponent)
                if launch.kernel == "reduce":
                    partial = max(partial, prod(self._partial_shape(launch, layer)))
            else:
                if layer.relu:
                    self.outputs[layer.name] = Activation.empty((batch, layer.features_out), tier, device, 0, exponent)
                partial = max(partial, linear.partial_size(launch))
                tiles = max(tiles, linear.output_tiles(launch))
        self.partial = torch.zeros(partial, dtype=torch.float32, device=device)
        self.arrived = torch.zeros(tiles, dtype=torch.int32, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None

    @property
    def workspace_bytes(self) -> int:
        """Bytes of all buffers."""
        tensors = [self.images, self.logits, self.partial, self.arrived]
        for activation in (*self.outputs.values(), *self.unpooled.values()):
            tensors += activation.planes
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def run(self, x: Tensor, packed: Mapping[str, Packed]) -> Tensor:
        """Launch everything once, from images ``[N, 3, H, W]`` fp32; returns the logits' buffer."""
        for launch in self.launches:
            self.launch(launch, x, packed[launch.layer])
        return self.logits

    def replay(self, x: Tensor, packed: Mapping[str, Packed]) -> Tensor:
        """The same on a GPU as one CUDA graph, captured at the first call; returns the logits' buffer."""
        self.images.copy_(x)
        if self.graph is None:
            self.run(self.images, packed)  # compiles, and loads the modules, which a capture may not
            self.graph = self._capture(packed)
        self.graph.replay()
        return self.logits

    def record(self, x: Tensor, packed: Mapping[str, Packed]) -> Tensor:
        """The same into the graph that the caller is capturing; returns the logits' buffer."""
        self.images.copy_(x)  # aligned and contiguous like the images that the kernels were compiled for
        return self.run(self.images, packed)

    def _capture(self, packed: Mapping[str, Packed]) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        # A stream of this device: PyTorch's default capture stream belongs to the first device that captured. Other
        # threads may allocate meanwhile. A capture that breaks is not kept: it would replay half of the launches.
        stream = torch.cuda.Stream(self.images.device)
        with ExitStack() as after:
            after.callback(torch.cuda.set_stream, torch.cuda.current_stream())  # a broken capture leaves its own
            after.enter_context(torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"))
            self.run(self.images, packed)
        return graph

    def values(self, layer: str) -> Tensor:
        """A copy of what a layer left: fp32, ``[N, C, H, W]`` behind ReLU and pool, or ``[N, features]``."""
        found = self.outputs.get(layer)
        return self.logits.clone() if found is None else found.values()

    def launch(self, launch: Launch, x: Tensor, weights: Packed) -> None:
        """One of ``launches`` by itself, on what the launches before it left; ``x`` are the images."""
        layer, name = launch.shape, launch.layer
        if isinstance(layer, Linear):
            target = self.outputs.get(name, self.logits)
            linear.run(launch, self._input(layer), weights, target, self.partial, self.arrived)
        else:
            self._launch_conv(launch, layer, x, weights)

    def _launch_conv(self, launch: Launch, conv: Conv, x: Tensor, weights: Packed) -> None:
        target = self.unpooled.get(conv.name, self.outputs[conv.name])
        if launch.kernel == "stem":
            stem.run(launch, x, self.exponents.get("input", 0), weights, target)
        elif launch.kernel == "conv3x3":
            out = self._partial(launch, conv) if launch.tile.split_k > 1 else target
            conv3x3.run(launch, self._input(conv), weights, out)
        elif launch.kernel == "reduce":
            reduce.run(launch, self._partial(launch, conv), weights, target)
        else:  # "maxpool"
            reduce.run(launch, self.unpooled[conv.name], weights, self.outputs[conv.name])

    def _input(self, layer: Layer) -> Activation:
        names = [other.name for other in self.network.layers]
        return self.outputs[names[names.index(layer.name) - 1]]

    @staticmethod
    def _partial_shape(launch: Launch, conv: Conv) -> tuple[int, int]:
        return launch.tile.split_k * share_rows(conv, launch.batch), conv.c_out

    def _partial(self, launch: Launch, conv: Conv) -> Tensor:
        shape = self._partial_shape(launch, conv)
        return self.partial[: prod(shape)].view(shape)
