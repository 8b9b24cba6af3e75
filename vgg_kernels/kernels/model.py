"""VGG: the network on our kernels, as a module with the reference's parameters.

``VGG.from_reference(module, tier="fp16")`` copies a reference's weights; ``model(x)`` takes fp32 NCHW images and
returns fp32 logits. On an NVIDIA GPU (sm_90 or newer) it runs compiled; without one, in Triton's interpreter.
"""

import weakref
from collections.abc import Mapping
from threading import Lock
from typing import cast

import torch
from torch import Tensor, nn

from ..floor.hardware import device_by_torch_name
from ..workload.lookup import UnknownName
from ..workload.network import Network, infer
from ..workload.precision import FP32_MAX
from ..workload.precision import tier as find_tier
from ..workload.reference import Reference, activations
from .backend import INTERPRETED, LAUNCHER
from .forward import Forward
from .layout import LARGEST_EXPONENT, Packed, pack, weight_matrix

DEFAULT_DEVICE = "h100_sxm"  # its tiles serve where the card has no data sheet, and in the interpreter
OLDEST_ARCH = (9, 0)  # wgmma and bulk tensor copies
HEADROOM = 2  # calibrated activations leave a factor of 4 to the type's largest value

_MODELS: "weakref.WeakValueDictionary[int, VGG]" = weakref.WeakValueDictionary()


