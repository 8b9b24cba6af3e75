"""The plan: every layer once and in order, its arithmetic and its bytes what the layer table says."""

from itertools import pairwise

import pytest

from vgg_kernels.floor.hardware import device
from vgg_kernels.kernels import tiles
from vgg_kernels.kernels.plan import MAX_ROWS, plan
from vgg_kernels.kernels.tiles import Tile
from vgg_kernels.workload.network import Conv, network
from vgg_kernels.workload.precision import TIERS, tier

PRODUCTS = ("stem", "conv3x3", "linear")


@pytest.mark.parametrize("name", ["vgg11", "vgg19"])
@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize("precision", TIERS)
def test_layers_come_once_and_in_order(name, batch, precision):
    table = network(name)
    launches = plan(table, precision, batch)
    assert [launch.layer for launch in launches if launch.kernel in PRODUCTS] == [x.name for x in table.layers]
    assert launches[0].kernel == "stem"
    for before, after in pairwise(launches):
        if after.kernel in ("reduce", "maxpool"):  # behind its own convolution, of which it reads what was written
            assert before.layer == after.layer
            assert after.hbm_read_bytes == before.hbm_write_bytes
            assert (after.kernel == "reduce") == (before.tile.split_k > 1)
        elif before.kernel == "conv3x3":
            assert before.tile.split_k == 1
            assert not before.shape.pooled or before.tile.box is not None


@pytest.mark.parametrize("precision", TIERS)
def test_the_launched_arithmetic_covers_the_layers(precision):
    """No less than the layer's operations; with padding not half as much again where tiles may be flat (fp32's may not:
    its boxes of 14 x 14 pixels of ten images overhang)."""
    table = network("vgg19")
    for launch in plan(table, precision, 10):
        if launch.kernel not in PRODUCTS:
            assert launch.flops_per_iteration == 0
            continue
        launched = launch.ctas * launch.iterations * launch.flops_per_iteration
        asked = launch.shape.flops(10) * tier(precision).products
        assert launched >= asked
        if launch.kernel == "conv3x3":
            assert launched <= (2.1 if precision == "fp32" else 1.5) * asked


def test_compulsory_bytes_are_those_of_the_arrays():
    table = network("vgg19")
    by_layer = {launch.layer: launch for launch in plan(table, "fp16", 10) if launch.kernel in PRODUCTS}
    assert by_layer["conv1_1"].hbm_read_bytes == 6_021_120  # the images, as the public floor counts them
    assert by_layer["conv1_1"].hbm_write_bytes == 10 * 225 * 225 * 64 * 2
    assert by_layer["fc6"].hbm_read_bytes == (25088 * 4096 + 4096 + 10 * 25088) * 2
    assert by_layer["fc8"].hbm_write_bytes == 10 * 1000 * 4


def test_only_the_last_convolution_is_dense():
    for launch in plan(network("vgg19"), "fp16", 10):
        if isinstance(launch.shape, Conv):
            assert launch.pad == (0 if launch.layer == "conv5_4" else 1)


def test_l2_is_asked_what_the_formula_says():
    card = device("h100_sxm")
    flops_per_clock = card.peaks["fp16"] / (card.sms * card.clock_hz)
    for launch in plan(network("vgg19"), "fp16", 10):
        asked = launch.l2_bytes_per_clock(card)
        if launch.kernel != "conv3x3":
            continue
        tile: Tile = launch.tile
        pixels, weights = (2, 3) if tile.pairs else (1, 1)  # rows that a step loads, of its taps' products
        operands = (pixels / tile.bn + weights / tile.bm) / (3 if tile.pairs else 1)
        assert asked == pytest.approx(flops_per_clock * operands)
        assert launch.bytes_in_flight == (tile.stages - 1) * tiles.load_bytes(tile, tier("fp16"))
    assert launch.shape.name == "fc8"
    reducing = [x for x in plan(network("vgg19"), "fp16", 10) if x.kernel in ("reduce", "maxpool")]
    assert all(x.l2_bytes_per_clock(card) is None for x in reducing)


def test_a_batch_past_32_bit_coordinates_is_refused():
    table = network("vgg19")
    most = MAX_ROWS // (225 * 225)
    assert plan(table, "fp16", most)[0].batch == most
    with pytest.raises(ValueError, match=rf"batch {most + 1} has \d+ rows of pixels.*at most {most} images at once"):
        plan(table, "fp16", most + 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fp16", 0), "batch 0 is not accepted: at least 1"),
        (("fp16", -3), "batch -3 is not accepted"),
        (("int4", 1), "unknown tier 'int4'; accepted: fp32, fp16x3"),
        (("fp16", 1, "gtx1080"), "unknown device 'gtx1080'.*h100_sxm"),
    ],
)
def test_bad_input_is_named(arguments, said):
    with pytest.raises(ValueError, match=said):
        plan(network("vgg11"), *arguments)
