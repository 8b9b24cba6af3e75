"""What a timer runs: a forward on one static input, new in content in every call, its outputs checked after."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..workload.reference import relative_error

KEPT = 8  # outputs kept for the check, drawn at random among all timed calls so that none knows it is watched


def fill_images(x: Tensor, generator: torch.Generator) -> None:
    """U[0, 1), as KernelBench draws its images."""
    x.uniform_(generator=generator)


def fill_activations(x: Tensor, generator: torch.Generator) -> None:
    """max(N(0, 1), 0), as a layer behind a ReLU sees it: half the numbers are zero, which draws less power."""
    x.normal_(generator=generator).clamp_(min=0)


@dataclass(frozen=True)
class Check:
    """Whether what was timed was also computed.

    Attributes:
        kept: outputs compared.
        worst: largest relative error of a kept output against strict fp32 eager on the content of its own call.
        bound: the largest that passes.
        mistaken: kept outputs that are no nearer to what the variant answers when asked for the same content again
            than to what it answers for another call's.
    """

    kept: int
    worst: float
    bound: float
    mistaken: int

    @property
    def passed(self) -> bool:
        """At least one output was kept, all are close, and each answers its own content."""
        return self.kept > 0 and self.worst <= self.bound and self.mistaken == 0

    def __str__(self) -> str:
        return (
            f"{self.kept} outputs, worst relative error {self.worst:.2g} (bound {self.bound:.2g}), "
            f"{self.mistaken} no nearer to their own content's answer than to another call's"
        )


class TimedCall:
    """A forward with its static input, fed from a generator whose every draw can be repeated for the check.

    Args:
        forward: the variant.
        shape: of its input, ``[batch, ...]``, fp32.
        device: where the input lives, "cpu" or "cuda".
        fill: writes content of one distribution into a tensor in place.
        seed: of the first draw; draws count up from it.
        keep: how many outputs to keep.
    """

    def __init__(
        self,
        forward: Callable[[Tensor], Tensor],
        shape: tuple[int, ...],
        device: str,
        fill: Callable[[Tensor, torch.Generator], None] = fill_images,
        seed: int = 0,
        keep: int = KEPT,
    ):
        self._forward, self._fill, self._keep = forward, fill, keep
        self._generator = torch.Generator(device)
        self._choice = random.Random(seed)
        self._draw = seed << 20
        self._seen = 0
        self._outputs: list[tuple[int, Tensor]] = []
        self._answers: list[Tensor] = []
        self.x = torch.zeros(shape, device=device)
        self.feed()

    def _write(self, draw: int) -> None:
        self._fill(self.x, self._generator.manual_seed(draw))

    def feed(self) -> None:
        """New content, in place: the input keeps its address, as a CUDA graph needs."""
        self._draw += 1
        self._write(self._draw)

    def call(self) -> Tensor:
        """The forward on the present content."""
        with torch.no_grad():
            return self._forward(self.x)

    def keep(self, output: Tensor) -> None:
        """Reservoir sampling: after n calls each of them has been kept with the same probability."""
        self._seen += 1
        slot = len(self._outputs) if len(self._outputs) < self._keep else self._choice.randrange(self._seen)
        kept = (self._draw, output.detach().clone()) if slot < self._keep else None
        if kept and slot == len(self._outputs):
            self._outputs.append(kept)
        elif kept:
            self._outputs[slot] = kept

    def repeat(self) -> None:
        """Ask the variant again for each kept content, last first, so that an answer which depends on the call shows.

        Two images' logits differ by a hundredth, and fp8's differ from fp32's by a tenth: which content an answer
        belongs to, only the variant's own answers tell at every precision.
        """
        self._answers = []
        for draw, _ in reversed(self._outputs):
            self._write(draw)
            self._answers.insert(0, self.call().detach().clone())

    def check(self, expected: Callable[[Tensor], Tensor], bound: float) -> Check:
        """Compare what was kept with ``expected`` (strict fp32) and with ``repeat``'s answers, and forget it.

        Args:
            expected: the reference's forward.
            bound: the largest relative error that passes.
        """
        kept, answers = self._outputs, self._answers
        self._outputs, self._answers, self._seen = [], [], 0
        if not kept:
            return Check(0, float("inf"), bound, 0)
        with torch.no_grad():
            errors = []
            for draw, output in kept:
                self._write(draw)
                errors.append(relative_error(output, expected(self.x)))
        return Check(len(kept), max(errors), bound, mistaken([output for _, output in kept], answers))


def mistaken(outputs: list[Tensor], answers: list[Tensor]) -> int:
    """How many outputs are no nearer to their own answer than to each of the others; one output alone cannot be.

    Args:
        outputs: of the timed calls.
        answers: for the same contents, in the same order.
    """
    if len(outputs) < 2:
        return 0
    got, own = (torch.stack([t.double().flatten() for t in tensors]) for tensors in (outputs, answers))
    distance = torch.cdist(got, own)
    others = distance + torch.diag(torch.full_like(distance.diagonal(), torch.inf))
    return int((distance.diagonal() >= others.amin(1)).sum())