class VGG(Reference):
    """A VGG on Triton kernels: the reference's parameters and state_dict, another forward.

    The fp32 parameters stay the truth. They are packed for the tier at the first call, and again whenever one has
    changed since (``load_state_dict``, an optimiser, ``weight.mul_(2)``); only what PyTorch does not count, a write
    through ``.data`` or by a replayed CUDA graph, needs ``repack()``. Forward only: nothing is recorded for autograd.
    Calls from several threads take turns.

    Captured in a CUDA graph of the caller's, the forward has a workspace and weights of its own, which live as long as
    the model: the graph goes on with the weights that it was captured with. Where the graph comes from PyTorch
    (``torch.compile`` with ``mode="reduce-overhead"``), the forward stays outside of it, a graph of its own.

    Args:
        network: the layer table.
        tier: precision tier of operands; accumulation is fp32 throughout.

    Raises:
        UnknownName: for a tier that does not exist.
    """

    def __init__(self, network: Network, tier: str = "fp16"):
        super().__init__(network)
        self.requires_grad_(False)
        self.tier = find_tier(tier)
        self.exponents: dict[str, int] = {}
        self._packed: dict[str, Packed] | None = None
        self._packed_from: tuple = ()
        self._packed_alive: list[Tensor] = []
        self._forwards: dict[tuple, Forward] = {}
        self._lent: list[tuple[Forward, dict[str, Packed]]] = []  # what graphs of the callers' point to
        self._lock = Lock()
        _MODELS[id(self)] = self

    @classmethod
    def from_reference(cls, module: nn.Module, tier: str = "fp16") -> "VGG":
        """A VGG with a copy of a module's weights, on the module's device.

        Args:
            module: any module with KernelBench's and torchvision's keys and shapes, fp32.
            tier: precision tier.

        Raises:
            ValueError: where its state_dict fits no VGG, naming what came and what is accepted.
        """
        state = module.state_dict()
        network = infer({name: tuple(value.shape) for name, value in state.items()})
        with torch.device("meta"):
            model = cls(network, tier)
        with torch.inference_mode(False):  # inference tensors count no changes
            model.load_state_dict({name: value.detach().clone() for name, value in state.items()}, assign=True)
        return model.requires_grad_(False).eval()

    def forward(self, x: Tensor) -> Tensor:
        """Logits ``[N, classes]`` fp32 of images ``[N, 3, image, image]`` fp32, in memory that no later call touches.

        Raises:
            ValueError: for a tensor of another dtype, device, rank, channel count or image size, or an empty batch.
        """
        self._check(x)
        return _forward(x, id(self))

    @torch.no_grad()
    def trace(self, x: Tensor) -> dict[str, Tensor]:
        """Every layer's output by layer name, fp32, ``[N, C, H, W]`` behind ReLU and pool, or ``[N, features]``."""
        self._check(x)
        with self._lock, torch.cuda.device_of(x):
            forward, packed = self.prepare(x)
            forward.run(x, packed)
            return {layer.name: forward.values(layer.name) for layer in self.network.layers}

    @torch.no_grad()
    def calibrate(self, x: Tensor) -> "VGG":
        """Choose each layer's power-of-two scale from the largest activation that images ``x`` produce.

        The scales are exact and are undone in fp32, so they change no result that was in range; they keep fp16 and
        fp8 activations clear of overflow and of subnormals. Without it every scale is 1. Tiers with fp32's range
        need none and keep 1.
        """
        self._check(x)
        self.exponents = {}
        if self.tier.name in LARGEST_EXPONENT:
            traced = {"input": x, **activations(self, self.network, x, dtype=torch.float32)}
            traced.pop(self.network.layers[-1].name)
            for name, values in traced.items():
                largest = float(values.abs().max())
                if 0 < largest <= FP32_MAX:
                    exponent = int(torch.frexp(torch.tensor(largest)).exponent)
                    self.exponents[name] = exponent - 1 - (LARGEST_EXPONENT[self.tier.name] - HEADROOM)
        self.repack()
        return self

    def repack(self) -> None:
        """Forget the packed weights and the captured graphs; the next call makes them anew."""
        self._packed = None
        self._forwards.clear()

    def workspace_bytes(self, batch: int) -> int:
        """Bytes of one batch size's fixed workspace (activations, split-K shares, images and logits).

        Raises:
            ValueError: for a batch below 1.
        """
        device_key = self._key(self._home().device)
        return Forward(self.network, self.tier, batch, torch.device("meta"), device_key, {}).workspace_bytes

    def __getstate__(self) -> dict:
        """Copies and pickles carry the parameters; packed weights and graphs are made anew."""
        anew: dict = {"_packed": None, "_packed_from": (), "_packed_alive": [], "_forwards": {}, "_lent": []}
        return self.__dict__ | anew | {"_lock": None}

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self._lock = Lock()
        _MODELS[id(self)] = self

    def _home(self) -> Tensor:
        return cast(Tensor, self.classifier[0].weight)

    def _check(self, x: Tensor) -> None:
        size = self.network.image
        home = self._home()
        accepted = f"accepted: float32 [N >= 1, 3, {size}, {size}] on {home.device}"
        if not isinstance(x, Tensor):
            raise ValueError(f"the input is a {type(x).__name__}; {accepted}")
        if x.dtype != torch.float32:
            raise ValueError(f"the input's dtype is {x.dtype}; {accepted}")
        if x.ndim != 4 or tuple(x.shape[1:]) != (3, size, size) or len(x) < 1:
            raise ValueError(f"the input's shape is {list(x.shape)}; {accepted}")
        if x.device != home.device:
            raise ValueError(f"the input is on {x.device} and the model on {home.device}; {accepted}")
        if home.dtype != torch.float32:
            raise ValueError(f"the model's parameters are {home.dtype}; accepted: float32, whatever the tier")
        if INTERPRETED and home.device.type != "cpu":
            raise ValueError(
                f"the model is on {home.device}, but TRITON_INTERPRET=1 runs kernels on the CPU; accepted: cpu"
            )
        if not INTERPRETED and home.device.type != "cuda" and LAUNCHER.get() is None:
            raise ValueError(
                f"the model is on {home.device}, and this process compiles its kernels for an NVIDIA GPU: move model "
                "and input there, or set TRITON_INTERPRET=1 to interpret them on the CPU"
            )
        if home.device.type == "cuda" and torch.cuda.get_device_capability(home.device) < OLDEST_ARCH:
            name = torch.cuda.get_device_name(home.device)
            raise ValueError(
                f"{name} has no wgmma and no bulk tensor copies; accepted: compute capability 9.0 and newer"
            )

    def _key(self, device: torch.device) -> str:
        if device.type != "cuda":
            return DEFAULT_DEVICE
        try:
            return device_by_torch_name(torch.cuda.get_device_name(device)).key
        except UnknownName:
            return DEFAULT_DEVICE  # tiles are right on every card; only their ranking is the H100's

    def prepare(self, x: Tensor) -> tuple[Forward, dict[str, Packed]]:
        """The launches and the packed weights that images like ``x`` run with; made where they are not at hand.

        Raises:
            ValueError: where the parameters are inference tensors.
        """
        if self._home().is_inference():  # asked here: torch.compile cannot trace the question
            raise ValueError(
                "the model's parameters were made under torch.inference_mode, where PyTorch does not count changes, "
                "so stale packed weights could not be told; make the model outside of it"
            )
        current = self._counted()
        if self._packed is None or current != self._packed_from:
            self.repack()
            self._packed, self._packed_from = self._pack(), current
            self._packed_alive = [p.detach() for p in self.parameters()]  # so that no new weight gets an old address
        stream = torch.cuda.current_stream(x.device).cuda_stream if x.is_cuda else 0
        key = (len(x), x.device, stream)
        if key not in self._forwards:
            with torch.inference_mode(False):
                self._forwards[key] = Forward(
                    self.network, self.tier, len(x), x.device, self._key(x.device), self.exponents
                )
        return self._forwards[key], self._packed

    def lend(self, x: Tensor) -> tuple[Forward, dict[str, Packed]]:
        """What the graph that the caller is capturing runs with: from now on its alone, and never freed.

        A workspace made during the capture would be zeroed by the graph, not before it, and one that eager calls use
        too would be freed with the next change of a weight, under the graph's feet.

        Raises:
            RuntimeError: where no call has prepared for as many images, with the weights as they are.
        """
        batch, current = len(x), self._counted()
        ready = [key for key in self._forwards if key[:2] == (batch, x.device)]
        if not ready or self._packed is None or current != self._packed_from:
            raise RuntimeError(
                f"a CUDA graph captures the model before it has run on {batch} images with these weights: call it once "
                "on such a batch, then capture"
            )
        self._lent.append((self._forwards.pop(ready[-1]), self._packed))
        return self._lent[-1]

    def _counted(self) -> tuple:
        """Changes whenever PyTorch counts a change of a parameter."""
        # Of each call, before its first launch: ``self.parameters()`` takes 70 us of a 740 us forward, this a quarter.
        layers = (*self.features._modules.values(), *self.classifier._modules.values())
        found = (p for layer in layers if layer is not None for p in layer._parameters.values() if p is not None)
        return tuple((p.data_ptr(), p._version) for p in found)

    def _pack(self) -> dict[str, Packed]:
        packed = {}
        with torch.inference_mode(False), torch.no_grad():
            state: Mapping[str, Tensor] = self.state_dict()
            before = "input"
            for layer in self.network.layers:
                source = self.network.convs[-1] if layer == self.network.linears[0] else None
                weight, bias = (state[f"{layer.key}.{part}"] for part in ("weight", "bias"))
                packed[layer.name] = pack(
                    weight_matrix(weight, layer, source),
                    bias,
                    self.tier,
                    self.exponents.get(before, 0),
                    self.exponents.get(layer.name, 0),
                )
                before = layer.name
        return packed


@torch.library.custom_op("vgg_kernels::forward", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
def _forward(x: Tensor, model: int) -> Tensor:
    """The forward as an operator that ``torch.compile`` treats as one opaque node, outside of graphs that it makes."""
    vgg = _MODELS[model]
    with vgg._lock, torch.cuda.device_of(x):
        if x.is_cuda and torch.cuda.is_current_stream_capturing():  # the caller's graph takes our launches
            forward, packed = vgg.lend(x)
            return forward.record(x, packed).clone()
        forward, packed = vgg.prepare(x)
        return (forward.replay if x.is_cuda else forward.run)(x, packed).clone()


@_forward.register_fake
def _(x: Tensor, model: int) -> Tensor:
    return x.new_empty(len(x), _MODELS[model].network.classes)
