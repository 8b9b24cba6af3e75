"""The real bench, on this CPU and a small network; on a GPU the same with its timers."""

from types import SimpleNamespace

import pytest
import torch

from vgg_kernels.correctness.suite import batch_sizes
from vgg_kernels.measure.timers import TIMERS, Timer
from vgg_kernels.measure.torch_device import TorchBench
from vgg_kernels.measure.variants import CPU_VARIANTS
from vgg_kernels.workload.network import network

TABLE = network("vgg11", image=32, classes=10)
EAGER, INDUCTOR = CPU_VARIANTS[:2]


def never(*_):
    return False


@pytest.fixture(scope="module")
def bench():
    return TorchBench("cpu", table=TABLE)


def test_eager_is_timed_checked_and_watched(bench):
    [timing] = bench.time(EAGER, 2, never)
    assert (timing.layer, timing.timer, timing.cache) == ("network", "host", "warm")
    assert len(timing.times_ms) >= 5
    assert all(0.1 < t < 10_000 for t in timing.times_ms)
    assert timing.check.passed
    assert "load_average" in timing.telemetry


def test_what_is_already_there_is_not_timed_again(bench):
    assert list(bench.time(EAGER, 2, lambda timer, cache: (timer, cache) == ("host", "warm"))) == []
    assert list(bench.layers(EAGER, 2, lambda *_: True)) == []


def test_a_variant_that_remembers_its_first_answer_is_caught(bench, monkeypatch):
    from vgg_kernels.measure import variants

    def remembering(variant, module):
        answer = {}
        return lambda x: answer.setdefault("first", module(x))

    monkeypatch.setattr(variants, "build", remembering)
    [timing] = bench.time(EAGER, 2, never)
    assert not timing.check.passed


def test_every_layer_is_timed_by_itself(bench):
    timings = list(bench.layers(EAGER, 1, never))
    assert [t.layer for t in timings] == [layer.name for layer in TABLE.layers]
    assert all(t.check.passed for t in timings)


def test_inductors_layers_are_all_inductors(bench, monkeypatch):
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
    large = TorchBench("cpu", table=network("vgg19", image=32, classes=10))
    timings = list(large.layers(INDUCTOR, 1, never))
    assert [t.error for t in timings] == [None] * 19
    assert len(compiled) == 19


def test_a_forward_that_inductor_gives_up_on_is_not_timed_as_inductors(bench, monkeypatch):
    from vgg_kernels.measure import variants

    monkeypatch.setattr(variants, "_copy", lambda module: module)
    broken = torch.nn.Module()
    broken.forward = lambda x: torch._dynamo.graph_break() or x
    with pytest.raises(torch._dynamo.exc.Unsupported):
        variants.build(INDUCTOR, broken)(torch.rand(1, 3))


def test_a_timer_that_fails_on_a_device_that_answers_is_told_and_the_next_one_runs(bench, monkeypatch):
    def fail(subject, machine, allow):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    good = TIMERS["cpu"][0]
    monkeypatch.setitem(TIMERS, "cpu", (Timer("graph", "cold", fail), good))
    first, second = bench.time(EAGER, 1, never)
    assert first.error == "out of memory: OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    assert first.times_ms == []
    assert second.error is None
    assert second.check.passed
    monkeypatch.setattr(bench, "usable", lambda: False)
    with pytest.raises(torch.OutOfMemoryError):
        list(bench.time(EAGER, 1, never))


def test_a_profile_is_of_one_forward(bench):
    rows = bench.profile(EAGER, 1)
    assert next(r for r in rows if r["kernel"] == "aten::conv2d")["calls"] == len(TABLE.convs)
    assert next(r for r in rows if r["kernel"] == "aten::addmm")["calls"] == len(TABLE.linears)


def test_a_cpu_gates_a_small_network_and_says_where():
    exams = []

    def gate(build, table, tier, **options):
        exams.append((table.name, table.image, tier, options["device"], options["seed"]))
        return SimpleNamespace(passed=True, document=lambda: {"passed": True})

    bench = TorchBench("cpu", table=TABLE, gate=gate)
    found = bench.verify("bf16")
    assert exams == [("vgg11", 32, "bf16", "cpu", bench.gate_seed)]
    assert found["passed"] is True
    assert "interpreter" in found["where"]


def test_every_bench_draws_a_seed_of_its_own_for_all_its_gates(bench):
    assert bench.gate_seed != TorchBench("cpu", table=TABLE).gate_seed
    assert bench.gate_batches == batch_sizes(bench.gate_seed)


def test_it_answers_and_lets_go(bench):
    bench.release()
    assert bench.usable()


def test_a_cpus_steps_are_guessed_from_their_operations(bench):
    full = TorchBench("cpu")
    assert full.guess("time", EAGER, 10) > 5 * full.guess("time", EAGER, 1)
    assert full.guess("time", INDUCTOR, 1) > full.guess("time", EAGER, 1) + 10
