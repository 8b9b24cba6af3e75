"""One candidate on one set of weights: called safely, with everything that surrounds its values checked as well."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from . import kernelbench
from .compare import Comparison
from .isolation import Watched, poisoned_memory, preserve_global_state, same_bits, share_memory
from .kernelbench import Build
from .locate import ranges
from .result import CheckResult, Verdict
from .suite import add_reference, late_case, strict_fp32
from .test_case import DEFAULT, KAIMING, NonFiniteCase, TestCase, TestSuite, WeightChange, WeightSet

GPU_HEAD_START = 10_000_000  # clock cycles (some 5 ms) for which a GPU's stream is busy before the input arrives


class Stop(Exception):
    """Raised inside an examination that ends at the first failure."""


class CandidateRunner:
    """Runs one candidate on one set of weights and records what it finds.

    Args:
        suite: the test suite.
        weight_set: one of its weight sets.
        verdict: where checks are recorded.
        watched: the functions that the candidate must leave alone.
        stop_early: raise ``Stop`` at the first failure.
        tick: called with what runs next.
    """

    def __init__(
        self,
        suite: TestSuite,
        weight_set: WeightSet,
        verdict: Verdict,
        watched: Watched,
        stop_early: bool,
        tick: Callable[[str], None],
    ):
        self.suite, self.weight_set, self.verdict, self.stop_early, self.tick = (
            suite, weight_set, verdict, stop_early, tick,
        )  # fmt: skip
        self.watched = watched
        self.own = deepcopy(weight_set.reference)  # the candidate is built from it: the references have another copy
        self.outputs: list[tuple[Tensor, Tensor]] = []  # each with a private copy
        self.inputs: list[tuple[Tensor, Tensor]] = []  # the same of the call before
        self.buffers: dict[tuple, Tensor] = {}
        self.candidate: Any = None  # whatever the build returned
        self.comparison = Comparison(suite, weight_set.reference, verdict, self.note, self.trace)

    # -- recording ----------------------------------------------------------------------------------------------

    def note(
        self,
        name: str,
        passed: bool,
        detail: str = "",
        *,
        kind: str = "",
        batch: int = 0,
        error: float | None = None,
        error_bound: float | None = None,
    ) -> bool:
        """Record one check and return whether it passed; raises ``Stop`` where the first failure ends the run."""
        weight_set = self.weight_set
        self.verdict.checks.append(
            CheckResult(
                name,
                weight_set.weights,
                weight_set.seed,
                kind,
                batch,
                error,
                error_bound,
                passed,
                "" if passed else detail,
            )
        )
        if not passed and self.stop_early:
            raise Stop
        return passed

    # -- calling ------------------------------------------------------------------------------------------------

    def run_guarded(
        self, action: Callable[[], Any], name: str, doing: str, *, kind: str = "", batch: int = 0, accepted: str = ""
    ) -> tuple[bool, Any]:
        """Run the candidate's code: True and what it returned, or False where it raised, which is recorded.

        Args:
            action: runs it.
            name: the check that fails where it raises.
            doing: what runs, for the reader.
            kind: of the images.
            batch: of the images.
            accepted: a word in an error that makes it no failure.
        """
        result, problem = None, ""
        with preserve_global_state(self.watched) as changed:
            try:
                result = action()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # an exit too: the process must not end as if all were well
                problem = f"{doing} raised {type(error).__name__}: {error}"
        self.note("global state", not changed, f"{doing} changed {', '.join(changed)}", kind=kind, batch=batch)
        if problem:
            self.note(name, bool(accepted) and accepted in problem, problem, kind=kind, batch=batch)
        return not problem, result

    def build(self, build: Build) -> bool:
        """Make the candidate; False where that failed."""

        def action() -> Any:
            with poisoned_memory():
                return build(self.own)

        built, self.candidate = self.run_guarded(action, "builds", "building")
        if not built:
            return False
        return self.note("builds", callable(self.candidate), f"a {type(self.candidate).__name__} is not callable")

    def call(
        self, x: Tensor, kind: str, *, poisoned: bool = False, name: str = "runs", accepted: str = ""
    ) -> Tensor | None:
        """The candidate's output for ``x``, or None where it broke the contract (which is recorded).

        What is returned is a copy, taken on the caller's stream before anything waits for the GPU: an output that is
        still being written elsewhere is compared as it was.
        """
        self.tick(f"{self.weight_set.weights}: {kind}")
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

        ran, result = self.run_guarded(action, name, "the call", kind=kind, batch=batch, accepted=accepted)
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
        self.outputs.append((y, seen))
        return seen

    def contract(self, y: object, x: Tensor, kind: str, batch: int) -> bool:
        """A plain, dense fp32 tensor ``[N, classes]`` on the input's device."""
        if type(y) is not Tensor:
            problem = f"the output is a {type(y).__module__}.{type(y).__qualname__}; accepted: a plain torch.Tensor"
        elif y.dtype != torch.float32:
            problem = f"the output's dtype is {y.dtype}; accepted: torch.float32"
        elif tuple(y.shape) != (batch, self.suite.network.classes):
            problem = f"the output's shape is {list(y.shape)}; accepted: {[batch, self.suite.network.classes]}"
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
        if any(share_memory(y, earlier) for earlier, _ in self.outputs):
            return "an earlier output"
        holders = [self.own, *([self.candidate] if isinstance(self.candidate, nn.Module) else [])]
        if any(share_memory(y, p) for holder in holders for p in holder.parameters()):
            return "the weights"
        return ""

    def trace(self, x: Tensor) -> dict[str, Tensor] | None:
        """The candidate's trace, or None where it has none; a trace that raises or is misshapen is a failed check."""
        if not self.traceable:
            return None

        def action() -> dict[str, Tensor]:
            return {name: value.float() for name, value in self.candidate.trace(x.clone()).items()}

        traced, trace = self.run_guarded(action, "trace", "the trace")
        for layer in self.suite.network.layers if traced else ():
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

    # -- the weight set ----------------------------------------------------------------------------------------------

    def run_case(self, case: TestCase, *, poisoned: bool = False) -> Tensor | None:
        """Write the case into a buffer that earlier cases used, and compare.

        PyTorch does not count this write (another library's kernel would not be counted either). On a GPU the caller's
        stream is kept busy, so that a candidate that does not wait for it reads what was there before.
        """
        buffer = self.buffers.setdefault(tuple(case.x.shape), torch.empty_like(case.x))
        if buffer.is_cuda:
            torch.cuda._sleep(GPU_HEAD_START)
        buffer.data.copy_(case.x)
        y = self.call(buffer, case.kind, poisoned=poisoned)
        if y is not None:
            self.comparison.compare("values", y, case)
        return y

    def check_non_finite(self, non_finite: NonFiniteCase) -> None:
        """NaN or infinity in one image reaches the logits that it reaches in torch, and no other image."""
        y = self.call(non_finite.x.clone(), non_finite.name)
        if y is None:
            return
        finite = torch.isfinite(y)
        for image, name in non_finite.pixels.items():
            agree = torch.equal(finite[image], non_finite.finite[image])
            detail = f"image {image}: {int(finite[image].sum())} finite logits, torch has "
            detail += str(int(non_finite.finite[image].sum()))
            self.note(f"{name} is kept", agree, detail, kind=non_finite.name, batch=len(y))
        others = torch.ones(len(y), dtype=torch.bool, device=y.device)
        others[list(non_finite.pixels)] = False
        self.comparison.compare("images do not mix", y, non_finite.case, others)

    def check_overflow(self, case: TestCase) -> None:
        """Beyond the tier's range an image is right or entirely non-finite, never a wrong number."""
        y = self.call(case.x.clone(), case.kind)
        if y is not None:
            survived = torch.isfinite(y).any(dim=1)
            self.comparison.compare("overflow is not a wrong number", y, case, survived)

    def check_change(self, change: WeightChange) -> None:
        """After a change of weights the same images give the new logits, or an error that says to repack."""
        if not isinstance(self.candidate, nn.Module) or not set(self.own.state_dict()) <= set(
            self.candidate.state_dict()
        ):
            return
        case, name = change.case, f"weights changed, {change.name}"
        changed, _ = self.run_guarded(lambda: change.apply(self.candidate), name, "the change")
        y = self.call(case.x.clone(), case.kind, name=name, accepted="repack") if changed else None
        if y is not None:
            self.comparison.compare(name, y, case)

    def check_late_case(self) -> None:
        """A case whose reference is computed only now, so that no candidate can have looked it up."""
        kind, x = late_case(self.suite, self.weight_set)
        y = self.call(x.clone(), kind)
        if y is not None:
            self.comparison.compare("values", y, add_reference(self.suite, self.weight_set, kind, x))

    def run(self, build: Build, *, through_trace: bool = False) -> None:
        """All cases of the weight set."""
        weight_set = self.weight_set
        if not self.build(build) or (weight_set.untraced and self.traceable):
            return
        if through_trace and self.traceable:
            for case in weight_set.cases:
                self.tick(f"{weight_set.weights}: {case.kind}, layer by layer")
                self.comparison.check_trace(case, None)
            return
        first = None
        for i, case in enumerate(weight_set.cases):
            y = self.run_case(case, poisoned=i == 0)
            first = y if i == 0 else first
            if y is not None and weight_set.weights == DEFAULT:
                self.check_rule(y, case)
        if weight_set.changes and first is not None:
            again = self.call(weight_set.cases[0].x.clone(), "the first case again")
            if again is not None:
                self.verdict.deterministic = same_bits(first, again)
                self.comparison.compare("values", again, weight_set.cases[0])
        for layout in weight_set.layouts:
            y = self.call(layout.view(layout.case.x.clone()), layout.name)
            if y is not None:
                self.comparison.compare(f"layout: {layout.name}", y, layout.case)
        if weight_set.non_finite is not None:
            self.check_non_finite(weight_set.non_finite)
        if weight_set.overflow is not None:
            self.check_overflow(weight_set.overflow)
        if weight_set.late_case:
            self.check_late_case()
        if first is not None and weight_set.weights == KAIMING and not self.verdict.layers:
            self.comparison.check_trace(weight_set.cases[0], first)
        self.finish(weight_set)
        for change in weight_set.changes:
            self.check_change(change)

    def check_rule(self, y: Tensor, case: TestCase) -> None:
        """KernelBench's own rule, for the record; it decides nothing here."""
        with torch.no_grad(), strict_fp32():
            expected = self.weight_set.reference(case.x)
        self.verdict.kernelbench_accepts = kernelbench.accepts(expected, y, kernelbench.TOLERANCE)

    def finish(self, weight_set: WeightSet) -> None:
        """What must still hold after all calls: earlier outputs, and the weights that the candidate was given."""
        lost = [i for i, (y, copy) in enumerate(self.outputs) if not same_bits(y, copy)]
        self.note("outputs survive", not lost, f"later calls changed output {ranges(lost)}")
        changed = [
            name
            for name, value in weight_set.reference.state_dict().items()
            if not same_bits(value, self.own.state_dict()[name])
        ]
        self.note("weights unchanged", not changed, f"changed: {', '.join(changed)}")
