"""Which check finds which wrong network: every mutant before six gates, and right ones that all should accept."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial

import torch

from ..workload.network import Network
from ..workload.precision import TIERS
from ..workload.reference import Reference
from .emulation import Emulation
from .isolation import kept
from .kernelbench import BATCH, FIRST_TOLERANCE, TOLERANCE, TRIALS, Rule
from .mutants.catalogue import MUTANTS
from .result import Verdict
from .suite import prepare
from .test_case import DEFAULT, KAIMING, Exam
from .verify import WATCHED, examine

PUBLIC = {  # KernelBench's rule: on its own weights, and what it would find on weights that keep the signal
    DEFAULT: ("KernelBench 1e-4", "KernelBench 1e-2"),
    KAIMING: ("KernelBench 1e-4, Kaiming", "KernelBench 1e-2, Kaiming"),
}
OURS = {DEFAULT: "ours, default weights", KAIMING: "ours, Kaiming"}
GATES = (*PUBLIC[DEFAULT], *PUBLIC[KAIMING], *OURS.values())


@dataclass(frozen=True)
class Row:
    """One candidate of the matrix.

    Attributes:
        name: its class, or "correct TIER".
        intent: what is wrong with it, in one line.
        claims: the tier whose budget it is held to.
        killed_by: the gates that reject it.
        survives: the gates that accept it.
        found_by: by gate of ours, the first check that failed.
        detail: what that check said on Kaiming weights.
    """

    name: str
    intent: str
    claims: str
    killed_by: tuple[str, ...]
    survives: tuple[str, ...]
    found_by: dict[str, str]
    detail: str


@dataclass(frozen=True)
class Matrix:
    """Mutants against gates, and the correct networks that every gate should accept."""

    network: str
    image: int
    seed: int
    mutants: tuple[Row, ...]
    correct: tuple[Row, ...]

    def survivors(self, gate: str) -> list[str]:
        """The mutants that a gate accepts."""
        return [row.name for row in self.mutants if gate in row.survives]

    def false_kills(self, gate: str) -> list[str]:
        """The correct networks that a gate rejects."""
        return [row.name for row in self.correct if gate in row.killed_by]

    def document(self) -> dict:
        """JSON-able."""
        rows = {"mutants": [asdict(r) for r in self.mutants], "correct": [asdict(r) for r in self.correct]}
        counts = {gate: len(self.mutants) - len(self.survivors(gate)) for gate in GATES}
        false = {gate: len(self.false_kills(gate)) for gate in GATES}
        return {
            "network": self.network,
            "image": self.image,
            "seed": self.seed,
            "gates": list(GATES),
            "killed": counts,
            "false_kills": false,
            **rows,
        }


class Bench:
    """The gates on one network, with exams prepared once per tier.

    Args:
        network: the network.
        seed: of all questions; the matrix is a function of it.
        batch: images of KernelBench's trials.
        trials: KernelBench's trials.
    """

    def __init__(self, network: Network, seed: int = 0, *, batch: int = BATCH, trials: int = TRIALS):
        self.network, self.seed = network, seed
        self.rules = {scheme: Rule(network, batch=batch, trials=trials, weights=scheme) for scheme in PUBLIC}
        self.exams: dict[tuple[str, str], tuple[Exam, tuple[float, ...]]] = {}  # each with its fingerprint

    def exam(self, tier_name: str, scheme: str) -> Exam:
        """The quick exam of one tier on one weight scheme."""
        key = tier_name, scheme
        if key not in self.exams:
            exam = prepare(self.network, tier_name, "quick", seed=self.seed, schemes=(scheme,))
            self.exams[key] = exam, exam.fingerprint
        return self.exams[key][0]

    def try_out(self, name: str, intent: str, claims: str, build: Callable[[Reference], Emulation]) -> Row:
        """Put one candidate before all gates."""
        verdicts: dict[str, Verdict] = {}
        accepted: dict[str, bool] = {}
        for scheme, gates in PUBLIC.items():
            with kept(WATCHED):  # KernelBench's rule puts nothing back; the next candidate must not inherit it here
                accepted |= zip(gates, self.rules[scheme].judge_at(build, (TOLERANCE, FIRST_TOLERANCE)), strict=True)
        for scheme, gate in OURS.items():
            verdicts[gate] = examine(build, self.exam(claims, scheme), stop_early=True)
            accepted[gate] = verdicts[gate].checks_passed
        for key, (exam, as_prepared) in list(self.exams.items()):
            if exam.fingerprint != as_prepared:  # a cheat has been at it: the next candidate gets another
                del self.exams[key]
        failures = {gate: verdict.failures for gate, verdict in verdicts.items() if verdict.failures}
        ours = failures.get(OURS[KAIMING])
        return Row(
            name,
            intent,
            claims,
            tuple(gate for gate in GATES if not accepted[gate]),
            tuple(gate for gate in GATES if accepted[gate]),
            {gate: found[0].name for gate, found in failures.items()},
            ours[0].detail if ours else "",
        )


def kill_matrix(
    network: Network,
    *,
    seed: int = 0,
    names: Iterable[str] | None = None,
    tiers: Iterable[str] | None = None,
    batch: int = BATCH,
    trials: int = TRIALS,
    progress: Callable[[int, int, str], None] | None = None,
) -> Matrix:
    """Try every mutant, and every tier's correct emulation, before all gates.

    Args:
        network: on which network; small ones take seconds a mutant.
        seed: of our gates' questions.
        names: the mutants; None takes all. Those that are right on this network are left out.
        tiers: the tiers whose correct emulations must be accepted; None takes all, or those that ``names`` claim.
        batch: images of one of KernelBench's trials.
        trials: KernelBench's trials.
        progress: called with candidates done, candidates in all, and the next one's name.
    """
    bench = Bench(network, seed, batch=batch, trials=trials)
    chosen = [MUTANTS[name] for name in (MUTANTS if names is None else names) if MUTANTS[name].differs(network)]
    claimed = TIERS if names is None else dict.fromkeys(kind.claims for kind in chosen)
    tiers = list(claimed if tiers is None else tiers)
    total = len(chosen) + len(tiers)
    rows = []
    with torch.no_grad():
        for i, kind in enumerate(chosen):
            if progress is not None:
                progress(i, total, kind.__name__)
            rows.append(bench.try_out(kind.__name__, kind.__doc__ or "", kind.claims, kind))
        correct = []
        for i, name in enumerate(tiers, start=len(chosen)):
            if progress is not None:
                progress(i, total, f"correct {name}")
            correct.append(
                bench.try_out(f"correct {name}", f"{name} as it should be", name, partial(Emulation, tier_name=name))
            )
    if progress is not None:
        progress(total, total, "done")
    return Matrix(network.name, network.image, seed, tuple(rows), tuple(correct))
