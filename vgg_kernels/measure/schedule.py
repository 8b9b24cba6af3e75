"""What to measure in which order, and whether the next step still fits the budget.

What a reader asks first comes first: eager, inductor and our tiers at the workload's batch, each tier's gate just
before its time; then the ceilings that explain those; then everything else, the steps that compile longest last.

Profiles stand where their importance puts them, which decides whether the budget has room for them. They are taken
behind everything else all the same: the profiler stays loaded and slows what its process does next (pytorch#144455).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatch

from ..correctness.suite import ALWAYS_BATCH_SIZES
from ..workload.lookup import UnknownName
from .variants import Variant, select, selectable

MAIN_BATCH = 10  # the workload's own
BATCHES = {"cuda": (10, 1, 64), "cpu": (10, 1)}
REPEATED = ("eager", "inductor", "ours_fp16")  # timed twice: what two runs of the same thing differ by is noise
GATE_SHARE = 0.5  # of the budget: slow gates must not leave a run without its other times
PARTS = ("compile", "verify", "time", "repeat", "layers", "profile", "ceilings")


@dataclass(frozen=True)
class Step:
    """One thing to measure; what a killed run takes up again is the steps that it had not finished.

    Attributes:
        part: of ``PARTS``.
        variant: what it is about; none for what is about the device, or about all our tiers.
        batch: images; 0 where they do not matter.
    """

    part: str
    variant: Variant | None = None
    batch: int = 0

    @property
    def name(self) -> str:
        """Its name in the run's notes: "time/eager/10", "verify/ours_fp16", "compile/10", "ceilings"."""
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


MAIN, LEAST, OTHERS, ANY = "the main batch", "the smallest batch", "another batch", "any batch"
Wish = tuple[str, str, str]  # parts, patterns of variants' names, at which batch

GPU_ORDER: tuple[Wish, ...] = (
    ("time", "eager", MAIN),  # whatever becomes of a new kernel, this row is there
    ("compile", "", MAIN),
    ("verify time", "ours_fp16", MAIN),
    ("time", "inductor", MAIN),  # the public record's own variant
    ("verify time", "ours_*", MAIN),
    ("ceilings", "", ANY),
    ("repeat", "eager inductor ours_fp16", MAIN),
    ("time", "eager_*", MAIN),
    ("layers", "eager ours_fp16", MAIN),
    ("profile", "eager inductor ours_fp16", MAIN),
    ("time", "inductor_max_fp16_channels_last inductor_max_tf32", MAIN),  # what a user would pick instead; minutes
    ("compile time", "eager ours_*", OTHERS),
    ("profile layers", "ours_*", MAIN),
    ("time", "inductor", OTHERS),
    ("time", "inductor_max*", MAIN),
    ("profile layers", "eager* inductor", MAIN),
    ("time", "eager_*", OTHERS),
    ("profile layers", "inductor_max*", MAIN),
    ("time", "inductor_max*", OTHERS),
)
CPU_ORDER: tuple[Wish, ...] = (  # a CPU takes seconds for an image, and minutes for every tier's gate
    ("time", "eager", LEAST),
    ("verify", "ours_fp16", ANY),  # one, to show that it can be
    ("time", "*", LEAST),
    ("time", "*", ANY),
    ("ceilings", "", ANY),
    ("repeat", "*", ANY),
    ("layers", "*", ANY),
    ("profile", "*", ANY),
    ("verify", "*", ANY),
)


