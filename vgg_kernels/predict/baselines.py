"""What PyTorch runs for the same network, kernel by kernel, in the time model's terms: eager and inductor.

Both multiply in tf32 through cuDNN (kernels for channels-last data) and run the classifier in fp32; they differ in
the passes over memory around the products. Which passes run is PyTorch 2.5's documented behaviour, stated below; the
rates are the time model's constants; a pass finds what the kernel before it wrote in L2 where that fits, as in the
time model. Everything here is modelled.

eager     per convolution: turn the input and the filters to channels-last, multiply, turn the result back, add the
          bias, ReLU, and a pool that also writes 64-bit indices.
inductor  layout optimisation keeps activations channels-last; the filters are turned each time (nothing is frozen);
          bias and ReLU are one pass, the pool another, with no indices.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..floor.hardware import Device
from ..floor.hardware import device as find_device
from ..workload.network import Conv, Linear, Network
from .constants import constant
from .published import Convolution, convolution_us, pass_us
from .timemodel import predict
from .work import fits_l2

INDEX_BYTES = 8  # max_pool2d_with_indices returns 64-bit indices in eager mode
CAUSES = ("products", "layout", "bias and ReLU", "pool", "classifier")
LAUNCHES = "launch gaps"


@dataclass(frozen=True)
class Kernel:
    """One predicted kernel of a baseline: its layer, the cause it is booked under, its time in us, gap included."""

    layer: str
    cause: str
    time_us: float


def _shape(conv: Conv, batch: int) -> Convolution:
    return Convolution(batch, conv.c_in, conv.c_out, conv.height, conv.width, 3, 3, padding=(1, 1))


def _classifier(linear: Linear, batch: int, device: Device) -> Kernel:
    """An fp32 matrix product of a few rows: it reads its weights, and nothing else takes time."""
    read = 4 * (linear.parameters + batch * linear.features_in)
    return Kernel(linear.name, "classifier", pass_us(device, read, 4 * batch * linear.features_out))


def _pass(conv: Conv, cause: str, device: Device, size: float, written: float) -> Kernel:
    """A pass over what the kernel before it wrote."""
    return Kernel(conv.name, cause, pass_us(device, 0 if fits_l2(size, device) else size, written))


def _filters(conv: Conv, shape: Convolution, device: Device) -> Kernel:
    """Turning a layer's filters to channels-last: they come from HBM."""
    return Kernel(conv.name, "layout", pass_us(device, shape.weight_bytes, shape.weight_bytes))


def _products(conv: Conv, shape: Convolution, device: Device) -> Kernel:
    return Kernel(conv.name, "products", convolution_us(shape, device).time_us)


def eager(network: Network, device: str, batch: int) -> list[Kernel]:
    """Kernels of eager PyTorch, NCHW fp32 in and out of every operator.

    Raises:
        UnknownName: for a device that is not in the table.
        ValueError: for a batch below 1.
    """
    card = _checked(device, batch)
    kernels = []
    for conv in network.convs:
        shape = _shape(conv, batch)
        size = shape.output_bytes
        kernels += [
            _pass(conv, "layout", card, shape.input_bytes, shape.input_bytes),
            _filters(conv, shape, card),
            _products(conv, shape, card),
            _pass(conv, "layout", card, size, size),
            _pass(conv, "bias and ReLU", card, size, size),  # the bias
            _pass(conv, "bias and ReLU", card, size, size),  # the ReLU
        ]
        if conv.pooled:
            kernels.append(_pass(conv, "pool", card, size, size / 4 + INDEX_BYTES * size / 4 / 4))
    return kernels + [_classifier(linear, batch, card) for linear in network.linears]


