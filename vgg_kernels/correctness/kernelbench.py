"""The public correctness check, as KernelBench runs it on level 3, problem 12.

Source: ScalingIntelligence/KernelBench, ``src/kernelbench/eval.py`` (``run_and_check_correctness`` and
``get_tolerance_for_precision``), read in 2026. The reference and the candidate are constructed after
``torch.manual_seed(42)`` and so share PyTorch's default weights; each of five trials draws U[0, 1) images from a seed
that is itself drawn after ``torch.manual_seed(42)``, runs the reference, then the candidate on the same tensor, and
requires the reference's shape and ``torch.allclose`` with atol = rtol = 1e-4 for fp32 (1e-2 in its first
versions). Nothing else is checked.
"""

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor

from ..workload.network import Network
from ..workload.reference import Reference
from ..workload.weights import KERNELBENCH_SEED, reference
from .sensitivity import Certificate, elementwise

TOLERANCE = 1e-4
FIRST_TOLERANCE = 1e-2
TRIALS = 5
BATCH = 10

Build = Callable[[Reference], Callable[[Tensor], Tensor]]


def trial_inputs(network: Network, batch: int = BATCH, trials: int = TRIALS) -> list[Tensor]:
    """The trials' images, ``[batch, 3, image, image]`` fp32 each, drawn as KernelBench draws them on a CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(KERNELBENCH_SEED)
        seeds = [int(torch.randint(0, 2**32 - 1, (1,))) for _ in range(trials)]
        images = []
        for seed in seeds:
            torch.manual_seed(seed)
            images.append(torch.rand(batch, 3, network.image, network.image))
        return images


def accepts(expected: Tensor, got: Tensor, tolerance: float) -> bool:
    """The rule on one trial: shape, then ``torch.allclose`` (in which a NaN matches nothing)."""
    return expected.shape == got.shape and torch.allclose(expected, got, atol=tolerance, rtol=tolerance)


class Rule:
    """The check on one network: its reference, with the default weights, and its trials.

    Args:
        network: the network.
        trials: number of inputs.
        batch: images of one input.
        weights: "kernelbench" as the rule has it; "kaiming" for what it would find on weights that keep the signal.
    """

    def __init__(
        self,
        network: Network,
        *,
        trials: int = TRIALS,
        batch: int = BATCH,
        weights: str = "kernelbench",
    ):
        self.model = reference(network, weights)
        self.inputs = trial_inputs(network, batch, trials)

    @torch.no_grad()
    def accepts(self, build: Build, tolerances: tuple[float, ...]) -> tuple[bool, ...]:
        """For each tolerance (atol and rtol), True where KernelBench calls the candidate correct.

        Args:
            build: makes the candidate from a copy of the reference.
            tolerances: compared in one run of the trials.
        """
        accepted = [True] * len(tolerances)
        try:
            candidate = build(deepcopy(self.model))
            for images in self.inputs:
                x = images.clone()
                expected = self.model(x)
                got = candidate(x)
                accepted = [a and accepts(expected, got, t) for a, t in zip(accepted, tolerances, strict=True)]
                if not any(accepted):
                    break
        except (Exception, SystemExit):  # whatever a candidate raises is a failed candidate
            return (False,) * len(tolerances)
        return tuple(accepted)


@torch.no_grad()
def certify(
    network: Network,
    tolerance: float = TOLERANCE,
    *,
    weights: str = "kernelbench",
    images: int = 2,
    device: torch.device | str = "cpu",
) -> Certificate:
    """What the rule can tell apart: the reference's largest change between its own trial images, against its tolerance.

    Args:
        network: the network.
        tolerance: atol of the rule.
        weights: "kernelbench" as the rule has it; "kaiming" for what it could have told apart.
        images: how many trial images are compared.
        device: where the reference runs.
    """
    model = reference(network, weights).to(device)
    logits = torch.cat([model(x.to(device)) for x in trial_inputs(network, batch=1, trials=images)]).double()
    return elementwise(f"KernelBench {tolerance:g}", weights, "uniform", logits, tolerance)
