"""What a test suite is made of: weight sets, and cases with their float64 references and error bounds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..workload.network import Network
from ..workload.precision import Tier
from ..workload.reference import Reference
from .error_bounds import Oracle
from .sensitivity import Certificate

KAIMING, DEFAULT, INTEGERS = "kaiming", "kernelbench", "integers"


@dataclass(frozen=True)
class TestCase:
    """One batch with its reference and the error that each image may have.

    Attributes:
        kind: what its images are.
        x: ``[N, 3, image, image]`` fp32.
        oracle: the float64 outputs; every layer of a weight set's first case, the logits alone of the others.
        error_bound: largest relative error in norm by layer name, ``[N]`` float64.
    """

    __test__ = False  # pytest collects classes that are called Test...

    kind: str
    x: Tensor
    oracle: Oracle
    error_bound: Mapping[str, Tensor]


@dataclass(frozen=True)
class StridedCase:
    """A case's images in unusual strides: ``view`` makes them from a copy of the case's."""

    name: str
    view: Callable[[Tensor], Tensor]
    case: TestCase


@dataclass(frozen=True)
class NonFiniteCase:
    """A case's images with one pixel of some set to NaN or infinity.

    Attributes:
        x: the images.
        pixels: by image, what its pixel is.
        finite: where torch's own logits stay finite, ``[N, classes]``.
        case: the reference for the other images.
    """

    x: Tensor
    pixels: Mapping[int, str]
    finite: Tensor
    case: TestCase

    @property
    def name(self) -> str:
        """What the pixels are."""
        return " and ".join(self.pixels.values())


@dataclass(frozen=True)
class WeightChange:
    """A change of weights after the candidate was built, and the first case with the reference that follows from it."""

    name: str
    apply: Callable[[torch.nn.Module], object]
    reference: Reference
    case: TestCase


@dataclass(frozen=True)
class WeightSet:
    """One set of weights and the cases that run on it; ``untraced``: only for candidates that have no trace."""

    weights: str
    seed: int
    reference: Reference
    cases: tuple[TestCase, ...]
    layouts: tuple[StridedCase, ...] = ()
    non_finite: NonFiniteCase | None = None
    overflow: TestCase | None = None
    changes: tuple[WeightChange, ...] = ()
    late_case: bool = False
    untraced: bool = False


@dataclass(frozen=True)
class TestSuite:
    """All weight sets of one network and tier, and what they can tell apart."""

    __test__ = False

    network: Network
    tier: Tier
    effort: str
    seed: int
    device: torch.device
    weight_sets: tuple[WeightSet, ...]
    certificates: tuple[Certificate, ...]

    @property
    def fingerprint(self) -> tuple[float, ...]:
        """Changes where a reference or error bound of the cases is written to."""
        cases = [case for weight_set in self.weight_sets for case in weight_set.cases]
        return tuple(float(t.sum()) for c in cases for t in (*c.oracle.outputs.values(), *c.error_bound.values()))

    @property
    def calls(self) -> int:
        """How often a candidate is going to be called, for a progress bar."""
        return sum(
            len(s.cases) + len(s.layouts) + len(s.changes) + bool(s.non_finite) + bool(s.overflow) + s.late_case
            + bool(s.changes)  # the first case again
            for s in self.weight_sets
        )  # fmt: skip


def backwards(case: TestCase) -> TestCase:
    """The case with its images in reverse order."""
    oracle = Oracle(*({k: v.flip(0) for k, v in part.items()} for part in (case.oracle.outputs, case.oracle.damping)))
    return TestCase(case.kind, case.x.flip(0), oracle, {name: v.flip(0) for name, v in case.error_bound.items()})
