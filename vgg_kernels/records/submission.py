"""An implementation of somebody's own: loaded from a file, then gated, timed and written down as ours are.

The file is a Python module with ``build(reference) -> callable``; the callable takes fp32 images
``[N, 3, image, image]`` and returns fp32 logits ``[N, classes]``.
"""

import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd  # noqa: F401 - sets time.tzname anew: before the gate is imported, which compares it later
from torch import Tensor

from ..correctness.gate import verify
from ..measure import variants
from ..measure.device import Timing
from ..measure.plan import Step, guesses
from ..measure.run import Device
from ..measure.timers import TIMERS
from ..measure.torch_device import TorchDevice
from ..measure.variants import Variant
from ..workload.network import Network
from ..workload.network import network as find_network
from ..workload.reference import Reference
from . import session
from .records import NETWORK, PYTORCH_OWN
from .session import Run

Build = Callable[[Reference], Callable[[Tensor], Tensor]]
GATED = "ours"  # the family whose variants the runner gates before it times them, and refuses if they fail


def load(path: Path) -> Build:
    """The ``build`` of a module file. Its code is run: load only what you would run.

    Raises:
        ValueError: where there is no such file, it does not import, or it has no function ``build``.
    """
    if not path.is_file() or path.suffix != ".py":
        raise ValueError(f"{path} is no Python file; a module with build(reference) -> callable is accepted")
    spec = importlib.util.spec_from_file_location(f"candidate_{path.stem}", path)
    assert spec is not None  # of a .py file there always is one
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a stranger's module does at import
        raise ValueError(f"{path} does not import: {type(error).__name__}: {error}") from error
    build = getattr(module, "build", None)
    if not callable(build):
        raise ValueError(f"{path} has no function build(reference) -> callable; one is needed")
    return build


class CandidateDevice(TorchDevice):
    """The device at hand, with one candidate in the place of our tiers.

    Args:
        build: the candidate.
        table: the network it is gated and timed on.
        effort: how much the gate checks, "quick" or "full".
        kind: "cuda" or "cpu"; by default the GPU where there is one.
    """

    def __init__(self, build: Build, table: Network, effort: str = "quick", kind: str | None = None):
        super().__init__(kind=kind, table=table)
        self._build, self._effort = build, effort

    def verify(self, tier: str, seed: int) -> dict[str, Any]:
        """Gate the candidate on the very network that is timed."""
        verdict = verify(self._build, self.network, tier, effort=self._effort, seed=seed, device=self.kind)
        return {
            "network": self.network.name,
            "image": self.network.image,
            "passed": bool(verdict.passed),
            "verdict": verdict.document(),
        }

    def time(self, variant: Variant, batch: int, done: Callable[[str, str], bool]) -> Iterator[Timing]:
        """Time the candidate with every timer of the device that has no rows yet."""
        with variants.precision(variant):
            subject = self._sampled(self._build(self.module), batch, self.network.convs[0].input_shape)
            subject.call()
        yield from self._timed(variant, subject, [t for t in TIMERS[self.kind] if not done(t.name, t.cache)])


def from_arguments(module: str, network: dict[str, Any], effort: str, kind: str | None) -> CandidateDevice:
    """The device of a measuring process, from JSON values; ``network`` is the arguments of ``find_network``."""
    return CandidateDevice(load(Path(module)), find_network(**network), effort, kind)


def attempt(
    module: Path,
    network: dict[str, Any],
    name: str,
    tier: str,
    batch: int,
    out: Path,
    budget_s: float,
    effort: str = "quick",
    kind: str | None = None,
) -> Run:
    """Gate the candidate and, if it passes, time it into a sealed run below ``out``.

    Args:
        module: the candidate's file.
        network: arguments of ``workload.network.network``.
        name: of the implementation, letters, digits, "_" and "-".
        tier: the precision that it claims; it is gated and ranked by it.
        batch: images.
        out: folder for the run.
        budget_s: seconds for all of it.
        effort: how much the gate checks, "quick" or "full".
        kind: "cuda" or "cpu"; by default the GPU where there is one.

    Raises:
        ValueError: for a name that is one of PyTorch's own or ours or has other characters, for VGG19 at another
            size than the workload's, whose rows would pass for records of it, or for a module that ``load`` refuses.
        DeviceLost: where the device does not answer.
    """
    heads = (*PYTORCH_OWN, GATED)
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name) or name.startswith(heads):
        accepted = f"letters, digits, _ and -, not beginning with {', '.join(heads)}"
        raise ValueError(f"name {name!r} is not accepted: {accepted}")
    table = find_network(**network)
    if table.name == NETWORK and table != find_network(NETWORK):
        raise ValueError(f"{NETWORK} at {table.image} pixels is not the workload: 224 is; or another network")
    load(module)
    arguments = {"module": str(module.absolute()), "network": network, "effort": effort, "kind": kind}
    device = Device(f"{__name__}:{from_arguments.__name__}", arguments)
    found = device.describe()
    variant = Variant(name, GATED, tier, cudnn_allow_tf32=False, matmul_allow_tf32=False)
    steps = (Step("verify", variant), Step("time", variant, batch))
    host = found["host"]
    guess = guesses(found["hardware"]["kind"], table, host["threads"], host["load_average"][0], full_gate=True)
    return session.run(found, device.start, out, table, lambda seed: steps, budget_s, guess=guess)
