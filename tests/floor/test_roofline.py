import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from vgg_kernels.floor.algorithms import ALGORITHMS
from vgg_kernels.floor.hardware import devices
from vgg_kernels.floor.rates import Rates
from vgg_kernels.floor.roofline import FUSIONS, floor_us, impossible, layer_floors, lowest, total_us, turning_batch
from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import TIERS
from vgg_kernels.workload.reference import Reference

VGG = network("vgg19")
BATCHES = st.integers(1, 256)


@pytest.mark.parametrize("name", ["vgg11", "vgg13", "vgg16", "vgg19"])
@pytest.mark.parametrize("batch", [1, 10])
def test_operations_agree_with_torch_layer_by_layer(name, batch):
    table = network(name)
    with torch.device("meta"):
        module, x = Reference(table), torch.empty(batch, 3, table.image, table.image)
    with FlopCounterMode(display=False) as counter:
        module(x)
    assert counter.get_total_flops() == table.flops(batch)
    counts = counter.get_flop_counts()
    for row in layer_floors(table, "fp32", "h100_sxm", batch):
        key = f"Reference.{table.layer(row.layer).key}"
        assert sum(counts[key].values()) == row.flops


@pytest.mark.parametrize(
    ("tier", "us", "within"), [("fp32", 6000, 20), ("fp16x3", 1370, 5), ("tf32", 973, 1), ("fp16", 488, 1),
                               ("bf16", 488, 1), ("fp8", 245, 2)]
)  # fmt: skip
def test_stagewise_floors_on_the_h100_sxm(tier, us, within):
    assert floor_us(VGG, tier, "h100_sxm", 10) == pytest.approx(us, abs=within)


def test_one_layer_by_hand():
    row = layer_floors(VGG, "fp16", "h100_sxm", 10)[3]  # conv2_2: 128 -> 128 at 112 x 112, pooled to 56 x 56
    assert row.flops == 2 * 10 * 112 * 112 * 128 * 128 * 9
    assert row.bytes == 2 * (10 * 128 * (112 * 112 + 56 * 56) + 128 * 128 * 9) + 4 * 128
    assert row.floor_us == pytest.approx(1e6 * row.flops / 989.4e12)
    assert row.bound == "arithmetic"


def test_the_ends_of_the_network_are_fp32_in_every_tier():
    first, *_, last = layer_floors(VGG, "fp8", "h100_sxm", 10, fusion="perfect")
    assert first.bytes == 4 * 10 * 3 * 224 * 224 + 27 * 64 + 4 * 64
    assert last.bytes == 4 * 10 * 1000 + 4096 * 1000 + 4 * 1000


def test_activations_that_fit_l2_stay_there():
    through = {row.layer: row.bytes for row in layer_floors(VGG, "fp16", "h100_sxm", 10)}
    within = {row.layer: row.bytes for row in layer_floors(VGG, "fp16", "h100_sxm", 10, fusion="l2")}
    assert within["conv1_2"] == through["conv1_2"] - 2 * 10 * 64 * 112**2  # 64 MB in, 16 MB out: only the latter fits
    assert within["conv4_2"] == 2 * 9 * 512 * 512 + 4 * 512  # nothing but weights and biases
    assert within["conv1_1"] == through["conv1_1"]  # the network's input always comes from HBM


def test_first_layer_and_classifier_are_bound_by_memory_at_batch_10():
    for tier in ("tf32", "fp16"):
        bounds = {row.layer: row.bound for row in layer_floors(VGG, tier, "h100_sxm", 10)}
        assert {name for name, bound in bounds.items() if bound == "hbm"} == {"conv1_1", "fc6", "fc7", "fc8"}


@settings(deadline=None, max_examples=50)
@given(
    batch=BATCHES,
    tier=st.sampled_from(sorted(TIERS)),
    device=st.sampled_from(sorted(devices())),
    algorithm=st.sampled_from(sorted(ALGORITHMS)),
)
def test_more_fusion_never_costs_more_and_more_images_never_less(batch, tier, device, algorithm):
    def us(batch, fusion):
        return floor_us(VGG, tier, device, batch, algorithm=algorithm, fusion=fusion)

    assert us(batch, "perfect") <= us(batch, "l2") * (1 + 1e-12)
    assert us(batch, "l2") <= us(batch, "layerwise") * (1 + 1e-12)
    assert us(batch, "layerwise") < us(batch + 1, "layerwise")


@settings(deadline=None, max_examples=30)
@given(batch=BATCHES, tier=st.sampled_from(sorted(TIERS)), device=st.sampled_from(sorted(devices())))
def test_what_is_flagged_is_under_every_named_floor(batch, tier, device):
    bar = max(lowest(VGG, tier, device, batch))
    for algorithm in ALGORITHMS:
        for fusion in FUSIONS:
            assert bar <= floor_us(VGG, tier, device, batch, algorithm=algorithm, fusion=fusion, rates="highest-clock")
    assert impossible(1.001e-3 * bar, VGG, tier, device, batch) is None
    assert tier in impossible(0.999e-3 * bar, VGG, tier, device, batch)


def test_the_public_record_is_possible_and_its_tenth_is_not():
    assert impossible(2.43, VGG, "fp32", "h100_sxm", 10) is None
    assert "MHz" in impossible(0.243, VGG, "fp32", "h100_sxm", 10)
    assert "TB/s" in impossible(0.05, VGG, "fp16", "h100_sxm", 1)


@pytest.mark.parametrize("time_ms", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_that_is_no_time_is_refused(time_ms):
    with pytest.raises(ValueError, match="is not accepted"):
        impossible(time_ms, VGG, "fp16", "h100_sxm", 10)


def test_perfect_fusion_overlaps_stages():
    rows = layer_floors(VGG, "tf32", "h100_sxm", 10, fusion="perfect")
    assert total_us(rows, "perfect") == max(sum(r.arithmetic_us for r in rows), sum(r.traffic_us for r in rows))
    assert total_us(rows, "perfect") < total_us(rows, "layerwise")


def test_rates_of_your_own():
    mine = Rates("measured", {"fp16": 700e12}, 3.0e12, {})
    assert floor_us(VGG, "fp16", "h100_sxm", 10, rates=mine) > floor_us(VGG, "fp16", "h100_sxm", 10)
    with pytest.raises(UnknownName, match="measured"):
        floor_us(VGG, "tf32", "h100_sxm", 10, rates=mine)


def test_where_layers_turn_from_memory_to_arithmetic():
    assert turning_batch(VGG, "fp16", "h100_sxm", "conv5_1") == 2  # one image has too few pixels for its weights
    assert turning_batch(VGG, "fp16", "h100_sxm", "conv1_1") is None  # 27 products a written number, at any batch
    assert turning_batch(VGG, "fp32", "h100_sxm", "fc6") == 41


@pytest.mark.parametrize("wrong", [{"tier": "fp4"}, {"device": "h100"}, {"algorithm": "strassen"}, {"fusion": "cold"}])
def test_unknown_names_are_refused_with_the_known_ones(wrong):
    named = {"tier": "fp16", "device": "h100_sxm", "batch": 10, **wrong}
    with pytest.raises(UnknownName, match="accepted"):
        layer_floors(VGG, **named)


@pytest.mark.parametrize("batch", [0, -3])
def test_no_images_no_floor(batch):
    with pytest.raises(ValueError, match="at least 1"):
        layer_floors(VGG, "fp16", "h100_sxm", batch)
