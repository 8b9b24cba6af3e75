"""What is measured in which order, how long each step should take, and whether it still fits the time budget.

What matters most comes first: eager, inductor and our three main tiers, each verified and then timed; then layers, peak
rates and the other baselines. Profiles come last, since the profiler slows what follows it, but the time of the three
that matter most is kept for them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatch
from statistics import median
from typing import Any

from ..correctness.suite import batch_sizes
from ..workload.lookup import UnknownName
from ..workload.network import Network
from .variants import Variant, select, selectable

MAIN_BATCH = 10  # the workload's own
BATCHES = {"cuda": (10, 1, 64), "cpu": (10, 1)}
PARTS = ("compile", "verify", "time", "repeat", "layers", "profile", "peak_rates")
NEEDS_GATE = ("time", "repeat", "layers", "profile")  # parts for which a tier of ours must have passed the gate


@dataclass(frozen=True)
class Step:
    """One thing to measure; its output is one file.

    Attributes:
        part: of ``PARTS``.
        variant: the variant that it is about; none for the device's peak rates and for compiling.
        batch: images; 0 where they do not matter.
        tiers: those to compile.
        batches: for which to compile them; ``batch`` is the first.
        rank: its importance, 0 first, where that is not its place in the order.
    """

    part: str
    variant: Variant | None = None
    batch: int = 0
    tiers: tuple[str, ...] = ()
    batches: tuple[int, ...] = ()
    rank: int = field(default=0, compare=False)

    @property
    def name(self) -> str:
        """Its name in the run's notes: "time/eager/10", "verify/ours_fp16", "compile/fp16+tf32/10", "peak_rates"."""
        about = self.variant.name if self.variant else "+".join(self.tiers)
        return "/".join(str(word) for word in (self.part, about, self.batch) if word)

    @property
    def who(self) -> Variant:
        """The variant of a step that is about one."""
        if self.variant is None:
            raise ValueError(f"{self.name} is about no variant")
        return self.variant

    @property
    def gated(self) -> bool:
        """Whether a tier of ours must have passed the gate before this step."""
        return self.part in NEEDS_GATE and self.who.family == "ours"

    @property
    def family(self) -> str:
        """What its duration depends on: the part and, for inductor, how much it compiles."""
        if self.variant is None:
            return self.part
        slow = "-max" if self.variant.mode and "max" in self.variant.mode else ""
        return f"{self.part}/{self.variant.family}{slow}"

    def document(self) -> dict[str, Any]:
        """As JSON, for ``from_document`` in another process."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Step":
        """The step of ``document()``."""
        variant = document["variant"] and Variant(**document["variant"])
        lists = {name: tuple(document[name]) for name in ("tiers", "batches")}
        return cls(**{**document, "variant": variant, **lists})


MAIN, OTHERS, LEAST, ANY = "the main batch", "the other batches", "the smallest batch", "every batch"
Row = tuple[str, str, str]  # parts, patterns of variants' names, batches

OURS_FIRST, OURS_LATER = "ours_fp16 ours_fp16x3 ours_tf32", "ours_bf16 ours_fp8 ours_fp32"
GPU_ORDER: tuple[Row, ...] = (
    ("time", "eager", MAIN),
    ("time", "inductor", MAIN),  # the public record's own variant
    ("compile", OURS_FIRST, MAIN),
    ("verify time", OURS_FIRST, MAIN),
    ("layers", f"eager {OURS_FIRST}", MAIN),
    ("peak_rates", "", MAIN),
    ("profile", "eager inductor ours_fp16", MAIN),
    ("repeat", "eager inductor ours_fp16", MAIN),
    ("time", "eager_fp16_channels_last eager_strict inductor_max_fp16_channels_last", MAIN),  # like with like
    ("time", "eager_* inductor_reduce_overhead inductor_max_tf32", MAIN),
    ("time", "eager", OTHERS),
    ("compile", OURS_FIRST, OTHERS),
    ("time", OURS_FIRST, OTHERS),
    ("compile", OURS_LATER, MAIN),
    ("verify time layers", OURS_LATER, MAIN),
    ("time", "inductor", OTHERS),
    ("time", "inductor_*", MAIN),
    ("layers", "inductor eager_*", MAIN),
    ("compile", OURS_LATER, OTHERS),
    ("time", "ours_* eager_* inductor_*", OTHERS),
    ("layers", "*", MAIN),
    ("profile", "*", MAIN),
)
CPU_ORDER: tuple[Row, ...] = (  # a CPU takes seconds for an image, and minutes for every tier's gate
    ("time", "eager", LEAST),
    ("verify", "ours_fp16", MAIN),
    ("time", "inductor eager", LEAST),
    ("time", "eager inductor", ANY),
    ("peak_rates", "", MAIN),
    ("repeat", "eager inductor", MAIN),
    ("layers", "eager inductor", MAIN),
    ("profile", "eager inductor", MAIN),
    ("verify", "ours_*", MAIN),
)


def steps(
    kind: str, variants: Iterable[Variant], batches: Iterable[int], parts: Iterable[str] = PARTS, seed: int = 0
) -> tuple[Step, ...]:
    """Every step of a run, in order; profiles last.

    Args:
        kind: "cuda" or "cpu". On a CPU none of our tiers is timed: they run in Triton's interpreter.
        variants: from ``variants.select``.
        batches: images; the workload's own is the main one, else the smallest.
        parts: of ``PARTS``; profiles and layers are taken at the main batch.
        seed: of the gate's test suites: it decides for which batch sizes kernels are compiled.
    """
    rows, chosen = list(variants), set(parts)
    order = sorted(dict.fromkeys(batches), key=lambda batch: (batch != MAIN_BATCH, batch))
    found: dict[Step, None] = {}
    for row in GPU_ORDER if kind == "cuda" else CPU_ORDER:
        for step in _expand(row, rows, order, seed):
            if step.part in chosen and step not in found:
                found[replace(step, rank=len(found))] = None
    return tuple(sorted(found, key=lambda step: step.part == "profile"))


def _expand(row: Row, variants: list[Variant], order: list[int], seed: int) -> Iterator[Step]:
    parts, names, where = row
    if parts == "peak_rates":
        yield Step("peak_rates")
        return
    patterns = names.split()
    named = [v for v in variants if any(fnmatch(v.name, name) for name in patterns)]
    named.sort(key=lambda v: next(i for i, name in enumerate(patterns) if fnmatch(v.name, name)))
    batches = {MAIN: order[:1], OTHERS: order[1:], LEAST: [min(order)], ANY: order}[where]
    if parts == "compile":
        asked = batch_sizes(seed)
        wanted = (*batches, *asked) if where == MAIN else tuple(b for b in batches if b not in asked)
        if named and wanted:
            tiers, wanted = tuple(v.tier for v in named), tuple(dict.fromkeys(wanted))
            yield Step("compile", batch=wanted[0], tiers=tiers, batches=wanted)
        return
    for batch in batches:
        for variant in named:
            for part in parts.split():
                if part != "layers" or not variant.graphs:  # with graphs of its own the layers' kernels are the same
                    yield Step(part, variant, 0 if part == "verify" else batch)


def choose(kind: str, words: tuple[str, ...] = ()) -> tuple[tuple[str, ...], tuple[Variant, ...]]:
    """Parts and variants of ``--only``.

    Parts alone leave every variant; variants alone leave every part that is about a variant. On a GPU compiling and the
    gate come with every part that runs a variant, since nothing of ours is timed unverified.

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
        parts = tuple(part for part in PARTS if not rest or part != "peak_rates")
    elif kind == "cuda" and parts != ("peak_rates",):
        parts = tuple(part for part in PARTS if part in ("compile", "verify", *parts))
    return parts, select(kind, rest)


