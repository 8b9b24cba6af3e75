"""The layer table: its counts against published ones and against torch's modules, and what it refuses."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.network import CONVS_PER_BLOCK, infer, network
from vgg_kernels.workload.reference import Reference

NAMES = sorted(CONVS_PER_BLOCK)
PUBLISHED = {"vgg11": 132_863_336, "vgg13": 133_047_848, "vgg16": 138_357_544, "vgg19": 143_667_240}  # torchvision's


def on_meta(table):
    with torch.device("meta"):
        return Reference(table)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_the_published_count_and_that_of_the_module(name):
    table = network(name)
    assert table.parameters == PUBLISHED[name] == sum(p.numel() for p in on_meta(table).parameters())


@pytest.mark.parametrize("name", NAMES)
def test_shapes_are_the_state_dict_in_its_order(name):
    table = network(name, image=64, classes=7)
    state = {key: tuple(value.shape) for key, value in on_meta(table).state_dict().items()}
    assert list(table.shapes().items()) == list(state.items())


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(NAMES), st.integers(1, 9), st.integers(1, 2000))
def test_each_layer_reads_what_the_one_before_it_wrote(name, blocks, classes):
    table = network(name, image=32 * blocks, classes=classes)
    assert table.layers[0].input_shape == (3, 32 * blocks, 32 * blocks)
    for before, after in pairwise(table.layers):
        flattened = len(after.input_shape) < len(before.output_shape)
        written = torch.Size(before.output_shape).numel()
        assert after.input_shape == ((written,) if flattened else before.output_shape)
    assert table.layers[-1].output_shape == (classes,)


@given(st.integers(1, 1000))
def test_operations_grow_with_the_batch_alone(batch):
    table = network("vgg19")
    assert table.flops(batch) == batch * table.flops(1)


def test_the_public_problem_is_392_6_gflop():
    assert network("vgg19").flops(10) == 392_641_249_280


def test_layers_are_named_by_block_and_keyed_as_torchvision():
    table = network("vgg19")
    assert [conv.name for conv in table.convs[-4:]] == ["conv5_1", "conv5_2", "conv5_3", "conv5_4"]
    assert [conv.key for conv in table.convs][-1] == "features.34"
    assert [linear.key for linear in table.linears] == ["classifier.0", "classifier.3", "classifier.6"]
    assert table.layer("fc7").features_in == 4096


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: network("resnet50"), "unknown network 'resnet50'; accepted: vgg11, vgg13, vgg16, vgg19"),
        (lambda: network("vgg19", image=225), "image size 225 is not accepted: a positive multiple of 32"),
        (lambda: network("vgg19", image=0), "image size 0"),
        (lambda: network("vgg19", image=-32), "image size -32"),
        (lambda: network("vgg19", classes=0), "0 classes are not accepted"),
        (lambda: network("vgg11").layer("conv3_3"), "unknown layer 'conv3_3'; accepted: conv1_1, .*fc8"),
    ],
)
def test_what_is_no_vgg_is_a_clear_error(ask, said):
    with pytest.raises(ValueError, match=said):
        ask()


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(NAMES), st.integers(1, 9), st.integers(1, 2000))
def test_a_network_is_inferred_from_its_shapes(name, blocks, classes):
    table = network(name, image=32 * blocks, classes=classes)
    assert infer(table.shapes()) == table


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.clear(), "0 convolutions.* fits no VGG; accepted: vgg11 with 8 convolutions"),
        (lambda s: s.pop("classifier.3.bias"), r"classifier.3.bias: missing, accepted \(4096,\)"),
        (lambda s: s.update({"features.0.weight": (64, 1, 3, 3)}), r"\(64, 1, 3, 3\), accepted \(64, 3, 3, 3\)"),
        (lambda s: s.update({"classifier.0.weight": (4096, 700)}), r"\(4096, 700\), accepted \(4096, 512\)"),
        (lambda s: s.update({"norm.weight": (3,)}), "norm.weight: unexpected"),
        (lambda s: s.update({"features.99.weight": (3,)}), "9 convolutions"),
    ],
)
def test_shapes_that_fit_no_network_are_named(change, said):
    shapes = network("vgg11", image=32).shapes()
    change(shapes)
    with pytest.raises(ValueError, match=said):
        infer(shapes)


def test_an_unknown_layer_is_an_unknown_name():
    with pytest.raises(UnknownName):
        network("vgg11").layer("stem")
