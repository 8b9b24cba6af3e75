"""The gate's verdict on one candidate: its checks, its certificates, the error after each layer."""

from dataclasses import asdict, dataclass, field
from math import isfinite

from .sensitivity import Certificate
from .test_case import KAIMING


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        name: what: "values", "layer by layer", "input unchanged", "no aliasing", ...
        weights: scheme of the weights.
        seed: of the weights.
        inputs: kind of the images.
        batch: how many.
        relative_error: the worst image's error in norm against float64 (None where the check is no comparison,
            infinity where the output is not finite).
        error_bound: the largest error that image may have; the document calls it "budget".
        passed: the result.
        detail: what is wrong, and where; empty where nothing is.
    """

    name: str
    weights: str
    seed: int
    inputs: str
    batch: int
    relative_error: float | None
    error_bound: float | None
    passed: bool
    detail: str = ""

    def document(self) -> dict:
        """JSON-able: an infinite error is null, and the detail says that it was not finite."""
        row = {"budget" if key == "error_bound" else key: value for key, value in asdict(self).items()}
        if row["relative_error"] is not None and not isfinite(row["relative_error"]):
            row["relative_error"] = None
        return row


@dataclass(frozen=True)
class LayerError:
    """The error after one layer, as accumulated so far: worst image of the first Kaiming case."""

    layer: str
    relative_error: float
    error_bound: float


@dataclass
class Verdict:
    """The gate's verdict on one candidate.

    ``passed`` needs every check, and a Kaiming certificate that is not vacuous: a candidate that only ran
    cases that cannot fail has not passed anything. ``kernelbench_accepts`` (KernelBench's rule on its own weights,
    one trial) and ``deterministic`` are reported and decide nothing.
    """

    tier: str
    network: str
    image: int
    effort: str
    seed: int
    device: str
    checks: list[CheckResult] = field(default_factory=list)
    certificates: list[Certificate] = field(default_factory=list)
    layers: list[LayerError] = field(default_factory=list)
    deterministic: bool | None = None
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
    def failures(self) -> list[CheckResult]:
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
            "kernelbench_accepts": self.kernelbench_accepts,
            "checks": [{"network": self.network, "image": self.image, **c.document()} for c in self.checks],
            "certificates": [{"network": self.network, "image": self.image, **c.document()} for c in self.certificates],
            "layers": [
                {
                    "layer": row.layer,
                    "relative_error": row.relative_error if isfinite(row.relative_error) else None,
                    "budget": row.error_bound,
                }
                for row in self.layers
            ],
        }
