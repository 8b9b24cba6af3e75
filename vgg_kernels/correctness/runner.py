"""One candidate sitting one paper: called safely, with everything around the values looked at as well."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from . import kernelbench
from .compare import Marker
from .isolation import Watched, kept, poisoned_memory, same_bits, share_memory
from .kernelbench import Build
from .locate import ranges
from .result import Check, Verdict
from .suite import answer_now, strict_fp32, unanswered
from .test_case import DEFAULT, KAIMING, Change, Exam, Paper, Poison, Question

GPU_HEAD_START = 10_000_000  # clock cycles (5 ms or so) for which a GPU's stream is busy before the question arrives


class Stop(Exception):
    """Raised inside an examination that ends at the first failure."""


class Sitting:
    """One candidate sitting one paper: calls it safely and writes down what it finds.

    Args:
        exam: the exam.
        paper: one paper of it.
        verdict: where checks are written.
        watched: the functions that the candidate must leave alone.
        stop_early: raise ``Stop`` at the first failure.
        tick: called with what is going to be asked.
    """

    def __init__(
        self,
        exam: Exam,
        paper: Paper,
        verdict: Verdict,
        watched: Watched,
        stop_early: bool,
        tick: Callable[[str], None],
    ):
        self.exam, self.paper, self.verdict, self.stop_early, self.tick = exam, paper, verdict, stop_early, tick
        self.watched = watched
        self.own = deepcopy(paper.reference)  # what the candidate is built from: the answers rest on another copy
        self.kept: list[tuple[Tensor, Tensor]] = []  # outputs and private copies of them
        self.inputs: list[tuple[Tensor, Tensor]] = []  # the same of the call before
        self.buffers: dict[tuple, Tensor] = {}
        self.candidate: Any = None  # whatever the build returned
        self.marker = Marker(exam, paper.reference, verdict, self.note, self.trace)

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

    def let(
        self, action: Callable[[], Any], name: str, doing: str, *, kind: str = "", batch: int = 0, pardon: str = ""
    ) -> tuple[bool, Any]:
        """Let the candidate's code run: True and what it returned, or False where it raised, which is noted.

        Args:
            action: runs it.
            name: the check that fails where it raises.
            doing: what it is doing, for the reader.
            kind: of the images.
            batch: of the images.
            pardon: a word in an error that makes it no failure.
        """
        result, problem = None, ""
        with kept(self.watched) as changed:
            try:
                result = action()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # an exit too: the process must not end as if all were well
                problem = f"{doing} raised {type(error).__name__}: {error}"
        self.note("global state", not changed, f"{doing} changed {', '.join(changed)}", kind=kind, batch=batch)
        if problem:
            self.note(name, bool(pardon) and pardon in problem, problem, kind=kind, batch=batch)
        return not problem, result

    def build(self, build: Build) -> bool:
        """Make the candidate; False where that failed."""

        def action() -> Any:
            with poisoned_memory():
                return build(self.own)

        built, self.candidate = self.let(action, "builds", "building")
        if not built:
            return False
        return self.note("builds", callable(self.candidate), f"a {type(self.candidate).__name__} is not callable")

    def call(
        self, x: Tensor, kind: str, *, poisoned: bool = False, name: str = "runs", pardon: str = ""
    ) -> Tensor | None:
        """The candidate's output for ``x``, or None where it broke the contract (which is noted).

        What is returned is a copy, taken on the caller's stream before anything waits for the GPU: an output that is
        still being written elsewhere is judged as it was.
        """
        self.tick(f"{self.paper.weights}: {kind}")
        batch, private = len(x), x.clone()

        def action() -> tuple[Any, Tensor | None]:
            with torch.no_grad():
                if poisoned:
                    with poisoned_memory():
                        y = self.candidate(x)
                else:
                    y = self.candidate(x)
                seen = y.detach().clone() if type(y) is Tensor else None
                if x.is_cuda:
                    torch.cuda.synchronize(x.device)
            return y, seen

        ran, result = self.let(action, name, "the call", kind=kind, batch=batch, pardon=pardon)
        if not ran:
            return None
        y, seen = result
        note = lambda name, passed, detail: self.note(name, passed, detail, kind=kind, batch=batch)  # noqa: E731
        written = not same_bits(x, private)
        earlier = [before for before, copy in self.inputs if before is not x and not same_bits(before, copy)]
        which = "the input" if written else "the input of the call before"
        note("input unchanged", not written and not earlier, f"{which} was written to")
        self.inputs = [(x, private)]
        if not self.contract(y, x, kind, batch):
            return None
        shared = self.aliases(y, x)
        note("no aliasing", not shared, f"the output shares memory with {shared}")
        self.kept.append((y, seen))
        return seen

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
        if share_memory(y, x):
            return "the input"
        if any(share_memory(y, earlier) for earlier, _ in self.kept):
            return "an earlier output"
        holders = [self.own, *([self.candidate] if isinstance(self.candidate, nn.Module) else [])]
        if any(share_memory(y, p) for holder in holders for p in holder.parameters()):
            return "the weights"
        return ""

    def trace(self, x: Tensor) -> dict[str, Tensor] | None:
        """The candidate's trace, or None where it has none; a trace that raises or is misshapen is noted as failed."""
        if not self.traceable:
            return None

        def action() -> dict[str, Tensor]:
            return {name: value.float() for name, value in self.candidate.trace(x.clone()).items()}

        traced, trace = self.let(action, "trace", "the trace")
        for layer in self.exam.network.layers if traced else ():
            shape = (len(x), *layer.output_shape)
            if layer.name not in trace or tuple(trace[layer.name].shape) != shape:
                found = list(trace[layer.name].shape) if layer.name in trace else "nothing"
                self.note("trace", False, f"trace has {found} for {layer.name}; accepted: {list(shape)}")
                return None
        return trace

    @property
    def traceable(self) -> bool:
        """Whether the candidate offers a trace."""
        return callable(getattr(self.candidate, "trace", None))

    # -- the paper ----------------------------------------------------------------------------------------------

    def ask(self, question: Question, *, poisoned: bool = False) -> Tensor | None:
        """Put the question into a buffer that earlier questions used, and compare.

        PyTorch does not count this write (another library's kernel would not be counted either). On a GPU the caller's
        stream is kept busy, so that a candidate that does not wait for it reads what was there before.
        """
        buffer = self.buffers.setdefault(tuple(question.x.shape), torch.empty_like(question.x))
        if buffer.is_cuda:
            torch.cuda._sleep(GPU_HEAD_START)
        buffer.data.copy_(question.x)
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
        for image, name in poison.spoilt.items():
            agree = torch.equal(finite[image], poison.finite[image])
            detail = f"image {image}: {int(finite[image].sum())} finite logits, torch has "
            self.note(
                f"{name} is kept", agree, f"{detail}{int(poison.finite[image].sum())}", kind=poison.name, batch=len(y)
            )
        others = torch.ones(len(y), dtype=torch.bool, device=y.device)
        others[list(poison.spoilt)] = False
        self.marker.compare("spoilt pixels keep to their images", y, poison.question, others)

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
        question, name = change.question, f"weights changed, {change.name}"
        changed, _ = self.let(lambda: change.apply(self.candidate), name, "the change")
        y = self.call(question.x.clone(), question.kind, name=name, pardon="repack") if changed else None
        if y is not None:
            self.marker.compare(name, y, question)

    def check_unanswered(self) -> None:
        """A question whose answer and budget are made only now, so that nobody can have looked them up."""
        kind, x = unanswered(self.exam, self.paper)
        y = self.call(x.clone(), kind)
        if y is not None:
            self.marker.compare("values", y, answer_now(self.exam, self.paper, kind, x))

    def sit(self, build: Build, *, through_trace: bool = False) -> None:
        """All questions of the paper."""
        paper = self.paper
        if not self.build(build):
            return
        if through_trace and self.traceable:
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
                self.verdict.deterministic = same_bits(first, again)
                self.marker.compare("values", again, paper.questions[0])
        for layout in paper.layouts:
            y = self.call(layout.view(layout.question.x.clone()), layout.name)
            if y is not None:
                self.marker.compare(f"layout: {layout.name}", y, layout.question)
        if paper.poison is not None:
            self.check_poison(paper.poison)
        if paper.overflow is not None:
            self.check_overflow(paper.overflow)
        if paper.unanswered:
            self.check_unanswered()
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
