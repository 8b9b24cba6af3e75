"""The real device, on this CPU and a small network; on a GPU the same with its timers."""

import sys
from types import SimpleNamespace

import pytest
import torch

from vgg_kernels.measure.timers import TIMERS, Timer
from vgg_kernels.measure.torch_device import TorchDevice, compile_all
from vgg_kernels.measure.variants import CPU_VARIANTS
from vgg_kernels.workload.network import network

TABLE = network("vgg11", image=32, classes=10)
EAGER, INDUCTOR = CPU_VARIANTS[:2]


def never(*_):
    return False


@pytest.fixture(scope="module")
def device():
    return TorchDevice("cpu", table=TABLE)


def test_eager_is_timed_checked_and_watched(device):
    [timing] = device.time(EAGER, 2, never)
    assert (timing.layer, timing.timer, timing.cache) == ("network", "host", "warm")
    assert len(timing.times_ms) >= 5
    assert all(0.1 < t < 10_000 for t in timing.times_ms)
    assert timing.check.passed
    assert "load_average" in timing.telemetry


def test_what_is_already_there_is_not_timed_again(device):
    assert list(device.time(EAGER, 2, lambda timer, cache: (timer, cache) == ("host", "warm"))) == []
    assert list(device.layers(EAGER, 2, lambda *_: True)) == []


def test_a_variant_that_remembers_its_first_answer_is_caught(device, monkeypatch):
    from vgg_kernels.measure import variants

    def remembering(variant, module):
        answer = {}
        return lambda x: answer.setdefault("first", module(x))

    monkeypatch.setattr(variants, "build", remembering)
    [timing] = device.time(EAGER, 2, never)
    assert not timing.check.passed


def test_every_layer_is_timed_by_itself(device):
    timings = list(device.layers(EAGER, 1, never))
    assert [t.layer for t in timings] == [layer.name for layer in TABLE.layers]
    assert all(t.check.passed for t in timings)


def test_inductors_layers_are_all_inductors(device, monkeypatch):
    """PyTorch compiles one function for eight shapes and then silently runs it as it is: VGG19 has nineteen layers."""
    compiled = []
    real = torch.compile

    def counting(forward, **options):
        def backend(graph, inputs):
            compiled.append(graph)
            return graph.forward

        options.pop("mode")
        return real(forward, backend=backend, **options)

    monkeypatch.setattr(torch, "compile", counting)
    large = TorchDevice("cpu", table=network("vgg19", image=32, classes=10))
    timings = list(large.layers(INDUCTOR, 1, never))
    assert [t.error for t in timings] == [None] * 19
    assert len(compiled) == 19


def test_a_forward_that_inductor_gives_up_on_is_not_timed_as_inductors(device, monkeypatch):
    from vgg_kernels.measure import variants

    monkeypatch.setattr(variants, "_copy", lambda module: module)
    broken = torch.nn.Module()
    broken.forward = lambda x: torch._dynamo.graph_break() or x
    with pytest.raises(torch._dynamo.exc.Unsupported):
        variants.build(INDUCTOR, broken)(torch.rand(1, 3))


def test_a_timer_that_fails_on_a_device_that_answers_is_told_and_the_next_one_runs(device, monkeypatch):
    def fail(subject, machine, allow):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    good = TIMERS["cpu"][0]
    monkeypatch.setitem(TIMERS, "cpu", (Timer("graph", "cold", fail), good))
    first, second = device.time(EAGER, 1, never)
    assert first.error == "out of memory: OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    assert first.times_ms == []
    assert second.error is None
    assert second.check.passed
    monkeypatch.setattr(device, "usable", lambda: False)
    with pytest.raises(torch.OutOfMemoryError):
        list(device.time(EAGER, 1, never))


def test_a_profile_is_of_one_forward(device):
    rows = device.profile(EAGER, 1)
    assert next(r for r in rows if r["kernel"] == "aten::conv2d")["calls"] == len(TABLE.convs)
    assert next(r for r in rows if r["kernel"] == "aten::addmm")["calls"] == len(TABLE.linears)


def test_a_cpu_gates_a_small_network_and_says_where():
    exams = []

    def gate(build, table, tier, **options):
        exams.append((table.name, table.image, tier, options["device"], options["seed"]))
        return SimpleNamespace(passed=True, document=lambda: {"passed": True})

    device = TorchDevice("cpu", table=TABLE, gate=gate)
    found = device.verify("bf16", 7)
    assert exams == [("vgg11", 32, "bf16", "cpu", 7)]
    assert found["passed"] is True
    assert "interpreter" in found["where"]


def test_it_answers_and_lets_go(device):
    device.release()
    assert device.usable()


def test_kernels_are_compiled_each_in_a_process_of_its_own():
    script = (
        "import sys, time; sys.argv[1] == 'bad' and sys.exit('no such tile'); time.sleep(9 * (sys.argv[1] == 'slow'))"
    )
    command = [sys.executable, "-c", script]
    good, bad, slow = compile_all([("good", 1), ("bad", 1), ("slow", 3)], 3, command, timeout_s=3.0)
    assert good["error"] is None
    assert bad["error"] == "no such tile"
    assert not bad["timed_out"]
    assert slow["error"] == "not compiled within 3 s"
    assert slow["timed_out"]
    assert slow["batch"] == 3
