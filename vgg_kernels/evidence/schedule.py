"""What to measure in which order, and whether the next step still fits the budget.

The gate comes first; then what a reader asks first (eager, inductor, our tiers, at the workload's batch); then the
ceilings that explain those; then everything else, the steps that compile longest last.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..workload.choice import UnknownName
from .variants import Variant, select, selectable

MAIN_BATCH = 10  # the workload's own
BATCHES = {"cuda": (10, 1, 64), "cpu": (10, 1)}
REPEATED = ("eager", "inductor", "ours_fp16")  # timed twice: what two runs of the same thing differ by is noise
GATE_SHARE = 0.4  # of the budget: a slow gate must not leave a run without a single time
PARTS = ("compile", "verify", "time", "repeat", "layers", "profile", "ceilings")


@dataclass(frozen=True)
class Step:
    """One thing to measure; what a killed run takes up again is the steps that it had not finished.

    Attributes:
        part: of ``PARTS``.
        variant: what it is about; none for what is about the device.
        batch: images; 0 where they do not matter.
    """

    part: str
    variant: Variant | None = None
    batch: int = 0

    @property
    def name(self) -> str:
        """Its name in the run's notes: "time/eager/10", "verify/ours_fp16", "ceilings"."""
        return "/".join(str(word) for word in (self.part, self.variant and self.variant.name, self.batch) if word)

    @property
    def who(self) -> Variant:
        """The variant of a step that is about one."""
        if self.variant is None:
            raise ValueError(f"{self.name} is about no variant")
        return self.variant

    @property
    def family(self) -> str:
        """What its duration depends on: the part and, for inductor, how much it compiles."""
        if self.variant is None:
            return self.part
        slow = "-max" if self.variant.mode and "max" in self.variant.mode else ""
        return f"{self.part}/{self.variant.family}{slow}"


def steps(
    kind: str, variants: Iterable[Variant], batches: Iterable[int], parts: Iterable[str] = PARTS
) -> tuple[Step, ...]:
    """Every step of a run, most important first.

    Args:
        kind: "cuda" or "cpu". A CPU takes seconds for an image, so there the smallest batch comes first; and since
            none of our tiers is timed there (they run in Triton's interpreter), one goes through the gate next, to
            show that it can, and the others last.
        variants: from ``variants.select``, in order of importance.
        batches: images; the workload's own comes first whatever the order.
        parts: of ``PARTS``; profiles and layers are taken at the first batch.
    """
    order = sorted(dict.fromkeys(batches), key=lambda batch: (batch != MAIN_BATCH, batch))
    rows = list(variants)
    timed = [v for v in rows if kind == "cuda" or v.family != "ours"]
    found = [Step("verify", v) for v in rows if v.family == "ours"]
    found += [Step("time", v, batch) for batch in order for v in timed]
    found += [Step(part, v, order[0]) for part in ("profile", "layers") for v in timed]
    found += [Step("repeat", v, order[0]) for v in timed if v.name in REPEATED]
    found.append(Step("ceilings"))
    if kind == "cuda" and any(v.family == "ours" for v in rows):
        found.append(Step("compile"))
    wanted = set(parts)
    chosen = [step for step in found if step.part in wanted]
    gates = [step.name for step in chosen if step.part == "verify"]
    last, least = (gates[1:], min(order)) if kind == "cpu" else ([], 0)

    def place(step: Step) -> int:
        if step.name in last:
            return LAST
        return FIRST if step.part == "time" and step.batch == least else _rank(step, order[0])

    return tuple(sorted(chosen, key=place))


FIRST, LAST = -2, 12  # before and after every rank below


def _rank(step: Step, main: int) -> int:
    """Position among the parts; the order of ``variants`` decides within one."""
    slow = step.family.endswith("-max")
    plain = step.variant is None or step.variant.name in ("eager", "inductor") or step.variant.family == "ours"
    first = step.batch == main
    ranks = {
        "compile": -1,
        "verify": 0,
        "time": (1 if plain else 6 if slow else 4) if first else (9 if slow else 7),
        "ceilings": 2,
        "repeat": 4,
        "profile": 3 if plain else 10,
        "layers": 5 if plain and step.family != "layers/inductor" else 8 if not slow else 11,
    }
    return ranks[step.part]


