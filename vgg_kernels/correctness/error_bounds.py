"""How large a tier's error may be, from its rounding alone.

A layer computes z = W x + b. Rounding an operand to nearest multiplies it by 1 + delta with |delta| <= u, the tier's
unit roundoff; over numbers whose mantissas are distributed as 1/m (Benford), delta has root mean square

    kappa u,    kappa = sqrt((1 - 1/4) / (2 ln 2) / 3) = 0.4247.

Both operands of every product are rounded independently, so their errors add in squares: sqrt(2) kappa u of the
products' norm. Summing K products in fp32 (unit roundoff v = 2^-24) one after the other adds one rounding per step to a
partial sum that grows as sqrt(k): kappa v sqrt(K / 2) of the sum's norm. The error that arrives with the input is
carried through W like the signal itself. The bias enlarges the signal and not the error, except for one rounding of the
sum. So the relative error in norm after layer l, image by image, is

    e_l^2 = d_l^2 (e_{l-1}^2 + 2 kappa^2 u^2 + kappa^2 v^2 K_l / 2) + kappa^2 v^2,
    d_l = ||W x|| / ||W x + b||,    e_0 = 0

(ReLU and max-pool drop signal and error alike). It is the random walk of Higham and Mary, "A New Approach to
Probabilistic Rounding Error Analysis" (SIAM J. Sci. Comput. 41, 2019), with the constants kept. u = 0 for fp32.

The bound is ``MARGIN`` times e_l, and never above the study's ceiling for the tier. It depends on the float64 reference
alone, never on how a library sums. fp16x3 claims fp32's accuracy, so its logits have fp32's bound.

That margin would hide one layer of nineteen in the next coarser arithmetic. For the logits there is a sharper bound
where the operands' rounding outweighs the order of summation: the tier's emulation, with sums in float64, on the very
same image. Two correct implementations round the same operands alike, except for the few that the last bits of their
sums tip over; the norms of their errors over n logits differ by some 0.7 / sqrt(n) of themselves, and at most by
4 / sqrt(n) was seen (fp32 sums against float64 sums: up to 1.12 of the emulated error for 1000 logits, with a first
layer in bf16 1.30 and more). So no image's logits may be more than ``SLACK`` + ``SCATTER`` / sqrt(n) times as wrong as
the emulation's. Layers before the last are left out: a kernel's trace has already been rounded for the next layer, the
emulation's has not.

At one position of one layer (``position_errors``) an image's norms will not do: where the light is bright and the sum
small, the error is many times the average. There the products themselves are squared and summed, S = sum (w x)^2, and

    error^2 = kappa^2 (2 u^2 + v^2 K) S + kappa^2 (u^2 + v^2) y^2

is summed over the position's channels. The second term is the rounding of the output y for its reader; K is not halved,
for a large product may come first and stay in every partial sum. ``LOCAL_MARGIN`` times the root is accepted. In 16
channels, over millions of positions, rounded operands gave at most 2.2 of it, and fp32 sums of 27 products 3.4.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, sqrt

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from ..workload.network import Conv, Layer, Network
from ..workload.precision import TIERS, Tier
from ..workload.reference import Reference
from .emulation import ROUND, ROUND_WEIGHT, Emulation, epilogue, products

KAPPA = sqrt((1 - 1 / 4) / (2 * log(2)) / 3)
ACCUMULATOR_ROUNDOFF = 2.0**-24
BIAS_ERROR = KAPPA * ACCUMULATOR_ROUNDOFF
MARGIN = 2.0
LOCAL_MARGIN = 4.0
SLACK, SCATTER = 1.1, 4.0
FP32_GRADE_ROUNDOFF = 2.0**-20  # below it the order of summation decides, which no emulation knows
CEILING = {"fp32": 5e-6, "fp16x3": 5e-6, "tf32": 3e-3, "fp16": 3e-3, "bf16": 2e-2, "fp8": 0.3}


def operand_roundoff(tier: Tier) -> float:
    """u of the tier's operands; 0 for fp32, whose operands are not rounded at all."""
    return 0.0 if tier.name == "fp32" else tier.unit_roundoff


def chain(layer: Layer) -> int:
    """K: the number of products that are summed into one output."""
    return 9 * layer.c_in if isinstance(layer, Conv) else layer.features_in


def layer_error(tier: Tier, layer: Layer) -> float:
    """The relative error in norm that one layer adds to its pre-bias sums: sqrt(2 u^2 + v^2 K / 2) kappa."""
    return KAPPA * sqrt(2 * operand_roundoff(tier) ** 2 + ACCUMULATOR_ROUNDOFF**2 * chain(layer) / 2)


@dataclass(frozen=True)
class Oracle:
    """The float64 outputs of one batch, and how much of each layer's signal is not its bias.

    Attributes:
        outputs: every layer's output by name, ``[N, ...]`` float64.
        damping: d_l by layer name, ``[N]`` float64.
    """

    outputs: Mapping[str, Tensor]
    damping: Mapping[str, Tensor]

    @property
    def logits(self) -> Tensor:
        """``[N, classes]`` float64."""
        return list(self.outputs.values())[-1]


