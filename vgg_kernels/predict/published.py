"""The time model held against other people's measurements: matrix products, convolutions, passes over memory.

What a library runs is not public in full, so each kind of row states what is assumed: the blocking is the fastest, by
the model itself, of a few that the library is known to have. Rows that a constant was read off are left out, and so
are rows whose reported condition the model has no term for; both come back with the reason.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

from ..floor.hardware import Device
from ..floor.hardware import device as find_device
from .constants import constant, constants
from .timemodel import Timing, time_of
from .work import FMA, MMA_SYNC, WGMMA, Blocking, matmul, stream

GLUON = Blocking(128, 256, 128, 3, 8)
BIASED_CONVOLUTIONS = {("1", "50")}  # (level, problem): KernelBench's other convolutions have no bias
CARDS = {"hopper_unnamed": "h100_sxm"}  # what a row is predicted as whose source says "Hopper" and no more


@dataclass(frozen=True)
class Comparison:
    """One reported measurement beside the model's prediction of it.

    Attributes:
        kind: "matrix product", "convolution" or "bandwidth".
        device: key of the card, or "hopper_unnamed".
        what: operation, shape and variant, for tables.
        dtype: "float32" (FMA), "tf32", "float16", "float64".
        reported_us: the measurement.
        predicted_us: the model's.
        bound: what binds, by the model.
        source: who reported it.
    """

    kind: str
    device: str
    what: str
    dtype: str
    reported_us: float
    predicted_us: float
    bound: str
    source: str

    @property
    def error(self) -> float:
        """Predicted over reported, less one: positive where the model is too slow."""
        return self.predicted_us / self.reported_us - 1


@dataclass(frozen=True)
class LeftOut:
    """A reported row that is no test of the model, and why."""

    device: str
    what: str
    reason: str


def sizes(shape: str) -> dict[str, str]:
    """``"m=8 n=4"`` as ``{"m": "8", "n": "4"}``."""
    return dict(part.split("=") for part in shape.split())


def fastest(
    name: str, blockings: Iterable[Blocking], device: Device, *, clock_hz: float | None = None, **product
) -> Timing:
    """The least time of a matrix product over several blockings; other arguments as in ``work.matmul``."""
    works = (matmul(name, blocking=blocking, device=device, **product) for blocking in blockings)
    return min((time_of(work, device, clock_hz=clock_hz) for work in works), key=lambda timing: timing.time_us)


def product_us(
    rate: str, m: int, n: int, k: int, device: Device, blockings: Iterable[Blocking], *, count: int = 1,
    right_hand_sides: int = 1, out_bytes: int = 4, clock_hz: float | None = None,
) -> Timing:  # fmt: skip
    """A library's matrix product, its operands read from HBM once and its result written once."""
    operand = {"fp32": 4, "tf32": 4, "fp16": 2}[rate]
    read = operand * (count * m * k + right_hand_sides * k * n)
    return fastest(
        "matmul", blockings, device, rate=rate, m=m, n=n, k=k, count=count, out_bytes=out_bytes,
        clock_hz=clock_hz, hbm_read=read, hbm_write=out_bytes * count * m * n,
    )  # fmt: skip


@dataclass(frozen=True)
class Convolution:
    """A 2-D convolution's shape: images, channels, input and kernel extents."""

    batch: int
    c_in: int
    c_out: int
    height: int
    width: int
    kernel_h: int
    kernel_w: int
    stride: int = 1
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)

    @property
    def outputs(self) -> int:
        """Output pixels of all images."""
        extents = ((self.height, self.kernel_h, 0), (self.width, self.kernel_w, 1))
        rows, columns = (
            (size + 2 * self.padding[i] - self.dilation[i] * (kernel - 1) - 1) // self.stride + 1
            for size, kernel, i in extents
        )
        return self.batch * rows * columns

    @property
    def input_bytes(self) -> int:
        """Bytes of the fp32 input."""
        return 4 * self.batch * self.c_in * self.height * self.width

    @property
    def output_bytes(self) -> int:
        """Bytes of the fp32 output."""
        return 4 * self.outputs * self.c_out

    @property
    def weight_bytes(self) -> int:
        """Bytes of the fp32 filters."""
        return 4 * self.c_out * self.c_in * self.kernel_h * self.kernel_w


