"""Answers marked: values image by image, traces layer by layer, and in words what is wrong and where."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ..workload.reference import Reference, relative_error
from .images import REAL_KINDS
from .locate import LayerResult, by_layer, ranges, where_wrong
from .result import LayerError, Verdict
from .test_case import Exam, Question

FP32_GRADE = 1.5  # fp16x3 claims fp32's accuracy: at most this many times eager fp32's own error
FP32_GRADE_KINDS = ("mixed", "side-lit", *REAL_KINDS)


class Marker:
    """Marks one candidate's answers on one set of weights.

    Args:
        exam: whose network and tier are meant.
        reference: the weights.
        verdict: takes the error behind each layer.
        note: writes one check down.
        trace: every layer's output for some images, by name; None where the candidate has no (proper) trace.
    """

    def __init__(
        self,
        exam: Exam,
        reference: Reference,
        verdict: Verdict,
        note: Callable[..., bool],
        trace: Callable[[Tensor], Mapping[str, Tensor] | None],
    ):
        self.network, self.tier, self.reference = exam.network, exam.tier, reference
        self.verdict, self.note, self.trace = verdict, note, trace

    def compare(self, name: str, y: Tensor, question: Question, images: Tensor | None = None) -> bool:
        """Relative error in norm of each image against its budget; a non-finite value matches nothing."""
        want, got = question.oracle.logits, y.detach().double()
        budget = question.budget[self.network.layers[-1].name]
        error = (got - want).norm(dim=1) / want.norm(dim=1)
        error = torch.where(torch.isfinite(got).all(dim=1), error, torch.inf)
        wrong = error > budget
        if images is not None:
            wrong, error = wrong & images, error.where(images, 0.0)
        if name == "values" and self.tier.name == "fp16x3" and question.kind in FP32_GRADE_KINDS:
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

    def first_wrong_layer(self, question: Question) -> LayerResult | None:
        """Of the candidate's trace; None where it has none, or no layer by itself is wrong."""
        trace = self.trace(question.x)
        if trace is None:
            return None
        results = by_layer(self.reference, self.network, self.tier, question.x, trace)
        return next((result for result in results if not result.passed), None)

    def check_trace(self, question: Question, y: Tensor | None) -> None:
        """The first question layer by layer: each layer on its own input, and the error as it accumulates."""
        trace = self.trace(question.x)
        if trace is None:
            return
        last = self.network.layers[-1].name
        if y is None:
            self.compare("values", trace[last], question)
        elif self.verdict.deterministic is not False:
            self.compare("trace ends in the logits", trace[last], question)
        results = by_layer(self.reference, self.network, self.tier, question.x, trace)
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
