"""Can a check fail? The sensitivity certificate.

A check that accepts an output within a tolerance of the reference's can only tell inputs apart whose outputs differ by
more than that. So: sensitivity = max |f(x1) - f(x2)| / tolerance over the inputs it uses. Under 1 the check is
vacuous: an output computed from another input, or from none, passes it.
"""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor


class UnfitReference(ValueError):
    """A reference against which nothing can be verified; the message gives its numbers."""


@dataclass(frozen=True)
class Certificate:
    """What one check can tell apart.

    Attributes:
        check: the check's name.
        weights: the scheme of the reference's weights.
        inputs: the kinds of input that were compared.
        spread: the difference between the reference's outputs for two inputs, in the check's own measure: the largest
            of all pairs, or, where there is one image alone, the smallest to what must not pass for it.
        tolerance: the difference that the check accepts, in the same measure.
    """

    check: str
    weights: str
    inputs: str
    spread: float
    tolerance: float

    @property
    def sensitivity(self) -> float:
        """spread / tolerance; 0 where the spread is not a finite number."""
        return self.spread / self.tolerance if 0 <= self.spread < float("inf") else 0.0

    @property
    def vacuous(self) -> bool:
        """True where the check accepts the output for another input."""
        return self.sensitivity < 1

    def document(self) -> dict:
        """JSON-able: the fields, the sensitivity and the conclusion."""
        return asdict(self) | {"sensitivity": self.sensitivity, "vacuous": self.vacuous}


def elementwise(check: str, weights: str, inputs: str, outputs: Tensor, tolerance: float) -> Certificate:
    """The certificate of a check on elements, as KernelBench's: max over inputs and logits of |f(x1) - f(x2)|.

    Args:
        check: the check's name.
        weights: the scheme of the weights.
        inputs: the kind of input.
        outputs: the reference's logits for several inputs, ``[N >= 2, classes]`` float64.
        tolerance: the absolute difference that is accepted.
    """
    return Certificate(check, weights, inputs, float((outputs.amax(0) - outputs.amin(0)).max()), tolerance)


def normwise(check: str, weights: str, inputs: str, outputs: Tensor, bound: Tensor) -> Certificate:
    """The certificate of a check on norms, as this project's: the largest ||f(x1) - f(x2)|| / ||f(x1)||.

    As ``elementwise``, but ``bound`` is the accepted relative error of each input, ``[N]``.
    """
    distance = torch.cdist(outputs, outputs) / outputs.norm(dim=1, keepdim=True)
    worst = int((distance.amax(1) / bound).argmax())
    return Certificate(check, weights, inputs, float(distance[worst].max()), float(bound[worst]))


def nearest(check: str, weights: str, inputs: str, output: Tensor, others: Tensor, bound: float) -> Certificate:
    """The certificate of a check on the norm of one image: the smallest ||f(x) - f(x')|| / ||f(x)|| over others x'.

    As ``elementwise``, but ``output`` holds the logits of the one image, ``[1, classes]`` float64, ``others`` those of
    the others, ``[N >= 1, classes]``, and ``bound`` is the relative error that the image may have.
    """
    return Certificate(check, weights, inputs, float((others - output).norm(dim=1).min() / output.norm()), bound)


def require_fit(outputs: Tensor, certificate: Certificate) -> None:
    """Refuse a reference whose outputs can fail nothing.

    Args:
        outputs: its logits for several inputs, ``[N >= 2, classes]`` float64.
        certificate: of the check that is to use it.

    Raises:
        UnfitReference: where an output is not finite, all are zero, all are one constant, or the check is vacuous.
    """
    where = f"the reference with {certificate.weights} weights is refused"
    broken = int((~torch.isfinite(outputs)).sum())
    if broken:
        raise UnfitReference(f"{where}: {broken} of its {outputs.numel()} outputs are not finite")
    largest = float(outputs.abs().max())
    if largest == 0:
        raise UnfitReference(f"{where}: all its {outputs.numel()} outputs are zero")
    if float(outputs.max() - outputs.min()) == 0:
        raise UnfitReference(f"{where}: all its {outputs.numel()} outputs are {float(outputs.flatten()[0]):.6g}")
    if certificate.vacuous:
        raise UnfitReference(
            f"{where}: its output hardly depends on its input; over {len(outputs)} inputs the spread is "
            f"{certificate.spread:.3g} and the tolerance {certificate.tolerance:.3g} "
            f"(sensitivity {certificate.sensitivity:.3g}, at least 1 is needed)"
        )