# Seconds before a step like it has been seen; on a GPU mostly compiling. Assumed, on a host of 16 cores.
START_S = 8.0  # of a measuring process: importing PyTorch, the device's context, the weights
GPU_ESTIMATES = {
    "compile": 30.0,
    "verify/ours": 12.0,  # with everything compiled
    "time/eager": 5.0,
    "time/inductor": 30.0,
    "time/inductor-max": 100.0,
    "time/ours": 6.0,
    "repeat/eager": 3.0,
    "repeat/inductor": 12.0,
    "repeat/ours": 3.0,
    "profile/eager": 4.0,
    "profile/inductor": 12.0,
    "profile/inductor-max": 60.0,
    "profile/ours": 6.0,
    "layers/eager": 10.0,
    "layers/inductor": 60.0,
    "layers/inductor-max": 200.0,
    "layers/ours": 12.0,
    "peak_rates": 12.0,
}
CPU_FLOPS_A_CORE = 40e9  # a modest rate
CPU_FORWARDS = {"time": 12, "repeat": 12, "layers": 8, "profile": 4}
CPU_FIXED_S = {"verify": 20.0, "peak_rates": 5.0}
GATE_FORWARDS = 100  # what a quick gate on the timed network costs in fp32 forwards of three images


def guesses(kind: str, network: Network, cores: int, load: float, full_gate: bool = False) -> Callable[[Step], float]:
    """Seconds of a step that is like none yet: on a GPU from a table, on a CPU from the network's operations.

    Args:
        kind: "cuda" or "cpu".
        network: what is timed.
        cores: of the host that PyTorch uses.
        load: its load average.
        full_gate: on a CPU, whether the gate runs on the timed network and not on a small one.
    """
    if kind == "cuda":
        return lambda step: GPU_ESTIMATES[step.family]
    crowd = max(1.0, load / cores)

    def guess(step: Step) -> float:
        forward_s = crowd * network.flops(step.batch or 3) / (CPU_FLOPS_A_CORE * cores)
        if step.part == "verify" and full_gate:
            return GATE_FORWARDS * forward_s + 1.0
        if step.part in CPU_FIXED_S:
            return CPU_FIXED_S[step.part] * crowd
        compiling = {"layers": 90.0}.get(step.part, 30.0) if step.who.family == "inductor" else 0.0
        return compiling * crowd + max(CPU_FORWARDS[step.part] * forward_s, 1.0)

    return guess


