"""What only a card can say of the measuring: on one, ``pytest -m gpu tests/measure``; minutes, mostly compiling.

It needs what measuring needs and pytest (where the study's other libraries are missing, other files do not import:
``--continue-on-collection-errors``). Times here are of this card as it is; the bounds are wide.
"""

import subprocess
import sys
import time

import pytest
import torch

from vgg_kernels.floor.hardware import device_by_torch_name
from vgg_kernels.measure import peak_rates, provenance
from vgg_kernels.measure.device import Cuda
from vgg_kernels.measure.telemetry import Telemetry, open_gpu
from vgg_kernels.measure.timed_call import TimedCall
from vgg_kernels.measure.timers import TIMERS, Allowance, disagreement
from vgg_kernels.measure.torch_device import TorchDevice, compile_all
from vgg_kernels.measure.variants import GPU_VARIANTS, OURS, Variant
from vgg_kernels.workload.network import network

pytestmark = pytest.mark.gpu
BY_NAME = {v.name: v for v in GPU_VARIANTS}
SMALL = network("vgg11", image=32)
BATCH = 3


def never(*_):
    return False


@pytest.fixture(scope="module")
def device():
    return TorchDevice("cuda", table=SMALL)


@pytest.fixture(scope="module")
def full():
    return TorchDevice("cuda")


@pytest.fixture(autouse=True)
def _let_go(request):
    yield
    torch._dynamo.reset()
    torch.cuda.empty_cache()


def whole(found):
    """The timings, each of which measured and computed."""
    timings = list(found)
    assert [t.error for t in timings if t.error] == []
    assert [str(t.check) for t in timings if not t.check.passed] == []
    return timings


def test_the_six_timers_agree_on_eager(full):
    timings = whole(full.time(BY_NAME["eager"], 10, never))
    rows = disagreement({(t.timer, t.cache): t.times_ms for t in timings})
    assert len(rows) == 6
    assert all(0.75 < row["ratio"] < 1.33 for row in rows), rows


def test_our_own_graph_works_inside_the_graph_timer(full):
    timings = whole(full.time(BY_NAME["ours_fp16"], 10, never))
    medians = {(t.timer, t.cache): sorted(t.times_ms)[len(t.times_ms) // 2] for t in timings}
    assert len(medians) == 6
    assert 0.5 < medians["graph", "cold"] / medians["kernelbench", "cold"] < 1.1, medians


@pytest.mark.parametrize("tier", [v.tier for v in OURS])
def test_each_tier_compiles_and_passes_the_gate(device, tier):
    found = device.verify(tier, 7)
    assert found["where"] == "compiled"
    assert found["passed"], [check for check in found["verdict"]["checks"] if not check["passed"]]


@pytest.mark.parametrize("variant", [v for v in GPU_VARIANTS if not v.mode], ids=lambda v: v.name)
def test_every_timer_and_every_layer_times_what_was_computed(device, variant):
    assert len(whole(device.time(variant, BATCH, never))) == 6
    assert len(whole(device.layers(variant, BATCH, never))) == 2 * len(SMALL.layers)
    rows = device.profile(variant, BATCH)
    assert sum(row["calls"] for row in rows) >= len(SMALL.layers)


def test_inductor_is_timed_in_graphs_of_ours_and_of_its_own(device):
    assert len(whole(device.time(BY_NAME["inductor"], BATCH, never))) == 6
    assert len(whole(device.layers(BY_NAME["inductor"], BATCH, never))) == 2 * len(SMALL.layers)
    own = Variant("inductor_graphs", "inductor", "fp16", dtype="fp16", mode="reduce-overhead", graphs=True)
    assert len(whole(device.time(own, BATCH, never))) == 4
    assert device.profile(own, BATCH)


def test_the_public_timer_counts_the_work_and_not_the_flush(device):
    a = torch.randn(4096, 4096, device="cuda")
    machine = Cuda()
    medians = {}
    for name, call in (("once", lambda x: a @ a), ("twice", lambda x: (a @ a) @ a)):
        subject = TimedCall(call, (1, 3, 32, 32), "cuda")
        times = TIMERS["cuda"][0].measure(subject, machine, Allowance(machine.now, trials=20))
        medians[name] = sorted(times)[len(times) // 2]
    assert medians["twice"] / medians["once"] == pytest.approx(2.0, rel=0.15)


def test_a_capture_that_breaks_leaves_the_device_and_the_next_capture_whole(device):
    machine, x = Cuda(), torch.ones(8, device="cuda")
    before = torch.cuda.current_stream()
    with pytest.raises(RuntimeError):
        machine.capture(lambda: x * x.sum().item())
    assert torch.cuda.current_stream() == before
    assert device.usable()
    assert float(machine.capture(lambda: x * 2)()[0]) == 2.0


POISON = """
import torch
from vgg_kernels.measure.torch_device import TorchDevice, compile_all
device = TorchDevice("cuda")
assert device.usable()
torch.zeros(4, device="cuda")[torch.tensor([9], device="cuda")]
print(device.usable())
"""


def test_a_device_that_one_bad_index_has_poisoned_is_known_to_be_lost():
    done = subprocess.run([sys.executable, "-c", POISON], capture_output=True, text=True)
    assert done.stdout.split() == ["False"], done.stderr


def test_every_peak_rate_is_taken_and_below_the_data_sheet(full):
    rows, failures = full.peak_rates()
    assert failures == []
    card, values = device_by_torch_name(full.name), {r["quantity"]: r["value"] for r in rows}
    assert 0.5 * card.hbm_bytes_per_s < values["copy_bandwidth"] < 1.05 * card.hbm_bytes_per_s
    for precision in peak_rates.MATMULS:
        rate = card.peaks["fp16" if precision == "bf16" else precision]
        assert 0.3 * rate < values[f"matmul_{precision}"] < 1.1 * rate, precision
    assert 10 < values["l2_bytes_per_sm_clock"] < 128
    assert 1e-7 < values["graph_launch_gap"] < 1e-5


def test_the_card_and_its_state_are_described():
    found = provenance.collect("cuda")
    assert found["hardware"]["arch"] >= 70
    assert found["hardware"]["memory_bytes"] > 1e9
    assert len(found["card"]) == 12
    assert found["hardware"]["nvml"]["driver"]


def test_the_clock_power_and_temperature_are_sampled_under_load():
    a = torch.randn(8192, 8192, device="cuda")
    with Telemetry(open_gpu().sample) as witness:
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            a @ a
            torch.cuda.synchronize()
    found = witness.summary()
    assert found["samples"] >= 5
    assert {"sm_mhz", "memory_mhz", "power_w", "temperature_c"} <= set(found)
    assert found["sm_mhz"]["max"] > 500
    assert any(sample["reasons"] is not None for sample in witness.samples)


def test_a_tier_is_compiled_in_a_process_of_its_own():
    [row] = compile_all([("fp16", 1)], at_once=1)
    assert row["error"] is None
