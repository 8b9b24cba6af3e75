"""The gate: does a candidate compute the network, in the arithmetic that it claims?

``verify(build, network, tier)`` builds a candidate from fresh Kaiming weights, asks it the questions of ``exam.py``,
and compares image by image with float64 under the budget of ``budget.py``. Around the values it looks at everything
that lets a wrong kernel pass elsewhere: memory that was never written (freed memory is filled with NaN), inputs and
weights that were changed, outputs that share memory with something, stale weights, memoised outputs, NaN that is
swallowed, a batch whose images mix, a tensor that is not a plain fp32 one, switches and functions that were changed
(``surroundings.py``). KernelBench's own weights are asked too, for compatibility; what they can see is in the
certificate, and they never pass a candidate by themselves.

What it cannot see: a network that is right as long as it is asked, and wrong when it is timed; the outputs of timed
calls are therefore checked as well (``subject.py``). And code that is out for its judge: that one shares a process with
it, where everything can be reached in the end. Read what you run.
"""

import sys
from collections.abc import Callable

import torch

from ..workload.network import Network
from .isolation import watched
from .kernelbench import Build
from .result import Verdict
from .runner import Sitting, Stop
from .suite import prepare
from .test_case import KAIMING, Exam

Progress = Callable[[int, int, str], None]


def examine(
    build: Build,
    exam: Exam,
    *,
    stop_early: bool = False,
    through_trace: bool = False,
    progress: Progress | None = None,
) -> Verdict:
    """Put one candidate through a prepared exam.

    Args:
        build: makes a candidate from a reference, whose weights it may keep; called once a paper.
        exam: the questions, from ``prepare``; it can be used for many candidates.
        stop_early: end at the first failure.
        through_trace: read the logits off the candidate's trace, where it has one, so that a forward that takes minutes
            runs once. Only for candidates whose trace is their forward, as this project's is; nothing but values is
            looked at.
        progress: called with calls done, calls in all, and what is being asked.
    """
    verdict = Verdict(exam.tier.name, exam.network.name, exam.network.image, exam.effort, exam.seed, str(exam.device))
    verdict.certificates = list(exam.certificates)
    done = 0

    def tick(text: str) -> None:
        nonlocal done
        if progress is not None:
            progress(done, exam.calls, text)
        done += 1

    try:
        for paper in exam.papers:
            Sitting(exam, paper, verdict, WATCHED, stop_early, tick).sit(build, through_trace=through_trace)
    except Stop:
        return verdict
    verdict.eager_relative_error = max(
        (q.eager_error for p in exam.papers if p.weights == KAIMING for q in p.questions), default=None
    )
    if progress is not None:
        progress(exam.calls, exam.calls, "done")
    return verdict


def verify(
    build: Build,
    network: Network,
    tier_name: str,
    *,
    effort: str = "quick",
    seed: int | None = None,
    device: torch.device | str = "cpu",
    through_trace: bool = False,
    progress: Progress | None = None,
) -> Verdict:
    """Prepare a fresh exam and put one candidate through it.

    Args:
        build: makes a candidate, ``[N, 3, image, image]`` fp32 to ``[N, classes]`` fp32, from a ``Reference``. Where
            the candidate has ``trace(x)`` (every layer's output by name), each layer is checked too.
        network: the network.
        tier_name: the arithmetic that the candidate claims; its budget holds.
        effort: "quick", "full", or "single" (one image, and its values alone: for the interpreter at full size).
        seed: of all weights and inputs; None draws a fresh one, which the verdict names.
        device: where the candidate runs.
        through_trace: as of ``examine``.
        progress: called with calls done, calls in all, and what is being asked.

    Raises:
        UnknownName: for a tier or effort that does not exist.
        UnfitReference: where the Kaiming reference cannot fail a candidate at this tier.
    """
    exam = prepare(network, tier_name, effort, seed=seed, device=device)
    return examine(build, exam, through_trace=through_trace, progress=progress)


JUDGES = (
    *("compare", "emulation", "error_bounds", "images", "isolation", "kernelbench", "locate", "result", "runner"),
    *("sensitivity", "suite", "test_case", "verify"),
)
WATCHED = watched(
    *(sys.modules[f"{__package__}.{name}"] for name in JUDGES)
)  # as they are before a candidate is loaded
