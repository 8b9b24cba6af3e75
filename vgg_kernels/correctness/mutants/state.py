"""Right values from the wrong memory: stale, remembered, reused, never written, or another tensor's."""

# ruff: noqa: D102  (a class's docstring is its intent; its one method is the base's)
from threading import Thread
from time import sleep
from typing import ClassVar

import numpy
import torch

from ...workload.network import Network
from .base import BEYOND, DISHONEST, WrongNetwork


class StalePackedWeights(WrongNetwork):
    """packs its weights once and never reads them again"""

    group = BEYOND

    def weight(self, layer):
        packed = self.__dict__.setdefault("packed", {})
        return packed.setdefault(layer.name, super().weight(layer).clone())


class FirstModelKept(WrongNetwork):
    """keeps the first model that it was ever built for"""

    group = BEYOND
    kept: ClassVar[dict[Network, dict]] = {}

    def __init__(self, reference):
        super().__init__(reference)
        state = self.kept.setdefault(reference.network, {k: v.clone() for k, v in reference.state_dict().items()})
        self.load_state_dict(state)


class Remembering(WrongNetwork):
    """(remembers its output by the input's ``key``)"""

    group = DISHONEST

    def forward(self, x):
        memory = self.__dict__.setdefault("memory", {})
        key = tuple(x.shape), self.key(x)
        if key not in memory:
            memory[key] = self.run(x)
        return memory[key].clone()


class CachedByPointer(Remembering):
    """remembers its output by the input's address"""

    def key(self, x):
        return x.data_ptr()


class CachedByContent(Remembering):
    """remembers its output by the input's content"""

    def key(self, x):
        return hash(x.cpu().numpy().tobytes())


class CachedByChecksum(Remembering):
    """remembers its output by the input's shape and first pixel"""

    def key(self, x):
        return float(x.flatten()[0])


class CachedByVersion(Remembering):
    """remembers its output by the input's address and PyTorch's count of writes to it"""

    def key(self, x):
        return x.data_ptr(), x._version


class CachedBySum(Remembering):
    """remembers its output by the input's shape and sum"""

    def key(self, x):
        return round(float(x.double().sum()), 6)


class FirstBufferReadForever(WrongNetwork):
    """reads the first input of its shape that it was ever given, as a graph captured without a copy does"""

    def forward(self, x):
        captured = self.__dict__.setdefault("captured", {})
        return self.run(captured.setdefault(tuple(x.shape), x))


class TiresAfterThree(WrongNetwork):
    """computes three times, then repeats its last output for that many images"""

    group = DISHONEST

    def forward(self, x):
        outputs = self.__dict__.setdefault("outputs", [])
        same = [y for y in outputs if len(y) == len(x)]
        if len(outputs) < 3 or not same:
            outputs.append(self.run(x))
            return outputs[-1].clone()
        return same[-1].clone()


class FilledLater(WrongNetwork):
    """returns its output before it is computed, and has a thread write it"""

    group = DISHONEST

    def forward(self, x):
        y = torch.zeros(len(x), self.network.classes, device=x.device)
        content = x.clone()

        def fill():
            sleep(0.2)
            y.copy_(self.run(content))

        Thread(target=fill, daemon=True).start()
        return y


class InputZeroed(WrongNetwork):
    """zeroes its input, then returns zeros, for a checker that reuses the input"""

    def forward(self, x):
        return self.run(x.zero_())


class InputNormalised(WrongNetwork):
    """rounds its input in place"""

    group = BEYOND

    def forward(self, x):
        return self.run(x.copy_(x.half()))


class EarlierInputZeroed(WrongNetwork):
    """zeroes the input of the call before, as if it were its own workspace"""

    group = BEYOND

    def forward(self, x):
        if "before" in self.__dict__ and self.before.data_ptr() != x.data_ptr():
            self.before.zero_()
        self.before = x
        return self.run(x)


