"""Which check finds which wrong network: each of ``mutants`` before six gates, and right ones that all should accept.

The right ones are this project's own kernels, interpreted or compiled: the tiers' emulation will not do, since error
bounds are derived from it. Interpreted, they run on a small network, and on one image where the wrong ones run on ten.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

import torch

from ..workload.network import Network, network
from ..workload.precision import TIERS
from .gate import SMALL, WATCHED, candidate, default_arithmetic, examine
from .isolation import preserve_global_state
from .kernelbench import BATCH, FIRST_TOLERANCE, TOLERANCE, TRIALS, Build, Rule
from .mutants.base import GROUPS
from .mutants.catalogue import WRONG_NETWORKS
from .result import Verdict
from .suite import prepare
from .test_case import DEFAULT, INTEGERS, KAIMING, TestSuite

PUBLIC = {  # KernelBench's rule: on its own weights, and what it would find on weights that keep the signal
    DEFAULT: ("KernelBench 1e-4", "KernelBench 1e-2"),
    KAIMING: ("KernelBench 1e-4, Kaiming", "KernelBench 1e-2, Kaiming"),
}
OURS = {(DEFAULT,): "ours, default weights", (KAIMING, INTEGERS): "ours, Kaiming"}
GATES = (*PUBLIC[DEFAULT], *PUBLIC[KAIMING], *OURS.values())
FULL_SIZE, FULL_SIZE_BATCH = 224, 1  # where a check's result may depend on the size of the images
Step = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """One candidate of the matrix.

    Attributes:
        name: its class, or the tier of a right one.
        intent: what is wrong with it, in one line.
        group: of ``mutants.base.GROUPS``; "right" for a right one.
        claims: the tier whose error bounds hold.
        killed_by: the gates that reject it.
        survives: the gates that accept it.
        found_by: by gate of ours, the first check that failed.
        detail: of that check on Kaiming or integer weights.
    """

    name: str
    intent: str
    group: str
    claims: str
    killed_by: tuple[str, ...]
    survives: tuple[str, ...]
    found_by: dict[str, str]
    detail: str


def _accepted(rows: Iterable[Row]) -> dict[str, int]:
    counted = Counter(gate for row in rows for gate in row.survives)
    return {gate: counted[gate] for gate in GATES}


@dataclass(frozen=True)
class Matrix:
    """Wrong networks against gates, some of them at full size too, and the right ones that every gate should accept.

    Attributes:
        network: of the wrong networks.
        image: its size in pixels.
        seed: of our gates.
        mutants: the wrong networks.
        full_size: those whose result may depend on the size, once more with ``FULL_SIZE`` pixels.
        correct: this project's kernels, one row a tier.
        arithmetic: what ran those.
        small: the network on which it did.
    """

    network: Network
    seed: int
    mutants: tuple[Row, ...]
    full_size: tuple[Row, ...]
    correct: tuple[Row, ...]
    arithmetic: str
    small: Network

    def survivors(self, gate: str) -> list[str]:
        """The wrong networks that a gate accepts, at either size."""
        return list(dict.fromkeys(row.name for row in (*self.mutants, *self.full_size) if gate in row.survives))

    def false_kills(self, gate: str) -> list[str]:
        """The right networks that a gate rejects."""
        return [row.name for row in self.correct if gate in row.killed_by]

    @property
    def differ(self) -> dict[str, list[str]]:
        """By wrong network, the gates whose result at full size is another one."""
        small = {row.name: set(row.survives) for row in self.mutants}
        both = {row.name: small[row.name] ^ set(row.survives) for row in self.full_size if row.name in small}
        return {name: [gate for gate in GATES if gate in gates] for name, gates in both.items() if gates}

    def document(self) -> dict:
        """JSON-able."""
        groups = {}
        for group, meaning in GROUPS.items():
            rows = [row for row in self.mutants if row.group == group]
            groups[group] = {"meaning": meaning, "networks": len(rows), "accepted": _accepted(rows)}
        accepted = _accepted(self.mutants)
        return {
            "network": self.network.name,
            "image": self.network.image,
            "seed": self.seed,
            "gates": list(GATES),
            "killed": {gate: len(self.mutants) - accepted[gate] for gate in GATES},
            "false_kills": {gate: len(self.false_kills(gate)) for gate in GATES},
            "groups": groups,
            "mutants": [asdict(row) for row in self.mutants],
            "full_size": {
                "image": FULL_SIZE,
                "batch": FULL_SIZE_BATCH,
                "trials": 1,
                "differ": self.differ,
                "mutants": [asdict(row) for row in self.full_size],
            },
            "right": {"arithmetic": self.arithmetic, "network": self.small.name, "image": self.small.image},
            "correct": [asdict(row) for row in self.correct],
        }


class Gates:
    """The six gates on one network, with suites prepared once per tier.

    Args:
        network: the network.
        seed: of our suites; the matrix is a function of it.
        effort: of our suites on Kaiming weights.
        batch: images of KernelBench's trials.
        trials: KernelBench's trials.
    """

    def __init__(
        self, network: Network, seed: int = 0, *, effort: str = "quick", batch: int = BATCH, trials: int = TRIALS
    ):
        self.network, self.seed, self.effort = network, seed, effort
        self.rules = {scheme: Rule(network, batch=batch, trials=trials, weights=scheme) for scheme in PUBLIC}
        self.suites: dict[tuple[str, tuple[str, ...]], tuple[TestSuite, tuple[float, ...]]] = {}  # with fingerprints

    def suite(self, tier_name: str, schemes: tuple[str, ...]) -> TestSuite:
        """The suite of one tier on some weight schemes."""
        key = tier_name, schemes
        if key not in self.suites:
            effort = "quick" if schemes == (DEFAULT,) else self.effort
            suite = prepare(self.network, tier_name, effort, seed=self.seed, schemes=schemes)
            self.suites[key] = suite, suite.fingerprint
        return self.suites[key][0]

    def run(self, name: str, intent: str, group: str, claims: str, build: Build) -> Row:
        """One candidate before all gates."""
        verdicts: dict[str, Verdict] = {}
        accepted: dict[str, bool] = {}
        for scheme, gates in PUBLIC.items():
            with preserve_global_state(WATCHED):  # KernelBench's rule restores nothing, but the next candidate needs it
                accepted |= zip(gates, self.rules[scheme].accepts(build, (TOLERANCE, FIRST_TOLERANCE)), strict=True)
        for schemes, gate in OURS.items():
            verdicts[gate] = examine(build, self.suite(claims, schemes), stop_early=True)
            accepted[gate] = verdicts[gate].checks_passed
        for key, (suite, as_prepared) in list(self.suites.items()):
            if suite.fingerprint != as_prepared:  # a candidate has written to it: the next one gets another
                del self.suites[key]
        failures = {gate: verdict.failures for gate, verdict in verdicts.items() if verdict.failures}
        ours = failures.get(GATES[-1])
        return Row(
            name,
            intent,
            group,
            claims,
            tuple(gate for gate in GATES if not accepted[gate]),
            tuple(gate for gate in GATES if accepted[gate]),
            {gate: found[0].name for gate, found in failures.items()},
            ours[0].detail if ours else "",
        )

    def wrong(self, names: Iterable[str], step: Step) -> tuple[Row, ...]:
        """The wrong networks of those names."""
        rows = []
        for name in names:
            step(f"{name}, {self.network.image} pixels")
            kind = WRONG_NETWORKS[name]
            rows.append(self.run(name, kind.__doc__ or "", kind.group, kind.claims, kind))
            gc.collect()  # a runner and its comparison refer to each other, and hold copies of all weights
        return tuple(rows)


@torch.no_grad()
def kill_matrix(
    subject: Network,
    *,
    seed: int = 0,
    names: Iterable[str] | None = None,
    tiers: Iterable[str] = TIERS,
    full_size: Network | None = None,
    batch: int = BATCH,
    trials: int = TRIALS,
    progress: Callable[[int, int, str], None] | None = None,
) -> Matrix:
    """Run wrong networks, and this project's kernels in every tier, before all gates.

    Args:
        subject: on which network; small ones take seconds each.
        seed: of our gates' suites.
        names: the wrong networks; None takes all. Those that are right on this network are left out.
        tiers: the tiers in which this project's kernels must be accepted.
        full_size: where those whose result may depend on the size of the images run once more; None leaves that out.
        batch: images of one of KernelBench's trials.
        trials: KernelBench's trials.
        progress: called with candidates done, candidates in all, and the next one's name.
    """
    chosen = [n for n in (WRONG_NETWORKS if names is None else names) if WRONG_NETWORKS[n].differs(subject)]
    sized = [n for n in (WRONG_NETWORKS if names is None else names) if WRONG_NETWORKS[n].depends_on_size]
    again = [n for n in sized if full_size is not None and WRONG_NETWORKS[n].differs(full_size)]
    tiers, arithmetic = list(tiers), default_arithmetic()
    small = network(SMALL[0], image=SMALL[1]) if arithmetic == "interpreted" else subject
    total, done = len(chosen) + len(again) + len(tiers), 0

    def step(text: str) -> None:
        nonlocal done
        if progress is not None:
            progress(done, total, text)
        done += 1

    wrong = Gates(subject, seed, batch=batch, trials=trials).wrong(chosen, step)
    larger: tuple[Row, ...] = ()
    if full_size is not None and again:
        larger = Gates(full_size, seed, effort="single", batch=FULL_SIZE_BATCH, trials=1).wrong(again, step)
    right = Gates(small, seed, effort="single", batch=1, trials=1)
    correct = []
    for tier in tiers:
        step(f"our kernels, {tier}")
        build = candidate(tier, arithmetic)
        correct.append(right.run(f"ours {tier}", f"this project's kernels, {arithmetic}", "right", tier, build))
    if progress is not None:
        progress(total, total, "done")
    return Matrix(subject, seed, wrong, larger, tuple(correct), arithmetic, small)
