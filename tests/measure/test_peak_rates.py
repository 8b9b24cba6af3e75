import os
import subprocess
import sys

import pytest
import torch

from vgg_kernels.measure import peak_rates
from vgg_kernels.measure.l2 import read_tiles
from vgg_kernels.measure.peak_rates import row

ROW = row("copy_bandwidth", 3.0e12, "B/s", "a copy")


def test_the_cpus_peak_rates_are_measured(monkeypatch):
    monkeypatch.setitem(peak_rates.COPY_BYTES, "cpu", 2**22)
    monkeypatch.setitem(peak_rates.MATMUL_SIZE, "cpu", 128)
    rows, failures = peak_rates.cpu("this CPU")
    assert failures == []
    assert {r["quantity"]: r["unit"] for r in rows} == {"copy_bandwidth": "B/s", "matmul_fp32": "FLOP/s"}
    assert all(r["value"] > 1e6 for r in rows)


def test_bandwidth_counts_read_and_written_bytes(monkeypatch):
    monkeypatch.setitem(peak_rates.COPY_BYTES, "cpu", 2**20)
    monkeypatch.setattr(peak_rates, "best_seconds", lambda *_: 0.5)
    assert peak_rates.copy_bandwidth("cpu")["value"] == 2 * 2**20 / 0.5


def test_a_product_is_two_operations_a_point_and_the_switch_is_put_back(monkeypatch):
    monkeypatch.setitem(peak_rates.MATMUL_SIZE, "cpu", 64)
    monkeypatch.setattr(peak_rates, "best_seconds", lambda *_: 2.0)
    before = torch.backends.cuda.matmul.allow_tf32
    assert peak_rates.matmul("tf32", "cpu")["value"] == 64**3
    assert torch.backends.cuda.matmul.allow_tf32 == before


def test_fp8s_product_is_that_of_its_operands():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(32, 32, generator=generator).to(torch.float8_e4m3fn) for _ in range(2))
    want = a.double() @ b.double().t()
    assert (peak_rates._product(a, b)().double() - want).norm() < 4e-3 * want.norm()  # bf16 rounds the result


@pytest.mark.parametrize("precision", peak_rates.MATMULS)
def test_every_precision_has_a_product(monkeypatch, precision):
    monkeypatch.setitem(peak_rates.MATMUL_SIZE, "cpu", 32)
    assert peak_rates.matmul(precision, "cpu")["quantity"] == f"matmul_{precision}"


def test_a_peak_rate_that_cannot_be_taken_is_named_and_the_others_stand():
    def broken():
        raise RuntimeError("no such instruction\nand a long story")

    rows, failures = peak_rates._each((broken, lambda: ROW), "a card")
    assert rows == [ROW]
    assert failures == ["a card: a peak rate could not be taken: RuntimeError: no such instruction"]


def test_the_best_of_the_repeats_counts(monkeypatch):
    ticks = iter([0.0, 5.0, 10.0, 11.0, 20.0, 23.0])
    monkeypatch.setattr(peak_rates.time, "perf_counter", lambda: next(ticks))
    assert peak_rates.best_seconds(lambda: None, "cpu", repeats=3) == 1.0


def test_a_launch_that_is_late_on_an_idle_gpu_counts_once_in_ten_calls(monkeypatch):
    """A device that does not exist: the first call after a synchronisation arrives late, the others are queued."""
    now, idle = [0.0], [True]

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at = now[0]

        def elapsed_time(self, end):
            return end.at - self.at

    def call():
        now[0] += 2.0 + (0.5 if idle[0] else 0.0)
        idle[0] = False

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: idle.__setitem__(0, True))
    assert peak_rates.best_seconds(call, "cuda", repeats=3) == pytest.approx(2.05e-3)


def test_the_reading_kernel_reads_every_tile_it_counts():
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(6 * 32, 64, generator=generator).half()
    weights = torch.randn(64, 16, generator=generator).half()
    out = torch.full((4, 32, 16), float("nan"))
    read_tiles(matrix, weights, out, passes=9)
    tiles = matrix.view(6, 32, 64).double() @ weights.double()
    want = torch.stack([sum(tiles[(program + i) % 6] for i in range(9)) for program in range(4)])
    assert (out - want).norm() < 1e-5 * want.norm()


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from vgg_kernels.measure.l2 import STAGES, _read_tiles
signature = {"tiles": "tensordesc<fp16[128, 64]>", "weights": "*fp16", "out": "*fp32", "count": "i32", "passes": "i32"}
signature |= dict.fromkeys(("ROWS", "DEPTH", "N", "STAGES"), "constexpr")
constants = {(5,): 128, (6,): 64, (7,): 16, (8,): STAGES}
kernel = triton.compile(ASTSource(_read_tiles, signature, constexprs=constants), target=GPUTarget("cuda", 90, 32))
print(kernel.asm["ptx"].count("cp.async.bulk.tensor"), kernel.asm["ptx"].count("wgmma.mma_async.sync"))
"""


def test_on_hopper_it_reads_by_bulk_tensor_copies_for_wgmma():
    done = subprocess.run(
        [sys.executable, "-c", COMPILE], capture_output=True, text=True, env=os.environ | {"TRITON_INTERPRET": "0"}
    )
    copies, products = map(int, done.stdout.split())
    assert copies > 0, done.stderr
    assert products > 0
