"""What a verdict needs to be a good one, and how it is written down."""

import json

from vgg_kernels.correctness.emulation import Emulation
from vgg_kernels.correctness.gate import examine
from vgg_kernels.correctness.result import Verdict
from vgg_kernels.correctness.suite import prepare


def test_default_weights_alone_pass_nobody(tiny_network):
    suite = prepare(tiny_network, "fp16", "quick", seed=2, schemes=("kernelbench",))
    verdict = examine(lambda model: Emulation(model, "fp16"), suite)
    assert verdict.checks_passed
    assert not verdict.passed
    assert not Verdict("fp16", "tiny", 64, "quick", 0, "cpu").passed


def test_the_document_is_strict_json(wrapped, suite):
    document = examine(wrapped(lambda m, x: m(x) * float("nan")), suite).document()
    assert json.loads(json.dumps(document, allow_nan=False))["passed"] is False
    values = [c for c in document["checks"] if c["name"] == "values"]
    assert values[0]["relative_error"] is None
    assert values[0]["detail"].endswith("not finite")
    assert {"weights", "relative_error", "budget", "passed"} <= set(values[0])
