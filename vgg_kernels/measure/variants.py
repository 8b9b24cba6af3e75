"""What is measured: eager and inductor as KernelBench runs them and as a user would set them up, and our tiers.

The timer ``graph`` captures each of them in a CUDA graph, except those that replay graphs of their own.
All keep one contract, fp32 NCHW in and fp32 logits out, so a conversion that a variant needs is inside its time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..workload.network import Conv, Network
from ..workload.precision import TIERS
from ..workload.reference import Reference

HOPPER = 90  # wgmma and bulk tensor copies: what our kernels are compiled to
ROUNDINGS = 8  # a forward's error is a few roundings of its operands (2.4 u measured on VGG19); a wrong answer is not
# Where a library hands fp32 operands to the tensor cores as they are, these cut off the last 13 bits instead of
# rounding: up to 2 u an operand, always towards zero, 9.8 u on VGG19 (measured, in an emulation).
TRUNCATIONS = 32
SLACK = 1e-4  # fp32 accumulation of up to 25,088 products, by an algorithm of the library's choice (Winograd)

Forward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Variant:
    """One way to run the network.

    Attributes:
        name: its column in every row.
        family: "eager", "inductor" or "ours".
        tier: the tier its operands amount to, which is the cohort it is compared in.
        dtype: "fp32" or "fp16", the module's parameters.
        channels_last: memory format of the module and of its input.
        cudnn_allow_tf32: may convolutions round fp32 operands to tf32? (PyTorch's default: yes)
        matmul_allow_tf32: may matrix products? (PyTorch's default: no)
        autocast: fp32 parameters under ``torch.autocast`` to fp16.
        mode: ``torch.compile``'s mode, for inductor.
        graphs: it replays CUDA graphs of its own.
    """

    name: str
    family: str
    tier: str
    dtype: str = "fp32"
    channels_last: bool = False
    autocast: bool = False
    cudnn_allow_tf32: bool = True
    matmul_allow_tf32: bool = False
    mode: str | None = None
    graphs: bool = False

    @property
    def bound(self) -> float:
        """Largest relative error in norm, against strict fp32, at which a timed output still counts as computed."""
        roundings = TRUNCATIONS if self.tier == "tf32" and self.family != "ours" else ROUNDINGS
        return roundings * TIERS[self.tier].unit_roundoff + SLACK

    @property
    def columns(self) -> dict[str, object]:
        """Its part of a sample row."""
        return {
            "variant": self.name,
            "tier": self.tier,
            "dtype": self.dtype,
            "cudnn_allow_tf32": self.cudnn_allow_tf32,
            "matmul_allow_tf32": self.matmul_allow_tf32,
        }


STRICT: dict[str, Any] = {"cudnn_allow_tf32": False, "matmul_allow_tf32": False}
RELAXED: dict[str, Any] = {"cudnn_allow_tf32": True, "matmul_allow_tf32": True}
HALF: dict[str, Any] = {"dtype": "fp16", "channels_last": True}
OURS = tuple(
    Variant(f"ours_{tier}", "ours", tier, **STRICT) for tier in ("fp16", "fp16x3", "tf32", "bf16", "fp8", "fp32")
)

GPU_VARIANTS = (  # most important first
    Variant("eager", "eager", "tf32"),
    Variant("inductor", "inductor", "tf32", mode="default"),
    *OURS,
    Variant("eager_fp16_channels_last", "eager", "fp16", **HALF),
    Variant("eager_fp16", "eager", "fp16", dtype="fp16"),  # .half() alone
    Variant("eager_autocast_fp16", "eager", "fp16", autocast=True),
    Variant("eager_channels_last", "eager", "tf32", channels_last=True),
    Variant("eager_tf32", "eager", "tf32", **RELAXED),
    Variant("eager_strict", "eager", "fp32", **STRICT),
    Variant("inductor_reduce_overhead", "inductor", "tf32", mode="reduce-overhead", graphs=True),
    Variant("inductor_max_fp16_channels_last", "inductor", "fp16", mode="max-autotune-no-cudagraphs", **HALF),
    Variant("inductor_max_tf32", "inductor", "tf32", mode="max-autotune-no-cudagraphs", **RELAXED),
    Variant("inductor_max_fp16_channels_last_graphs", "inductor", "fp16", mode="max-autotune", graphs=True, **HALF),
    Variant("inductor_max_tf32_graphs", "inductor", "tf32", mode="max-autotune", graphs=True, **RELAXED),
    Variant("inductor_max_strict", "inductor", "fp32", mode="max-autotune-no-cudagraphs", **STRICT),
    Variant("inductor_max_strict_graphs", "inductor", "fp32", mode="max-autotune", graphs=True, **STRICT),
)
CPU_VARIANTS = (  # a CPU has no tf32: the switches do nothing, and operands keep all 24 bits
    Variant("eager", "eager", "fp32"),
    Variant("inductor", "inductor", "fp32", mode="default"),
    *OURS,  # verified there, never timed
)
VARIANTS = {"cuda": GPU_VARIANTS, "cpu": CPU_VARIANTS}


def selectable(kind: str) -> tuple[str, ...]:
    """The words that ``select`` accepts: names, families and tiers."""
    rows = VARIANTS[kind]
    return tuple(dict.fromkeys([v.name for v in rows] + [v.family for v in rows] + [v.tier for v in OURS]))


def select(kind: str, only: tuple[str, ...] = ()) -> tuple[Variant, ...]:
    """The variants of a device kind, in order of importance, or those that ``only`` names.

    Args:
        kind: "cuda" or "cpu".
        only: names ("eager_tf32"), families ("inductor") or tiers of ours ("fp16x3"); empty for all.
    """

    def wanted(v: Variant) -> bool:
        return not only or v.name in only or v.family in only or (v.family == "ours" and v.tier in only)

    return tuple(v for v in VARIANTS[kind] if wanted(v))


def refusal(variant: Variant, network: Network, batch: int, device: str, arch: int, memory_bytes: float) -> str | None:
    """Why this device cannot run the variant at this batch, or none.

    Args:
        variant: the row.
        network: the layer table.
        batch: images.
        device: its name, for the sentence.
        arch: compute capability as one number; 0 for a CPU.
        memory_bytes: memory of the device.
    """
    if too_old(variant, device, arch):
        return too_old(variant, device, arch)
    needed = footprint(variant, network, batch)
    if needed > memory_bytes:
        return (
            f"{variant.name} at batch {batch} needs about {needed / 1e9:.1f} GB; "
            f"{device} has {memory_bytes / 1e9:.1f} GB; a smaller --batch may fit"
        )
    return None


def too_old(variant: Variant, device: str, arch: int) -> str | None:
    """Why a card of that compute capability (as one number; 0 for a CPU) cannot run a tier of ours, or none."""
    if variant in OURS and 0 < arch < HOPPER:
        return (
            f"{variant.name} needs sm_{HOPPER} or later (wgmma and bulk tensor copies); "
            f"{device} is sm_{arch}, so its kernels are refused there"
        )
    return None


def footprint(variant: Variant, network: Network, batch: int) -> float:
    """Bytes that must be held at once: the fp32 reference, the variant's copy, and the widest layer's input and output.

    A lower bound (workspaces and fragmentation come on top): what exceeds it cannot run.
    """
    element = TIERS[variant.tier].operand_bytes if variant.family == "ours" else 2 if variant.dtype == "fp16" else 4
    weights = network.parameters * (4 + (element if variant.family == "ours" or variant.dtype == "fp16" else 0))
    widest = max(
        batch * (_numbers(layer.input_shape) + layer.c_out * layer.height * layer.width)
        for layer in network.layers
        if isinstance(layer, Conv)
    )
    return float(weights + element * widest + 4 * batch * 3 * network.image**2)


def _numbers(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


@contextmanager
def precision(variant: Variant) -> Iterator[None]:
    """Set PyTorch's two TF32 switches as the variant has them, and put them back.

    Inductor's own convolutions, which max-autotune tries beside cuDNN's, read neither: they round to tf32 where
    ``cudnn.fp32_precision`` is "tf32" (torch 2.11 to 2.13), and ``cudnn.allow_tf32`` leaves that at "none". So for
    max-autotune it goes along, or its tf32 would be cuDNN's alone. PyTorch raises at the question where the two
    disagree, so within it nobody may set the one without the other.
    """
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32, cudnn.fp32_precision
    cudnn.allow_tf32, matmul.allow_tf32 = variant.cudnn_allow_tf32, variant.matmul_allow_tf32
    if variant.cudnn_allow_tf32 and (variant.mode or "").startswith("max-autotune"):
        cudnn.fp32_precision = "tf32"
    try:
        yield
    finally:
        if cudnn.fp32_precision != before[2]:
            cudnn.fp32_precision = before[2]
        cudnn.allow_tf32, matmul.allow_tf32 = before[:2]


def build(variant: Variant, module: nn.Module) -> Forward:
    """The variant as a function of an fp32 batch. ``module`` is left as it is; a compiled one compiles at first call.

    Args:
        variant: the row; call the result under ``precision(variant)``.
        module: the fp32 reference, or one layer of it, on the device.
    """
    if variant.family == "ours":
        from ..kernels.model import VGG  # imported here: triton reads its environment when it is imported

        return VGG.from_reference(module, tier=variant.tier)
    dtype = torch.float16 if variant.dtype == "fp16" else torch.float32
    layout = torch.channels_last if variant.channels_last else torch.contiguous_format
    if variant.dtype == "fp16" or variant.channels_last:
        twin = _copy(module).to(dtype).to(memory_format=layout)  # type: ignore[call-overload]  # documented, not typed
    else:
        twin = module

    def forward(x: Tensor) -> Tensor:
        x = x.to(dtype=dtype, memory_format=layout) if x.dim() == 4 else x.to(dtype)
        if variant.autocast:
            with torch.autocast(x.device.type, torch.float16):
                return twin(x).float()
        return twin(x).float()

    if variant.family == "inductor":
        # fullgraph: a forward that inductor gave up on, as it does silently past eight shapes, is not inductor's
        return torch.compile(forward, mode=variant.mode, dynamic=False, fullgraph=True)
    return forward


def _copy(module: nn.Module) -> nn.Module:
    from copy import deepcopy

    return deepcopy(module)


def layers(module: Reference) -> dict[str, nn.Module]:
    """Each layer of the reference as a module of its own, with its ReLU and its pool; parameters are shared.

    The classifier's layers take ``[N, features]``.
    """
    network = module.network
    children = dict(module.named_modules())
    found: dict[str, nn.Module] = {}
    for layer in network.layers:
        parts: list[nn.Module] = [children[layer.key]]
        if isinstance(layer, Conv):
            parts.append(nn.ReLU(inplace=True))
            parts += [nn.MaxPool2d(2, 2)] if layer.pooled else []
        elif layer.relu:
            parts.append(nn.ReLU(inplace=True))
        found[layer.name] = nn.Sequential(*parts)
    return found