# Seconds that a step takes before one like it has been seen; on a GPU mostly compiling, from other cards' runs.
GPU_ESTIMATES = {
    "compile": 60.0,
    "verify/ours": 20.0,
    "time/eager": 6.0,
    "time/inductor": 40.0,
    "time/inductor-max": 100.0,
    "time/ours": 15.0,
    "repeat/eager": 4.0,
    "repeat/inductor": 15.0,
    "repeat/ours": 4.0,
    "profile/eager": 5.0,
    "profile/inductor": 10.0,
    "profile/inductor-max": 60.0,
    "profile/ours": 8.0,
    "layers/eager": 10.0,
    "layers/inductor": 60.0,
    "layers/inductor-max": 200.0,
    "layers/ours": 15.0,
    "ceilings": 15.0,
}


@dataclass
class Budget:
    """Seconds that are left, and what each kind of step has been seen to take.

    Attributes:
        now: seconds, monotonic.
        until_s: on that clock.
        total_s: the whole budget.
        guess: seconds for a step of which none like it has been seen.
        gate_share: of the budget, that the gate may take; the whole of it where the gate comes last.
        seen: the longest of each family so far.
    """

    now: Callable[[], float]
    until_s: float
    total_s: float
    guess: Callable[[Step], float]
    gate_share: float = GATE_SHARE
    seen: dict[str, float] = field(default_factory=dict)

    @property
    def left_s(self) -> float:
        """Seconds until the budget ends, not below zero."""
        return max(0.0, self.until_s - self.now())

    def estimate(self, step: Step) -> float:
        """Seconds that ``step`` is expected to take: as long as the longest like it, else the guess."""
        seen = self.seen.get(self._family(step))
        return self.guess(step) if seen is None else seen

    def refuses(self, step: Step) -> str | None:
        """Why the step is not begun, or none."""
        need = self.estimate(step)
        if step.part == "verify":
            left = self.left_s - (1 - self.gate_share) * self.total_s
            if need > max(left, 0.0):
                return f"needs about {need:.0f} s; {max(left, 0):.0f} s of the gate's share of the budget are left"
        if need > self.left_s:
            return f"needs about {need:.0f} s; {self.left_s:.0f} s of the budget are left"
        return None

    def learn(self, step: Step, took_s: float) -> None:
        """Remember how long a finished step took."""
        family = self._family(step)
        self.seen[family] = max(took_s, self.seen.get(family, 0.0))

    @staticmethod
    def _family(step: Step) -> str:
        return f"{step.family}/{step.batch}" if step.batch else step.family


def choose(kind: str, words: tuple[str, ...] = ()) -> tuple[tuple[str, ...], tuple[Variant, ...]]:
    """What ``--only`` asks for: parts and variants.

    Parts alone leave every variant; variants alone leave every part that is about a variant. On a GPU the gate (and
    the compiling before it) comes with whatever runs a variant, since nothing of ours is timed unverified.

    Args:
        kind: "cuda" or "cpu".
        words: of ``PARTS`` and of ``variants.selectable(kind)``; none for everything.

    Raises:
        UnknownName: for another word, listing all that are known.
    """
    accepted = (*PARTS, *selectable(kind))
    for word in words:
        if word not in accepted:
            raise UnknownName(f"unknown --only {word!r}; accepted on this {kind} device: {', '.join(accepted)}")
    parts = tuple(word for word in PARTS if word in words)
    rest = tuple(word for word in words if word not in PARTS)
    if not parts:
        parts = tuple(part for part in PARTS if not rest or part != "ceilings")
    elif kind == "cuda" and set(parts) & {"time", "repeat", "layers", "profile"}:
        parts = tuple(part for part in PARTS if part in ("compile", "verify", *parts))
    return parts, select(kind, rest)
