"""Naming what is wrong, and where."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from vgg_kernels.evidence.emulation import Emulation
from vgg_kernels.evidence.localise import by_layer, ranges, where_wrong
from vgg_kernels.workload.inputs import draw
from vgg_kernels.workload.precision import tier
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


def test_a_wrong_layer_does_not_blame_the_ones_behind_it(tiny_network):
    model = reference(tiny_network, "kaiming", 0)
    x = draw(tiny_network, 2, "normal", 0)
    trace = Emulation(model, "fp16").trace(x)
    assert all(r.passed and not r.where for r in by_layer(model, tiny_network, tier("fp16"), x, trace))
    broken = dict(trace)
    broken["conv2"] = trace["conv2"] + 1
    results = {r.layer: r for r in by_layer(model, tiny_network, tier("fp16"), x, broken)}
    assert [name for name, r in results.items() if not r.passed] == ["conv2", "conv3"]  # its output, and its reader


def test_nan_is_beyond_every_budget(tiny_network):
    model = reference(tiny_network, "kaiming", 0)
    x = draw(tiny_network, 2, "normal", 0)
    trace = Emulation(model, "fp16").trace(x)
    trace["fc8"] = trace["fc8"].index_fill(0, torch.tensor(1), float("nan"))
    last = by_layer(model, tiny_network, tier("fp16"), x, trace)[-1]
    assert last.relative_error == float("inf")
    assert last.where == "image 1"
