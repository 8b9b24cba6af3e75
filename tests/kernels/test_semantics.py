"""The workload's semantics, held by our implementation: the page names each of these tests beside its property."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from vgg_kernels.kernels.model import VGG
from vgg_kernels.workload.inputs import draw


@dataclass(frozen=True)
class Calls:
    """Two calls of one model, and copies of everything that they were given (a call is dear in the interpreter)."""

    model: VGG
    state: dict[str, Tensor]
    first: Tensor
    first_given: Tensor
    logits: Tensor
    logits_then: Tensor
    second: Tensor
    second_logits: Tensor


@pytest.fixture(scope="module")
def model(narrow, alive):
    made = VGG(narrow, tier="fp16")
    made.load_state_dict(alive.state_dict())
    return made


@pytest.fixture(scope="module")
def x(narrow):
    return draw(narrow, batch=2, kind="normal", seed=1)


@pytest.fixture(scope="module")
def calls(model, x):
    """The second call's first image holds a NaN pixel; its second image is that of the first call."""
    given, state = x.clone(), {name: value.clone() for name, value in model.state_dict().items()}
    logits = model(x)
    then = logits.clone()
    spoilt = x.clone()
    spoilt[0, 1, 5, 7] = float("nan")
    return Calls(model, state, x, given, logits, then, spoilt, model(spoilt))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda x: x.double(), "torch.float64"),
        (lambda x: x[0], r"\[3, 16, 16\]"),
        (lambda x: x[:, :1], r"\[2, 1, 16, 16\]"),
        (lambda x: x[:, :, :8], r"\[2, 3, 8, 16\]"),
        (lambda x: x[:0], r"\[0, 3, 16, 16\]"),
        (lambda x: x.numpy(), "ndarray"),
    ],
    ids=["dtype", "rank", "channels", "size", "empty", "type"],
)
def test_another_input_is_a_clear_error(model, x, spoil, said):
    with pytest.raises(ValueError, match=rf"{said}.*accepted: float32 \[N >= 1, 3, 16, 16\]"):
        model(spoil(x))


def test_outputs_are_fp32_logits_of_every_image(calls, narrow):
    assert calls.logits.dtype == torch.float32
    assert calls.logits.shape == (2, narrow.classes)
    assert calls.logits.device == calls.first.device
    assert torch.isfinite(calls.logits).all()


def test_each_image_depends_on_itself_alone(calls):
    assert torch.equal(calls.logits[1], calls.second_logits[1])  # its neighbour changed, it did not
    assert not torch.allclose(calls.logits[0], calls.logits[1], rtol=1e-2)


def test_the_same_image_gives_the_same_bits_call_after_call(calls):
    assert torch.equal(calls.first[1], calls.second[1])
    assert calls.logits[1].numpy().tobytes() == calls.second_logits[1].numpy().tobytes()


def test_neither_input_nor_parameters_are_changed(calls):
    assert torch.equal(calls.first, calls.first_given)
    now = calls.model.state_dict()
    assert now.keys() == calls.state.keys()
    assert all(torch.equal(value, calls.state[name]) for name, value in now.items())


def test_an_output_survives_the_next_call(calls):
    assert torch.equal(calls.logits, calls.logits_then)
    addresses = {t.untyped_storage().data_ptr() for t in (calls.first, calls.second, calls.logits, calls.second_logits)}
    assert len(addresses) == 4


def test_a_nan_pixel_reaches_its_own_image_only(calls):
    assert torch.isnan(calls.second_logits[0]).all()
    assert torch.isfinite(calls.second_logits[1]).all()
