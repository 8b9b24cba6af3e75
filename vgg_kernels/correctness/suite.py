"""What the gate asks, and the float64 answers, prepared before any candidate exists.

A paper is one set of weights with its questions; a question is one batch with its oracle and its error budget. The
answers are computed first, so nothing that a candidate does (patching a function, writing into a weight) reaches them.
One question is answered last instead, when the candidate has: its answer cannot have been looked up.

Where one image has to do (an interpreted VGG19), it is a photograph lit from the side. A plain one will not: its logits
are mostly the biases', which a black image gives too, and any two images of one size and light come out alike, since
every ReLU layer draws them together. On VGG19 with Kaiming weights plain images of all kinds lie 0.04 to 0.15 apart
(relative, in norm), which is fp8's budget. Light outshines the biases; and light from the other side enters the first
classifier layer elsewhere, with two ReLU layers left to draw the two together instead of eighteen. The certificate of
such an exam is the distance to the *nearest* of three strangers: no image, another photograph in the same light, the
same one lit from the other side.
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
from ..workload.precision import FP32_MAX, Tier
from ..workload.precision import tier as find_tier
from ..workload.reference import Reference, activations, relative_error
from ..workload.weights import KERNELBENCH_SEED, reference
from .emulation import Emulation
from .error_bounds import Oracle, budgets, consult, emulated_limit
from .images import LAYOUTS, mixed, one_hot, side_lit
from .sensitivity import Certificate, nearest, normwise, require_fit
from .test_case import DEFAULT, KAIMING, Change, Exam, Layout, Paper, Poison, Question, backwards

QUIET = 2.0**-4  # the faintest image of "range", as a factor on N(0, 1)
LOUD = 2.0**6  # the loudest, unless the tier's range ends before
SPIKE = 2.0**10  # a lit pixel, bright enough to outshine the biases, unless the tier's range ends before
SAFE = 4  # activations of the inputs above stay below the tier's largest number over this
LATER = "extremes"  # what later weight sets are asked
UNUSUAL_BATCHES = range(11, 18)  # in how many images: nobody can have prepared for the number
UNANSWERED = ("normal", 1)  # the question that is answered last: kind and batch
BEYOND = 2.0**4  # the overflow question's activations, as a multiple of the tier's largest number


@dataclass(frozen=True)
class Effort:
    """How much is asked.

    Attributes:
        seeds: Kaiming weight sets.
        batches: batch sizes of the first weight set.
        kinds: each kind is asked at each batch size.
        layouts: unusual strides in which the first question is asked again, its images in reverse order.
        default_batch: batch size on KernelBench's default weights; 0 leaves them out.
        values_only: no question beyond ``kinds`` is asked.
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


def _power_of_two(x: float) -> float:
    return 2.0 ** floor(log2(x))


