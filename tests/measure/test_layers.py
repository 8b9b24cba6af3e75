"""Our layers one by one, in Triton's interpreter on the CPU: which work is timed, and that it was done."""

import pytest

from vgg_kernels.measure.layers import layer_calls
from vgg_kernels.measure.variants import OURS
from vgg_kernels.workload.network import network
from vgg_kernels.workload.weights import reference

TABLE = network("vgg11", image=32, classes=10)
BOUND = OURS[0].bound


@pytest.fixture(scope="module")
def module():
    return reference(TABLE)


@pytest.fixture(scope="module")
def found(module):
    return {call.layer: call for call in layer_calls(module, "fp16", batch=1)}


def test_every_layer_is_a_subject(found):
    assert list(found) == [layer.name for layer in TABLE.layers]


@pytest.mark.parametrize("layer", ["conv1_1", "conv2_1"])
def test_a_layer_timed_by_itself_computes_that_layer(found, module, layer):
    call = found[layer]
    call.feed()
    call.call()
    call.repeat()
    check = call.check(module, BOUND)
    assert check.passed, check
    assert check.worst > 0


def test_a_layer_that_was_not_launched_is_caught(found, module):
    call = found["conv2_1"]
    call.feed()
    call.call()
    call.feed()  # new images reach the layer's input; its own output stays that of the older ones
    call.repeat()
    check = call.check(module, BOUND)
    assert not check.passed
    assert check.mistaken == 1


def test_what_is_timed_is_the_layers_own_launches(found, monkeypatch):
    call, launched = found["fc6"], []
    monkeypatch.setattr(call._forward, "launch", lambda launch, *_: launched.append(launch.layer))
    call.call()
    assert launched
    assert set(launched) == {"fc6"}
    launched.clear()
    call.feed()
    assert "fc6" not in launched
    assert launched[0] == "conv1_1"
