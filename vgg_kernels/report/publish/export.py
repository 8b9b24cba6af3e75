"""Our network as one file for KernelBench: a ``ModelNew`` that needs torch and Triton and nothing of this package.

KernelBench constructs the reference and ``ModelNew`` after the same seed, moves both to the device, and compares; its
static checker refuses exception handlers and the keyword for an empty statement, even in text. So the file draws its
parameters in the reference's order, packs them at the first call, and carries the kernels' source, with the tiles that
the plan has chosen for its batch size written out.

``check`` runs a file. VGG19's own takes a GPU: ten images, interpreted, are hours. Without one its ``crop`` is run, a
file written in the same way from the same source: every layer with its channels and under the very tile that VGG19's
file has for it, on one image of 32 pixels. What that leaves unseen is the size alone: how many tiles cover an image,
the first classifier layer's 25,088 features, and several images at once.
"""

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from ...correctness.kernelbench import TOLERANCE, accepts, trial_inputs
from ...correctness.suite import SuiteBuilder
from ...kernels.model import DEFAULT_DEVICE
from ...kernels.plan import Launch, conv_launches, linear_launch, plan
from ...workload.inputs import draw
from ...workload.network import REDUCTION, Conv, Network
from ...workload.network import network as find_network
from ...workload.precision import tier as find_tier
from ...workload.weights import KERNELBENCH_SEED, reference
from .bundle import bundle

KERNELS = "vgg_kernels.kernels"
ROOTS = [
    ("vgg_kernels.workload.network", "Network"),
    ("vgg_kernels.workload.network", "Conv"),
    ("vgg_kernels.workload.network", "Linear"),
    ("vgg_kernels.workload.precision", "Tier"),
    (f"{KERNELS}.layout", "weight_matrix"),
    (f"{KERNELS}.layout", "pack"),
    (f"{KERNELS}.forward", "Forward"),
]
FORBIDDEN = {  # KernelBench's static checker, and this project's own rule
    r"\btry\s*:": "an exception handler",
    r"\bexcept\b": "an exception handler",
    r"\bpass\b": "the empty statement's keyword",
    r"vgg_kernels": "this package",
    r"import threading|multiprocessing|concurrent": "threads or processes",
}

HEADER = '''"""{network} for KernelBench: Triton kernels, {summary} ({tier}), fp32 accumulation.

Written by the export command of the vgg-kernels study, where the commented source, floors and evidence are.
Tiles are those of an H100 SXM at batch {batch}. Without an NVIDIA GPU the kernels run in Triton's interpreter.
"""

import os

import torch
from torch import nn

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads it when it is imported

'''

MODEL = '''
NETWORK = {network!r}
TIER = {tier!r}


class Weights(nn.Module):
    """One layer's parameters, drawn as PyTorch's own layers draw theirs."""

    def __init__(self, *shape):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(*shape))
        self.bias = nn.Parameter(torch.empty(shape[0]))
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)
        bound = self.weight[0].numel() ** -0.5
        nn.init.uniform_(self.bias, -bound, bound)


class ModelNew(nn.Module):
    """The network; parameters have the reference's keys and are drawn in its order."""

    def __init__(self, num_classes={classes}):
        super().__init__()
        if num_classes != NETWORK.classes:
            raise ValueError(f"{{num_classes}} classes; this file was written for {{NETWORK.classes}}")
        self.features, self.classifier = nn.ModuleDict(), nn.ModuleDict()
        for layer in NETWORK.layers:
            part, index = layer.key.split(".")
            if isinstance(layer, Conv):
                self.features[index] = Weights(layer.c_out, layer.c_in, 3, 3)
            else:
                self.classifier[index] = Weights(layer.features_out, layer.features_in)
        self.requires_grad_(False)
        self.packed, self.packed_from, self.forwards = None, None, {{}}

    def pack_weights(self):
        packed, state = {{}}, self.state_dict()
        for layer in NETWORK.layers:
            source = NETWORK.convs[-1] if layer == NETWORK.linears[0] else None
            weight, bias = state[layer.key + ".weight"], state[layer.key + ".bias"]
            packed[layer.name] = pack(weight_matrix(weight, layer, source), bias, TIER, 0, 0)
        return packed

    @torch.no_grad()
    def forward(self, x):
        current = tuple((p.data_ptr(), p._version) for p in self.parameters())
        if current != self.packed_from:
            self.packed, self.packed_from, self.forwards = self.pack_weights(), current, {{}}
        with torch.cuda.device_of(x):
            key = len(x), x.device, torch.cuda.current_stream().cuda_stream if x.is_cuda else 0
            if key not in self.forwards:
                self.forwards[key] = Forward(NETWORK, TIER, len(x), x.device, "", {{}})
            forward = self.forwards[key]
            return (forward.replay if x.is_cuda else forward.run)(x, self.packed).clone()
'''


