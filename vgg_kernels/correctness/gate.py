"""The gate: does a candidate compute the network, in the arithmetic that it claims?

``verify(build, network, tier)`` builds a candidate from fresh weights, runs the test suite (``suite.py``), and compares
image by image with float64 within the tier's error bounds (``error_bounds.py``). Around the values it checks
everything that lets a wrong kernel pass elsewhere: memory that was never written (freed memory is filled with NaN),
inputs and weights that were changed, outputs that share memory with something, stale weights, memoised outputs, NaN
that is lost, images of a batch that mix, a tensor that is not a plain fp32 one, switches and functions that were
replaced (``isolation.py``). KernelBench's own weights run too, for compatibility; what they can tell apart is in the
certificate, and they never pass a candidate by themselves.

What it cannot find: a network that is right while it is checked, and wrong when it is timed; the outputs of timed calls
are therefore compared as well (``measure``). And code that attacks the check: it shares a process with it, where
everything can be reached in the end. Read what you run.

On a GPU every check runs at full size. In Triton's interpreter a forward of VGG19 takes minutes, so there its values
are checked at full size on one photograph, layer by layer, and everything else on VGG11 with 32-pixel images, which
has the same layers and the same kernels; each check of the document names the network on which it ran.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from runpy import run_path

import torch

from ..workload.lookup import lookup
from ..workload.network import Network, network
from ..workload.precision import tier as find_tier
from .isolation import watched
from .kernelbench import FIRST_TOLERANCE, TOLERANCE, Build, certify
from .result import Verdict
from .runner import CandidateRunner, Stop
from .suite import prepare
from .test_case import TestSuite

Progress = Callable[[int, int, str], None]
SMALL = ("vgg11", 32)  # an interpreted forward of it takes seconds
ARITHMETICS = {  # what may run this project's kernels
    "compiled": "on an NVIDIA GPU",
    "interpreted": "in Triton's interpreter",
    "executed": "as compiled, in this project's emulator",
}


def examine(
    build: Build,
    suite: TestSuite,
    *,
    stop_early: bool = False,
    through_trace: bool = False,
    progress: Progress | None = None,
) -> Verdict:
    """Run one candidate through a prepared suite.

    Args:
        build: makes a candidate from a reference, whose weights it may keep; called once per weight set.
        suite: from ``prepare``; it can be used for many candidates.
        stop_early: end at the first failure.
        through_trace: take the logits from the candidate's trace, where it has one, so that a forward that takes
            minutes runs once. Only for candidates whose trace is their forward, as this project's is; nothing but
            values is checked.
        progress: called with calls done, calls in all, and what runs next.
    """
    verdict = Verdict(
        suite.tier.name, suite.network.name, suite.network.image, suite.effort, suite.seed, str(suite.device)
    )
    verdict.certificates = list(suite.certificates)
    done = 0

    def tick(text: str) -> None:
        nonlocal done
        if progress is not None:
            progress(done, suite.calls, text)
        done += 1

    try:
        for weight_set in suite.weight_sets:
            runner = CandidateRunner(suite, weight_set, verdict, WATCHED, stop_early, tick)
            runner.run(build, through_trace=through_trace)
    except Stop:
        return verdict
    if progress is not None:
        progress(suite.calls, suite.calls, "done")
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
    """Prepare a fresh suite and run one candidate through it.

    Args:
        build: makes a candidate, ``[N, 3, image, image]`` fp32 to ``[N, classes]`` fp32, from a ``Reference``. Where
            the candidate has ``trace(x)`` (every layer's output by name), each layer is checked too.
        network: the network.
        tier_name: the arithmetic that the candidate claims; its error bounds hold.
        effort: "quick", "full", or "single" (one image, and its values alone: for the interpreter at full size).
        seed: of all weights and inputs; None draws a fresh one, which the verdict names.
        device: where the candidate runs.
        through_trace: as of ``examine``.
        progress: called with calls done, calls in all, and what runs next.

    Raises:
        UnknownName: for a tier or effort that does not exist.
        UnfitReference: where the Kaiming reference cannot fail a candidate at this tier.
    """
    suite = prepare(network, tier_name, effort, seed=seed, device=device)
    return examine(build, suite, through_trace=through_trace, progress=progress)


def default_arithmetic() -> str:
    """What runs this project's kernels in this process."""
    from ..kernels.backend import INTERPRETED

    return "interpreted" if INTERPRETED else "compiled"


def candidate(tier_name: str, arithmetic: str) -> Build:
    """The build of this project's kernels in one tier: its candidates are called with images, and have a trace.

    Args:
        tier_name: the tier.
        arithmetic: one of ``ARITHMETICS``.

    Raises:
        UnknownName: for an arithmetic that does not exist.
        ValueError: for one that this process cannot provide.
    """
    lookup("arithmetic", arithmetic, ARITHMETICS)
    if arithmetic == "executed":
        try:
            executed = import_module("vgg_kernels.emulator.execute").ExecutedVGG
        except ModuleNotFoundError:
            raise ValueError("arithmetic 'executed' needs vgg_kernels.emulator, which is not installed") from None
        threads = torch.get_num_threads()
        import_module("numba").get_num_threads()  # starts numba's threads, which sets PyTorch's number of them
        torch.set_num_threads(threads)
        return lambda reference: executed.from_reference(reference, tier_name)
    if arithmetic != default_arithmetic():
        raise ValueError(f"arithmetic {arithmetic!r} is not available here; accepted: {default_arithmetic()}, executed")
    from ..kernels.model import VGG

    return lambda reference: VGG.from_reference(reference, tier=tier_name)


def load_build(path: Path) -> Build:
    """The ``build(reference) -> callable`` of a Python file.

    Raises:
        ValueError: where there is no such file, or it defines no callable ``build``, or ends the process.
    """
    if not path.is_file():
        raise ValueError(
            f"no file {path.name!r} to take a candidate from; accepted: a Python file with build(reference)"
        )
    try:
        build = run_path(str(path)).get("build")
    except SystemExit as error:  # whose status must not become this program's
        raise ValueError(f"{path.name} ends the process (status {error.code}) where it is loaded") from error
    if not callable(build):
        raise ValueError(f"{path.name} defines no build(reference); accepted: a function that returns the candidate")
    return build


def plan(subject: Network, slow: bool) -> list[tuple[Network, str]]:
    """Which networks are verified, and with which effort.

    Args:
        subject: the network of the command.
        slow: whether one forward of it takes minutes.
    """
    small = network(SMALL[0], image=SMALL[1])
    if not slow:
        return [(subject, "full")]
    if subject.flops(1) <= small.flops(1):
        return [(subject, "quick")]
    return [(subject, "single"), (small, "quick")]


def run(
    tier_name: str,
    subject: Network,
    *,
    build: Build | None = None,
    arithmetic: str | None = None,
    seed: int | None = None,
    effort: str | None = None,
    device: torch.device | str = "cpu",
    progress: Callable[[str], Progress] | None = None,
) -> dict:
    """Verify one tier and return the document of ``python -m vgg_kernels verify --json``.

    Args:
        tier_name: the arithmetic that is claimed.
        subject: the network.
        build: the candidate; None takes this project's kernels.
        arithmetic: what runs this project's kernels, of ``ARITHMETICS``; None takes this process's.
        seed: of weights and inputs; None draws a fresh one.
        effort: "single", "quick" or "full" on ``subject`` alone; None chooses as ``plan`` does.
        device: where the candidate runs.
        progress: makes a progress callback for a title.

    Raises:
        UnknownName: for a tier, arithmetic or effort that does not exist.
        ValueError: for an arithmetic that this process cannot provide, or one that is given with a candidate.
    """
    find_tier(tier_name)
    if build is not None and arithmetic is not None:
        raise ValueError("--arithmetic is of this project's kernels; a candidate of your own has its own")
    how = "candidate" if build is not None else arithmetic or default_arithmetic()
    slow = how in ("interpreted", "executed")
    parts = [(subject, effort)] if effort else plan(subject, slow)
    verdicts: list[Verdict] = []
    for part, amount in parts:
        title = f"{tier_name} on {part.name}, {part.image} pixels, {amount}"
        verdicts.append(
            verify(
                build or candidate(tier_name, how),
                part,
                tier_name,
                effort=amount,
                seed=seed,
                device=device,
                through_trace=slow and amount == "single",
                progress=progress(title) if progress else None,
            )
        )
    return merge(verdicts, subject, device, how)


def merge(verdicts: list[Verdict], subject: Network, device: torch.device | str, arithmetic: str) -> dict:
    """One document of several verdicts on one tier; the first is the one at full size."""
    documents = [verdict.document() for verdict in verdicts]
    main = verdicts[0]
    public = [certify(subject, tolerance, device=device) for tolerance in (TOLERANCE, FIRST_TOLERANCE)]
    certificates = [
        {"network": subject.name, "image": subject.image, **certificate.document()} for certificate in public
    ]
    error = main.relative_error
    return {
        **{key: documents[0][key] for key in ("tier", "network", "image", "device", "layers")},
        "passed": all(verdict.passed for verdict in verdicts),
        "arithmetic": arithmetic,
        "relative_error": error if error is not None and error < float("inf") else None,
        **{
            key: next((d[key] for d in documents if d[key] is not None), None)
            for key in ("deterministic", "kernelbench_accepts")
        },
        "parts": [
            {key: document[key] for key in ("network", "image", "effort", "seed", "passed")} for document in documents
        ],
        "checks": [check for document in documents for check in document["checks"]],
        "certificates": [*certificates, *(c for document in documents for c in document["certificates"])],
    }


CHECKERS = (
    *("compare", "emulation", "error_bounds", "gate", "images", "isolation", "kernelbench", "locate", "result"),
    *("runner", "sensitivity", "suite", "test_case"),
)
WATCHED = watched(
    *(sys.modules[f"{__package__}.{name}"] for name in CHECKERS)
)  # as they are before a candidate is loaded
