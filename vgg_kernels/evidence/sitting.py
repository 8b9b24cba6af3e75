"""One candidate sitting one paper: called safely, with everything around the values looked at as well."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from . import kernelbench
from .exam import DEFAULT, EFFORTS, KAIMING, Change, Exam, Paper, Poison, Question, strict_fp32
from .kernelbench import Build
from .localise import ranges
from .marking import Marker
from .surroundings import global_state, memory, poisoned_memory, restore, same_bits
from .verdict import Check, Verdict


class Stop(Exception):
    """Raised inside an examination that ends at the first failure."""


class Sitting:
    """One candidate sitting one paper: calls it safely and writes down what it finds."""

    def __init__(self, exam: Exam, paper: Paper, verdict: Verdict, stop_early: bool, tick: Callable[[str], None]):
        self.exam, self.paper, self.verdict, self.stop_early, self.tick = exam, paper, verdict, stop_early, tick
        self.own = deepcopy(paper.reference)  # what the candidate is built from: the answers rest on another copy
        self.kept: list[tuple[Tensor, Tensor]] = []  # outputs and private copies of them
        self.buffers: dict[tuple, Tensor] = {}
        self.candidate: Any = None  # whatever the build returned
        self.marker = Marker(exam, paper.reference, verdict, self.note)

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
        """Write one check down and return whether it passed; raises ``Stop`` where the first failure ends it."""
        paper = self.paper
        self.verdict.checks.append(
            Check(name, paper.weights, paper.seed, kind, batch, error, budget, passed, "" if passed else detail)
        )
        if not passed and self.stop_early:
            raise Stop
        return passed

    # -- calling ------------------------------------------------------------------------------------------------

    def build(self, build: Build) -> bool:
        """Make the candidate; False where that failed."""
        before = global_state()
        try:
            with poisoned_memory():
                self.candidate = self.marker.candidate = build(self.own)
        except Exception as error:
            return self.note("builds", False, f"building raised {type(error).__name__}: {error}")
        finally:
            after = global_state()
            restore(before)
        changed = [name for name in before if before[name] != after[name]]
        if changed:
            return self.note("global state", False, f"building changed {', '.join(changed)}")
        return self.note("builds", callable(self.candidate), f"a {type(self.candidate).__name__} is not callable")

    def call(self, x: Tensor, kind: str, *, poisoned: bool = False) -> Tensor | None:
        """The candidate's output for ``x``, or None where it broke the contract (which is noted)."""
        self.tick(f"{self.paper.weights}: {kind}")
        batch, private, before = len(x), x.clone(), global_state()
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
            after = global_state()
            restore(before)
        note = lambda name, passed, detail: self.note(name, passed, detail, kind=kind, batch=batch)  # noqa: E731
        changed = [name for name in before if before[name] != after[name]]
        note("global state", not changed, f"the call changed {', '.join(changed)}")
        note("input unchanged", same_bits(x, private), "the input was written to")
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
        if memory(y) == memory(x):
            return "the input"
        if any(memory(y) == memory(earlier) for earlier, _ in self.kept):
            return "an earlier output"
        holders = [self.own, *([self.candidate] if isinstance(self.candidate, nn.Module) else [])]
        if any(memory(y) == memory(p) for holder in holders for p in holder.parameters()):
            return "the weights"
        return ""

    # -- the paper ----------------------------------------------------------------------------------------------

    def ask(self, question: Question, *, poisoned: bool = False) -> Tensor | None:
        """Put the question into a buffer that earlier questions used, and compare."""
        buffer = self.buffers.setdefault(tuple(question.x.shape), torch.empty_like(question.x))
        buffer.copy_(question.x)
        y = self.call(buffer, question.kind, poisoned=poisoned)
        if y is not None:
            self.marker.compare("values", y, question)
        return y

    def check_poison(self, poison: Poison) -> None:
        """A spoilt pixel spoils the logits that torch says it spoils, and no other image."""
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
        self.marker.compare(f"{poison.name} keeps to its image", y, poison.question, others)

    def check_overflow(self, question: Question) -> None:
        """Beyond the tier's range an image is right or entirely non-finite, never a wrong number."""
        y = self.call(question.x.clone(), question.kind)
        if y is not None:
            survived = torch.isfinite(y).any(dim=1)
            self.marker.compare("overflow is not a wrong number", y, question, survived)

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
            self.marker.compare(name, y, question)

    def sit(self, build: Build) -> None:
        """All questions of the paper."""
        exam, paper = self.exam, self.paper
        if not self.build(build):
            return
        if EFFORTS[exam.effort].through_trace and callable(getattr(self.candidate, "trace", None)):
            for question in paper.questions:
                self.tick(f"{paper.weights}: {question.kind}, layer by layer")
                self.marker.check_trace(question, None)
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
                self.verdict.deterministic = same_bits(first, self.kept[-1][1]) and same_bits(first, again)
                self.marker.compare("values", again, paper.questions[0])
        for layout in paper.layouts:
            y = self.call(layout.view(layout.question.x.clone()), layout.name)
            if y is not None:
                self.marker.compare(f"layout: {layout.name}", y, layout.question)
        for poison in paper.poisons:
            self.check_poison(poison)
        if paper.overflow is not None:
            self.check_overflow(paper.overflow)
        if first is not None and paper.weights == KAIMING and not self.verdict.layers:
            self.marker.check_trace(paper.questions[0], first)
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
        lost = [i for i, (y, copy) in enumerate(self.kept) if not same_bits(y, copy)]
        self.note("outputs survive", not lost, f"later calls changed output {ranges(lost)}")
        changed = [
            name
            for name, value in paper.reference.state_dict().items()
            if not same_bits(value, self.own.state_dict()[name])
        ]
        self.note("weights unchanged", not changed, f"changed: {', '.join(changed)}")
