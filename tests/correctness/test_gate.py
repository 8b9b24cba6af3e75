"""What the gate asks of which network, and whose candidate it takes."""

import pytest
import torch

from vgg_kernels.correctness import gate
from vgg_kernels.correctness.emulation import Emulation
from vgg_kernels.workload.network import network


def test_what_is_asked_of_which_network():
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
    monkeypatch.setattr(gate, "our_kernels", lambda tier: build)
    for slow in (True, False):
        monkeypatch.setattr(gate, "interpreted", lambda slow=slow: slow)
        assert gate.run("fp16", tiny_network, effort="single", seed=5)["passed"] is slow
    assert not gate.run("fp16", tiny_network, build=build, effort="single", seed=5)["passed"]
