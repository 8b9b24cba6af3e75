"""What do the checks find? Each wait, fence, barrier, commit and byte count of a kernel removed or changed in turn."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from ..workload.inputs import draw
from ..workload.network import Network
from ..workload.reference import activations
from ..workload.weights import reference
from .execute import ExecutedVGG, fill, stored
from .group import Options
from .launch import launching
from .ptx import EmulationError

CHANGES = (  # what is changed, the statement, and what takes its place
    ("barrier removed", r"bar\.sync \t0;", ""),
    ("proxy fence removed", r"fence\.proxy\.async\.shared::cta;", ""),
    ("mbarrier wait removed", r"\{\s*\.reg \.pred complete;\s*waitLoop:\s*mbarrier\.try_wait[^}]*\}", ""),
    ("wgmma wait removed", r"wgmma\.wait_group\.sync\.aligned (\d+);", ""),
    ("wgmma wait loosened", r"wgmma\.wait_group\.sync\.aligned 0;", "wgmma.wait_group.sync.aligned 1;"),
    ("wgmma fence removed", r"wgmma\.fence\.sync\.aligned;", ""),
    ("wgmma commit removed", r"wgmma\.commit_group\.sync\.aligned;", ""),
    ("store wait removed", r"cp\.async\.bulk\.wait_group\.read \t0;", ""),
    (
        "expected bytes changed",
        r"(expect_tx\.shared::cta\.b64 _, \[%r\d+\]), (\d+);",
        r"\1, \g<2>0;",
    ),  # ten times as many
)


@dataclass(frozen=True)
class Mutation:
    """One change and what came of it.

    Attributes:
        layer: of the launch that was changed.
        kernel: its jitted function.
        change: an entry of ``CHANGES``.
        line: of the PTX.
        found: the hazards or the error that was reported, empty where there was none.
        same_bits: whether the output kept its bits.
        reason: why nothing was reported.
    """

    layer: str
    kernel: str
    change: str
    line: int
    found: str
    same_bits: bool
    reason: str


def _replace(match: re.Match, replacement: str, text: str) -> str:
    return text[: match.start()] + match.expand(replacement) + "\n" * match[0].count("\n") + text[match.end() :]


def table(
    tier: str, network: Network, layers: list[str], progress: Callable[[str], Any] = lambda _: None
) -> list[Mutation]:
    """Every change to the first launch of each layer, its first CTA executed with all checks."""
    module = reference(network, "dyadic", 0)
    x = draw(network, 1, "dyadic", 0)
    model = ExecutedVGG.from_reference(module, tier)
    assert isinstance(model, ExecutedVGG)
    model.calibrate(x)
    forward, packed = model.prepare(x)
    wanted = activations(module, network, x)
    names = [layer.name for layer in network.layers]
    for name in names[:-1]:
        fill(forward.outputs[name], wanted[name].float(), forward)
    launcher = model.launcher
    launcher.options, launcher.first = Options(checks=True), 1
    found: list[Mutation] = []
    for name in layers:
        launch = next(each for each in forward.launches if each.layer == name)
        texts: list[str] = []

        def outcome(change: Callable[[str], str], launch: Any = launch, name: str = name) -> tuple[str, list]:
            written = [forward.partial, *stored(forward, name)]
            for tensor in (forward.arrived, *written):
                tensor.zero_()
            launcher.change = change
            try:
                with launching(launcher):
                    forward.launch(launch, x, packed[name])
            except EmulationError as error:
                return str(error).split(":")[0], []
            return "; ".join(launcher.executed[-1].report.kinds), [tensor.clone() for tensor in written]

        def keep(text: str, texts: list[str] = texts) -> str:
            texts.append(text)
            return text

        clean, right = outcome(keep)
        for change, pattern, replacement in CHANGES:
            progress(f"{name}: {change}")
            everywhere, _ = outcome(partial(re.sub, pattern, replacement))
            for match in re.finditer(pattern, texts[0]):
                kinds, output = outcome(partial(_replace, match, replacement))
                fresh = kinds if kinds != clean else ""
                same = bool(output) and all(torch.equal(a, b) for a, b in zip(output, right, strict=True))
                reason = "" if fresh else _reason(everywhere != clean, same)
                line = texts[0].count("\n", 0, match.start()) + 1
                found.append(Mutation(name, launcher.executed[-1].kernel, change, line, fresh, same, reason))
    return found


def _reason(all_found: bool, same: bool) -> str:
    if not same:
        return "the result differs"
    if all_found:
        return "another orders the same accesses, or the first CTA skips it: with all of its kind changed it is found"
    return "nothing depends on it: the same bits and no hazard with all of its kind changed"
