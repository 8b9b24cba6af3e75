"""One small kernel for each kind of hazard, and the same one in order."""

import pytest
import torch

from vgg_kernels.emulator import hazards
from vgg_kernels.emulator.memory import TensorMap
from vgg_kernels.emulator.ptx import EmulationError

META = {"elem_size": 2, "block_size": [16, 64], "swizzle": 3}
TILE = 16 * 64 * 2
# Each thread's own four bytes at %r10, and those of the next warp at %r11.
ADDRESSES = """
mov.u32 %r1, %tid.x;
shl.b32 %r2, %r1, 2;
mov.b32 %r3, global_smem;
add.s32 %r10, %r3, %r2;
xor.b32 %r4, %r2, 128;
add.s32 %r11, %r3, %r4;
setp.eq.b32 %p1, %r1, 0;
"""
# An mbarrier at 8192, a tensor map in %rd1, coordinates 0.
COPY = """
mov.b32 %r20, global_smem;
add.s32 %r21, %r20, 8192;
mov.b64 %rd1, small_param_1;
cvta.param.u64 %rd2, %rd1;
mov.b32 %r22, 0;
mov.u32 %r1, %tid.x;
setp.eq.b32 %p1, %r1, 0;
"""
INIT = "@%p1 mbarrier.init.shared::cta.b64 [%r21], 1;\n bar.sync 0;\n"
EXPECT = f"@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], {TILE};\n"
LOAD = (
    "@%p1 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes "
    "[%r20], [%rd2, {%r22, %r22}], [%r21];\n"
)
WAIT = "mbarrier.wait [%r21], %r22;\n"
STORE = "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {%r22, %r22}], [%r20];\n"
COMMIT, STORED = "cp.async.bulk.commit_group;\n", "cp.async.bulk.wait_group.read 0;\n"
FENCE, BAR = "fence.proxy.async.shared::cta;\n", "bar.sync 0;\n"
WRITE, READ = "st.shared.b32 [%r10], %r1;\n", "ld.shared.b32 %r5, [%r11];\n"
FILL = "".join(f"st.shared.b32 [%r10+{at}], %r1;\n" for at in range(0, TILE, 512))
# One wgmma on two tiles of zeros: A at 0, B at 8192 of the shared memory, both in 128-byte swizzle.
ZERO = "mov.b32 %r6, 0;\n" + "".join(f"st.shared.b32 [%r10+{at}], %r6;\n" for at in range(0, 16384, 512))
DESCRIPTOR = (1 << 62) | (64 << 32) | (1024 >> 4)
ACCUMULATORS = "{" + ", ".join(f"%r{i}" for i in range(30, 34)) + "}"
START = "".join(f"mov.b32 %r{i}, 0f00000000;\n" for i in range(30, 34)) + (
    f"mov.b64 %rd5, {DESCRIPTOR};\n mov.b64 %rd6, {DESCRIPTOR + (8192 >> 4)};\n mov.pred %p2, -1;\n"
)
MMA = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {ACCUMULATORS}, %rd5, %rd6, %p2, 1, 1, 0, 0;\n"
MMA_FENCE = "wgmma.fence.sync.aligned;\n"
MMA_COMMIT, MMA_WAIT = "wgmma.commit_group.sync.aligned;\n", "wgmma.wait_group.sync.aligned 0;\n"
READY = ADDRESSES + ZERO + FENCE + BAR + START

