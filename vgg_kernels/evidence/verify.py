"""The gate: does a candidate compute the network, in the arithmetic that it claims?

``verify(build, network, tier)`` builds a candidate from fresh Kaiming weights, asks it the questions of ``exam.py``,
and compares image by image with float64 under the budget of ``budget.py``. Around the values it looks at everything
that lets a wrong kernel pass elsewhere: memory that was never written (freed memory is filled with NaN), inputs and
weights that were changed, outputs that share memory with something, stale weights, memoised outputs, NaN that is
swallowed, a batch whose images mix, a tensor that is not a plain fp32 one. KernelBench's own weights are asked too,
for compatibility; what they can see is in the certificate, and they never pass a candidate by themselves.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from ..workload.network import Network
from ..workload.reference import Reference, relative_error
from . import kernelbench
from .exam import DEFAULT, EFFORTS, KAIMING, REAL_KINDS, Change, Exam, Paper, Poison, Question, prepare, strict_fp32
from .localise import LayerResult, by_layer, ranges, where_wrong
from .sensitivity import Certificate

Build = Callable[[Reference], Callable[[Tensor], Tensor]]
Progress = Callable[[int, int, str], None]
FP32_GRADE = 1.5  # fp16x3 claims fp32's accuracy: at most this many times eager fp32's own error
FP32_GRADE_KINDS = ("mixed", *REAL_KINDS)


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what: "values", "layer by layer", "input unchanged", "no aliasing", ...
        weights: scheme of the weights.
        seed: of the weights.
        inputs: kind of the images.
        batch: how many.
        relative_error: the worst image's error in norm against float64 (None where the check is no comparison,
            infinity where the output is not finite).
        budget: what that image may have.
        passed: the result.
        detail: what is wrong, and where; empty where nothing is.
    """

    name: str
    weights: str
    seed: int
    inputs: str
    batch: int
    relative_error: float | None
    budget: float | None
    passed: bool
    detail: str = ""

    def document(self) -> dict:
        """JSON-able: an infinite error is null, and the detail says that it was not finite."""
        row = asdict(self)
        if row["relative_error"] is not None and not isfinite(row["relative_error"]):
            row["relative_error"] = None
        return row


@dataclass(frozen=True)
class LayerError:
    """The error behind one layer, as it has grown so far: worst image of the first Kaiming question."""

    layer: str
    relative_error: float
    budget: float


@dataclass
class Verdict:
    """What the gate says of one candidate.

    ``passed`` needs every check, and a Kaiming certificate that is not vacuous: a candidate that was only asked
    questions that cannot fail has not passed anything. ``kernelbench_accepts`` (KernelBench's rule on its own weights,
    one trial) and ``deterministic`` are reported and decide nothing.
    """

    tier: str
    network: str
    image: int
    effort: str
    seed: int
    device: str
    checks: list[Check] = field(default_factory=list)
    certificates: list[Certificate] = field(default_factory=list)
    layers: list[LayerError] = field(default_factory=list)
    deterministic: bool | None = None
    eager_relative_error: float | None = None
    kernelbench_accepts: bool | None = None

    @property
    def checks_passed(self) -> bool:
        """True where there were checks and none failed."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def passed(self) -> bool:
        """True where every check passed and the real test could have failed."""
        certified = any(c.weights == KAIMING and not c.vacuous for c in self.certificates)
        return self.checks_passed and certified and any(c.weights == KAIMING for c in self.checks)

    @property
    def failures(self) -> list[Check]:
        """The checks that failed, in the order in which they were made."""
        return [check for check in self.checks if not check.passed]

    @property
    def relative_error(self) -> float | None:
        """The logits' worst error on Kaiming weights; None where none was compared, infinity where not finite."""
        values = [c for c in self.checks if c.weights == KAIMING and c.name == "values"]
        return max((c.relative_error for c in values if c.relative_error is not None), default=None)

    def document(self) -> dict:
        """JSON-able: the verdict, its checks, certificates and layers."""
        return {
            "tier": self.tier,
            "network": self.network,
            "image": self.image,
            "passed": self.passed,
            "effort": self.effort,
            "seed": self.seed,
            "device": self.device,
            "deterministic": self.deterministic,
            "eager_relative_error": self.eager_relative_error,
            "kernelbench_accepts": self.kernelbench_accepts,
            "checks": [{"network": self.network, "image": self.image, **c.document()} for c in self.checks],
            "certificates": [{"network": self.network, "image": self.image, **c.document()} for c in self.certificates],
            "layers": [
                asdict(row) | {"relative_error": row.relative_error if isfinite(row.relative_error) else None}
                for row in self.layers
            ],
        }


