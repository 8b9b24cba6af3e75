"""Wrong networks, each one line away from a right one, and the matrix of which check finds which.

Every mutant is ``Emulation`` with one step overridden, so it has fp16's true rounding wherever it is not wrong. It
offers no trace: the gate has to find it by its logits and by what it does to memory.
"""

# ruff: noqa: D102  (a mutant's class docstring is its intent; its one method is the base's)
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ..workload.network import Conv, Layer, Network
from ..workload.precision import TIERS
from ..workload.reference import Reference
from .emulation import LOW_SHIFT, Emulation, epilogue, products, split
from .exam import DEFAULT, KAIMING, Exam, prepare
from .kernelbench import BATCH, FIRST_TOLERANCE, TOLERANCE, TRIALS, Rule
from .verify import Verdict, examine

GATES = ("KernelBench 1e-4", "KernelBench 1e-2", "ours, default weights", "ours, Kaiming")


class Mutant(Emulation):
    """A wrong network. A subclass overrides one step; its docstring is its intent."""

    claims = "fp16"
    arithmetic = ""  # the tier that it really computes in, where that is not what it claims
    trace = None  # type: ignore[assignment]  # unlike its base, a mutant cannot be traced

    def __init__(self, reference: Reference):
        super().__init__(reference, self.arithmetic or self.claims)

    @classmethod
    def differs(cls, network: Network) -> bool:
        """False on a network where the mistake changes nothing, so that there is nothing to find."""
        return True

    def at(self, layer: Layer, where: str) -> bool:
        """True for the one layer that is wrong: "first", "middle" (a convolution) or "last" of the convolutions."""
        convs = self.network.convs
        return layer == {"first": convs[0], "middle": convs[len(convs) // 2], "last": convs[-1]}[where]

    def run(self, x: Tensor) -> Tensor:
        """The logits, layer by layer, with whatever a subclass overrides."""
        return super().trace(x)[self.network.layers[-1].name]

    def forward(self, x: Tensor) -> Tensor:
        """``[N, 3, image, image]`` to ``[N, classes]``."""
        return self.run(x)


class Zeros(Mutant):
    """returns zeros"""

    def forward(self, x):
        return torch.zeros(len(x), self.network.classes, device=x.device)


class Constant(Mutant):
    """returns the logits of a black image whatever comes"""

    def forward(self, x):
        return self.run(torch.zeros_like(x))


class LastBias(Mutant):
    """returns the last layer's bias"""

    def forward(self, x):
        return self.bias(self.network.layers[-1]).repeat(len(x), 1)


class SkippedConvolution(Mutant):
    """skips the first convolution that keeps its shape"""

    def layer(self, layer, x):
        skipped = next(c for c in self.network.convs if c.output_shape == c.input_shape or c == self.network.convs[-1])
        shortcut = F.max_pool2d(x, 2) if layer == skipped and skipped.pooled else x
        return shortcut if layer == skipped else super().layer(layer, x)


class SkippedLinear(Mutant):
    """skips the second classifier layer"""

    def layer(self, layer, x):
        return x if layer == self.network.linears[1] else super().layer(layer, x)


class TapsTransposed(Mutant):
    """swaps rows and columns of the taps of the middle convolution"""

    def weight(self, layer):
        w = super().weight(layer)
        return w.transpose(2, 3) if self.at(layer, "middle") else w


class TapsFlipped(Mutant):
    """convolves instead of correlating"""

    def weight(self, layer):
        w = super().weight(layer)
        return w.flip(2, 3) if isinstance(layer, Conv) else w


class TapDropped(Mutant):
    """drops one tap of one convolution"""

    def weight(self, layer):
        w = super().weight(layer).clone()
        if self.at(layer, "middle"):
            w[..., 2, 2] = 0
        return w


class BiasDropped(Mutant):
    """forgets the bias of the middle convolution"""

    def bias(self, layer):
        return torch.zeros_like(super().bias(layer)) if self.at(layer, "middle") else super().bias(layer)


class BiasesSwapped(Mutant):
    """swaps the biases of the two hidden classifier layers"""

    def bias(self, layer):
        first, second = self.network.linears[:2]
        return super().bias({first: second, second: first}.get(layer, layer))


class BiasAfterReLU(Mutant):
    """adds the bias behind the ReLU in the middle convolution"""

    def epilogue(self, layer, sums, bias):
        if self.at(layer, "middle"):
            y = F.relu(sums) + bias.view(1, -1, 1, 1)
            return F.max_pool2d(y, 2) if layer.pooled else y
        return epilogue(layer, sums, bias)


class ReLUMissing(Mutant):
    """leaves the ReLU of the middle convolution out"""

    def epilogue(self, layer, sums, bias):
        if self.at(layer, "middle"):
            y = sums + bias.view(1, -1, 1, 1)
            return F.max_pool2d(y, 2) if layer.pooled else y
        return epilogue(layer, sums, bias)


class ReLUOnLogits(Mutant):
    """applies a ReLU to the logits"""

    def run(self, x):
        return F.relu(super().run(x))


class AveragePool(Mutant):
    """averages instead of taking the maximum"""

    def epilogue(self, layer, sums, bias):
        if isinstance(layer, Conv) and layer.pooled:
            return F.avg_pool2d(F.relu(sums + bias.view(1, -1, 1, 1)), 2)
        return epilogue(layer, sums, bias)


class PoolOffByOne(Mutant):
    """starts the first pool's windows one pixel late"""

    def epilogue(self, layer, sums, bias):
        if layer == next(c for c in self.network.convs if c.pooled):
            y = F.relu(sums + bias.view(1, -1, 1, 1))
            return F.max_pool2d(F.pad(y, (0, 1, 0, 1))[..., 1:, 1:], 2)
        return epilogue(layer, sums, bias)


class PaddedWith(Mutant):
    """(pads the first convolution in another way than with zeros)"""

    mode = ""

    def multiply(self, layer, x, weight):
        if self.at(layer, "first"):
            padded = F.pad(x.half().float(), (1, 1, 1, 1), mode=self.mode)
            return F.conv2d(padded, weight.half().float())
        return super().multiply(layer, x, weight)


class EdgePadding(PaddedWith):
    """repeats the edge instead of padding with zeros in the first convolution"""

    mode = "replicate"


class WrapPadding(PaddedWith):
    """reads around the border in the first convolution"""

    mode = "circular"


class RowsBleed(Mutant):
    """has no zero column between rows: the right neighbour of a row's end is the next row's start"""

    def multiply(self, layer, x, weight):
        if not self.at(layer, "last"):
            return super().multiply(layer, x, weight)
        bled = F.pad(x.half().float(), (0, 1, 1, 1))
        bled[:, :, 1:-2, -1] = bled[:, :, 2:-1, 0]
        return F.conv2d(F.pad(bled, (1, 0)), weight.half().float())


class LastRowDropped(Mutant):
    """never writes the last row of the first convolution's output"""

    def layer(self, layer, x):
        y = super().layer(layer, x)
        if self.at(layer, "first"):
            y[:, :, -1] = 0
        return y


class LastColumnDropped(Mutant):
    """never writes the last column of the middle convolution's output"""

    def layer(self, layer, x):
        y = super().layer(layer, x)
        if self.at(layer, "middle"):
            y[:, :, :, -1] = 0
        return y


class CornerPixelDropped(Mutant):
    """never writes one corner pixel of the first convolution's output"""

    def layer(self, layer, x):
        y = super().layer(layer, x)
        if self.at(layer, "first"):
            y[:, :, -1, -1] = 0
        return y


class ChannelsSwapped(Mutant):
    """swaps two channels of the middle convolution's output"""

    def layer(self, layer, x):
        y = super().layer(layer, x)
        return y.index_select(1, _swap(y.shape[1], 0, 1)) if self.at(layer, "middle") else y


class LastChannelsIgnored(Mutant):
    """ends the K loop of the last convolution a sixteenth of the channels early"""

    def weight(self, layer):
        w = super().weight(layer).clone()
        if self.at(layer, "last"):
            w[:, -max(1, w.shape[1] // 16) :] = 0
        return w


class LastClassesMissing(Mutant):
    """leaves the last, ragged tile of logits at zero"""

    def run(self, x):
        y = super().run(x).clone()
        y[:, y.shape[1] - y.shape[1] % 128 :] = 0
        return y


class ColoursSwapped(Mutant):
    """reads BGR"""

    def run(self, x):
        return super().run(x.flip(1))


class FlattenedChannelsLast(Mutant):
    """flattens the features channels-last for weights that are channels-first"""

    @classmethod
    def differs(cls, network):
        return network.convs[-1].output_shape[1:] != (1, 1)

    def layer(self, layer, x):
        return super().layer(layer, x.permute(0, 2, 3, 1).contiguous() if layer == self.network.linears[0] else x)


class MirroredImage(Mutant):
    """sees the image mirrored"""

    def run(self, x):
        return super().run(x.flip(3))


class ImagesSwapped(Mutant):
    """swaps the outputs of two images"""

    def run(self, x):
        y = super().run(x)
        return y.index_select(0, _swap(len(x), 0, len(x) - 1))


class BatchIndexIgnored(Mutant):
    """computes image 0 for every image"""

    def run(self, x):
        return super().run(x[:1]).repeat(len(x), 1)


class LastImageSkipped(Mutant):
    """leaves the last image of an odd batch at zero"""

    def run(self, x):
        y = super().run(x).clone()
        y[len(x) - len(x) % 2 :] = 0
        return y


class ImagesMixed(Mutant):
    """scales by the whole batch's largest pixel when it rounds the images"""

    def run(self, x):
        step = x.abs().max() / 2**9
        return super().run((x / step).round() * step)


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


class FP8CalledFP16(Mutant):
    """computes in fp8 and calls it fp16"""

    arithmetic = "fp8"


class BF16CalledFP16(Mutant):
    """computes in bf16 and calls it fp16"""

    arithmetic = "bf16"


class TF32CalledFP32(Mutant):
    """computes in tf32 and calls it fp32"""

    claims, arithmetic = "fp32", "tf32"


class CrossProductMissing(Mutant):
    """leaves one of fp16x3's three products out"""

    claims = "fp16x3"

    def multiply(self, layer, x, weight):
        (high, low), (weight_high, _) = split(x), split(weight)
        return products(layer, high, weight_high) + products(layer, low, weight_high) / LOW_SHIFT


class FP16Accumulation(Mutant):
    """accumulates in fp16, nine products at a time"""

    def multiply(self, layer, x, weight):
        total = None
        x, depth = (x, 1) if isinstance(layer, Conv) else (x.flatten(1), 9)
        for a, w in zip(x.split(depth, dim=1), weight.split(depth, dim=1), strict=True):
            part = super().multiply(layer, a, w)
            total = (part if total is None else total + part).half().float()
        return total


class Truncated(Mutant):
    """truncates operands to 10 bits where fp16 rounds to nearest"""

    def multiply(self, layer, x, weight):
        cut = [(t.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32) for t in (x, weight)]
        return products(layer, *cut)


class OverflowSaturates(Mutant):
    """saturates at fp16's largest number instead of overflowing"""

    def multiply(self, layer, x, weight):
        return super().multiply(layer, x.clamp(-TIERS["fp16"].largest, TIERS["fp16"].largest), weight)


class NaNSwallowed(Mutant):
    """turns NaN into zero, as a max with zero does"""

    def run(self, x):
        return super().run(torch.nan_to_num(x, nan=0.0))


class NaNSpreads(Mutant):
    """lets one image's NaN into all"""

    def run(self, x):
        return super().run(x + 0 * x.sum())


class DropoutApplied(Mutant):
    """applies dropout in front of the last layer"""

    def layer(self, layer, x):
        return super().layer(layer, F.dropout(x, 0.5) if layer == self.network.layers[-1] else x)


class SoftmaxAdded(Mutant):
    """returns probabilities"""

    def run(self, x):
        return super().run(x).softmax(1)


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


def _swap(size: int, a: int, b: int) -> Tensor:
    order = torch.arange(size)
    order[a], order[b] = b, a
    return order


def _concrete(kind: type[Mutant]) -> Iterable[type[Mutant]]:
    for child in kind.__subclasses__():
        if not (child.__doc__ or "").startswith("("):
            yield child
        yield from _concrete(child)


MUTANTS: dict[str, type[Mutant]] = {kind.__name__: kind for kind in _concrete(Mutant)}


@dataclass(frozen=True)
class Row:
    """One candidate of the matrix.

    Attributes:
        name: its class, or "correct TIER".
        intent: what is wrong with it, in one line.
        claims: the tier whose budget it is held to.
        killed_by: the gates that reject it.
        survives: the gates that accept it.
        found_by: by gate of ours, the first check that failed.
        detail: what that check said on Kaiming weights.
    """

    name: str
    intent: str
    claims: str
    killed_by: tuple[str, ...]
    survives: tuple[str, ...]
    found_by: dict[str, str]
    detail: str


@dataclass(frozen=True)
class Matrix:
    """Mutants against gates, and the correct networks that every gate should accept."""

    network: str
    image: int
    seed: int
    mutants: tuple[Row, ...]
    correct: tuple[Row, ...]

    def survivors(self, gate: str) -> list[str]:
        """The mutants that a gate accepts."""
        return [row.name for row in self.mutants if gate in row.survives]

    def false_kills(self, gate: str) -> list[str]:
        """The correct networks that a gate rejects."""
        return [row.name for row in self.correct if gate in row.killed_by]

    def document(self) -> dict:
        """JSON-able."""
        rows = {"mutants": [asdict(r) for r in self.mutants], "correct": [asdict(r) for r in self.correct]}
        counts = {gate: len(self.mutants) - len(self.survivors(gate)) for gate in GATES}
        false = {gate: len(self.false_kills(gate)) for gate in GATES}
        return {
            "network": self.network,
            "image": self.image,
            "seed": self.seed,
            "gates": list(GATES),
            "killed": counts,
            "false_kills": false,
            **rows,
        }


class Bench:
    """The four gates on one network, with exams prepared once per tier.

    Args:
        network: the network.
        seed: of all questions; the matrix is a function of it.
        batch: images of KernelBench's trials.
        trials: KernelBench's trials.
    """

    def __init__(self, network: Network, seed: int = 0, *, batch: int = BATCH, trials: int = TRIALS):
        self.network, self.seed = network, seed
        self.rule = Rule(network, batch=batch, trials=trials)
        self.exams: dict[tuple[str, str], Exam] = {}

    def exam(self, tier_name: str, scheme: str) -> Exam:
        """The quick exam of one tier on one weight scheme."""
        key = tier_name, scheme
        if key not in self.exams:
            self.exams[key] = prepare(self.network, tier_name, "quick", seed=self.seed, schemes=(scheme,))
        return self.exams[key]

    def try_out(self, name: str, intent: str, claims: str, build: Callable[[Reference], Emulation]) -> Row:
        """Put one candidate before all four gates."""
        verdicts: dict[str, Verdict] = {}
        with _switches_kept():
            accepted = dict(zip(GATES, self.rule.judge_at(build, (TOLERANCE, FIRST_TOLERANCE)), strict=False))
        for gate, scheme in zip(GATES[2:], (DEFAULT, KAIMING), strict=True):
            verdicts[gate] = examine(build, self.exam(claims, scheme), stop_early=True)
            accepted[gate] = verdicts[gate].checks_passed
        failures = {gate: verdict.failures for gate, verdict in verdicts.items() if verdict.failures}
        ours = failures.get(GATES[-1])
        return Row(
            name,
            intent,
            claims,
            tuple(gate for gate in GATES if not accepted[gate]),
            tuple(gate for gate in GATES if accepted[gate]),
            {gate: found[0].name for gate, found in failures.items()},
            ours[0].detail if ours else "",
        )


@contextmanager
def _switches_kept() -> Iterator[None]:
    """KernelBench's rule puts no global switch back; the next candidate must not inherit it here."""
    before = torch.backends.cuda.matmul.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def kill_matrix(
    network: Network,
    *,
    seed: int = 0,
    names: Iterable[str] | None = None,
    tiers: Iterable[str] | None = None,
    batch: int = BATCH,
    trials: int = TRIALS,
    progress: Callable[[int, int, str], None] | None = None,
) -> Matrix:
    """Try every mutant, and every tier's correct emulation, before all gates.

    Args:
        network: on which network; small ones take seconds a mutant.
        seed: of our gates' questions.
        names: the mutants; None takes all. Those that are right on this network are left out.
        tiers: the tiers whose correct emulations must be accepted; None takes all, or those that ``names`` claim.
        batch: images of one of KernelBench's trials.
        trials: KernelBench's trials.
        progress: called with candidates done, candidates in all, and the next one's name.
    """
    bench = Bench(network, seed, batch=batch, trials=trials)
    chosen = [MUTANTS[name] for name in (MUTANTS if names is None else names) if MUTANTS[name].differs(network)]
    claimed = TIERS if names is None else dict.fromkeys(kind.claims for kind in chosen)
    tiers = list(claimed if tiers is None else tiers)
    total = len(chosen) + len(tiers)
    rows = []
    with torch.no_grad():
        for i, kind in enumerate(chosen):
            if progress is not None:
                progress(i, total, kind.__name__)
            rows.append(bench.try_out(kind.__name__, kind.__doc__ or "", kind.claims, kind))
        correct = []
        for i, name in enumerate(tiers, start=len(chosen)):
            if progress is not None:
                progress(i, total, f"correct {name}")
            correct.append(
                bench.try_out(f"correct {name}", f"{name} as it should be", name, partial(Emulation, tier_name=name))
            )
    if progress is not None:
        progress(total, total, "done")
    return Matrix(network.name, network.image, seed, tuple(rows), tuple(correct))
