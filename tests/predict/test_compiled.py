"""Compiled with no GPU: Hopper's own instructions, bulk copies and no spills in the tiles that were chosen."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from vgg_kernels.kernels import backend
from vgg_kernels.kernels.plan import conv_launches, plan
from vgg_kernels.kernels.tiles import Tile, drains, parse_tile
from vgg_kernels.predict import compiled
from vgg_kernels.predict.compiled import Facts, inspect, inspect_all
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import tier

VGG = network("vgg19")
# One of each kind: stem, narrow box, pooled box, flat, split K with its second launch, first and last linear layer.
SAMPLE = {
    "fp16": ("conv1_1", "conv1_2", "conv3_4", "conv4_2", "conv5_4", "fc6", "fc8"),
    "tf32": ("conv1_2", "conv4_2", "fc6"),
    "fp16x3": ("conv1_2", "conv4_2"),
    "fp8": ("conv4_2", "fc6"),
    "bf16": ("conv2_2",),
}


def chosen(name):
    return plan(VGG, name, 10, "h100_sxm")


@pytest.fixture(scope="module")
def facts():
    """(tier, layer, kernel) to facts, compiled in worker processes (and kept by content in the user's cache)."""
    launches = [x for name, layers in SAMPLE.items() for x in chosen(name) if x.layer in layers]
    return {(x.tier.name, x.layer, x.kernel): (x, found) for x, found in inspect_all(launches, 90)}


@pytest.mark.parametrize(("name", "layer"), [(name, layer) for name, layers in SAMPLE.items() for layer in layers])
def test_products_use_hoppers_instructions_and_spill_nothing(facts, name, layer):
    kernel = "stem" if layer == "conv1_1" else "linear" if layer.startswith("fc") else "conv3x3"
    launch, found = facts[name, layer, kernel]
    assert found.mma_count > 0
    assert found.mma_sync_count == 0
    assert (found.spills, found.stack_bytes) == (0, 0)
    assert 0 < found.registers <= 255
    m, n, _ = map(int, found.mma.split("x"))
    assert m == 64  # of one warp group
    assert (launch.tile.bm if launch.tile.swapped or kernel == "linear" else launch.tile.bn) % n == 0
    if kernel != "stem":  # whose nine-fold reading goes through L1
        assert found.bulk_loads > 0
        assert found.shared_bytes >= (launch.tile.stages - 1) * launch.load_bytes_per_iteration
    assert found.shared_bytes <= 227 * 1024


def test_second_launches_are_plain_code_without_spills(facts):
    second = [found for (_, _, kernel), (_, found) in facts.items() if kernel in ("reduce", "maxpool")]
    assert second
    for found in second:
        assert (found.mma_count, found.spills, found.stack_bytes) == (0, 0, 0)


CASES = (
    ("fp16", "conv4_2", "128x256x64 flat s4 w8"),
    ("fp16", "conv3_4", "128x256x64 box 2x8x8 swapped s4 w8"),
    ("fp16", "conv1_2", "256x64x32 pairs 1x32x8 swapped s2 w4"),
    ("fp8", "conv2_2", "256x128x128 pairs 1x16x16 swapped s2 w8"),
    ("fp16x3", "conv4_2", "128x128x64 flat s3 w8"),
)
CODE = """
from vgg_kernels.kernels.plan import conv_launches
from vgg_kernels.kernels.tiles import Tile, parse_tile
from vgg_kernels.predict import compiled
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import tier
compiled._read = lambda built: built
conv = network("vgg19").layer("conv4_2")
for swapped in (True, False):
    tile = Tile(128, 128, 64, 3, 8, (1, 16, 8), swapped)
    code = compiled.compile_launch(conv_launches(conv, tier("fp16"), 10, tile, 1)[0], 90).asm["ttgir"]
    loop = code[code.index("scf.for"):code.index("scf.yield")]
    print("local_load" in loop, "warp_group_dot" in loop)
pool = conv_launches(network("vgg19").layer("conv5_4"), tier("fp16"), 10, Tile(128, 256, 64, 4, 8, split_k=3), 0)[1]
print("max.NaN.f32" in compiled.compile_launch(pool, 90).asm["ptx"])
for name, layer, tile in CASES:
    made = conv_launches(network("vgg19").layer(layer), tier(name), 10, parse_tile(tile), 1)[0]
    asm = compiled.compile_launch(made, 90).asm
    loop = asm["ttgir"][asm["ttgir"].index("scf.for"):asm["ttgir"].index("scf.yield")]
    waits = loop.count("pendings = 0")
    print(waits, asm["ptx"].count("griddepcontrol.wait"), asm["ptx"].count("griddepcontrol.launch_dependents"))
"""


@pytest.fixture(scope="module")
def read():
    """What the script prints in a process that compiles."""
    environment = {**os.environ, backend.VARIABLE: "0"}
    code = f"CASES = {CASES}\n{CODE}"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_box_reaches_wgmma_unmoved_only_as_its_b(read):
    """As A (not swapped) it passes through registers at every step: why box tiles are swapped."""
    assert read[:2] == ["False True", "True True"]


def test_the_pool_behind_split_k_keeps_nan(read):
    """Triton's interpreter keeps it either way, so no test of values would tell."""
    assert read[2] == "True"


@pytest.mark.parametrize(("case", "name", "tile"), [(i, name, tile) for i, (name, _, tile) in enumerate(CASES)])
def test_the_compiler_drains_the_tensor_cores_as_often_as_the_model_says(read, case, name, tile):
    waits, *programmatic = map(int, read[3 + case].split())
    assert waits == drains(parse_tile(tile), tier(name))
    assert programmatic == [1, 1]  # it waits for the launch before it, and lets the next one be placed


def launch(**changed):
    made = conv_launches(VGG.layer("conv4_2"), tier("fp16"), 1, Tile(128, 256, 64, 4, 8), 1)[0]
    return replace(made, **changed)


def test_another_architecture_is_refused():
    for arch in (80, 9, 120):
        with pytest.raises(ValueError, match=f"unknown architecture {arch}; accepted: 90, 100"):
            inspect(launch(), arch)


@pytest.mark.skipif(not backend.INTERPRETED, reason="of an interpreting process")
def test_a_process_that_interprets_does_not_compile(monkeypatch):
    monkeypatch.setenv(backend.VARIABLE, "1")
    with pytest.raises(RuntimeError, match=r"cannot compile them: use compiled\.inspect"):
        compiled.compile_launch(launch(), 90)


def test_facts_are_kept_by_content(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = []

    def compile_launch(launch, arch):
        made.append((launch.layer, arch))
        return Facts(168, 0, 0, 1000, "64x256x16", 4, 0, 0, 6, 1, 900, "0.0")

    monkeypatch.setattr(compiled, "compile_launch", compile_launch)
    assert inspect(launch(), 90) == inspect(launch(layer="conv4_3", shape=VGG.layer("conv4_3")), 90)  # of one shape
    assert made == [("conv4_2", 90)]
    inspect(launch(), 100)
    inspect(launch(batch=2), 90)
    inspect(launch(tile=Tile(128, 256, 64, 3, 8)), 90)
    inspect(launch(tier=tier("bf16")), 90)
    inspect(launch(shape=replace(VGG.layer("conv4_2"), pooled=True)), 90)
    assert len(made) == 6
    for kept in tmp_path.rglob("*.json"):
        kept.write_text("{")  # as an interrupted run would leave it
    assert inspect(launch(), 90).registers == 168
    assert len(made) == 7


def test_facts_of_other_sources_are_not_facts_of_these(tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(compiled, "sources_digest", lambda names: read.append(names) or "0" * 64)
    before = compiled._key(launch(), 90)
    monkeypatch.setattr(compiled, "sources_digest", lambda names: "1" * 64)
    assert compiled._key(launch(), 90) != before
    assert read == [("numerics.py", "signature.py", "conv3x3.py")]  # of its own kernel, whatever else changes