def convolution_us(shape: Convolution, device: Device, *, clock_hz: float | None = None) -> Timing:
    """cuDNN's tf32 convolution as an implicit matrix product on channels-last data, channels padded to 16 bytes."""
    depth = 4 * ceil(shape.c_in / 4) * shape.kernel_h * shape.kernel_w
    return fastest(
        "conv2d", MMA_SYNC, device, clock_hz=clock_hz, rate="tf32", m=shape.outputs, n=shape.c_out, k=depth,
        out_bytes=4,
        hbm_read=shape.input_bytes + shape.weight_bytes, hbm_write=shape.output_bytes,
    )  # fmt: skip


def pass_us(device: Device, read_bytes: float, write_bytes: float) -> float:
    """A pointwise kernel's time, its launch included."""
    return time_of(stream("pass", read_bytes, write_bytes), device).time_us


def _pair(text: str) -> tuple[int, int]:
    parts = [int(part) for part in text.split("x")]
    return (parts[0], parts[-1])


def _kernelbench(row: Mapping[str, str], device: Device, clock_hz: float | None) -> tuple[str, float, str] | str:
    """(kind, predicted us, bound) of one KernelBench row, or why there is none."""
    size, op = sizes(row["shape"]), row["op"]
    if op in ("matmul", "batched_matmul", "batched_matmul_shared_rhs"):
        m, n, k, count = (int(size.get(key, 1)) for key in ("m", "n", "k", "batch"))
        shared = 1 if op.endswith("shared_rhs") else count
        timing = product_us("fp32", m, n, k, device, FMA, count=count, right_hand_sides=shared, clock_hz=clock_hz)
        return "matrix product", timing.time_us, timing.bound
    if op == "matvec":
        m, k = int(size["m"]), int(size["k"])
        return "bandwidth", pass_us(device, 4 * (m * k + k), 4 * m), "hbm"
    if op in ("elementwise_scale", "relu"):
        moved = 4 * int(size["rows"]) * int(size["columns"])
        return "bandwidth", pass_us(device, moved, moved), "hbm"
    if op == "conv2d":
        names = ("batch", "c_in", "c_out", "height", "width", "kernel_h", "kernel_w")
        shape = Convolution(
            **{name: int(size[name]) for name in names},
            stride=int(size.get("stride", 1)),
            padding=_pair(size.get("padding", "0")),
            dilation=_pair(size.get("dilation", "1")),
        )
        timing = convolution_us(shape, device, clock_hz=clock_hz)
        us = timing.time_us
        if (row["level"], row["problem"]) in BIASED_CONVOLUTIONS:
            us += pass_us(device, shape.output_bytes, shape.output_bytes)
        if not (row["variant"] == "eager" and shape.kernel_h == shape.kernel_w == 1):
            # tensors arrive and leave as NCHW: one pass turns each to channels-last or back; a 1x1 needs neither
            us += pass_us(device, shape.input_bytes, shape.input_bytes)
            us += pass_us(device, shape.output_bytes, shape.output_bytes)
        return "convolution", us, timing.bound
    if op == "network":
        return "a network, not a kernel: see baselines"
    return "a pool's overlapping windows are bound by neither arithmetic nor memory"


LIBRARIES = {"float32": ("fp32", FMA, 4), "tf32": ("tf32", WGMMA, 4), "float16": ("fp16", WGMMA, 2)}