def steps(
    kind: str, variants: Iterable[Variant], batches: Iterable[int], parts: Iterable[str] = PARTS
) -> tuple[Step, ...]:
    """Every step of a run, most important first.

    Args:
        kind: "cuda" or "cpu". On a CPU none of our tiers is timed: they run in Triton's interpreter.
        variants: from ``variants.select``, in order of importance.
        batches: images; the workload's own is the main one, else the smallest, whatever the order.
        parts: of ``PARTS``; profiles and layers are taken at the main batch.
    """
    order = sorted(dict.fromkeys(batches), key=lambda batch: (batch != MAIN_BATCH, batch))
    rows = list(variants)
    ours = [v for v in rows if v.family == "ours"]
    timed = [v for v in rows if kind == "cuda" or v.family != "ours"]
    found = [Step("compile", batch=batch) for batch in order if kind == "cuda" and ours]
    found = [
        step for step in found if step.batch == order[0] or step.batch not in ALWAYS_BATCH_SIZES
    ]  # compiled for the gate
    found += [Step("verify", v) for v in ours]
    found += [Step("time", v, batch) for batch in order for v in timed]
    found += [Step("profile", v, order[0]) for v in timed]
    found += [Step("layers", v, order[0]) for v in timed if not v.graphs]  # with graphs they are the same kernels
    found += [Step("repeat", v, order[0]) for v in timed if v.name in REPEATED]
    found.append(Step("ceilings"))
    wishes = GPU_ORDER if kind == "cuda" else CPU_ORDER

    def wished(step: Step, wish: Wish) -> bool:
        parts, names, where = wish
        batch = step.batch or order[0]
        there = {MAIN: batch == order[0], LEAST: batch == min(order), OTHERS: batch != order[0], ANY: True}[where]
        named = step.variant is None or any(fnmatch(step.variant.name, name) for name in names.split())
        return there and named and step.part in parts.split()

    def place(step: Step) -> tuple[int, int, int, int]:
        """Within one wish by batch, then by variant, each tier's gate just before its time."""
        rank = next(i for i, wish in enumerate(wishes) if wished(step, wish))
        variant = -1 if step.variant is None else rows.index(step.variant)
        return rank, order.index(step.batch or order[0]), variant, PARTS.index(step.part)

    chosen = set(parts)
    return tuple(sorted((step for step in found if step.part in chosen), key=place))


# Seconds that a step takes before one like it has been seen; on a GPU mostly compiling, from other cards' runs.
GPU_ESTIMATES = {
    "compile": 60.0,  # 24 processes for the gate's batches and the main one, on 16 cores
    "verify/ours": 30.0,  # with everything compiled; fp32's 40
    "time/eager": 6.0,
    "time/inductor": 40.0,
    "time/inductor-max": 100.0,
    "time/ours": 10.0,
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
        gate_share: of the budget, that the gates may take together.
        seen: the longest of each family so far.
        gates_s: what gates have taken so far.
        kept: seconds that are promised to steps which are to be begun later, by their name.
    """

    now: Callable[[], float]
    until_s: float
    total_s: float
    guess: Callable[[Step], float]
    gate_share: float = GATE_SHARE
    seen: dict[str, float] = field(default_factory=dict)
    gates_s: float = 0.0
    kept: dict[str, float] = field(default_factory=dict)

    @property
    def left_s(self) -> float:
        """Seconds until the budget ends that no step has been promised, not below zero."""
        return max(0.0, self.until_s - self.now() - sum(self.kept.values()))

    def estimate(self, step: Step) -> float:
        """Seconds that ``step`` is expected to take: as long as the longest like it, else the guess."""
        seen = self.seen.get(self._family(step))
        return self.guess(step) if seen is None else seen

    def refuses(self, step: Step) -> str | None:
        """Why the step is not begun, or none."""
        need = self.estimate(step)
        if step.part == "verify":
            share = max(0.0, self.gate_share * self.total_s - self.gates_s)
            if need > share:
                return f"needs about {need:.0f} s; {share:.0f} s of the gates' share of the budget are left"
        if need > self.left_s:
            return f"needs about {need:.0f} s; {self.left_s:.0f} s of the budget are left"
        return None

    def keep(self, step: Step) -> None:
        """Promise the step its seconds; ``begin`` takes the promise back."""
        self.kept[step.name] = self.estimate(step)

    def begin(self, step: Step) -> None:
        """The step's turn has come: what it was promised is left for it."""
        self.kept.pop(step.name, None)

    def learn(self, step: Step, took_s: float, done: bool) -> None:
        """Remember how long a step took; one that did not end well says nothing about the next of its kind."""
        if step.part == "verify":
            self.gates_s += took_s
        if done:
            family = self._family(step)
            self.seen[family] = max(took_s, self.seen.get(family, 0.0))

    @staticmethod
    def _family(step: Step) -> str:
        return f"{step.family}/{step.batch}" if step.batch else step.family


def choose(kind: str, words: tuple[str, ...] = ()) -> tuple[tuple[str, ...], tuple[Variant, ...]]:
    """What ``--only`` asks for: parts and variants.

    Parts alone leave every variant; variants alone leave every part that is about a variant. On a GPU compiling and the
    gate come with whatever runs a variant, since nothing of ours is timed unverified.

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
    elif kind == "cuda" and parts != ("ceilings",):
        parts = tuple(part for part in PARTS if part in ("compile", "verify", *parts))
    return parts, select(kind, rest)