def inductor(network: Network, device: str, batch: int) -> list[Kernel]:
    """Kernels of ``torch.compile`` with inductor's defaults; arguments and errors as for ``eager``."""
    card = _checked(device, batch)
    entry = 4 * batch * 3 * network.image**2
    kernels = [Kernel(network.convs[0].name, "layout", pass_us(card, entry, entry))]
    for conv in network.convs:
        shape = _shape(conv, batch)
        size = shape.output_bytes
        kernels += [
            _filters(conv, shape, card),
            _products(conv, shape, card),
            _pass(conv, "bias and ReLU", card, size, size),
        ]
        if conv.pooled:
            kernels.append(_pass(conv, "pool", card, size, size / 4))
    return kernels + [_classifier(linear, batch, card) for linear in network.linears]


def _checked(device: str, batch: int) -> Device:
    if batch < 1:
        raise ValueError(f"batch {batch} is not accepted: at least 1 is")
    return find_device(device)


BASELINES: dict[str, Callable[[Network, str, int], list[Kernel]]] = {"eager": eager, "inductor": inductor}


def by_cause(kernels: list[Kernel]) -> dict[str, float]:
    """Microseconds under each cause, the gaps between kernels a cause of their own; they add up to the total."""
    gap = constant("launch_us")
    causes = {cause: sum(k.time_us - gap for k in kernels if k.cause == cause) for cause in CAUSES}
    return causes | {LAUNCHES: gap * len(kernels)}


def ours(network: Network, tier: str, device: str, batch: int) -> dict[str, float]:
    """Our own kernels' predicted time under the same causes: pools, biases and ReLUs live in the epilogues."""
    gap = constant("launch_us")
    rows = predict(network, tier, device, batch)
    names = {linear.name for linear in network.linears}
    bodies = {row.layer: row.time_us - gap * len(row.kernels) for row in rows}
    return dict.fromkeys(CAUSES, 0.0) | {
        "products": sum(us for layer, us in bodies.items() if layer not in names),
        "classifier": sum(us for layer, us in bodies.items() if layer in names),
        LAUNCHES: gap * sum(len(row.kernels) for row in rows),
    }


@dataclass(frozen=True)
class Step:
    """One bar of the waterfall: a way of running the network (``total``), or what changes on the way to the next.

    Attributes:
        name: "eager", or the cause of a change.
        change_us: microseconds gained (negative) or lost; 0 for a way of running.
        total_us: the time once it is in.
        total: whether this is a way of running.
    """

    name: str
    change_us: float
    total_us: float
    total: bool


# The name of each change between two ways of running, by the cause it is booked under.
CHANGES_TO_INDUCTOR = {
    "layout": "no layout transposes of activations",
    "bias and ReLU": "bias and ReLU in one pass",
    "pool": "no pool indices",
    "products": "products as they were",
    "classifier": "classifier as it was",
    LAUNCHES: "fewer launch gaps",
}
CHANGES_TO_OURS = {
    "layout": "filters packed once",
    "bias and ReLU": "bias and ReLU in the epilogue",
    "pool": "pool in the epilogue",
    "products": "Hopper's instructions and copies",
    "classifier": "classifier on tensor cores",
    LAUNCHES: "one CUDA graph, fewer kernels",
}
CHANGES_TO_FP16 = {
    "products": "fp16 operands: products",
    "classifier": "fp16 operands: classifier weights",
    LAUNCHES: "launch gaps as they were",
}


def waterfall(network: Network, device: str, batch: int) -> list[Step]:
    """From eager to inductor to our tf32 and our fp16 kernels, one named cause at a time; all of it modelled."""
    ways = {
        "eager": (by_cause(eager(network, device, batch)), {}),
        "inductor": (by_cause(inductor(network, device, batch)), CHANGES_TO_INDUCTOR),
        "ours, tf32": (ours(network, "tf32", device, batch), CHANGES_TO_OURS),
        "ours, fp16": (ours(network, "fp16", device, batch), CHANGES_TO_FP16),
    }
    steps: list[Step] = []
    before: dict[str, float] = {}
    for name, (causes, changes) in ways.items():
        total = sum(before.values())
        for cause, change in changes.items():
            delta = causes[cause] - before[cause]
            if delta:
                total += delta
                steps.append(Step(change, delta, total, False))
        steps.append(Step(name, 0.0, sum(causes.values()), True))
        before = causes
    return steps
