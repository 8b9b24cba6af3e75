"""The test suite of one network and tier: weights, inputs, float64 references and error bounds.

Everything is prepared before a candidate is built, so nothing that a candidate changes (a patched function, a weight
written to) reaches the references. One case is the exception: its reference is computed after the candidate's output,
so it cannot have been looked up in memory.

Weights come in three schemes: KernelBench's default, for compatibility; Kaiming's, the real test; and small integers
(``images.integer_weights``), for which every tier is exact, so that a fault shows that fp8's rounding would hide.

A single image (an interpreted VGG19) is a photograph lit from the side. A plain one will not do: its logits are mostly
the biases', which a black image gives too, and any two images of one size and brightness come out alike, since every
ReLU layer draws them together. On VGG19 with Kaiming weights plain images of all kinds lie 0.04 to 0.15 apart
(relative, in norm), which is about fp8's error bound. Bright light outweighs the biases; and light from the other side
enters the first classifier layer elsewhere, with two ReLU layers left to draw the two together instead of eighteen. The
certificate of such a suite is the distance to the *nearest* of three other inputs: no image, another photograph in the
same light, the same one lit from the other side.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from math import floor, log2

import torch
from torch import Tensor

from ..workload.inputs import draw
from ..workload.lookup import lookup
from ..workload.network import Network
from ..workload.precision import FP32_MAX, TIERS, Tier
from ..workload.precision import tier as find_tier
from ..workload.reference import Reference, activations
from ..workload.weights import KERNELBENCH_SEED, reference
from .error_bounds import FP64Sums, Oracle, emulated_limit, error_bounds, reference_fp64
from .images import LAYOUTS, integer_images, integer_weights, mixed, one_hot, side_lit
from .sensitivity import Certificate, nearest, normwise, require_fit
from .test_case import (
    DEFAULT,
    INTEGERS,
    KAIMING,
    NonFiniteCase,
    StridedCase,
    TestCase,
    TestSuite,
    WeightChange,
    WeightSet,
    backwards,
)

FAINT = 2.0**-4  # the faintest image of "range", as a factor on N(0, 1)
BRIGHT = 2.0**6  # the brightest, unless the tier's range ends before
SPIKE = 2.0**10  # a lit pixel, bright enough to outshine the biases, unless the tier's range ends before
SAFE = 4  # activations of the inputs above stay below the tier's largest number over this
LATER = "extremes"  # images of the later Kaiming weight sets
UNUSUAL_BATCHES = range(11, 18)  # batch sizes that a candidate cannot have prepared for
LATE_CASE = ("normal", 1)  # kind and batch of the case whose reference is computed last
INTEGER_BATCH = 3  # as of the quick suite, so that no other batch size is compiled for it
BEYOND = 2.0**4  # activations of the overflow case, as a multiple of the tier's largest number


@dataclass(frozen=True)
class Effort:
    """How many cases a suite has.

    Attributes:
        seeds: Kaiming weight sets.
        batches: batch sizes of the first weight set.
        kinds: kinds of images, each at each batch size.
        layouts: unusual strides in which the first case is repeated, its images in reverse order.
        default_batch: batch size on KernelBench's default weights; 0 leaves them out.
        values_only: nothing but ``kinds`` is run, and integer weights only where the candidate has no trace.
    """

    seeds: int
    batches: tuple[int, ...]
    kinds: tuple[str, ...]
    layouts: tuple[str, ...] = ()
    default_batch: int = 0
    values_only: bool = False


EFFORTS = {
    "single": Effort(1, (1,), ("side-lit",), values_only=True),
    "quick": Effort(2, (3,), ("mixed", "extremes"), ("channels_last slice",), default_batch=3),
    "full": Effort(
        3,
        (3, 1, 10),
        ("mixed", "uniform", "photographs", "normal", "extremes", "range", "one-hot"),
        ("channels_last", "strided slice", "expanded"),
        default_batch=10,
    ),
}


ALWAYS_BATCH_SIZES = tuple(
    dict.fromkeys((*EFFORTS["quick"].batches, EFFORTS["quick"].default_batch, LATE_CASE[1], INTEGER_BATCH))
)


def _unusual_batch(seed: int, weight_set: int) -> int:
    return UNUSUAL_BATCHES[(seed + weight_set) % len(UNUSUAL_BATCHES)]


def batch_sizes(seed: int) -> tuple[int, ...]:
    """The batch sizes of every call that a quick suite of that seed makes, each once: what is to be compiled ahead."""
    later = (_unusual_batch(seed, i) for i in range(1, EFFORTS["quick"].seeds))
    return tuple(dict.fromkeys((*ALWAYS_BATCH_SIZES, *later)))


def _power_of_two(x: float) -> float:
    return 2.0 ** floor(log2(x))


class SuiteBuilder:
    """Makes the weight sets and cases of one suite."""

    def __init__(self, network: Network, tier: Tier, device: torch.device):
        self.network, self.tier, self.device = network, tier, device
        self._emulated: tuple[Reference, FP64Sums] | None = None  # the last one, for its weights are copies

    def emulation(self, model: Reference) -> FP64Sums:
        """The tier's emulation of the model."""
        if self._emulated is None or self._emulated[0] is not model:
            self._emulated = model, FP64Sums(model, self.tier.name)
        return self._emulated[1]

    def test_case(self, model: Reference, kind: str, x: Tensor, *, keep: bool = False) -> TestCase:
        """Images with their reference and error bounds; ``keep`` keeps every layer's output too."""
        x = x.to(self.device)
        oracle = reference_fp64(model, x)
        last, bound = self.network.layers[-1].name, error_bounds(self.network, self.tier, oracle.damping)
        bound[last] = torch.minimum(bound[last], emulated_limit(self.emulation(model), x, oracle.logits))
        if not keep:
            oracle = Oracle({last: oracle.logits}, {last: oracle.damping[last]})
        return TestCase(kind, x, oracle, bound)

    def integers(self, seed: int, batch: int, untraced: bool) -> WeightSet:
        """Integer weights and images: no tier rounds an operand, so every tier has fp32's error bound."""
        x = integer_images(self.network, batch, seed)
        model = integer_weights(self.network, x, seed).to(self.device)
        x = x.to(self.device)
        oracle = reference_fp64(model, x)
        bound = error_bounds(self.network, TIERS["fp32"], oracle.damping)
        return WeightSet(INTEGERS, seed, model, (TestCase(INTEGERS, x, oracle, bound),), untraced=untraced)

    def light(self, model: Reference, x: Tensor) -> float:
        """The largest power of two, up to ``BRIGHT``, times which x keeps its activations within the tier's range."""
        outputs = activations(model, self.network, x.to(self.device), torch.float32).values()
        largest = max(float(y.abs().max()) for y in (x, *outputs))
        return min(BRIGHT, _power_of_two(self.tier.largest / SAFE / largest))

    def images(self, model: Reference, kind: str, batch: int, seed: int) -> Tensor:
        """Images of one kind, ``[batch, 3, image, image]`` fp32 on the CPU, as bright as the tier and weights allow."""
        if kind == "mixed":
            return mixed(self.network, batch, seed)
        if kind == "one-hot":
            return one_hot(self.network, batch, min(SPIKE, _power_of_two(self.tier.largest / SAFE)))
        if kind == "range":
            x = draw(self.network, batch, "normal", seed)
            return x * torch.exp2(torch.linspace(log2(self.light(model, x)), log2(FAINT), batch)).view(-1, 1, 1, 1)
        if kind == "side-lit":
            x = draw(self.network, batch, "photographs", seed)
            return side_lit(x, self.light(model, x[:1]))
        if kind == "extremes":  # the brightest, all of one_hot's pixels in one image, the faintest
            x = self.images(model, "range", batch, seed)
            x[1:2] = self.images(model, "one-hot", 9, seed).sum(0)
            return x
        return draw(self.network, batch, kind, seed)

    def layouts(self, model: Reference, names: tuple[str, ...], plain: TestCase) -> tuple[StridedCase, ...]:
        """The first case in other strides and reverse order; "expanded" makes every image of it from the last."""
        found = []
        for name in names:
            case = backwards(plain)
            if name == "expanded":
                case = self.test_case(model, "expanded", plain.x[-1:].expand_as(plain.x).contiguous())
            found.append(StridedCase(name, LAYOUTS[name], case))
        return tuple(found)

    def non_finite(self, model: Reference, plain: TestCase) -> NonFiniteCase:
        """The first case with one pixel of image 1 set to NaN and one of image 2 to infinity."""
        x, pixels = plain.x.clone(), {1: "NaN", 2: "infinity"}
        for image, name in pixels.items():
            x[image, 2, self.network.image // 2, 1] = float(name)
        return NonFiniteCase(x, pixels, torch.isfinite(model(x)), plain)

    def overflow(self, model: Reference, x: Tensor) -> TestCase | None:
        """Images beyond the tier's range; None for a tier with fp32's."""
        if self.tier.largest >= FP32_MAX:
            return None
        scale = _power_of_two(BEYOND * self.tier.largest / float(x.abs().max()))
        return self.test_case(model, "overflow", x * scale)

    def changes(self, model: Reference, other: Reference, x: Tensor) -> tuple[WeightChange, ...]:
        """Weights edited in place, then others loaded."""
        edited = deepcopy(model)
        edit_in_place(edited)
        state = other.state_dict()
        return (
            WeightChange("in place", edit_in_place, edited, self.test_case(edited, "weights changed in place", x)),
            WeightChange(
                "load_state_dict",
                lambda module: module.load_state_dict(state),
                other,
                self.test_case(other, "weights loaded", x),
            ),
        )

    def others(self, model: Reference, seed: int) -> dict[str, Tensor]:
        """What must not pass for the side-lit photograph of that seed: logits ``[1, classes]`` float64 by name."""
        photographs = draw(self.network, 2, "photographs", seed)
        light = self.light(model, photographs[:1])
        images = {
            "no image": torch.zeros_like(photographs[:1]),
            "another photograph": side_lit(photographs[1:], light),
            "light from the other side": side_lit(photographs[:1], light, other_side=True),
        }
        return {name: reference_fp64(model, x.to(self.device)).logits for name, x in images.items()}

    def certify(self, weight_set: WeightSet, seed: int) -> tuple[Certificate, Tensor]:
        """What the cases of a weight set can tell apart, and the logits from which that follows."""
        last, cases = self.network.layers[-1].name, weight_set.cases
        outputs = torch.cat([case.oracle.logits for case in cases])
        bound = torch.cat([case.error_bound[last] for case in cases])
        kinds = ", ".join(dict.fromkeys(case.kind for case in cases))
        name = f"this gate, {self.tier.name}"
        if len(outputs) > 1:
            return normwise(name, weight_set.weights, kinds, outputs, bound), outputs
        others = self.others(weight_set.reference, seed)
        logits = torch.cat(list(others.values()))
        inputs = f"{kinds}; {', '.join(others)}"
        return nearest(name, weight_set.weights, inputs, outputs, logits, float(bound)), torch.cat([outputs, logits])


@torch.no_grad()
def edit_in_place(module: torch.nn.Module) -> None:
    """Double the first convolution's weights and negate the last layer's: no logit stays what it was."""
    weights = [p for name, p in module.named_parameters() if name.endswith("weight")]
    weights[0].mul_(2)
    weights[-1].neg_()


@contextmanager
def strict_fp32() -> Iterator[None]:
    """Within it eager's convolutions and matrix products are plain fp32, on a GPU too."""
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


def prepare(
    network: Network,
    tier_name: str,
    effort: str = "quick",
    *,
    seed: int | None = None,
    schemes: tuple[str, ...] = (DEFAULT, KAIMING, INTEGERS),
    device: torch.device | str = "cpu",
) -> TestSuite:
    """Draw weights and inputs from fresh seeds and compute every reference in float64.

    Args:
        network: the network.
        tier_name: whose error bounds hold.
        effort: "single", "quick" or "full".
        seed: None draws a fresh one; the suite keeps it, and is the same for it again.
        schemes: of the weights, one or several of "kernelbench", "kaiming" and "integers".
        device: where the candidate is to run.

    Raises:
        UnknownName: for a tier or effort that does not exist.
        UnfitReference: where the Kaiming reference cannot fail a candidate.
    """
    tier, amount = find_tier(tier_name), lookup("effort", effort, EFFORTS)
    seed = secrets.randbits(30) if seed is None else seed
    device = torch.device(device)
    builder = SuiteBuilder(network, tier, device)
    weight_sets: list[WeightSet] = []
    certificates: list[Certificate] = []

    def add(weight_set: WeightSet) -> None:
        certificate, logits = builder.certify(weight_set, seed)
        if weight_set.weights == KAIMING:
            require_fit(logits, certificate)
        weight_sets.append(weight_set)
        certificates.append(certificate)

    with torch.no_grad():
        if DEFAULT in schemes and amount.default_batch:
            model = reference(network, DEFAULT).to(device)
            x = draw(network, amount.default_batch, "uniform", seed)
            add(WeightSet(DEFAULT, KERNELBENCH_SEED, model, (builder.test_case(model, "uniform", x, keep=True),)))
        count = amount.seeds if KAIMING in schemes else 0
        models = [reference(network, KAIMING, seed + 1 + i).to(device) for i in range(count)]
        for i, model in enumerate(models):
            kinds = [(batch, kind) for batch in amount.batches for kind in amount.kinds]
            if i > 0:
                kinds = [(_unusual_batch(seed, i), LATER)]
            cases = [
                builder.test_case(model, kind, builder.images(model, kind, batch, seed + 100 * i + 10 * j), keep=j == 0)
                for j, (batch, kind) in enumerate(kinds)
            ]
            extra: dict = {}
            if i == 0 and not amount.values_only:
                plain = cases[0]
                extra = {
                    "layouts": builder.layouts(model, amount.layouts, plain),
                    "non_finite": builder.non_finite(model, plain),
                    "overflow": builder.overflow(model, plain.x),
                    "changes": builder.changes(model, models[-1], plain.x),
                    "late_case": True,
                }
            add(WeightSet(KAIMING, seed + 1 + i, model, tuple(cases), **extra))
        if INTEGERS in schemes:
            add(builder.integers(seed, INTEGER_BATCH, untraced=amount.values_only))
    return TestSuite(network, tier, effort, seed, device, tuple(weight_sets), tuple(certificates))


def late_case(suite: TestSuite, weight_set: WeightSet) -> tuple[str, Tensor]:
    """The kind and the image of the case whose reference is computed only after the candidate's output."""
    kind, batch = LATE_CASE
    return kind, draw(suite.network, batch, kind, weight_set.seed + 10_000).to(suite.device)


@torch.no_grad()
def add_reference(suite: TestSuite, weight_set: WeightSet, kind: str, x: Tensor) -> TestCase:
    """That case, from weights drawn once more: nothing of it was in memory before."""
    model = reference(suite.network, weight_set.weights, weight_set.seed).to(suite.device)
    return SuiteBuilder(suite.network, suite.tier, suite.device).test_case(model, kind, x)
