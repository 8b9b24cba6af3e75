from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vgg_kernels.floor.hardware import device, devices
from vgg_kernels.kernels.plan import plan
from vgg_kernels.predict.constants import constant
from vgg_kernels.predict.timemodel import CHANGES, another_tile, predict, time_of
from vgg_kernels.predict.work import Work, from_launch, occupancy, other_tiles, retiled, stream, tensor_core_reads
from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import TIERS

VGG = network("vgg19")
H100 = device("h100_sxm")
# one CTA of 128 x 256 fp16 outputs and 64 steps of k = 64, alone on its SM
TILE = Work("tile", "fp16", ctas=132, iterations=64, flops=2 * 128 * 256 * 64, load_bytes=2 * 64 * (128 + 256),
            shared_bytes=tensor_core_reads(128, 256, 128, 64) + 2 * 64 * 384, stages=4, resident=1,
            store_bytes=2 * 128 * 256, values=128 * 256, hbm_read=0, hbm_write=0)  # fmt: skip


@pytest.mark.parametrize("batch", [1, 10, 33, 256])
@pytest.mark.parametrize("card", sorted(devices()))
@pytest.mark.parametrize("tier", sorted(set(TIERS) - {"fp16x3"}))
def test_no_layer_is_predicted_under_its_floor(tier, card, batch):
    for row in predict(VGG, tier, card, batch):
        assert row.time_us >= row.floor_us, row


@settings(deadline=None, max_examples=40)
@given(
    tier=st.sampled_from(sorted(TIERS)),
    card=st.sampled_from(sorted(devices())),
    batch=st.integers(1, 64),
    name=st.sampled_from(["vgg11", "vgg13", "vgg16", "vgg19"]),
    image=st.sampled_from([32, 64, 160, 224]),
)
def test_floor_under_prediction_wherever_one_looks(tier, card, batch, name, image):
    for row in predict(network(name, image=image), tier, card, batch):
        assert row.time_us >= row.floor_us, row


@pytest.mark.parametrize("clock_hz", [0.9e9, 1.98e9])
def test_another_clock_moves_the_floor_with_the_prediction(clock_hz):
    for tier in ("fp32", "fp16"):
        for row in predict(VGG, tier, "h100_sxm", 10, clock_hz=clock_hz):
            assert row.time_us >= row.floor_us, row


def test_a_clock_out_of_reach_is_refused():
    with pytest.raises(ValueError, match="1980 MHz"):
        predict(VGG, "fp16", "h100_sxm", 10, clock_hz=2.5e9)


def test_one_wave_by_hand():
    # the design's sum: 48 KiB a step at 37 B a clock, against 1024 clocks of wgmma and 1024 of shared memory
    timing = time_of(TILE, H100)
    l2 = 49152 / 37
    epilogue = 128 * 256 * 6 / 128 + 65536 / 37
    assert timing.waves == 1
    assert timing.main_us == pytest.approx(64 * l2 / 1830)
    assert timing.edges_us == pytest.approx((265 + epilogue) / 1830)
    assert timing.time_us == pytest.approx(constant("launch_us") + timing.main_us + timing.edges_us)
    assert timing.bound == "l2"
    assert timing.loops_us["mma"] == pytest.approx(64 * 1024 / 1830, rel=1e-3)
    assert timing.loops_us["shared"] == pytest.approx(64 * 1024 / 1830, rel=1e-3)


def test_one_cta_more_is_one_wave_more_but_a_faster_one():
    one, two = time_of(TILE, H100), time_of(replace(TILE, ctas=133), H100)
    assert (one.waves, two.waves) == (1, 2)
    # the straggler has L2 to itself: its port's 64 B a clock, and then the tensor cores and shared memory bind
    assert two.main_us - one.main_us == pytest.approx(64 * 1024 / 1830, rel=1e-3)


def test_two_ctas_on_an_sm_share_its_units_and_hide_each_others_ends():
    alone, pair = time_of(replace(TILE, ctas=264), H100), time_of(replace(TILE, ctas=264, resident=2), H100)
    assert (alone.waves, pair.waves) == (2, 1)
    assert pair.main_us == pytest.approx(alone.main_us)
    assert pair.edges_us == pytest.approx(alone.edges_us / 2)


def test_a_shallow_pipeline_waits_for_latency():
    shallow = time_of(replace(TILE, flops=2 * 64 * 64 * 16, load_bytes=1024, shared_bytes=1024, stages=2), H100)
    assert shallow.bound == "latency"
    alone = replace(TILE, ctas=1, flops=2 * 64 * 64 * 16, load_bytes=1024, shared_bytes=1024, stages=2)
    assert time_of(alone, H100).main_us == pytest.approx(64 * (265 + 1024 / 64) / 1830)
    assert time_of(replace(alone, stages=4), H100).main_us == pytest.approx(64 * (265 + 1024 / 64) / 3 / 1830)


def test_copies_asked_for_late_leave_two_stages_little_to_hide():
    """Row pairs wait for five of six products before they ask for the next copies; with two stages, only then."""
    base = replace(TILE, ctas=1, resident=1, shared_bytes=0, load_bytes=64 * 2000, flops=1e6 * 4)
    mma = base.flops / H100.flops_per_clock("fp16")
    step = {
        (drains, stages): time_of(replace(base, drains=drains, stages=stages), H100).main_us * 1830 / base.iterations
        for drains in (0, 5)
        for stages in (2, 5)
    }
    assert step[0, 2] == pytest.approx(265 + 2000)
    assert step[5, 2] == pytest.approx(5 / 6 * mma + 265 + 2000)
    assert step[5, 5] == pytest.approx(max(2000, mma + 5 * constant("drain_clocks")))


