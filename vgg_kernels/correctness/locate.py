"""Where an output is wrong: the first layer that does not follow from its own input, its images, rows and columns.

Each layer is compared with float64 on the candidate's *own* trace of the layer before, so one layer's error is its own
and its bound does not grow with depth; and position by position, so that one wrong pixel among 50,176 shows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..workload.network import Network
from ..workload.precision import Tier
from ..workload.reference import Reference
from .error_bounds import LOCAL_MARGIN, layer_fp64, position_errors


@dataclass(frozen=True)
class LayerResult:
    """One layer on the candidate's own input to it.

    Attributes:
        layer: its name.
        relative_error: the worst position's ||got - want|| over the larger of ||want|| there and its image's average.
        error_bound: the largest that is accepted there.
        where: the wrong images, rows and columns in words; empty where none is.
    """

    layer: str
    relative_error: float
    error_bound: float
    where: str

    @property
    def passed(self) -> bool:
        """True where no position is beyond the bound (a non-finite one always is)."""
        return self.relative_error <= self.error_bound


def ranges(indices: Iterable[int]) -> str:
    """Sorted indices as text: "0-3, 7"."""
    runs: list[tuple[int, int]] = []
    for i in sorted(set(indices)):
        if runs and i == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], i
        else:
            runs.append((i, i))
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def where_wrong(wrong: Tensor) -> str:
    """Words for a mask ``[N]``, ``[N, features]`` or ``[N, H, W]`` of wrong positions."""
    if not bool(wrong.any()):
        return ""
    names = ("image", "feature") if wrong.dim() < 3 else ("image", "row", "column")
    parts = []
    for axis, name in zip(range(wrong.dim()), names, strict=False):
        others = [d for d in range(wrong.dim()) if d != axis]
        hit = wrong.any(dim=others) if others else wrong
        found = torch.nonzero(hit).flatten().tolist()
        every = " (all)" if len(found) == wrong.shape[axis] > 1 else ""
        parts.append(f"{name}{'s' if len(found) > 1 else ''} {ranges(found)}{every}")
    return ", ".join(parts)


def _at_least_average(norms: Tensor) -> Tensor:
    """Norms by position, ``[N, ...]``, none below its image's root mean square, so that dark pixels count less."""
    return torch.maximum(norms, norms.square().mean(dim=tuple(range(1, norms.dim())), keepdim=True).sqrt())


@torch.no_grad()
def per_layer_errors(
    reference: Reference, network: Network, tier: Tier, x: Tensor, trace: Mapping[str, Tensor]
) -> list[LayerResult]:
    """Compare every layer of a trace with float64 on the trace of the layer before.

    Args:
        reference: the weights.
        network: the layer table.
        tier: whose one-layer bound holds.
        x: ``[N, 3, image, image]`` fp32, what was traced.
        trace: every layer's output by name, as ``candidate.trace(x)`` returns it.
    """
    results = []
    before = x
    for layer in network.layers:
        want, _ = layer_fp64(layer, reference, before)
        got = trace[layer.name].to(want.device).double()
        position = got.dim() > 2
        error, size = (t.norm(dim=1, keepdim=not position) for t in (got - want, want))
        size = _at_least_average(size).clamp_min(torch.finfo(torch.float64).tiny)
        allowed = LOCAL_MARGIN * _at_least_average(position_errors(layer, tier, reference, before, want))
        excess = torch.where(torch.isfinite(error), error / allowed, torch.inf).masked_fill(error == 0, 0.0)
        worst = excess.argmax()
        bound = (allowed / size).flatten()[worst]
        wrong = excess > 1
        results.append(
            LayerResult(
                layer.name,
                float(excess.flatten()[worst] * bound),
                float(bound),
                where_wrong(wrong if position else wrong.flatten(1).any(1)),
            )
        )
        before = trace[layer.name].to(x.device)
    return results