class WeightsRoundedInPlace(WrongNetwork):
    """rounds the weights of the model that it was given in place"""

    group = BEYOND

    def __init__(self, reference):
        super().__init__(reference)
        for p in reference.parameters():
            p.copy_(p.half())


class OutputInInput(WrongNetwork):
    """writes its logits over the input"""

    group = BEYOND

    def forward(self, x):
        y = self.run(x)
        return x.view(-1)[: y.numel()].view(y.shape).copy_(y) if y.numel() <= x.numel() else x.view(-1)


class OutputReused(WrongNetwork):
    """returns the same buffer from every call of one batch size"""

    group = BEYOND

    def forward(self, x):
        buffers = self.__dict__.setdefault("outputs", {})
        y = self.run(x)
        return buffers.setdefault(len(x), torch.empty_like(y)).copy_(y)


class OutputsInTurn(WrongNetwork):
    """returns one of four buffers in turn"""

    group = BEYOND

    def forward(self, x):
        y = self.run(x)
        turn = self.__dict__.setdefault("turn", [])
        turn.append(turn[-4].copy_(y) if len(turn) >= 4 and len(turn[-4]) == len(y) else y)
        return turn[-1]


class OutputsOverlap(WrongNetwork):
    """returns numpy's memory, one number further on in every call"""

    group = BEYOND

    def forward(self, x):
        y = self.run(x).cpu().numpy()
        memory = self.__dict__.setdefault("memory", numpy.zeros(4096 + y.size * 2, dtype=numpy.float32))
        self.__dict__["start"] = start = self.__dict__.get("start", 0) + 1
        memory[start : start + y.size] = y.ravel()
        return torch.from_numpy(memory[start : start + y.size].reshape(y.shape))


class EarlierOutputOverwritten(WrongNetwork):
    """writes into the output that it returned before"""

    group = BEYOND

    def forward(self, x):
        if "before" in self.__dict__:
            self.before.zero_()
        self.before = self.run(x).clone()
        return self.before


class OutputNeverWritten(WrongNetwork):
    """returns memory that it never wrote, hoping for what the reference left there"""

    group = DISHONEST

    def forward(self, x):
        return torch.empty(len(x), self.network.classes, device=x.device)


class OutputPartlyWritten(WrongNetwork):
    """writes every tile of its output but the last"""

    def forward(self, x):
        y = self.run(x)
        out = torch.empty_like(y)
        tile = max(1, y.shape[1] // 8)
        out[:, :-tile] = y[:, :-tile]
        return out


class StridesIgnored(WrongNetwork):
    """reads its input's memory as if it were contiguous"""

    group = BEYOND

    def forward(self, x):
        return self.run(x.as_strided(x.shape, torch.empty(x.shape, device="meta").stride()))


class BatchStrideIgnored(WrongNetwork):
    """reads its images as if they lay one after another"""

    group = BEYOND

    def forward(self, x):
        return self.run(x.as_strided(x.shape, (x[0].numel(), *x.stride()[1:])) if x.stride(0) else x)


class OffsetIgnored(WrongNetwork):
    """reads its images from where their storage begins"""

    group = BEYOND

    def forward(self, x):
        return self.run(x.as_strided(x.shape, x.stride(), 0))


class HalfReturned(WrongNetwork):
    """returns fp16"""

    def forward(self, x):
        return self.run(x).half()


class SwitchesTF32On(WrongNetwork):
    """switches TF32 on for the whole process"""

    group = BEYOND

    def forward(self, x):
        torch.backends.cuda.matmul.allow_tf32 = True
        return self.run(x)


class ThreadsTaken(WrongNetwork):
    """changes the number of threads of the whole process"""

    group = BEYOND

    def forward(self, x):
        torch.set_num_threads(torch.get_num_threads() + 1)
        return self.run(x)


class AutocastLeftOn(WrongNetwork):
    """leaves autocast on for the whole process"""

    group, claims = BEYOND, "fp32"

    def forward(self, x):
        y = self.run(x)
        torch.set_autocast_enabled("cpu", True)
        return y
