"""The gate as a whole: which candidates pass, which networks run, and what may compute them."""

import pytest
import torch

from vgg_kernels.correctness import gate
from vgg_kernels.correctness.emulation import Emulation
from vgg_kernels.correctness.gate import examine, verify
from vgg_kernels.correctness.suite import prepare
from vgg_kernels.kernels import backend
from vgg_kernels.kernels.model import VGG
from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import TIERS


def test_which_network_runs_with_which_effort():
    vgg19 = network("vgg19")
    assert gate.plan(vgg19, slow=False) == [(vgg19, "full")]
    assert [(n.name, n.image, effort) for n, effort in gate.plan(vgg19, slow=True)] == [
        ("vgg19", 224, "single"),
        ("vgg11", 32, "quick"),
    ]
    small = network("vgg11", image=32)
    assert gate.plan(small, slow=True) == [(small, "quick")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "defines no build"),
        (None, "no file"),
        ("raise SystemExit(0)", r"ends the process \(status 0\)"),
    ],
)
def test_a_candidate_file_that_builds_nothing_is_named(tmp_path, text, message):
    path = tmp_path / "nothing.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=message):
        gate.load_build(path)


def test_only_our_own_interpreted_kernels_are_read_off_their_trace(monkeypatch, tiny_network):
    class TraceAlone(Emulation):
        def forward(self, x):
            return torch.zeros(len(x), 300)

    build = lambda reference: TraceAlone(reference, "fp16")  # noqa: E731
    monkeypatch.setattr(VGG, "from_reference", lambda reference, tier: build(reference))
    for arithmetic in ("interpreted", "compiled"):
        monkeypatch.setattr(backend, "INTERPRETED", arithmetic == "interpreted")
        found = gate.run("fp16", tiny_network, effort="single", seed=5)
        assert found["passed"] is (arithmetic == "interpreted")
        assert found["arithmetic"] == arithmetic
    assert not gate.run("fp16", tiny_network, build=build, effort="single", seed=5)["passed"]


def test_an_arithmetic_that_this_process_lacks_is_refused_in_one_line(tiny_network):
    other = {"interpreted": "compiled", "compiled": "interpreted"}[gate.default_arithmetic()]
    with pytest.raises(ValueError, match=f"arithmetic '{other}' is not available here; accepted: "):
        gate.candidate("fp16", other)
    with pytest.raises(UnknownName, match="arithmetic 'guessed'; accepted: compiled, interpreted, executed"):
        gate.run("fp16", tiny_network, arithmetic="guessed")
    with pytest.raises(ValueError, match="a candidate of your own has its own"):
        gate.run("fp16", tiny_network, build=lambda model: model, arithmetic="executed")


@pytest.mark.parametrize(("name", "effort"), [*((name, "quick") for name in TIERS), ("fp16", "full"), ("fp8", "full")])
def test_every_tiers_own_arithmetic_passes(tiny_network, name, effort):
    verdict = verify(lambda model: Emulation(model, name), tiny_network, name, effort=effort, seed=3)
    assert verdict.failures == []
    assert verdict.passed
    assert verdict.deterministic is True
    assert {check.weights for check in verdict.checks} == {"kernelbench", "kaiming", "integers"}
    assert [row.layer for row in verdict.layers] == [layer.name for layer in tiny_network.layers]


def test_fresh_seeds_differ_and_a_given_one_repeats(tiny_network):
    one, two = (prepare(tiny_network, "bf16", "single") for _ in range(2))
    assert one.seed != two.seed
    again = prepare(tiny_network, "bf16", "single", seed=one.seed)
    assert torch.equal(one.weight_sets[0].cases[0].x, again.weight_sets[0].cases[0].x)
    assert not torch.equal(one.weight_sets[0].cases[0].x, two.weight_sets[0].cases[0].x)


def test_a_tier_has_its_own_error_bound(tiny_network):
    build = lambda model: Emulation(model, "tf32")  # noqa: E731
    assert verify(build, tiny_network, "bf16", seed=1).passed
    failure = verify(build, tiny_network, "fp32", seed=1).failures[0]
    assert failure.name == "values"
    assert failure.relative_error > failure.error_bound


def test_progress_reaches_its_total(suite):
    seen = []
    examine(lambda model: Emulation(model, "fp16"), suite, progress=lambda *step: seen.append(step))
    assert [done for done, _, _ in seen] == list(range(suite.calls + 1))
    assert all(total == suite.calls for _, total, _ in seen)


def test_an_unknown_effort_or_tier_is_named(tiny_network):
    with pytest.raises(UnknownName, match="effort 'lazy'; accepted: single, quick, full"):
        verify(lambda model: model, tiny_network, "fp16", effort="lazy")
    with pytest.raises(UnknownName, match="tier 'fp12'"):
        verify(lambda model: model, tiny_network, "fp12")
