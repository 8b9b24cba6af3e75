"""What a timer runs: a forward on one static input, new in content in every call, its outputs checked after."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..workload.precision import TIERS
from ..workload.reference import relative_error

KEPT = 8  # outputs kept for the check, drawn at random among all timed calls so that none knows it is watched
ROUNDINGS = 8  # a forward's error is a few roundings of its operands (2.4 u measured on VGG19); a wrong answer is not
SLACK = 1e-5  # fp32 accumulation over up to 25,088 products, whatever the operands


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
        mistaken: kept outputs that lie nearer to the expected output of another call than to their own.
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
            f"{self.mistaken} nearer to another call's answer than to their own"
        )


class Sampled:
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

    def check(self, expected: Callable[[Tensor], Tensor], tier: str) -> Check:
        """Compare what was kept with ``expected`` (strict fp32) on the same content, and forget it.

        Nearness is judged after each side's mean over the kept calls is taken off: what all answers share (biases,
        and the error that rounded weights put into every one) says nothing about which content was read.
        """
        kept, self._outputs, self._seen = self._outputs, [], 0
        bound = ROUNDINGS * TIERS[tier].unit_roundoff + SLACK
        if not kept:
            return Check(0, float("inf"), bound, 0)
        with torch.no_grad():
            wants = []
            for draw, _ in kept:
                self._write(draw)
                wants.append(expected(self.x).double().flatten())
        want, got = torch.stack(wants), torch.stack([output.double().flatten() for _, output in kept])
        worst = max(relative_error(g, w) for g, w in zip(got, want, strict=True))
        nearest = torch.cdist(got - got.mean(0), want - want.mean(0)).argmin(1)
        mistaken = int((nearest != torch.arange(len(kept), device=nearest.device)).sum()) if len(kept) > 1 else 0
        return Check(len(kept), worst, bound, mistaken)