def test_memory_binds_a_stream_and_the_launch_binds_nothing_at_all():
    assert time_of(stream("copy", 1e9, 1e9), H100).bound == "hbm"
    assert time_of(stream("copy", 1e9, 1e9), H100).hbm_us == pytest.approx(2e15 / 2.90e12)
    nothing = time_of(stream("nothing", 64, 64), H100)
    assert nothing.bound == "launch"
    assert nothing.time_us == pytest.approx(constant("launch_us"), rel=1e-3)


def test_a_slower_clock_slows_what_is_on_the_sm_and_not_the_memory():
    slow = time_of(replace(TILE, hbm_read=1e6), H100, clock_hz=H100.clock_hz / 2)
    fast = time_of(replace(TILE, hbm_read=1e6), H100)
    assert slow.main_us == pytest.approx(2 * fast.main_us)
    assert slow.hbm_us == fast.hbm_us


def test_the_swapped_tile_reads_less_shared_memory():
    # weights on M = 64 and 256 pixels on N: one instruction reads 64 + 256 rows, not 4 * 64 + 256
    assert tensor_core_reads(64, 256, 128, 64) == 320 * 128
    assert tensor_core_reads(256, 64, 128, 64) == 512 * 128


def test_a_second_cta_feeds_the_tensor_cores_while_the_first_drains_them():
    dry = replace(TILE, drains=4)
    alone, together = (
        {work.drains: time_of(work, H100) for work in (replace(w, resident=resident) for w in (TILE, dry))}
        for resident in (1, 2)
    )
    clocks = TILE.iterations * 4 * constant("drain_clocks") * alone[4].waves
    assert (alone[4].loops_us["mma"] - alone[0].loops_us["mma"]) * H100.clock_of("fp16") / 1e6 == pytest.approx(clocks)
    assert together[4].time_us == together[0].time_us


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_for_the_better_never_costs(change):
    for tier in ("tf32", "fp16"):
        for row in predict(VGG, tier, "h100_sxm", 10):
            if change != "one more CTA a SM":  # sharing can cost: two together finish later than the last alone
                assert row.savings_us[change] >= -1e-9


@dataclass
class Compiled:
    registers: int
    shared_bytes: int


def test_facts_of_the_compiler_refine_occupancy():
    launch = next(item for item in plan(VGG, "fp16", 10) if item.layer == "conv1_2")
    assert from_launch(launch, H100, Compiled(255, 0)).resident == 65536 // (255 * 32 * launch.tile.warps)
    assert from_launch(launch, H100, Compiled(32, 200_000)).resident == 1
    crowded = predict(VGG, "fp16", "h100_sxm", 10, facts=lambda _: Compiled(255, 200_000))
    assert sum(row.time_us for row in crowded) > sum(row.time_us for row in predict(VGG, "fp16", "h100_sxm", 10))


def test_another_tile_is_better_by_what_it_says():
    launches = {launch.layer: launch for launch in reversed(plan(VGG, "fp16", 10))}  # the main one of each layer
    for layer, (tile, saved) in another_tile(VGG, "fp16", "h100_sxm", 10).items():
        rival = next(other for other in other_tiles(launches[layer], H100) if str(other.tile) == tile)
        gain = (
            time_of(from_launch(launches[layer], H100), H100).time_us - time_of(from_launch(rival, H100), H100).time_us
        )
        assert gain == pytest.approx(saved)
        assert saved > 0


def test_a_retiled_launch_does_the_same_work():
    launch = next(item for item in plan(VGG, "fp16", 10) if item.layer == "conv3_2")
    for other in other_tiles(launch, H100):
        assert other.ctas * other.iterations * other.flops_per_iteration >= launch.shape.flops(10)
        assert other.store_bytes / (other.tile.bm * other.tile.bn) == launch.store_bytes / (
            launch.tile.bm * launch.tile.bn
        )
    assert retiled(launch, launch.tile) == launch
    assert other_tiles(plan(VGG, "fp16", 10)[0], H100) == []


def test_occupancy_by_each_limit():
    assert occupancy(100_000, 32, 4, H100) == 2  # shared memory
    assert occupancy(1000, 255, 8, H100) == 1  # registers
    assert occupancy(1000, 16, 16, H100) == 4  # warps
    assert occupancy(0, 16, 1, H100) == 32  # blocks


def test_layers_bound_by_memory_on_the_h100():
    rows = {row.layer: row for row in predict(VGG, "fp16", "h100_sxm", 10)}
    for name in ("conv1_1", "fc6", "fc7"):
        assert rows[name].bound == "hbm"
    assert rows["conv4_2"].bound == "l2"
    assert rows["conv4_2"].waves == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("fp4", "h100_sxm", 1), "fp16x3"), (("fp16", "h100", 1), "h100_pcie"), (("fp16", "h100_sxm", 0), "at least 1")],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        predict(VGG, *arguments)
    assert isinstance(error.value, (UnknownName, ValueError))
