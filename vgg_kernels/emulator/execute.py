"""A forward pass, or one layer of it, run from the compiled code: what every launch did, and how right it was."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..kernels.forward import Forward
from ..kernels.layout import Activation, encode
from ..kernels.model import VGG
from ..kernels.plan import Launch
from ..workload.network import Network
from ..workload.reference import Reference, activations, relative_error
from .group import Options
from .launch import Executed, Launcher, launching
from .ptx import EmulationError


class ExecutedVGG(VGG):
    """A VGG whose launches run from their PTX on the CPU: the same host code, another processor.

    Attributes:
        launcher: holds the options and what has been executed. ``from_reference`` leaves the defaults.
    """

    launcher: Launcher

    def __init__(self, network: Network, tier: str = "fp16"):
        super().__init__(network, tier)
        self.launcher = Launcher(Options())

    def forward(self, x: Tensor) -> Tensor:
        """As ``VGG``'s."""
        with launching(self.launcher):
            return super().forward(x)

    def trace(self, x: Tensor) -> dict[str, Tensor]:
        """As ``VGG``'s."""
        with launching(self.launcher):
            return super().trace(x)

    def calibrate(self, x: Tensor) -> VGG:
        """As ``VGG``'s."""
        with launching(self.launcher):
            return super().calibrate(x)


@dataclass(frozen=True)
class LaunchResult:
    """One launch of a forward pass as it was executed.

    Attributes:
        layer: the layer's name.
        executed: its kernel, grid, counts and hazards.
        relative_error: of the layer's output against float64 on the same input, None before its last launch.
    """

    layer: str
    executed: Executed
    relative_error: float | None

    def document(self) -> dict[str, Any]:
        """Its row of ``execute --json``."""
        report = self.executed.report
        return {
            "layer": self.layer,
            "kernel": self.executed.kernel.removesuffix("_kernel"),
            "ctas": report.ctas,
            "instructions": dict(sorted(report.instructions.items())),
            "bulk_bytes": report.counts["bulk_load_bytes"] + report.counts["bulk_store_bytes"],
            "wgmma_clocks": report.counts["wgmma_clocks"],
            "counts": dict(sorted(report.counts.items())),
            "hazards": dict(report.hazards),
            "relative_error": self.relative_error,
            "seconds": round(self.executed.seconds, 3),
        }


@dataclass
class Execution:
    """What ``run`` found.

    Attributes:
        launches: in order.
        stored: each layer's output as it lies in memory, one tensor a plane.
        logits: ``[N, classes]``, None where one layer was run.
        relative_error: of the logits against the float64 network.
    """

    launches: list[LaunchResult] = field(default_factory=list)
    stored: dict[str, list[Tensor]] = field(default_factory=dict)
    logits: Tensor | None = None
    relative_error: float | None = None


def sha256(*tensors: Tensor) -> str:
    """Digest of the tensors' bytes."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def fill(activation: Activation, values: Tensor, forward: Forward) -> None:
    """Store ``[N, C, H, W]`` or ``[N, features]`` fp32 values as a kernel would have, padding zero."""
    values = torch.ldexp(values.double(), torch.tensor(-activation.exponent)).float()
    if values.ndim == 4:
        values = torch.nn.functional.pad(values.permute(0, 2, 3, 1), (0, 0, 0, activation.pad, 0, activation.pad))
    for plane, encoded in zip(activation.planes, encode(values, forward.tier), strict=True):
        plane.copy_(encoded.view(plane.shape))


def run(
    reference: Reference,
    network: Network,
    tier: str,
    x: Tensor,
    *,
    layer: str | None = None,
    options: Options = Options(),  # noqa: B008 - frozen
    progress: Callable[[int, int, str], None] | None = None,
) -> Execution:
    """Execute every launch of a forward pass, each layer compared with float64 on the input that it had.

    Args:
        reference: the weights.
        network: its layer table.
        tier: precision tier.
        x: images ``[N, 3, image, image]`` fp32.
        layer: execute this one alone, on the float64 network's input rounded to the tier.
        options: arithmetic and effects.
        progress: called with launches done, launches in all, and the layer.

    Raises:
        EmulationError: for what a card would not run, naming the layer.
        UnknownName: for a layer that does not exist.
    """
    if layer is not None:
        network.layer(layer)
    model = ExecutedVGG.from_reference(reference, tier)
    assert isinstance(model, ExecutedVGG)
    model.launcher.options = options
    model.calibrate(x)
    forward, packed = model.prepare(x)
    wanted = activations(reference, network, x)
    names = [each.name for each in network.layers]
    chosen = [launch for launch in forward.launches if layer in (None, launch.layer)]
    if layer is not None and (before := names.index(layer)):
        fill(forward.outputs[names[before - 1]], wanted[names[before - 1]].float(), forward)
    result = Execution()
    with launching(model.launcher):
        for done, launch in enumerate(chosen):
            if progress:
                progress(done, len(chosen), launch.layer)
            try:
                forward.launch(launch, x, packed[launch.layer])
            except EmulationError as fault:
                raise EmulationError(f"{launch.layer} {launch.kernel} {launch.tile}: {fault}") from fault
            executed, last = model.launcher.executed[-1], [other for other in chosen if other.layer == launch.layer][-1]
            error = None
            if launch is last:
                error = relative_error(forward.values(launch.layer), _layer(reference, network, forward, launch, x))
                result.stored[launch.layer] = [plane.clone() for plane in stored(forward, launch.layer)]
            result.launches.append(LaunchResult(launch.layer, executed, error))
    if layer is None:
        result.logits = forward.logits.clone()
        result.relative_error = relative_error(result.logits, wanted[names[-1]])
    return result


def stored(forward: Forward, layer: str) -> list[Tensor]:
    """A layer's output as it lies in memory, one tensor a plane."""
    found = forward.outputs.get(layer)
    return [forward.logits] if found is None else found.planes


def _layer(reference: Reference, network: Network, forward: Forward, launch: Launch, x: Tensor) -> Tensor:
    """The layer in float64 on what the layer before it left."""
    names = [layer.name for layer in network.layers]
    at = names.index(launch.layer)
    before = x if at == 0 else forward.values(names[at - 1])
    if at == len(network.convs):
        before = before.view(len(x), *network.convs[-1].output_shape)
    alone = Network(network.name, network.image, network.classes, network.convs[at : at + 1],
                    () if at < len(network.convs) else (network.linears[at - len(network.convs)],))  # fmt: skip
    return activations(reference, alone, before)[launch.layer]


def document(execution: Execution, *, tier: str, network: Network, batch: int, options: Options) -> Mapping[str, Any]:
    """The document of ``execute --json``."""
    return {
        "evidence": "executed",
        "arch": 90,
        "tier": tier,
        "network": network.name,
        "image": network.image,
        "batch": batch,
        "arithmetic": "as an H100 adds" if options.exact else "fp32 sums of this CPU",
        "launches": [launch.document() for launch in execution.launches],
        "hazards": sum(launch.executed.report.hazards.total() for launch in execution.launches),
        "logits_sha256": None if execution.logits is None else sha256(execution.logits),
        "relative_error": execution.relative_error,
        "seconds": round(sum(launch.executed.seconds for launch in execution.launches), 3),
    }
