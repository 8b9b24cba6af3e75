"""The whole gate for one tier on the machine at hand, as one document.

On a GPU every check runs at full size. In Triton's interpreter a forward of VGG19 takes minutes, so there its values
are checked at full size on one photograph, layer by layer, and everything else on VGG11 with 32-pixel images, which
has the same layers and the same kernels; each check of the document names the network on which it ran.
"""

from collections.abc import Callable
from pathlib import Path
from runpy import run_path

import torch

from ..workload.network import Network, network
from ..workload.precision import tier as find_tier
from .kernelbench import FIRST_TOLERANCE, TOLERANCE, Build, certify
from .result import Verdict
from .verify import Progress, verify

SMALL = ("vgg11", 32)  # an interpreted forward of it takes seconds


def our_kernels(tier_name: str) -> Build:
    """The build function of this project's kernels in one tier."""
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


def interpreted() -> bool:
    """True where this project's kernels run in Triton's interpreter."""
    from ..kernels.backend import INTERPRETED

    return INTERPRETED


def plan(subject: Network, slow: bool) -> list[tuple[Network, str]]:
    """Which network is asked with which effort.

    Args:
        subject: the network that was asked for.
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
        seed: of weights and inputs; None draws a fresh one.
        effort: "single", "quick" or "full" on ``subject`` alone; None chooses as the module says.
        device: where the candidate runs.
        progress: makes a progress callback for a title.

    Raises:
        UnknownName: for a tier or effort that does not exist.
    """
    find_tier(tier_name)
    ours = build is None
    slow = ours and interpreted()
    parts = [(subject, effort)] if effort else plan(subject, slow)
    verdicts: list[Verdict] = []
    for part, amount in parts:
        title = f"{tier_name} on {part.name}, {part.image} pixels, {amount}"
        verdicts.append(
            verify(
                build or our_kernels(tier_name),
                part,
                tier_name,
                effort=amount,
                seed=seed,
                device=device,
                through_trace=slow and amount == "single",
                progress=progress(title) if progress else None,
            )
        )
    return merge(verdicts, subject, device, arithmetic="interpreted" if slow else "compiled" if ours else "candidate")


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
        **{key: documents[0][key] for key in ("tier", "network", "image", "device", "eager_relative_error", "layers")},
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
