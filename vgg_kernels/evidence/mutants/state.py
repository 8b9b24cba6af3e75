"""Right values from the wrong memory: stale, remembered, reused, never written, or somebody else's."""

# ruff: noqa: D102  (a mutant's class docstring is its intent; its one method is the base's)
from typing import ClassVar

import torch

from ...workload.network import Network
from .base import Mutant


class StalePackedWeights(Mutant):
    """packs its weights once and never looks at them again"""

    def weight(self, layer):
        packed = self.__dict__.setdefault("packed", {})
        return packed.setdefault(layer.name, super().weight(layer).clone())


class FirstModelKept(Mutant):
    """keeps the first model that it was ever built for"""

    kept: ClassVar[dict[Network, dict]] = {}

    def __init__(self, reference):
        super().__init__(reference)
        state = self.kept.setdefault(reference.network, {k: v.clone() for k, v in reference.state_dict().items()})
        self.load_state_dict(state)


class CachedByPointer(Mutant):
    """remembers its output by the input's address"""

    def forward(self, x):
        memory = self.__dict__.setdefault("memory", {})
        key = x.data_ptr(), tuple(x.shape)
        if key not in memory:
            memory[key] = self.run(x)
        return memory[key].clone()


class CachedByContent(Mutant):
    """remembers its output by the input's content"""

    def forward(self, x):
        memory = self.__dict__.setdefault("memory", {})
        key = hash(x.cpu().numpy().tobytes())
        if key not in memory:
            memory[key] = self.run(x)
        return memory[key].clone()


class CachedByChecksum(Mutant):
    """remembers its output by the input's shape and first pixel"""

    def forward(self, x):
        memory = self.__dict__.setdefault("memory", {})
        key = tuple(x.shape), float(x.flatten()[0])
        if key not in memory:
            memory[key] = self.run(x)
        return memory[key].clone()


class InputZeroed(Mutant):
    """zeroes its input, then returns zeros, for a checker that reuses the input"""

    def forward(self, x):
        return self.run(x.zero_())


class InputNormalised(Mutant):
    """rounds its input in place"""

    def forward(self, x):
        return self.run(x.copy_(x.half()))


class WeightsRoundedInPlace(Mutant):
    """rounds the weights of the model that it was given in place"""

    def __init__(self, reference):
        super().__init__(reference)
        for p in reference.parameters():
            p.copy_(p.half())


class OutputInInput(Mutant):
    """writes its logits over the input"""

    def forward(self, x):
        y = self.run(x)
        return x.view(-1)[: y.numel()].view(y.shape).copy_(y) if y.numel() <= x.numel() else x.view(-1)


class OutputReused(Mutant):
    """returns the same buffer from every call of one batch size"""

    def forward(self, x):
        buffers = self.__dict__.setdefault("outputs", {})
        y = self.run(x)
        return buffers.setdefault(len(x), torch.empty_like(y)).copy_(y)


class OutputNeverWritten(Mutant):
    """returns memory that it never wrote, hoping for what the reference left there"""

    def forward(self, x):
        return torch.empty(len(x), self.network.classes, device=x.device)


class OutputPartlyWritten(Mutant):
    """writes every tile of its output but the last"""

    def forward(self, x):
        y = self.run(x)
        out = torch.empty_like(y)
        tile = max(1, y.shape[1] // 8)
        out[:, :-tile] = y[:, :-tile]
        return out


class StridesIgnored(Mutant):
    """reads its input's memory as if it were contiguous"""

    def forward(self, x):
        return self.run(x.as_strided(x.shape, torch.empty(x.shape, device="meta").stride()))


class HalfReturned(Mutant):
    """returns fp16"""

    def forward(self, x):
        return self.run(x).half()


class SwitchesTF32On(Mutant):
    """switches TF32 on for everybody"""

    def forward(self, x):
        torch.backends.cuda.matmul.allow_tf32 = True
        return self.run(x)
