"""Where the time goes: torch.profiler's kernels (on a CPU: operators) as tidy rows, each with what it is for."""

import re
from collections.abc import Callable, Iterable
from typing import Any

PURPOSES = (  # first match wins; matched in lower case against the kernel's name
    ("layout", ("nchwtonhwc", "nhwctonchw", "transpose", "reorder", "permute", "aten::contiguous")),
    ("pooling", ("pool",)),
    ("pointwise", ("triton_poi", "triton_per", "triton_red", "cpp_fused")),  # what inductor generates, pools aside
    ("convolution", ("conv", "implicit", "winograd", "fprop", "stem", "row_pairs")),
    ("matrix product", ("gemm", "gemv", "addmm", "matmul", "mm_", "linear", "cublas", "splitk", "cutlass", "::mm")),
    ("pointwise", ("relu", "clamp", "elementwise", "add", "bias", "activation", "reduce")),
    ("copy", ("memcpy", "memset", "copy", "clone")),
)
OTHER = "other"
GENERATED = re.compile(r"## Call CompiledFxGraph \w+ ##")  # carries a digest that differs from machine to machine


def purpose(kernel: str) -> str:
    """What a kernel is for, by its name: one of ``PURPOSES``, or "other" (allocation, dispatch, views)."""
    name = kernel.lower()
    return next((what for what, words in PURPOSES if any(word in name for word in words)), OTHER)


def profile(call: Callable[[], object], *, kind: str, calls: int = 3) -> list[dict[str, Any]]:
    """Profile ``calls`` runs of ``call`` behind one warm-up.

    Args:
        call: one forward.
        kind: "cuda" to read device kernels, "cpu" to read operators (their own time, callees left out).
        calls: runs to average over.

    Returns:
        Rows by falling time: ``kernel``, ``purpose``, ``calls`` (in one forward), ``time_us`` (of one forward) and
        ``share`` (of the sum over kernels, so gaps between launches are not in it).

    Raises:
        RuntimeError: where the profiler saw nothing, as without the right to trace the device.
    """
    import torch
    from torch.profiler import ProfilerActivity

    on_gpu = kind == "cuda"
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
    with torch.no_grad():
        call()
        if on_gpu:
            torch.cuda.synchronize()
        with torch.profiler.profile(activities=activities) as recorded:
            for _ in range(calls):
                call()
            if on_gpu:
                torch.cuda.synchronize()
    averages = recorded.key_averages()
    if on_gpu:
        found = [(e.key, e.count, e.self_device_time_total) for e in averages if _is_kernel(e)]
    else:
        found = [(e.key, e.count, e.self_cpu_time_total) for e in averages]
    rows = tidy(found, calls)
    if not rows:
        raise RuntimeError(f"the profiler saw no {'kernel' if on_gpu else 'operator'} at all")
    return rows


def _is_kernel(event: Any) -> bool:
    """On the device, and work: an annotation (a compiled region, say) spans kernels that are listed themselves."""
    spans = getattr(event, "is_user_annotation", False) or event.key.startswith(("## Call", "Torch-Compiled Region"))
    return "CUDA" in str(event.device_type) and not spans


def tidy(found: Iterable[tuple[str, int, float]], calls: int) -> list[dict[str, Any]]:
    """Rows from (kernel, count, microseconds) over ``calls`` runs; kernels that took no time are left out."""
    found = [(kernel, count, micros) for kernel, count, micros in found if micros > 0]
    total = sum(micros for _, _, micros in found)
    rows = [
        {
            "kernel": GENERATED.sub("compiled graph (code between kernels)", kernel),
            "purpose": purpose(kernel),
            "calls": count / calls,
            "time_us": micros / calls,
            "share": micros / total,
        }
        for kernel, count, micros in found
    ]
    return sorted(rows, key=lambda row: -row["time_us"])
