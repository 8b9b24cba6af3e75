"""The two devices. What a CUDA device is asked is looked at on a PyTorch that does not exist."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from vgg_kernels.measure.device import WARM_UPS, Cpu, Cuda, _Before


class FakeCuda:
    """``torch.cuda`` of a device that does not exist: one log of what was asked, on which stream."""

    def __init__(self):
        self.log, self.stream_now, self.streams = [], "default", 0

    def current_stream(self):
        return FakeStream(self, self.stream_now)

    def Stream(self):
        self.streams += 1
        return FakeStream(self, f"side {self.streams}")

    def set_stream(self, stream):
        self.stream_now = stream.name

    @contextmanager
    def stream(self, stream):
        before, self.stream_now = self.stream_now, stream.name
        yield
        self.stream_now = before

    def CUDAGraph(self):
        return SimpleNamespace(replay=lambda: self.log.append("replay"))

    @contextmanager
    def graph(self, graph, stream):
        before, self.stream_now = self.stream_now, stream.name
        self.log.append("begin")
        try:
            yield
        except Exception:  # as in PyTorch: the end of a broken capture raises, and the stream is left as it is
            raise RuntimeError("operation failed due to a previous error during capture") from None
        self.log.append("end")
        self.stream_now = before


class FakeStream:
    def __init__(self, cuda, name):
        self.cuda, self.name = cuda, name

    def wait_stream(self, other):
        self.cuda.log.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def machine():
    made = Cuda.__new__(Cuda)
    made._torch = SimpleNamespace(cuda=FakeCuda())
    return made


def test_a_capture_is_warmed_up_on_the_stream_that_captures(machine):
    cuda, streams = machine._torch.cuda, []
    replay = machine.capture(lambda: streams.append(cuda.stream_now) or len(streams))
    assert streams == ["side 1"] * (WARM_UPS + 1)
    assert cuda.log == ["side 1 waits for default", "default waits for side 1", "begin", "end"]
    assert replay() == WARM_UPS + 1
    assert cuda.log[-1] == "replay"
    assert cuda.stream_now == "default"


def test_a_broken_capture_says_what_broke_it_and_gives_the_stream_back(machine):
    cuda, calls = machine._torch.cuda, []

    def call():
        calls.append(1)
        if len(calls) > WARM_UPS:
            raise RuntimeError("a synchronisation is not permitted while a stream captures")

    with pytest.raises(RuntimeError, match="a synchronisation is not permitted"):
        machine.capture(call)
    assert cuda.stream_now == "default"


def test_the_hook_that_do_bench_is_handed_runs_when_it_clears_gradients():
    fed = []
    parameter = _Before(lambda: fed.append(1))
    parameter.grad = None
    assert fed == [1]
    assert parameter.grad is None


def test_the_hosts_clock_goes_forward():
    cpu = Cpu()
    before = cpu.now()
    cpu.synchronize()
    cpu.release()
    assert cpu.now() >= before
