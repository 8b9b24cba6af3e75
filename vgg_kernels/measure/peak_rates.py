"""Peak rates of this very card, measured in the same run: what its times are compared with.

Each is the best of several repeats (a peak is what can be reached, not what is typical), on a GPU of ten calls in a
row, and says how it was taken.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

REPEATS = 10
# A launch reaches an idle GPU some 10 us after the event before it: 1 % of a copy, 4 % of the graph of launches. Calls
# after the first are queued in time, so ten in a row leave a tenth of that.
BACK_TO_BACK = {"cuda": 10, "cpu": 1}
COPY_BYTES = {"cuda": 2 * 2**30, "cpu": 256 * 2**20}  # many times the L2, or the last-level cache
MATMUL_SIZE = {"cuda": 8192, "cpu": 1024}
LAUNCHES = 200
TILE_ROWS, TILE_DEPTH = 128, 64  # one operand tile of the fp16 main loop: 16 KiB
PROGRAMS_PER_SM = 2
L2_BYTES = 16 * 2**20  # of tiles, read by all SMs: far above what shared memory holds, and well inside an H100's L2
L2_PASSES = 4096  # about 2 ms: long enough for the clock to settle, and for the launch not to count

PeakRate = dict[str, Any]


def row(quantity: str, value: float, unit: str, how: str) -> PeakRate:
    """One measured peak rate."""
    return {"quantity": quantity, "value": value, "unit": unit, "how": how}


def cuda(sm_mhz: Callable[[], float | None], name: str) -> tuple[list[PeakRate], list[str]]:
    """Every peak rate of the current GPU, and one sentence for each that could not be taken.

    Args:
        sm_mhz: the SM clock now, in MHz, or none where NVML does not say.
        name: the card's name in NVML's and PyTorch's words, for the sentences.
    """
    takes = (copy_bandwidth, *(_matmul(precision) for precision in MATMULS), launch_gap, lambda: l2_reads(sm_mhz))
    return _each(takes, name)


def cpu(name: str) -> tuple[list[PeakRate], list[str]]:
    """Copy bandwidth and fp32 matrix product of the host."""
    return _each((lambda: copy_bandwidth("cpu"), lambda: matmul("fp32", "cpu")), name)


def _each(takes: Iterable[Callable[[], PeakRate]], name: str) -> tuple[list[PeakRate], list[str]]:
    found, failures = [], []
    for take in takes:
        try:
            found.append(take())
        except (RuntimeError, ValueError, ImportError, AttributeError) as error:
            failures.append(
                f"{name}: a peak rate could not be taken: {type(error).__name__}: {str(error).splitlines()[0]}"
            )
    return found, failures


def best_seconds(call: Callable[[], object], kind: str, repeats: int = REPEATS) -> float:
    """Seconds of one call: the mean of ``BACK_TO_BACK`` in a row, the shortest of ``repeats``, after two warm-ups."""
    import torch

    inner = BACK_TO_BACK[kind]
    call()
    call()
    times = []
    for _ in range(repeats):
        if kind == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            for _ in range(inner):
                call()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end) / 1000 / inner)
        else:
            begin = time.perf_counter()
            for _ in range(inner):
                call()
            times.append((time.perf_counter() - begin) / inner)
    return min(times)


def copy_bandwidth(kind: str = "cuda") -> PeakRate:
    """B/s of a large copy within device memory, bytes read and bytes written both counted."""
    import torch

    size = COPY_BYTES[kind]
    source = torch.empty(size // 4, dtype=torch.float32, device=kind).normal_()
    target = torch.empty_like(source)
    seconds = best_seconds(lambda: target.copy_(source), kind)
    return row("copy_bandwidth", 2 * size / seconds, "B/s", f"copy of {size >> 20} MiB, read and written bytes counted")


# rate of the device sheet -> (operands' dtype, may fp32 be rounded to tf32)
MATMULS = {
    "fp16": ("float16", False),
    "bf16": ("bfloat16", False),
    "tf32": ("float32", True),
    "fp32": ("float32", False),
    "fp8": ("float8_e4m3fn", False),
}


def _matmul(precision: str) -> Callable[[], PeakRate]:
    return lambda: matmul(precision)


def matmul(precision: str, kind: str = "cuda") -> PeakRate:
    """FLOP/s of a large square product of random matrices by the library that PyTorch calls."""
    import torch

    name, relaxed = MATMULS[precision]
    size = MATMUL_SIZE[kind]
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = relaxed
    try:
        a, b = (torch.randn(size, size, device=kind).to(getattr(torch, name)) for _ in range(2))
        seconds = best_seconds(_product(a, b), kind)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return row(f"matmul_{precision}", 2 * size**3 / seconds, "FLOP/s", f"{size} x {size} x {size}, random operands")


def _product(a: Any, b: Any) -> Callable[[], Any]:
    """``a @ b``; of e4m3 matrices ``a @ b.T`` in bf16, since their second operand is taken column by column."""
    import torch

    if a.dtype != torch.float8_e4m3fn:
        return lambda: a @ b
    one = torch.ones((), device=a.device)  # both scales
    return lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)


def launch_gap() -> PeakRate:
    """Seconds from one kernel of a CUDA graph to the next, with next to nothing in each."""
    import torch

    tiny = torch.zeros(32, device="cuda")
    graph = torch.cuda.CUDAGraph()
    tiny.add_(1)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            tiny.add_(1)
    seconds = best_seconds(graph.replay, "cuda") / LAUNCHES
    return row("graph_launch_gap", seconds, "s", f"graph of {LAUNCHES} dependent 32-element additions, per kernel")


def l2_reads(sm_mhz: Callable[[], float | None]) -> PeakRate:
    """Bytes per SM clock that one SM reads from L2, all SMs at once, in operand tiles by bulk tensor copies."""
    import torch

    from .l2 import FEWEST_COLUMNS, read_tiles

    sms = torch.cuda.get_device_properties(0).multi_processor_count
    programs = PROGRAMS_PER_SM * sms
    matrix = torch.randn(L2_BYTES // (2 * TILE_DEPTH), TILE_DEPTH, device="cuda").half()
    weights = torch.randn(TILE_DEPTH, FEWEST_COLUMNS, device="cuda").half()
    out = torch.empty(programs, TILE_ROWS, FEWEST_COLUMNS, device="cuda")

    def call() -> None:
        read_tiles(matrix, weights, out, L2_PASSES)

    seconds = best_seconds(call, "cuda")
    for _ in range(REPEATS):  # enough queued work for the clock to be read under this very load
        call()
    mhz = sm_mhz()
    torch.cuda.synchronize()
    if not mhz:
        raise ValueError("NVML does not say the SM clock, so bytes per clock are not known")
    moved = programs * L2_PASSES * TILE_ROWS * TILE_DEPTH * 2
    tile = f"{TILE_ROWS} x {TILE_DEPTH} fp16 tiles"
    how = f"{programs} programs read {tile} of {L2_BYTES >> 20} MiB by bulk tensor copies, SM clock {mhz:.0f} MHz"
    return row("l2_bytes_per_sm_clock", moved / seconds / sms / (mhz * 1e6), "B/clk", how)