CASES = {
    "write seen by another warp": (ADDRESSES + WRITE + BAR + READ, ADDRESSES + WRITE + READ, hazards.NO_BARRIER_READ),
    "read overwritten by another warp": (
        ADDRESSES + WRITE + BAR + READ + BAR + WRITE,
        ADDRESSES + WRITE + BAR + READ + WRITE,
        hazards.NO_BARRIER_WRITE,
    ),
    "nothing written": (ADDRESSES + WRITE + BAR + READ, ADDRESSES + BAR + READ, hazards.UNWRITTEN),
    "load read before its wait": (
        ADDRESSES + COPY + INIT + EXPECT + LOAD + WAIT + READ,
        ADDRESSES + COPY + INIT + EXPECT + LOAD + READ + WAIT,
        hazards.COPY_TARGET,
    ),
    "load over a load": (
        COPY + INIT + EXPECT + LOAD + WAIT,
        COPY + INIT + EXPECT.replace(str(TILE), str(2 * TILE)) + LOAD + LOAD + WAIT,
        hazards.COPY_OVER_COPY,
    ),
    "exit before the load": (COPY + INIT + EXPECT + LOAD + WAIT, COPY + INIT + EXPECT + LOAD, hazards.EXIT_LOADS),
    "mbarrier not yet visible": (
        COPY + INIT + EXPECT + LOAD + WAIT,
        COPY + INIT.replace("bar.sync 0;", "") + EXPECT + LOAD + WAIT,
        hazards.MBARRIER_INVISIBLE,
    ),
    "mbarrier initialised twice": (
        COPY + INIT + EXPECT + LOAD + WAIT,
        COPY + INIT.replace("@%p1 ", "") + EXPECT + LOAD + WAIT,
        hazards.MBARRIER_TWICE,
    ),
    "mbarrier invalidated in use": (
        COPY + INIT + EXPECT + LOAD + WAIT + BAR + "@%p1 mbarrier.inval.shared::cta.b64 [%r21];\n",
        COPY + INIT + EXPECT + LOAD + WAIT + "@%p1 mbarrier.inval.shared::cta.b64 [%r21];\n",
        hazards.MBARRIER_BUSY,
    ),
    "store without the proxy fence": (
        ADDRESSES + FILL + COPY + FENCE + BAR + STORE + COMMIT + STORED,
        ADDRESSES + FILL + COPY + BAR + STORE + COMMIT + STORED,
        hazards.NO_PROXY_FENCE,
    ),
    "store of what other warps just wrote": (
        ADDRESSES + FILL + COPY + FENCE + BAR + STORE + COMMIT + STORED,
        ADDRESSES + FILL + COPY + FENCE + STORE + COMMIT + STORED,
        hazards.NO_BARRIER_READ,
    ),
    "source of a store overwritten": (
        ADDRESSES + FILL + COPY + FENCE + BAR + STORE + COMMIT + STORED + BAR + WRITE,
        ADDRESSES + FILL + COPY + FENCE + BAR + STORE + COMMIT + BAR + WRITE + STORED,
        hazards.STORE_SOURCE,
    ),
    "exit before the store has read": (
        ADDRESSES + FILL + COPY + FENCE + BAR + STORE + COMMIT + STORED,
        ADDRESSES + FILL + COPY + FENCE + BAR + STORE + COMMIT,
        hazards.EXIT_STORES,
    ),
    "product without its fence": (
        READY + MMA_FENCE + MMA + MMA_COMMIT + MMA_WAIT,
        READY + MMA + MMA_COMMIT + MMA_WAIT,
        hazards.NO_WGMMA_FENCE,
    ),
    "sum read before its wait": (
        READY + MMA_FENCE + MMA + MMA_COMMIT + MMA_WAIT + "add.f32 %r7, %r30, %r31;\n",
        READY + MMA_FENCE + MMA + MMA_COMMIT + "add.f32 %r7, %r30, %r31;\n" + MMA_WAIT,
        hazards.REGISTER_IN_FLIGHT,
    ),
    "operand overwritten": (
        READY + MMA_FENCE + MMA + MMA_COMMIT + MMA_WAIT + BAR + "st.shared.b32 [%r10+1024], %r1;\n",
        READY + MMA_FENCE + MMA + MMA_COMMIT + BAR + "st.shared.b32 [%r10+1024], %r1;\n" + MMA_WAIT,
        hazards.OPERAND_OVERWRITTEN,
    ),
    "operand overwritten for another warp": (
        READY + MMA_FENCE + MMA + MMA_COMMIT + MMA_WAIT + BAR + "st.shared.b32 [%r10+1024], %r1;\n",
        READY + MMA_FENCE + MMA + MMA_COMMIT + MMA_WAIT + "st.shared.b32 [%r10+1024], %r1;\n",
        hazards.OPERAND_UNORDERED,
    ),
    "operand without the proxy fence": (
        READY + MMA_FENCE + MMA + MMA_COMMIT + MMA_WAIT,
        READY.replace(FENCE, "") + MMA_FENCE + MMA + MMA_COMMIT + MMA_WAIT,
        hazards.NO_PROXY_FENCE,
    ),
    "exit with a product in flight": (
        READY + MMA_FENCE + MMA + MMA_COMMIT + MMA_WAIT,
        READY + MMA_FENCE + MMA + MMA_COMMIT,
        hazards.EXIT_WGMMA,
    ),
}


def tile(memory):
    return TensorMap(torch.ones(16, 64, dtype=torch.float16), [16, 64], [64, 1], META, memory)


@pytest.mark.parametrize("early", [False, True], ids=["late", "early"])
@pytest.mark.parametrize("case", CASES)
def test_the_broken_kernel_is_told_from_the_right_one(run, case, early):
    right, broken, kind = CASES[case]
    assert run(right, tensor_map=tile, early=early, checks=True).kinds == []
    assert kind in run(broken, tensor_map=tile, early=early, checks=True).kinds


def test_a_hazard_names_its_statement(run):
    report = run(ADDRESSES + WRITE + READ, checks=True)
    assert any("ld.shared.b32 %r5, [%r11];" in text and "line " in text for text in report.hazards)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (COPY + INIT + WAIT, "deadlock: 1 arrivals"),
        (COPY + INIT + EXPECT + WAIT, f"deadlock: 0 arrivals and {TILE} bytes"),
        (COPY + INIT + EXPECT.replace(str(TILE), "64") + LOAD + WAIT, "deadlock"),
        (COPY + INIT + EXPECT + EXPECT, "more arrivals than its count"),
        (COPY + WAIT, "no mbarrier was initialised"),
        (ADDRESSES + "st.shared.b32 [%r10+65536], %r1;", "is outside of"),
        (ADDRESSES + "st.shared.b32 [%r10+2], %r1;", "misaligned"),
        ("ld.param.b64 %rd1, [small_param_0];\n ld.global.b32 %r1, [%rd1];", "lie in no tensor"),
        (COPY + "add.s32 %r20, %r20, 64;\n" + INIT + EXPECT + LOAD, "bulk copy of"),
        ("bar.sync 1;", "opcode bar.sync is not known"),
    ],
)
def test_what_a_card_would_not_run_stops_with_its_statement(run, body, message):
    with pytest.raises(EmulationError, match=message) as error:
        run(body, tensor_map=tile)
    assert "line " in str(error.value)
