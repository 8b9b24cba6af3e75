"""What an exam is made of: questions with their answers and budgets, a paper for each set of weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..workload.network import Network
from ..workload.precision import Tier
from ..workload.reference import Reference
from .error_bounds import Oracle
from .sensitivity import Certificate

KAIMING, DEFAULT = "kaiming", "kernelbench"


@dataclass(frozen=True)
class Question:
    """One batch with its answer and the error that each image may have.

    Attributes:
        kind: what its images are.
        x: ``[N, 3, image, image]`` fp32.
        oracle: the answer; every layer of a paper's first question, the logits alone of the others.
        budget: largest relative error in norm by layer name, ``[N]``.
        eager_error: the relative error of eager fp32 itself, over the whole batch.
    """

    kind: str
    x: Tensor
    oracle: Oracle
    budget: Mapping[str, Tensor]
    eager_error: float


@dataclass(frozen=True)
class Layout:
    """A question's images once more, in unusual strides: ``view`` makes them from a copy of the question's."""

    name: str
    view: Callable[[Tensor], Tensor]
    question: Question


@dataclass(frozen=True)
class Poison:
    """A question's images with a pixel of some spoilt.

    Attributes:
        x: the images.
        spoilt: by image, what the pixel is.
        finite: where torch's own logits stay finite, ``[N, classes]``.
        question: the answers for the other images.
    """

    x: Tensor
    spoilt: Mapping[int, str]
    finite: Tensor
    question: Question

    @property
    def name(self) -> str:
        """What the pixels are."""
        return " and ".join(self.spoilt.values())


@dataclass(frozen=True)
class Change:
    """A change of weights after the candidate was built, and the answer to the first question that follows from it."""

    name: str
    apply: Callable[[torch.nn.Module], object]
    reference: Reference
    question: Question


@dataclass(frozen=True)
class Paper:
    """One set of weights and what is asked of it."""

    weights: str
    seed: int
    reference: Reference
    questions: tuple[Question, ...]
    layouts: tuple[Layout, ...] = ()
    poison: Poison | None = None
    overflow: Question | None = None
    changes: tuple[Change, ...] = ()
    unanswered: bool = False


@dataclass(frozen=True)
class Exam:
    """All papers of one network and tier, and what they can see."""

    network: Network
    tier: Tier
    effort: str
    seed: int
    device: torch.device
    papers: tuple[Paper, ...]
    certificates: tuple[Certificate, ...]

    @property
    def fingerprint(self) -> tuple[float, ...]:
        """Another one where somebody has written into the answers or budgets of the papers' questions."""
        asked = [question for paper in self.papers for question in paper.questions]
        return tuple(float(t.sum()) for q in asked for t in (*q.oracle.outputs.values(), *q.budget.values()))

    @property
    def calls(self) -> int:
        """How often a candidate is going to be called, for a progress bar."""
        return sum(
            len(p.questions) + len(p.layouts) + len(p.changes) + bool(p.poison) + bool(p.overflow) + p.unanswered
            + bool(p.changes)  # the first question again
            for p in self.papers
        )  # fmt: skip


def backwards(question: Question) -> Question:
    """The question with its images in reverse order."""
    answers = Oracle(
        *({k: v.flip(0) for k, v in part.items()} for part in (question.oracle.outputs, question.oracle.damping))
    )
    budget = {name: value.flip(0) for name, value in question.budget.items()}
    return Question(question.kind, question.x.flip(0), answers, budget, question.eager_error)
