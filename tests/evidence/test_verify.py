"""The gate on candidates that break the contract, and what it says of them."""

import json
from itertools import count

import pytest
import torch

from vgg_kernels.evidence.emulation import Emulation
from vgg_kernels.evidence.exam import prepare
from vgg_kernels.evidence.surroundings import poisoned_memory
from vgg_kernels.evidence.verdict import Verdict
from vgg_kernels.evidence.verify import examine, verify
from vgg_kernels.workload.choice import UnknownName
from vgg_kernels.workload.precision import TIERS


@pytest.fixture(scope="module")
def exam(tiny_network):
    return prepare(tiny_network, "fp16", "quick", seed=11)


def failed(exam, build):
    verdict = examine(build, exam)
    assert not verdict.passed
    return verdict.failures


def wrapped(change):
    """A build whose candidate is a right network behind ``change(model, x)``; it has no trace."""
    return lambda reference: (lambda model: lambda x: change(model, x))(Emulation(reference, "fp16"))


@pytest.mark.parametrize(("name", "effort"), [*((name, "quick") for name in TIERS), ("fp16", "full"), ("fp8", "full")])
def test_every_tiers_own_arithmetic_passes(tiny_network, name, effort):
    verdict = verify(lambda model: Emulation(model, name), tiny_network, name, effort=effort, seed=3)
    assert verdict.failures == []
    assert verdict.passed
    assert verdict.deterministic is True
    assert {check.weights for check in verdict.checks} == {"kernelbench", "kaiming"}
    assert [row.layer for row in verdict.layers] == [layer.name for layer in tiny_network.layers]


def test_fresh_seeds_differ_and_a_given_one_repeats(tiny_network):
    one, two = (prepare(tiny_network, "bf16", "single") for _ in range(2))
    assert one.seed != two.seed
    again = prepare(tiny_network, "bf16", "single", seed=one.seed)
    assert torch.equal(one.papers[0].questions[0].x, again.papers[0].questions[0].x)
    assert not torch.equal(one.papers[0].questions[0].x, two.papers[0].questions[0].x)


def test_a_tier_is_held_to_its_own_budget(tiny_network):
    build = lambda model: Emulation(model, "tf32")  # noqa: E731
    assert verify(build, tiny_network, "bf16", seed=1).passed
    failure = verify(build, tiny_network, "fp32", seed=1).failures[0]
    assert failure.name == "values"
    assert failure.relative_error > failure.budget


@pytest.mark.parametrize(
    ("change", "name", "detail"),
    [
        (lambda m, x: 1 / 0, "runs", "raised ZeroDivisionError: division by zero"),
        (lambda m, x: m(x)[:, :-1], "contract", "the output's shape is [3, 299]; accepted: [3, 300]"),
        (lambda m, x: m(x).double(), "contract", "the output's dtype is torch.float64; accepted: torch.float32"),
        (lambda m, x: m(x).to("meta"), "contract", "the output is on meta, the input on cpu"),
        (lambda m, x: m(x).to_sparse(), "contract", "the output's layout is torch.sparse_coo; accepted: torch.strided"),
        (lambda m, x: torch.nn.Parameter(m(x)), "contract", "accepted: a plain torch.Tensor"),
        (lambda m, x: m(x).tolist(), "contract", "the output is a builtins.list"),
        (lambda m, x: m(x.neg_()), "input unchanged", "the input was written to"),
    ],
)
def test_a_broken_contract_is_a_failure_and_no_crash(exam, change, name, detail):
    failures = failed(exam, wrapped(change))
    assert failures[0].name == name
    assert detail in failures[0].detail


def test_a_build_that_raises_or_returns_nothing_is_a_failure(exam):
    def broken(reference):
        raise RuntimeError("no such device")

    assert failed(exam, broken)[0].detail == "building raised RuntimeError: no such device"
    assert failed(exam, lambda reference: None)[0].detail == "a NoneType is not callable"


def test_wrong_images_and_logits_are_named(exam):
    def change(model, x):
        y = model(x)
        y[-1, 128:160] += 1
        return y

    assert failed(exam, wrapped(change))[0].detail == "image 2, logits 128-159"