@contextmanager
def poisoned_memory() -> Iterator[None]:
    """Within it memory allocated without a value holds NaN (PyTorch's own switch), so what is never written shows."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    switch: Any = torch.utils.deterministic  # whose attribute is a property that type checkers cannot see
    fill = switch.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    switch.fill_uninitialized_memory = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "X has no deterministic implementation": not our concern
            yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        switch.fill_uninitialized_memory = fill


def _global_state() -> dict:
    return {
        "default dtype": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
        "cudnn.allow_tf32": torch.backends.cudnn.allow_tf32,
        "cuda.matmul.allow_tf32": torch.backends.cuda.matmul.allow_tf32,
        "float32 matmul precision": torch.get_float32_matmul_precision(),
    }


def _restore(state: dict) -> None:
    torch.set_default_dtype(state["default dtype"])
    torch.set_grad_enabled(state["grad mode"])
    torch.set_float32_matmul_precision(state["float32 matmul precision"])
    torch.backends.cudnn.allow_tf32 = state["cudnn.allow_tf32"]
    torch.backends.cuda.matmul.allow_tf32 = state["cuda.matmul.allow_tf32"]


def _same_bits(a: Tensor, b: Tensor) -> bool:
    a, b = a.detach().contiguous(), b.detach().contiguous()
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a.view(torch.int32), b.view(torch.int32))


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class _Stop(Exception):
    """Raised inside an examination that ends at the first failure."""


class _Sitting:
    """One candidate sitting one paper: calls it safely and writes down what it finds."""

    def __init__(self, exam: Exam, paper: Paper, verdict: Verdict, stop_early: bool, tick: Callable[[str], None]):
        self.exam, self.paper, self.verdict, self.stop_early, self.tick = exam, paper, verdict, stop_early, tick
        self.own = deepcopy(paper.reference)  # what the candidate is built from: the answers rest on another copy
        self.kept: list[tuple[Tensor, Tensor]] = []  # outputs and private copies of them
        self.buffers: dict[tuple, Tensor] = {}
        self.candidate: Any = None  # whatever the build returned

    # -- writing down -------------------------------------------------------------------------------------------

    def note(
        self,
        name: str,
        passed: bool,
        detail: str = "",
        *,
        kind: str = "",
        batch: int = 0,
        error: float | None = None,
        budget: float | None = None,
    ) -> bool:
        paper = self.paper
        self.verdict.checks.append(
            Check(name, paper.weights, paper.seed, kind, batch, error, budget, passed, "" if passed else detail)
        )
        if not passed and self.stop_early:
            raise _Stop
        return passed

    # -- calling ------------------------------------------------------------------------------------------------

    def build(self, build: Build) -> bool:
        before = _global_state()
        try:
            with poisoned_memory():
                self.candidate = build(self.own)
        except Exception as error:
            return self.note("builds", False, f"building raised {type(error).__name__}: {error}")
        finally:
            after = _global_state()
            _restore(before)
        changed = [name for name in before if before[name] != after[name]]
        if changed:
            return self.note("global state", False, f"building changed {', '.join(changed)}")
        return self.note("builds", callable(self.candidate), f"a {type(self.candidate).__name__} is not callable")

    def call(self, x: Tensor, kind: str, *, poisoned: bool = False) -> Tensor | None:
        """The candidate's output for ``x``, or None where it broke the contract (which is noted)."""
        self.tick(f"{self.paper.weights}: {kind}")
        batch, private, before = len(x), x.clone(), _global_state()
        try:
            with torch.no_grad():
                if poisoned:
                    with poisoned_memory():
                        y = self.candidate(x)
                else:
                    y = self.candidate(x)
                if x.is_cuda:
                    torch.cuda.current_stream(x.device).synchronize()  # the caller's stream, and no other
        except Exception as error:
            self.note("runs", False, f"raised {type(error).__name__}: {error}", kind=kind, batch=batch)
            return None
        finally:
            after = _global_state()
            _restore(before)
        note = lambda name, passed, detail: self.note(name, passed, detail, kind=kind, batch=batch)  # noqa: E731
        changed = [name for name in before if before[name] != after[name]]
        note("global state", not changed, f"the call changed {', '.join(changed)}")
        note("input unchanged", _same_bits(x, private), "the input was written to")
        if not self.contract(y, x, kind, batch):
            return None
        shared = self.aliases(y, x)
        note("no aliasing", not shared, f"the output shares memory with {shared}")
        self.kept.append((y, y.clone()))
        return y

    def contract(self, y: object, x: Tensor, kind: str, batch: int) -> bool:
        """A plain, dense fp32 tensor ``[N, classes]`` on the input's device."""
        if type(y) is not Tensor:
            problem = f"the output is a {type(y).__module__}.{type(y).__qualname__}; accepted: a plain torch.Tensor"
        elif y.dtype != torch.float32:
            problem = f"the output's dtype is {y.dtype}; accepted: torch.float32"
        elif tuple(y.shape) != (batch, self.exam.network.classes):
            problem = f"the output's shape is {list(y.shape)}; accepted: {[batch, self.exam.network.classes]}"
        elif y.device != x.device:
            problem = f"the output is on {y.device}, the input on {x.device}"
        elif y.layout != torch.strided:
            problem = f"the output's layout is {y.layout}; accepted: torch.strided"
        else:
            problem = ""
        return self.note("contract", not problem, problem, kind=kind, batch=batch)

    def aliases(self, y: Tensor, x: Tensor) -> str:
        """What the output shares memory with, in words; empty where it is its own."""
        if _memory(y) == _memory(x):
            return "the input"
        if any(_memory(y) == _memory(earlier) for earlier, _ in self.kept):
            return "an earlier output"
        holders = [self.own, *([self.candidate] if isinstance(self.candidate, nn.Module) else [])]
        if any(_memory(y) == _memory(p) for holder in holders for p in holder.parameters()):
            return "the weights"
        return ""

    # -- comparing ----------------------------------------------------------------------------------------------

    def compare(self, name: str, y: Tensor, question: Question, images: Tensor | None = None) -> bool:
        """Relative error in norm of each image against its budget; a non-finite value matches nothing."""
        want, got = question.oracle.logits, y.detach().double()
        budget = question.budget[self.exam.network.layers[-1].name]
        error = (got - want).norm(dim=1) / want.norm(dim=1)
        error = torch.where(torch.isfinite(got).all(dim=1), error, torch.inf)
        wrong = error > budget
        if images is not None:
            wrong, error = wrong & images, error.where(images, 0.0)
        if name == "values" and self.exam.tier.name == "fp16x3" and question.kind in FP32_GRADE_KINDS:
            whole, allowed = relative_error(y, want), FP32_GRADE * question.eager_error
            self.note(
                "as accurate as eager fp32",
                whole <= allowed,
                f"{whole:.3g}, eager fp32 {question.eager_error:.3g}",
                kind=question.kind,
                batch=len(y),
                error=whole,
                budget=allowed,
            )
        worst = int((error / budget).argmax())
        detail = self.describe(got, want, wrong, question) if bool(wrong.any()) else ""
        return self.note(
            name,
            not bool(wrong.any()),
            detail,
            kind=question.kind,
            batch=len(y),
            error=float(error[worst]),
            budget=float(budget[worst]),
        )

    def describe(self, got: Tensor, want: Tensor, wrong: Tensor, question: Question) -> str:
        """Which images, which logits, and, where the candidate can be traced, which layer was wrong first."""
        text = where_wrong(wrong)
        broken = torch.nonzero(~torch.isfinite(got).all(dim=0)).flatten().tolist()
        if broken and len(broken) < got.shape[1]:
            text += f", logits {ranges(broken)} not finite"
        elif broken:
            text += ", not finite"
        else:
            off = (got - want).abs()[wrong].amax(0) > 6 * (
                want.abs()[wrong].mean() * 1e-2 + (got - want).abs()[wrong].median()
            )
            if 0 < int(off.sum()) <= got.shape[1] // 2:
                text += f", logits {ranges(torch.nonzero(off).flatten().tolist())}"
        first = self.first_wrong_layer(question)
        return f"{text}; first wrong layer {first.layer}: {first.where}" if first else text

    def trace(self, x: Tensor) -> dict[str, Tensor] | None:
        """The candidate's trace, or None where it has none; a trace that raises or is misshapen is noted as failed."""
        take = getattr(self.candidate, "trace", None)
        if not callable(take):
            return None
        try:
            trace = {name: value.float() for name, value in take(x.clone()).items()}
        except Exception as error:
            self.note("trace", False, f"trace raised {type(error).__name__}: {error}")
            return None
        for layer in self.exam.network.layers:
            shape = (len(x), *layer.output_shape)
            if layer.name not in trace or tuple(trace[layer.name].shape) != shape:
                found = list(trace[layer.name].shape) if layer.name in trace else "nothing"
                self.note("trace", False, f"trace has {found} for {layer.name}; accepted: {list(shape)}")
                return None
        return trace

    def first_wrong_layer(self, question: Question) -> LayerResult | None:
        take = getattr(self.candidate, "trace", None)
        trace = self.trace(question.x) if callable(take) else None
        if trace is None:
            return None
        results = by_layer(self.paper.reference, self.exam.network, self.exam.tier, question.x, trace)
        return next((result for result in results if not result.passed), None)

    def check_trace(self, question: Question, y: Tensor | None) -> None:
        """The first question layer by layer: each layer on its own input, and the error as it accumulates."""
        trace = self.trace(question.x)
        if trace is None:
            return
        last = self.exam.network.layers[-1].name
        if y is None:
            self.compare("values", trace[last], question)
        elif self.verdict.deterministic is not False:
            self.compare("trace ends in the logits", trace[last], question)
        results = by_layer(self.paper.reference, self.exam.network, self.exam.tier, question.x, trace)
        for result in results:
            self.note(
                f"layer {result.layer}",
                result.passed,
                f"wrong at {result.where}",
                kind=question.kind,
                batch=len(question.x),
                error=result.relative_error,
                budget=result.budget,
            )
        for name, want in question.oracle.outputs.items():
            got = trace[name].double().flatten(1)
            error = (got - want.flatten(1)).norm(dim=1) / want.flatten(1).norm(dim=1)
            error = torch.where(torch.isfinite(got).all(dim=1), error, torch.inf)
            worst = int((error / question.budget[name]).argmax())
            row = LayerError(name, float(error[worst]), float(question.budget[name][worst]))
            self.verdict.layers.append(row)
            self.note(
                f"up to {name}",
                row.relative_error <= row.budget,
                where_wrong(error > question.budget[name]),
                kind=question.kind,
                batch=len(question.x),
                error=row.relative_error,
                budget=row.budget,
            )

    # -- the paper ----------------------------------------------------------------------------------------------

    def ask(self, question: Question, *, poisoned: bool = False) -> Tensor | None:
        """Put the question into a buffer that earlier questions used, and compare."""
        buffer = self.buffers.setdefault(tuple(question.x.shape), torch.empty_like(question.x))
        buffer.copy_(question.x)
        y = self.call(buffer, question.kind, poisoned=poisoned)
        if y is not None:
            self.compare("values", y, question)
        return y

    def check_poison(self, poison: Poison) -> None:
        y = self.call(poison.x.clone(), poison.name)
        if y is None:
            return
        finite = torch.isfinite(y)
        detail = f"image {poison.spoilt}: {int(finite[poison.spoilt].sum())} finite logits, torch has "
        detail += f"{int(poison.finite[poison.spoilt].sum())}"
        agree = torch.equal(finite[poison.spoilt], poison.finite[poison.spoilt])
        self.note(f"{poison.name} is kept", agree, detail, kind=poison.name, batch=len(y))
        others = torch.ones(len(y), dtype=torch.bool, device=y.device)
        others[poison.spoilt] = False
        self.compare(f"{poison.name} keeps to its image", y, poison.question, others)

    def check_overflow(self, question: Question) -> None:
        """Beyond the tier's range an image is right or entirely non-finite, never a wrong number."""
        y = self.call(question.x.clone(), question.kind)
        if y is not None:
            survived = torch.isfinite(y).any(dim=1)
            self.compare("overflow is not a wrong number", y, question, survived)

    def check_change(self, change: Change) -> None:
        """After a change of weights the same images give the new answer, or an error that says to repack."""
        if not isinstance(self.candidate, nn.Module) or not set(self.own.state_dict()) <= set(
            self.candidate.state_dict()
        ):
            return
        question = change.question
        name = f"weights changed, {change.name}"
        try:
            change.apply(self.candidate)
            x = question.x.clone()
            with torch.no_grad():
                self.tick(name)
                y = self.candidate(x)
        except Exception as error:
            told = "repack" in str(error)
            detail = f"raised {type(error).__name__}: {error}"
            self.note(name, told, detail, kind=question.kind, batch=len(question.x))
            return
        if self.contract(y, x, question.kind, len(x)):
            self.compare(name, y, question)

    def sit(self, build: Build) -> None:
        """All questions of the paper."""
        exam, paper = self.exam, self.paper
        if not self.build(build):
            return
        if EFFORTS[exam.effort].through_trace and callable(getattr(self.candidate, "trace", None)):
            for question in paper.questions:
                self.tick(f"{paper.weights}: {question.kind}, layer by layer")
                self.check_trace(question, None)
            return
        first = None
        for i, question in enumerate(paper.questions):
            y = self.ask(question, poisoned=i == 0)
            first = y if i == 0 else first
            if y is not None and paper.weights == DEFAULT:
                self.check_rule(y, question)
        if paper.changes and first is not None:
            again = self.call(paper.questions[0].x.clone(), "the first question again")
            if again is not None:
                self.verdict.deterministic = _same_bits(first, self.kept[-1][1]) and _same_bits(first, again)
                self.compare("values", again, paper.questions[0])
        for layout in paper.layouts:
            y = self.call(layout.view(layout.question.x.clone()), layout.name)
            if y is not None:
                self.compare(f"layout: {layout.name}", y, layout.question)
        for poison in paper.poisons:
            self.check_poison(poison)
        if paper.overflow is not None:
            self.check_overflow(paper.overflow)
        if first is not None and paper.weights == KAIMING and not self.verdict.layers:
            self.check_trace(paper.questions[0], first)
        self.finish(paper)
        for change in paper.changes:
            self.check_change(change)

    def check_rule(self, y: Tensor, question: Question) -> None:
        """What KernelBench would say; it decides nothing here."""
        with torch.no_grad(), strict_fp32():
            expected = self.paper.reference(question.x)
        self.verdict.kernelbench_accepts = kernelbench.accepts(expected, y, kernelbench.TOLERANCE)

    def finish(self, paper: Paper) -> None:
        """What must still hold after all calls: earlier outputs, and the weights that the candidate was given."""
        lost = [i for i, (y, copy) in enumerate(self.kept) if not _same_bits(y, copy)]
        self.note("outputs survive", not lost, f"later calls changed output {ranges(lost)}")
        changed = [
            name
            for name, value in paper.reference.state_dict().items()
            if not _same_bits(value, self.own.state_dict()[name])
        ]
        self.note("weights unchanged", not changed, f"changed: {', '.join(changed)}")


