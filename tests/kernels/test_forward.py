"""One forward pass: its workspace is fixed, its launches are the plan's, and no layer leaves another's zeros dirty."""

from contextlib import contextmanager

import pytest
import torch

from vgg_kernels.kernels.forward import Forward
from vgg_kernels.kernels.model import VGG
from vgg_kernels.kernels.plan import plan
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import TIERS, tier
from vgg_kernels.workload.reference import activations

CPU = torch.device("cpu")


def on_meta(table, name, batch, device_key="h100_sxm"):
    return Forward(table, tier(name), batch, torch.device("meta"), device_key, {})


@pytest.fixture(scope="module")
def ran(narrow, alive):
    """A model, two images, the forward that ran them, and its buffers' addresses before it did."""
    model = VGG(narrow, "fp16")
    model.load_state_dict(alive.state_dict())
    x = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    forward, packed = model.prepare(x)
    before = addresses(forward)
    forward.partial.fill_(float("nan"))
    forward.logits.fill_(float("nan"))
    logits = forward.run(x, packed)
    return model, x, forward, before, logits


def addresses(forward):
    tensors = [forward.images, forward.logits, forward.partial, forward.arrived]
    for activation in (*forward.outputs.values(), *forward.unpooled.values()):
        tensors += activation.planes
    return [tensor.data_ptr() for tensor in tensors]


def test_launches_are_the_plans(ran, narrow):
    assert ran[2].launches == plan(narrow, "fp16", 2)


def test_nothing_is_allocated_anew_and_shares_are_read_only_where_written(ran):
    model, x, forward, before, logits = ran
    first = logits.clone()
    assert torch.isfinite(first).all()
    again = forward.run(x, model._packed)
    assert addresses(forward) == before
    assert again is forward.logits
    assert torch.equal(again, first)


def test_every_layer_is_there_to_be_looked_at(ran, narrow, alive):
    _, x, forward, _, _ = ran
    want = activations(alive, narrow, x)
    for name, activation in forward.outputs.items():
        error = (activation.values() - want[name]).norm() / want[name].norm()
        assert error < 3 * tier("fp16").unit_roundoff
    assert list(forward.outputs) == [layer.name for layer in narrow.layers[:-1]]


def test_padding_is_still_zero_behind_the_pass(ran):
    for activation in ran[2].outputs.values():
        if activation.pad:
            for plane in activation.planes:
                assert not plane[:, -1].float().any()
                assert not plane[:, :, -1].float().any()
    assert not ran[2].arrived.any()


@pytest.mark.parametrize("name", TIERS)
def test_the_workspace_holds_every_activation(name):
    table = network("vgg19")
    forward = on_meta(table, name, 10)
    stored = sum(
        10 * conv.output_shape[0] * conv.output_shape[1] * conv.output_shape[2] * tier(name).operand_bytes
        for conv in table.convs
    )
    assert forward.workspace_bytes >= stored + 4 * 10 * (3 * 224 * 224 + 1000)
    assert on_meta(table, name, 20).workspace_bytes > 1.5 * forward.workspace_bytes


def test_scales_reach_the_buffers(narrow):
    forward = Forward(narrow, tier("fp16"), 1, CPU, "h100_sxm", {"conv1_2": 4, "fc6": -3})
    assert forward.outputs["conv1_2"].exponent == 4
    assert forward.outputs["fc6"].exponent == -3
    assert forward.outputs["fc7"].exponent == 0


class _Graph:
    """As much of torch.cuda's graphs as a capture takes, for a machine without a GPU; its capture can break."""

    def __init__(self, monkeypatch, broken):
        self.broken, self.replays, self.streams = broken, 0, []
        for name, value in {
            "CUDAGraph": lambda: self,
            "Stream": lambda device: "side",
            "current_stream": lambda: "before",
            "set_stream": self.streams.append,
            "graph": self.capture,
        }.items():
            monkeypatch.setattr(torch.cuda, name, value)

    @contextmanager
    def capture(self, graph, stream, capture_error_mode):
        assert (graph, stream, capture_error_mode) == (self, "side", "thread_local")
        yield
        if self.broken:
            raise self.broken

    def replay(self):
        self.replays += 1


@pytest.mark.parametrize("error", [RuntimeError("capture was invalidated"), KeyboardInterrupt()], ids=str)
def test_a_capture_that_breaks_keeps_no_graph_and_gives_its_stream_back(ran, monkeypatch, error):
    model, x, *_ = ran
    forward = Forward(model.network, model.tier, 2, CPU, "h100_sxm", {})
    fake = _Graph(monkeypatch, error)
    with pytest.raises(type(error)):
        forward.replay(x, model._packed)
    assert forward.graph is None
    assert fake.streams == ["before"]
    fake.broken = None
    assert torch.equal(forward.replay(x, model._packed), ran[4])
    forward.replay(x, model._packed)
    assert (forward.graph, fake.replays, fake.streams) == (fake, 2, ["before"] * 2)