def _hopper(row: Mapping[str, str], device: Device, clock_hz: float | None) -> tuple[str, float, float, str] | str:
    """(kind, reported us, predicted us, bound) of one row of the Hopper collection, or why there is none."""
    size, op = sizes(row["shape"]), row["operation"]
    name = f"{device.key} {op} {row['shape']}"
    used = {part for entry in constants().values() for part in entry.taken_from.split("; ") if part}
    if name in used:
        return "a constant of the model was read off this row"
    if op == "matmul":
        rate, blockings, out_bytes = LIBRARIES[row["dtype"]]
        m, n, k = (int(size[key]) for key in ("m", "n", "k"))
        if row["variant"].startswith("gluon"):
            blockings = (GLUON,)
        timing = product_us(rate, m, n, k, device, blockings, out_bytes=out_bytes, clock_hz=clock_hz)
        return "matrix product", 2 * m * n * k / float(row["tflop_per_s"]) / 1e6, timing.time_us, timing.bound
    per_s = float(row["gb_per_s"]) * 1e9
    if op == "scale_in_cuda_graph":
        moved = int(size["bytes"])
        if moved < device.l2_bytes:
            l2 = constant("l2_bytes_per_clock") * device.sms * device.max_clock_hz
            return "bandwidth", 1e6 * moved / per_s, constant("launch_us") + 1e6 * moved / l2, "launch"
        return "bandwidth", 1e6 * moved / per_s, pass_us(device, moved / 2, moved / 2), "hbm"
    gigabyte = 1e9
    if op == "read" and "working_set_kb" in size:
        occupied = 1024 * int(size["working_set_kb"]) / device.l2_bytes
        if 0.5 < occupied < 2:
            return "the working set is neither well inside L2 nor well outside it"
        l2 = 1e6 * gigabyte / (constant("l2_bytes_per_clock") * device.sms * device.max_clock_hz)
        memory = time_of(stream("read", gigabyte, 0), device).hbm_us
        return "bandwidth", 1e6 * gigabyte / per_s, *((l2, "l2") if occupied < 1 else (memory, "hbm"))
    if "latency-bound" in row["note"]:
        return "its own note calls it bound by latency, not by memory"
    shares = {"init": (0.0, 1.0), "scale": (0.5, 0.5), "read": (1.0, 0.0)}[op]
    timing = time_of(stream(op, *(share * gigabyte for share in shares)), device)
    return "bandwidth", 1e6 * gigabyte / per_s, timing.hbm_us, "hbm"


def compare(
    kernelbench: Iterable[Mapping[str, str]],
    hopper: Iterable[Mapping[str, str]],
    *,
    clocks_hz: Mapping[str, float] | None = None,
) -> tuple[list[Comparison], list[LeftOut]]:
    """Every reported row that tests the model, and every one that does not with its reason.

    Args:
        kernelbench: rows of data/reported/kernelbench_h100.csv, as text.
        hopper: rows of data/reported/hopper_public.csv, as text.
        clocks_hz: SM clocks by card, in place of the data sheet's: a card that is short of power runs slower.
    """
    clocks = clocks_hz or {}
    tests: list[Comparison] = []
    left_out: list[LeftOut] = []
    for row in kernelbench:
        what = f"{row['op']} {row['shape']} {row['variant']}"
        answer = _kernelbench(row, find_device(row["device"]), clocks.get(row["device"]))
        if isinstance(answer, str):
            left_out.append(LeftOut(row["device"], what, answer))
            continue
        kind, predicted, bound = answer
        dtype = "tf32" if kind == "convolution" else "float32"
        reported = 1e3 * float(row["mean_ms"])
        tests.append(Comparison(kind, row["device"], what, dtype, reported, predicted, bound, "KernelBench"))
    for row in hopper:
        key = CARDS.get(row["device"], row["device"])
        what = f"{row['operation']} {row['shape']} {row['variant']}"
        result = _hopper(row, find_device(key), clocks.get(key))
        if isinstance(result, str):
            left_out.append(LeftOut(row["device"], what, result))
            continue
        kind, reported, predicted, bound = result
        source = row["source"].removeprefix("https://github.com/")
        tests.append(Comparison(kind, row["device"], what, row["dtype"], reported, predicted, bound, source))
    return tests, left_out
