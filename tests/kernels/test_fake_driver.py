"""Triton's own runtime, launcher and tensor maps included, on a CUDA driver that does not exist (``fake_libcuda.c``).

What the interpreter and the ahead-of-time compiler both pass by: how the arguments of a launch are specialised, bound
and handed to the driver. Nothing is computed here, and nothing is measured.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc, as Triton does on a GPU")
SOURCE = Path(__file__).with_name("fake_libcuda.c")
START = """
import ctypes
import sys
import torch
import triton
from triton.backends.nvidia import driver

class Device(driver.CudaDriver):
    def __init__(self):
        self.utils, self.launcher_cls = driver.CudaUtils(), driver.CudaLauncher
        self.get_current_device, self.set_current_device = (lambda: 0), (lambda device: None)
        self.get_current_stream, self.get_device_capability = (lambda device=0: 0), (lambda device=0: (9, 0))

triton.runtime.driver.set_active(Device())
fake = ctypes.CDLL("libcuda.so.1")
counts = lambda: [fake.fake_launches(), fake.fake_tensor_maps(), fake.fake_dependent_launches()]
"""
FORWARD = """
from vgg_kernels.kernels.model import VGG
from vgg_kernels.workload.network import network
from vgg_kernels.workload.reference import Reference

table = network("vgg11", image=32)
model = VGG.from_reference(Reference(table), tier=sys.argv[1])
forward, packed = model.prepare(torch.rand(3, 3, 32, 32))
for _ in range(2):
    forward.run(torch.rand(3, 3, 32, 32), packed)
print(len(forward.launches), *counts())
"""
PAIRS = """
from vgg_kernels.kernels import conv3x3
from vgg_kernels.kernels.layout import Activation, pack
from vgg_kernels.kernels.plan import conv_launches
from vgg_kernels.kernels.tiles import parse_tile
from vgg_kernels.workload.network import Conv
from vgg_kernels.workload.precision import tier

fp16, cpu = tier("fp16"), torch.device("cpu")
weights = pack(torch.rand(64, 9 * 64), torch.rand(64), fp16, 0, 0)
for pooled in (False, True):
    conv = Conv("conv", "conv", 64, 64, 32, 32, pooled)
    tile = parse_tile("256x64x32 pairs 1x8x32 swapped s2 w4")
    (launch,) = conv_launches(conv, fp16, 3, tile, 1)
    side = 16 if pooled else 32
    x, y = (Activation.empty((3, s, s, 64), fp16, cpu, 1, 0) for s in (32, side))
    conv3x3.run(launch, x, weights, y)
print(*counts())
"""
READING = """
from vgg_kernels.measure import peak_rates
from vgg_kernels.measure.l2 import FEWEST_COLUMNS, read_tiles

rows, depth = peak_rates.TILE_ROWS, peak_rates.TILE_DEPTH
matrix = torch.zeros(peak_rates.L2_BYTES // (2 * depth), depth, dtype=torch.float16)
weights, out = torch.zeros(depth, FEWEST_COLUMNS).half(), torch.zeros(264, rows, FEWEST_COLUMNS)
read_tiles(matrix, weights, out, peak_rates.L2_PASSES)
print(*counts())
"""
REFUSED = READING.replace(
    "print(*counts())",
    """
from triton.tools.tensor_descriptor import TensorDescriptor
from vgg_kernels.measure.l2 import _read_tiles

tiles = TensorDescriptor.from_tensor(matrix, [rows, depth])
sizes = dict(ROWS=rows, DEPTH=depth, N=FEWEST_COLUMNS, STAGES=4)
_read_tiles[(1, 65536)](tiles, weights, out, 8, 8, **sizes)  # a grid has at most 65535 rows
""",
)


@pytest.fixture(scope="module")
def on_fake_driver(tmp_path_factory):
    """Run a script under the fake driver; it needs the C compiler that Triton needs too."""
    import triton

    folder = tmp_path_factory.mktemp("driver")
    include = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    command = ["gcc", "-shared", "-fPIC", "-w", f"-I{include}", "-o", str(folder / "libcuda.so.1"), str(SOURCE)]
    subprocess.run(command, check=True)
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(folder),
        "TRITON_LIBCUDA_PATH": str(folder),
        "TRITON_CACHE_DIR": str(folder / "cache"),
        "TRITON_INTERPRET": "0",
        "OMP_NUM_THREADS": "1",
    }

    def run(script, *arguments):
        command = [sys.executable, "-c", START + script, *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    return run


def test_every_launch_of_a_forward_is_one_that_a_card_takes(on_fake_driver):
    """fp16x3, whose launches have the most arguments; each is followed by one that may begin before it has ended."""
    done = on_fake_driver(FORWARD, "fp16x3")
    assert done.returncode == 0, done.stderr
    planned, launches, tensor_maps, dependent = map(int, done.stdout.split())
    assert launches == dependent == 2 * planned
    assert tensor_maps > launches


def test_row_pairs_are_tensor_maps_that_a_card_takes(on_fake_driver):
    done = on_fake_driver(PAIRS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", "6", "2"]


def test_the_reading_kernel_is_one_that_a_card_takes_and_a_grid_too_large_is_not(on_fake_driver):
    done = on_fake_driver(READING)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "1", "0"]
    refused = on_fake_driver(REFUSED)
    assert refused.returncode == 1
    assert "grid y: 65536" in refused.stderr