def test_the_first_wrong_layer_and_its_rows_are_named(exam):
    class OneTileMissing(Emulation):
        def layer(self, layer, x):
            y = super().layer(layer, x)
            if layer.name == "conv3":
                y[-1, :, 4:6] = 0
            return y

    failures = failed(exam, lambda reference: OneTileMissing(reference, "fp16"))
    assert "first wrong layer conv3: image 2, rows 4-5" in failures[0].detail
    by_name = [f.name for f in failures if f.name.startswith("layer ")]
    assert by_name == ["layer conv3"]  # the layers behind it follow from what they were given


@pytest.mark.parametrize("name", TIERS)
def test_one_wrong_pixel_of_a_layer_is_found(tiny_network, name):
    class OnePixel(Emulation):
        def layer(self, layer, x):
            y = super().layer(layer, x)
            if layer.name == "conv3":
                y[0, :, 3, 2] = 0
            return y

    verdict = verify(lambda model: OnePixel(model, name), tiny_network, name, effort="single", seed=5)
    local = [f for f in verdict.failures if f.name.startswith("layer ")]
    assert [(f.name, f.detail) for f in local] == [("layer conv3", "wrong at image 0, row 3, column 2")]


def test_a_candidate_cannot_reach_the_answers(exam):
    def cheat(reference):
        with torch.no_grad():
            for p in reference.parameters():
                p.zero_()
        return lambda x: torch.zeros(len(x), 300)

    failures = failed(exam, cheat)
    assert failures[0].name == "values"
    assert any(f.name == "weights unchanged" and "features.0.weight" in f.detail for f in failures)


def test_a_global_switch_is_put_back(exam):
    def build(reference):
        torch.set_default_dtype(torch.float64)
        return Emulation(reference, "fp16")

    assert failed(exam, build)[0].detail == "building changed default dtype"
    assert torch.get_default_dtype() == torch.float32


def test_repacking_may_be_asked_for_but_not_refused_silently(exam):
    class Sealed(Emulation):
        def forward(self, x):
            if self.__dict__.setdefault("first", self.features[0].weight.clone()).ne(self.features[0].weight).any():
                raise RuntimeError(self.message)
            return super().forward(x)

    class Clear(Sealed):
        message = "weights changed since they were packed: call repack()"

    class Vague(Sealed):
        message = "internal error"

    assert examine(lambda r: Clear(r, "fp16"), exam).passed
    assert [f.name for f in failed(exam, lambda r: Vague(r, "fp16"))] == [
        "weights changed, in place",
        "weights changed, load_state_dict",
    ]


def test_determinism_is_reported_and_decides_nothing(exam):
    calls = count()

    def jitter(model, x):
        return model(x) * (1 + 2e-7 * next(calls))  # no two calls alike, however far apart

    verdict = examine(wrapped(jitter), exam)
    assert verdict.deterministic is False
    assert verdict.passed


def test_default_weights_alone_pass_nobody(tiny_network):
    exam = prepare(tiny_network, "fp16", "quick", seed=2, schemes=("kernelbench",))
    verdict = examine(lambda model: Emulation(model, "fp16"), exam)
    assert verdict.checks_passed
    assert not verdict.passed
    assert not Verdict("fp16", "tiny", 64, "quick", 0, "cpu").passed


def test_unwritten_memory_holds_nan_only_inside():
    with poisoned_memory():
        assert torch.isnan(torch.empty(5)).all()
        assert torch.isnan(torch.empty(5, dtype=torch.float16)).all()
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_document_is_strict_json(exam):
    document = examine(wrapped(lambda m, x: m(x) * float("nan")), exam).document()
    assert json.loads(json.dumps(document, allow_nan=False))["passed"] is False
    values = [c for c in document["checks"] if c["name"] == "values"]
    assert values[0]["relative_error"] is None
    assert values[0]["detail"].endswith("not finite")
    assert {"weights", "relative_error", "budget", "passed"} <= set(values[0])


def test_progress_reaches_its_total(exam):
    seen = []
    examine(lambda model: Emulation(model, "fp16"), exam, progress=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == list(range(exam.calls + 1))
    assert all(total == exam.calls for _, total, _ in seen)


def test_an_unknown_effort_or_tier_is_named(tiny_network):
    with pytest.raises(UnknownName, match="effort 'lazy'; accepted: single, quick, full"):
        verify(lambda model: model, tiny_network, "fp16", effort="lazy")
    with pytest.raises(UnknownName, match="tier 'fp12'"):
        verify(lambda model: model, tiny_network, "fp12")
