import numpy as np
import pytest
import torch

from vgg_kernels.emulator.memory import GlobalMemory, TensorMap
from vgg_kernels.emulator.ptx import EmulationError

META = {"elem_size": 4, "block_size": [4, 8], "swizzle": 1}


@pytest.fixture
def tensor():
    return torch.arange(6 * 8, dtype=torch.float32).view(6, 8)


def boxes(tensor, **changed):
    return TensorMap(tensor, tensor.shape, tensor.stride(), META | changed, GlobalMemory())


def test_boxes_are_cut_and_zero_outside(tensor):
    made = boxes(tensor)
    assert np.array_equal(made.read((1, 0)).view("f4"), tensor[1:5].numpy())
    low = made.read((4, 0)).view("f4")
    assert np.array_equal(low[:2], tensor[4:].numpy())
    assert not low[2:].any()
    assert not made.read((-4, 0)).any()
    assert not made.read((0, 8)).any()


def test_what_lies_outside_is_not_written(tensor):
    made, before = boxes(tensor), tensor.clone()
    assert made.write((4, 4), np.ones((4, 8), "f4").view("u4")) == 2 * 4 * 4
    assert bool((tensor[4:, 4:] == 1).all())
    assert torch.equal(tensor[:4], before[:4])
    assert torch.equal(tensor[4:, :4], before[4:, :4])


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"block_size": [4, 16]}, "swizzle"),
        ({"block_size": [257, 8]}, "box must be 1 to 256"),
        ({"block_size": [4, 3]}, "multiples of 16 bytes"),
        ({"elem_size": 2}, "element size"),
        ({"block_size": [1, 4, 8]}, "rank"),
    ],
)
def test_the_drivers_rules(tensor, changed, rule):
    with pytest.raises(EmulationError, match=rule):
        boxes(tensor, **changed)


def test_strides_and_bases_are_multiples_of_16_bytes(tensor):
    with pytest.raises(EmulationError, match="strides"):
        boxes(torch.zeros(6, 9)[:, :8])
    with pytest.raises(EmulationError, match="base"):
        boxes(torch.zeros(100)[1:49].view(6, 8))
    with pytest.raises(EmulationError, match="innermost"):
        boxes(torch.zeros(8, 64)[:, ::2])


def test_an_access_outside_of_every_tensor_is_named(tensor):
    memory = GlobalMemory()
    memory.add(tensor)
    inside = np.array([tensor.data_ptr(), tensor.data_ptr() + 4])
    assert memory.load(inside, np.float32, 1, "load").tolist() == [[0, 1]]
    with pytest.raises(EmulationError, match=r"4 bytes at .* lie in no tensor"):
        memory.load(inside + tensor.nbytes - 4, np.float32, 1, "load")
    with pytest.raises(EmulationError, match="not a multiple"):
        memory.load(inside + 2, np.float32, 1, "load")