class Author:
    """Writes the papers of one exam; holds what all of them need."""

    def __init__(self, network: Network, tier: Tier, device: torch.device):
        self.network, self.tier, self.device = network, tier, device
        self._emulated: tuple[Reference, Emulation] | None = None  # the last one, for its weights are copies

    def emulation(self, model: Reference) -> Emulation:
        """The tier's emulation of the model."""
        if self._emulated is None or self._emulated[0] is not model:
            self._emulated = model, Emulation(model, self.tier.name)
        return self._emulated[1]

    def question(self, model: Reference, kind: str, x: Tensor, *, keep: bool = False) -> Question:
        """Images with their answer and budget; ``keep`` keeps every layer's answer too."""
        x = x.to(self.device)
        oracle = consult(model, x)
        last, budget = self.network.layers[-1].name, budgets(self.network, self.tier, oracle.damping)
        with strict_fp32():
            eager = relative_error(model(x), oracle.logits)
            limit = emulated_limit(self.emulation(model), x, oracle.logits)
        budget[last] = torch.minimum(budget[last], limit)
        if not keep:
            oracle = Oracle({last: oracle.logits}, {last: oracle.damping[last]})
        return Question(kind, x, oracle, budget, eager)

    def light(self, model: Reference, x: Tensor) -> float:
        """The power of two by which x can be multiplied so that its activations stay clear of the tier's range."""
        outputs = activations(model, self.network, x.to(self.device), torch.float32).values()
        largest = max(float(y.abs().max()) for y in (x, *outputs))
        return min(LOUD, _power_of_two(self.tier.largest / SAFE / largest))

    def images(self, model: Reference, kind: str, batch: int, seed: int) -> Tensor:
        """Images of one kind, ``[batch, 3, image, image]`` fp32 on the CPU, as loud as the tier and weights allow."""
        if kind == "mixed":
            return mixed(self.network, batch, seed)
        if kind == "one-hot":
            return one_hot(self.network, batch, min(SPIKE, _power_of_two(self.tier.largest / SAFE)))
        if kind == "range":
            x = draw(self.network, batch, "normal", seed)
            return x * torch.exp2(torch.linspace(log2(self.light(model, x)), log2(QUIET), batch)).view(-1, 1, 1, 1)
        if kind == "side-lit":
            x = draw(self.network, batch, "photographs", seed)
            return side_lit(x, self.light(model, x[:1]))
        if kind == "extremes":  # the loudest, all of one_hot's pixels in one image, the faintest
            x = self.images(model, "range", batch, seed)
            x[1:2] = self.images(model, "one-hot", 9, seed).sum(0)
            return x
        return draw(self.network, batch, kind, seed)

    def layouts(self, model: Reference, names: tuple[str, ...], plain: Question) -> tuple[Layout, ...]:
        """The first question in other strides and reverse order; "expanded" makes every image of it from the last."""
        found = []
        for name in names:
            question = backwards(plain)
            if name == "expanded":
                question = self.question(model, "expanded", plain.x[-1:].expand_as(plain.x).contiguous())
            found.append(Layout(name, LAYOUTS[name], question))
        return tuple(found)

    def poison(self, model: Reference, plain: Question) -> Poison:
        """The first question with one pixel of image 1 and one of image 2 spoilt."""
        x, spoilt = plain.x.clone(), {1: "NaN", 2: "infinity"}
        for image, name in spoilt.items():
            x[image, 2, self.network.image // 2, 1] = float(name)
        return Poison(x, spoilt, torch.isfinite(model(x)), plain)

    def overflow(self, model: Reference, x: Tensor) -> Question | None:
        """Images beyond the tier's range; None for a tier with fp32's."""
        if self.tier.largest >= FP32_MAX:
            return None
        scale = _power_of_two(BEYOND * self.tier.largest / float(x.abs().max()))
        return self.question(model, "overflow", x * scale)

    def changes(self, model: Reference, other: Reference, x: Tensor) -> tuple[Change, ...]:
        """Weights edited in place, then others loaded."""
        edited = deepcopy(model)
        edit_in_place(edited)
        state = other.state_dict()
        return (
            Change("in place", edit_in_place, edited, self.question(edited, "weights changed in place", x)),
            Change(
                "load_state_dict",
                lambda module: module.load_state_dict(state),
                other,
                self.question(other, "weights loaded", x),
            ),
        )

    def strangers(self, model: Reference, seed: int) -> dict[str, Tensor]:
        """What must not pass for the side-lit photograph of that seed: logits ``[1, classes]`` float64 by name."""
        photographs = draw(self.network, 2, "photographs", seed)
        light = self.light(model, photographs[:1])
        images = {
            "no image": torch.zeros_like(photographs[:1]),
            "another photograph": side_lit(photographs[1:], light),
            "light from the other side": side_lit(photographs[:1], light, other_side=True),
        }
        return {name: consult(model, x.to(self.device)).logits for name, x in images.items()}

    def certify(
        self, weights: str, model: Reference, questions: list[Question], seed: int
    ) -> tuple[Certificate, Tensor]:
        """What the questions can see, and the logits that say so."""
        last = self.network.layers[-1].name
        outputs = torch.cat([q.oracle.logits for q in questions])
        budget = torch.cat([q.budget[last] for q in questions])
        kinds = ", ".join(dict.fromkeys(q.kind for q in questions))
        name = f"this gate, {self.tier.name}"
        if len(outputs) > 1:
            return normwise(name, weights, kinds, outputs, budget), outputs
        strangers = self.strangers(model, seed)
        others = torch.cat(list(strangers.values()))
        inputs = f"{kinds}; {', '.join(strangers)}"
        return nearest(name, weights, inputs, outputs, others, float(budget)), torch.cat([outputs, others])


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
    schemes: tuple[str, ...] = (DEFAULT, KAIMING),
    device: torch.device | str = "cpu",
) -> Exam:
    """Draw weights and inputs from fresh seeds and answer everything in float64.

    Args:
        network: the network.
        tier_name: whose error budget holds.
        effort: "single", "quick" or "full".
        seed: None draws a fresh one; the exam keeps it, and gives the same questions for it again.
        schemes: "kaiming" (the real test), "kernelbench" (for compatibility), or both.
        device: where the candidate is to run.

    Raises:
        UnknownName: for a tier, effort or scheme that does not exist.
        UnfitReference: where the Kaiming reference cannot fail a candidate.
    """
    tier, amount = find_tier(tier_name), lookup("effort", effort, EFFORTS)
    seed = secrets.randbits(30) if seed is None else seed
    device = torch.device(device)
    author = Author(network, tier, device)
    papers: list[Paper] = []
    certificates: list[Certificate] = []

    def add(paper: Paper) -> None:
        certificate, logits = author.certify(paper.weights, paper.reference, list(paper.questions), seed)
        if paper.weights == KAIMING:
            require_fit(logits, certificate)
        papers.append(paper)
        certificates.append(certificate)

    with torch.no_grad():
        if DEFAULT in schemes and amount.default_batch:
            model = reference(network, DEFAULT).to(device)
            x = draw(network, amount.default_batch, "uniform", seed)
            add(Paper(DEFAULT, KERNELBENCH_SEED, model, (author.question(model, "uniform", x, keep=True),)))
        models = [reference(network, KAIMING, seed + 1 + i).to(device) for i in range(amount.seeds)]
        for i, model in enumerate(models if KAIMING in schemes else []):
            asked = [(batch, kind) for batch in amount.batches for kind in amount.kinds]
            if i > 0:
                asked = [(UNUSUAL_BATCHES[(seed + i) % len(UNUSUAL_BATCHES)], LATER)]
            questions = [
                author.question(model, kind, author.images(model, kind, batch, seed + 100 * i + 10 * j), keep=j == 0)
                for j, (batch, kind) in enumerate(asked)
            ]
            extra: dict = {}
            if i == 0 and not amount.values_only:
                plain = questions[0]
                extra = {
                    "layouts": author.layouts(model, amount.layouts, plain),
                    "poison": author.poison(model, plain),
                    "overflow": author.overflow(model, plain.x),
                    "changes": author.changes(model, models[-1], plain.x),
                    "unanswered": True,
                }
            add(Paper(KAIMING, seed + 1 + i, model, tuple(questions), **extra))
    return Exam(network, tier, effort, seed, device, tuple(papers), tuple(certificates))


def unanswered(exam: Exam, paper: Paper) -> tuple[str, Tensor]:
    """The kind and the image of the question that is answered only when the candidate has."""
    kind, batch = UNANSWERED
    return kind, draw(exam.network, batch, kind, paper.seed + 10_000).to(exam.device)


@torch.no_grad()
def answer_now(exam: Exam, paper: Paper, kind: str, x: Tensor) -> Question:
    """That question with its answer and budget, from weights drawn once more: nothing of it lay in memory before."""
    model = reference(exam.network, paper.weights, paper.seed).to(exam.device)
    return Author(exam.network, exam.tier, exam.device).question(model, kind, x)