def examine(build: Build, exam: Exam, *, stop_early: bool = False, progress: Progress | None = None) -> Verdict:
    """Put one candidate through a prepared exam.

    Args:
        build: makes a candidate from a reference, whose weights it may keep; called once a paper.
        exam: the questions, from ``prepare``; it can be used for many candidates.
        stop_early: end at the first failure.
        progress: called with calls done, calls in all, and what is being asked.
    """
    verdict = Verdict(exam.tier.name, exam.network.name, exam.network.image, exam.effort, exam.seed, str(exam.device))
    verdict.certificates = list(exam.certificates)
    done = 0

    def tick(text: str) -> None:
        nonlocal done
        if progress is not None:
            progress(done, exam.calls, text)
        done += 1

    try:
        for paper in exam.papers:
            _Sitting(exam, paper, verdict, stop_early, tick).sit(build)
    except _Stop:
        return verdict
    verdict.eager_relative_error = max(
        (q.eager_error for p in exam.papers if p.weights == KAIMING for q in p.questions), default=None
    )
    if progress is not None:
        progress(exam.calls, exam.calls, "done")
    return verdict


def verify(
    build: Build,
    network: Network,
    tier_name: str,
    *,
    effort: str = "quick",
    seed: int | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Verdict:
    """Prepare a fresh exam and put one candidate through it.

    Args:
        build: makes a candidate, ``[N, 3, image, image]`` fp32 to ``[N, classes]`` fp32, from a ``Reference``. Where
            the candidate has ``trace(x)`` (every layer's output by name), each layer is checked too.
        network: the network.
        tier_name: the arithmetic that the candidate claims; its budget holds.
        effort: "quick", "full", or "single" (one image through the trace: for the interpreter at full size).
        seed: of all weights and inputs; None draws a fresh one, which the verdict names.
        device: where the candidate runs.
        progress: called with calls done, calls in all, and what is being asked.

    Raises:
        UnknownName: for a tier or effort that does not exist.
        UnfitReference: where the Kaiming reference cannot fail a candidate at this tier.
    """
    return examine(build, prepare(network, tier_name, effort, seed=seed, device=device), progress=progress)
