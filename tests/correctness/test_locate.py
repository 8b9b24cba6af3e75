"""Naming what is wrong, and where."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vgg_kernels.correctness.emulation import Emulation
from vgg_kernels.correctness.error_bounds import KAPPA, layer_fp64, position_errors
from vgg_kernels.correctness.images import mixed
from vgg_kernels.correctness.locate import per_layer_errors, ranges, where_wrong
from vgg_kernels.workload.inputs import draw
from vgg_kernels.workload.precision import TIERS, tier
from vgg_kernels.workload.weights import reference


def test_ranges_read_as_a_human_would_write_them():
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    assert ranges([]) == ""


@given(st.sets(st.integers(0, 40)))
def test_ranges_lose_nothing(indices):
    found = set()
    for part in filter(None, ranges(indices).split(", ")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    assert found == indices


def test_where_names_every_axis():
    wrong = torch.zeros(3, 8, 6, dtype=torch.bool)
    wrong[1, 6:, :] = True
    assert where_wrong(wrong) == "image 1, rows 6-7, columns 0-5 (all)"
    assert where_wrong(torch.zeros(2, dtype=torch.bool)) == ""
    assert where_wrong(torch.ones(1, dtype=torch.bool)) == "image 0"


def test_a_wrong_layer_does_not_fail_the_ones_after_it(tiny_network):
    model = reference(tiny_network, "kaiming", 0)
    x = draw(tiny_network, 2, "normal", 0)
    trace = Emulation(model, "fp16").trace(x)
    assert all(r.passed and not r.where for r in per_layer_errors(model, tiny_network, tier("fp16"), x, trace))
    broken = dict(trace)
    broken["conv2"] = trace["conv2"] + 1
    results = {r.layer: r for r in per_layer_errors(model, tiny_network, tier("fp16"), x, broken)}
    assert [name for name, r in results.items() if not r.passed] == ["conv2", "conv3"]  # its output, and its reader


@pytest.mark.parametrize("name", TIERS)
@pytest.mark.parametrize("seed", [21802739, 3])  # the first: a bright corner whose sums all but cancel
def test_no_position_of_a_right_layer_is_called_wrong_and_one_wrong_pixel_is(tiny_network, name, seed):
    model = reference(tiny_network, "kaiming", seed + 1)
    x = mixed(tiny_network, 3, seed)
    trace = Emulation(model, name).trace(x)
    right = per_layer_errors(model, tiny_network, tier(name), x, trace)
    assert all(0.1 < r.relative_error / r.error_bound <= 1 for r in right[:3]), right
    assert all(r.passed for r in right), right
    trace["conv1"] = trace["conv1"].clone()
    trace["conv1"][1, :, 20, 30] *= 1 + 12 * right[0].error_bound
    first = per_layer_errors(model, tiny_network, tier(name), x, trace)[0]
    assert first.where == "image 1, row 20, column 30"


def test_a_kernel_may_round_its_output_for_the_next_layer(tiny_network):
    model = reference(tiny_network, "kaiming", 4)
    x = mixed(tiny_network, 3, 4)
    emulation, trace, y = Emulation(model, "fp16"), {}, x
    for layer in tiny_network.layers:
        y = emulation.layer(layer, y)
        y = y if layer is tiny_network.layers[-1] else y.half().float()
        trace[layer.name] = y
    assert all(r.passed for r in per_layer_errors(model, tiny_network, tier("fp16"), x, trace))


def test_the_last_layers_output_is_not_rounded(tiny_network):
    """Logits are fp32, of a copy of the network too: only the operands' rounding is expected of them."""
    model = reference(tiny_network, "kaiming", 4)
    last, hidden = tiny_network.layers[-1], torch.rand(3, 128, generator=torch.Generator().manual_seed(4))
    want, _ = layer_fp64(last, model, hidden)
    products = hidden.double().square() @ model.classifier[6].weight.double().square().T
    rounded = KAPPA * 2.0**-11 * (2 * products.sum(dim=1, keepdim=True)).sqrt()
    for network in (model, copy.deepcopy(model)):
        assert torch.allclose(position_errors(last, tier("fp16"), network, hidden, want), rounded, rtol=1e-3)


def test_a_layer_of_zeros_that_should_be_zeros_is_right(tiny_network):
    model = reference(tiny_network, "kaiming", 5)
    with torch.no_grad():
        model.get_parameter("features.0.weight").zero_()
        model.get_parameter("features.0.bias").zero_()
    x = mixed(tiny_network, 3, 5)
    trace = Emulation(model, "fp16").trace(x)
    assert per_layer_errors(model, tiny_network, tier("fp16"), x, trace)[0].passed
    trace["conv1"] = trace["conv1"].index_fill(0, torch.tensor(2), 1e-30)
    assert per_layer_errors(model, tiny_network, tier("fp16"), x, trace)[0].where.startswith("image 2, ")


def test_nan_is_beyond_every_bound(tiny_network):
    model = reference(tiny_network, "kaiming", 0)
    x = draw(tiny_network, 2, "normal", 0)
    trace = Emulation(model, "fp16").trace(x)
    trace["fc8"] = trace["fc8"].index_fill(0, torch.tensor(1), float("nan"))
    last = per_layer_errors(model, tiny_network, tier("fp16"), x, trace)[-1]
    assert last.relative_error == float("inf")
    assert last.where == "image 1"