def _norms(x: Tensor) -> Tensor:
    return x.flatten(1).norm(dim=1)


def layer_fp64(layer: Layer, reference: Reference, x: Tensor) -> tuple[Tensor, Tensor]:
    """One layer of the reference in float64: its output, and its damping d_l per image."""
    state = reference.state_dict()
    weight, bias = (state[f"{layer.key}.{part}"].double() for part in ("weight", "bias"))
    sums = products(layer, x.double(), weight)
    biased = sums + (bias.view(1, -1, 1, 1) if isinstance(layer, Conv) else bias)
    damping = _norms(sums) / _norms(biased).clamp_min(torch.finfo(torch.float64).tiny)
    return epilogue(layer, sums, bias), damping


@torch.no_grad()
def reference_fp64(reference: Reference, x: Tensor) -> Oracle:
    """Run the reference in float64, keeping every layer's output and damping."""
    outputs: dict[str, Tensor] = {}
    damping: dict[str, Tensor] = {}
    y = x
    for layer in reference.network.layers:
        y, damping[layer.name] = layer_fp64(layer, reference, y)
        outputs[layer.name] = y
    return Oracle(outputs, damping)


def predicted_errors(network: Network, tier: Tier, damping: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """e_l by layer name: the expected relative error in norm of each image, ``[N]`` float64."""
    squared = torch.zeros_like(damping[network.layers[0].name])
    errors: dict[str, Tensor] = {}
    for layer in network.layers:
        squared = damping[layer.name] ** 2 * (squared + layer_error(tier, layer) ** 2) + BIAS_ERROR**2
        errors[layer.name] = squared.sqrt()
    return errors


def error_bounds(network: Network, tier: Tier, damping: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The largest accepted relative error in norm of each image after each layer, ``[N]`` float64 by layer name."""

    def bounds(held_to: Tier) -> dict[str, Tensor]:
        errors = predicted_errors(network, held_to, damping)
        return {name: (MARGIN * error).clamp_max(CEILING[held_to.name]) for name, error in errors.items()}

    found = bounds(tier)
    if tier.name == "fp16x3":
        last = network.layers[-1].name
        found[last] = bounds(TIERS["fp32"])[last]
    return found


@torch.no_grad()
def position_errors(layer: Layer, tier: Tier, reference: Reference, x: Tensor, want: Tensor) -> Tensor:
    """The expected error norm of one layer at each position: of a pixel's channels, or of a row of features.

    Args:
        layer: of the reference.
        tier: whose rounding is meant.
        reference: the weights.
        x: the layer's input, ``[N, ...]``.
        want: its float64 output.

    Returns:
        ``[N, H, W]`` or ``[N, 1]`` float64.
    """
    weight = reference.state_dict()[f"{layer.key}.weight"].double()
    squares = products(layer, x.double().square(), weight.square())
    if isinstance(layer, Conv) and layer.pooled:
        squares = max_pool2d(squares, 2)  # whichever of the four the pool takes
    u = operand_roundoff(tier)
    stored = u if layer != reference.network.layers[-1] else 0.0  # logits are fp32
    squared = (2 * u**2 + ACCUMULATOR_ROUNDOFF**2 * chain(layer)) * squares
    squared += (stored**2 + ACCUMULATOR_ROUNDOFF**2) * want.square()
    return KAPPA * squared.sum(dim=1, keepdim=want.dim() == 2).sqrt()


class FP64Sums(Emulation):
    """A tier whose operands are rounded and whose sums are not, so that it gives the same result on every machine."""

    def multiply(self, layer: Layer, x: Tensor, weight: Tensor) -> Tensor:
        """The products of the rounded operands, summed in float64, as fp32."""
        rounded = ROUND[self.tier.name](x).double(), ROUND_WEIGHT[self.tier.name](weight).double()
        return products(layer, *rounded).float()


@torch.no_grad()
def emulated_limit(emulation: Emulation, x: Tensor, logits: Tensor) -> Tensor:
    """The largest relative error of each image's logits by the tier's emulation of the same images, ``[N]`` float64.

    Args:
        emulation: of the tier, with the reference's weights.
        x: ``[N, 3, image, image]`` fp32.
        logits: the reference's, ``[N, classes]`` float64.

    Returns:
        Infinity where the emulation overflows, and everywhere for fp32 and fp16x3.
    """
    if operand_roundoff(emulation.tier) < FP32_GRADE_ROUNDOFF:
        return torch.full_like(logits[:, 0], torch.inf)
    error = _norms(emulation(x).double() - logits) / _norms(logits)
    return (SLACK + SCATTER / sqrt(logits.shape[1])) * error.nan_to_num(nan=torch.inf)