def crop(network: Network, tier_name: str, batch: int = 10) -> tuple[Network, tuple[Launch, ...]]:
    """The network on the smallest image, and its launches for one under the tiles that the whole one has for a batch.

    Raises:
        UnknownName: for a tier that does not exist.
        ValueError: for a batch that the plan refuses.
    """
    small, tier = find_network(network.name, image=REDUCTION, classes=network.classes), find_tier(tier_name)
    chosen = {
        launch.layer: launch.tile
        for launch in plan(network, tier_name, batch, DEFAULT_DEVICE)
        if launch.flops_per_iteration
    }
    stem, *layers = small.layers
    launches = [launch for launch in plan(small, tier_name, 1, DEFAULT_DEVICE) if launch.layer == stem.name]
    for layer in layers:
        tile = chosen[layer.name]
        if isinstance(layer, Conv):
            launches += conv_launches(layer, tier, 1, tile, pad=int(layer != small.convs[-1]))
        else:
            launches.append(linear_launch(layer, tier, 1, tile))
    return small, tuple(launches)


def source(network: Network, tier_name: str, batch: int = 10, launches: tuple[Launch, ...] = ()) -> str:
    """The file's text.

    Args:
        network: the network.
        tier_name: precision tier.
        batch: the batch size that it is for; it refuses others.
        launches: what it launches; by default what the plan has for an H100 SXM.

    Raises:
        UnknownName: for a tier that does not exist.
        ValueError: for a batch that the plan refuses, or where the text would break KernelBench's rules.
    """
    tier = find_tier(tier_name)
    listed = ", ".join(map(repr, launches or plan(network, tier_name, batch, DEFAULT_DEVICE)))
    frozen = f"""def plan(network, tier_name, batch, device):
    if batch != {batch}:
        raise ValueError(f"a batch of {{batch}} images; this file was written for {batch}")
    return ({listed},)"""
    text = (
        HEADER.format(network=network.name.upper(), summary=tier.summary, tier=tier.name, batch=batch)
        + bundle(ROOTS, {(f"{KERNELS}.plan", "plan"): frozen})
        + MODEL.format(network=network, tier=tier, classes=network.classes)
    )
    broken = violations(text)
    if broken:
        raise ValueError(f"the exported file would break KernelBench's rules: {'; '.join(broken)}")
    return text


def violations(text: str) -> list[str]:
    """What in the text KernelBench's static checker, or this project's rule of standing alone, would refuse."""
    found = []
    for pattern, what in FORBIDDEN.items():
        for number, line in enumerate(text.splitlines(), start=1):
            if re.search(pattern, line):
                found.append(f"line {number} has {what}")
    if not re.search(r"@triton\.jit", text) or not re.search(r"tl\.(load|store)\s*\(", text):
        found.append("no Triton kernel")
    return found


def load(path: Path) -> type[nn.Module]:
    """``ModelNew`` of a file, imported as KernelBench imports it: from its path, under no name.

    Raises:
        ValueError: for a file that Python would not import.
    """
    spec = importlib.util.spec_from_file_location("temp_module", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path.name} is no Python file; accepted: a file that ``export`` wrote")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ModelNew


@dataclass(frozen=True)
class Outcome:
    """What the exported file does.

    Attributes:
        same_weights: seed 42 gives the reference's parameters, bit for bit.
        accepted: KernelBench's rule at its own seed and tolerance.
        relative_error: with Kaiming weights against float64, the worst image.
        budget: what that image may have.
    """

    same_weights: bool
    accepted: bool
    relative_error: float
    budget: float

    @property
    def passed(self) -> bool:
        """True where all three hold."""
        return self.same_weights and self.accepted and self.relative_error <= self.budget


@torch.no_grad()
def check(path: Path, network: Network, tier_name: str, batch: int = 10, device: torch.device | str = "cpu") -> Outcome:
    """Run an exported file against the reference, with KernelBench's weights and with Kaiming's.

    Args:
        path: the file.
        network: the network that it was written for.
        tier_name: its tier.
        batch: its batch size.
        device: where to run it.
    """
    model_new = load(path)
    torch.manual_seed(KERNELBENCH_SEED)
    candidate = model_new(network.classes)
    model = reference(network, "kernelbench")
    state = candidate.state_dict()
    same = all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    candidate, model = candidate.to(device), model.to(device)
    x = trial_inputs(network, batch, trials=1)[0].to(device)
    accepted = accepts(model(x), candidate(x), TOLERANCE)
    real = reference(network, "kaiming", KERNELBENCH_SEED).to(device)
    candidate.load_state_dict(real.state_dict())
    x = draw(network, batch, "photographs", KERNELBENCH_SEED).to(device)
    case = SuiteBuilder(network, find_tier(tier_name), torch.device(device)).test_case(real, "photographs", x)
    want, allowed = case.oracle.logits, case.error_bound[network.layers[-1].name]
    error = ((candidate(x).double() - want).norm(dim=1) / want.norm(dim=1)).nan_to_num(nan=float("inf"))
    worst = int((error / allowed).argmax())
    return Outcome(same, accepted, float(error[worst]), float(allowed[worst]))
