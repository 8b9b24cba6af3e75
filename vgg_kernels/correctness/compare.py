"""Outputs compared with their float64 references, image by image and layer by layer; what is wrong, and where."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ..workload.reference import Reference
from .locate import LayerResult, per_layer_errors, ranges, where_wrong
from .result import LayerError, Verdict
from .test_case import TestCase, TestSuite


class Comparison:
    """Compares one candidate's outputs on one set of weights.

    Args:
        suite: gives network and tier.
        reference: the weights.
        verdict: receives the error after each layer.
        note: records one check.
        trace: every layer's output for some images, by name; None where the candidate has no valid trace.
    """

    def __init__(
        self,
        suite: TestSuite,
        reference: Reference,
        verdict: Verdict,
        note: Callable[..., bool],
        trace: Callable[[Tensor], Mapping[str, Tensor] | None],
    ):
        self.network, self.tier, self.reference = suite.network, suite.tier, reference
        self.verdict, self.note, self.trace = verdict, note, trace

    def compare(self, name: str, y: Tensor, case: TestCase, images: Tensor | None = None) -> bool:
        """Relative error in norm of each image against its bound; a non-finite value matches nothing."""
        want, got = case.oracle.logits, y.detach().double()
        bound = case.error_bound[self.network.layers[-1].name]
        error = (got - want).norm(dim=1) / want.norm(dim=1)
        error = torch.where(torch.isfinite(got).all(dim=1), error, torch.inf)
        wrong = error > bound
        if images is not None:
            wrong, error = wrong & images, error.where(images, 0.0)
        worst = int((error / bound).argmax())
        detail = self.describe(got, want, wrong, case) if bool(wrong.any()) else ""
        return self.note(
            name,
            not bool(wrong.any()),
            detail,
            kind=case.kind,
            batch=len(y),
            error=float(error[worst]),
            error_bound=float(bound[worst]),
        )

    def describe(self, got: Tensor, want: Tensor, wrong: Tensor, case: TestCase) -> str:
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
        first = self.first_wrong_layer(case)
        return f"{text}; first wrong layer {first.layer}: {first.where}" if first else text

    def first_wrong_layer(self, case: TestCase) -> LayerResult | None:
        """Of the candidate's trace; None where it has none, or no layer by itself is wrong."""
        trace = self.trace(case.x)
        if trace is None:
            return None
        results = per_layer_errors(self.reference, self.network, self.tier, case.x, trace)
        return next((result for result in results if not result.passed), None)

    def check_trace(self, case: TestCase, y: Tensor | None) -> None:
        """The first case layer by layer: each layer on its own input, and the error as it accumulates."""
        trace = self.trace(case.x)
        if trace is None:
            return
        last = self.network.layers[-1].name
        if y is None:
            self.compare("values", trace[last], case)
        elif self.verdict.deterministic is not False:
            self.compare("trace ends in the logits", trace[last], case)
        results = per_layer_errors(self.reference, self.network, self.tier, case.x, trace)
        for result in results:
            self.note(
                f"layer {result.layer}",
                result.passed,
                f"wrong at {result.where}",
                kind=case.kind,
                batch=len(case.x),
                error=result.relative_error,
                error_bound=result.error_bound,
            )
        for name, want in case.oracle.outputs.items():
            got = trace[name].double().flatten(1)
            error = (got - want.flatten(1)).norm(dim=1) / want.flatten(1).norm(dim=1)
            error = torch.where(torch.isfinite(got).all(dim=1), error, torch.inf)
            worst = int((error / case.error_bound[name]).argmax())
            row = LayerError(name, float(error[worst]), float(case.error_bound[name][worst]))
            self.verdict.layers.append(row)
            self.note(
                f"up to {name}",
                row.relative_error <= row.error_bound,
                where_wrong(error > case.error_bound[name]),
                kind=case.kind,
                batch=len(case.x),
                error=row.relative_error,
                error_bound=row.error_bound,
            )