@dataclass
class TimeBudget:
    """The seconds that are left, and what each kind of step has been seen to take.

    Attributes:
        now: seconds, monotonic.
        until_s: on that clock.
        guess: seconds of a step that is like none yet.
        start_s: of a measuring process before its first step.
        seen: the longest of each family so far.
    """

    now: Callable[[], float]
    until_s: float
    guess: Callable[[Step], float]
    start_s: float = START_S
    seen: dict[str, float] = field(default_factory=dict)
    _guessed: dict[str, float] = field(default_factory=dict)

    @property
    def left_s(self) -> float:
        """Seconds until the budget ends, not below zero."""
        return max(0.0, self.until_s - self.now())

    def estimate(self, step: Step) -> float:
        """Seconds of ``step``: as long as the longest like it, else the guess times what guesses were wrong by."""
        seen = self.seen.get(self._family(step))
        return self.guess(step) * self.correction if seen is None else seen

    @property
    def correction(self) -> float:
        """Median of seen over guessed seconds, between 1/2 and 4."""
        ratios = [self.seen[family] / guessed for family, guessed in self._guessed.items()]
        return min(4.0, max(0.5, median(ratios))) if ratios else 1.0

    def refuses(self, step: Step, later: Sequence[Step], *, started: float = 0.0) -> str | None:
        """Why the step is not begun, or none.

        Args:
            step: the next one.
            later: those after it in the order; the time of more important ones among them is kept.
            started: seconds that earlier steps of the same process are still expected to take; 0 for its first step.
        """
        need = self.estimate(step) + (started or self.start_s)
        if step.part == "compile" and later:  # of no use without what it compiles for
            need += self.estimate(later[0]) + self.start_s
        kept = sum(self.estimate(other) + self.start_s for other in later if other.rank < step.rank)
        if need > self.left_s - kept:
            kept_for = f", {kept:.0f} s of them for profiles" if kept else ""
            return f"needs about {need:.0f} s; {self.left_s:.0f} s of the budget are left{kept_for}"
        return None

    def learn(self, step: Step, took_s: float) -> None:
        """Remember how long a step took that ended well."""
        family = self._family(step)
        self._guessed.setdefault(family, self.guess(step))
        self.seen[family] = max(took_s, self.seen.get(family, 0.0))

    @staticmethod
    def _family(step: Step) -> str:
        return f"{step.family}/{step.batch}" if step.batch and step.part != "compile" else step.family
