"""Compile our kernels for a GPU in several processes at once, into Triton's cache on disk, before anything is timed.

One forward compiles some seventeen kernels one after the other, for each tier and batch, 8 to 30 s on one core
(measured). Side by side, on the cores that a GPU's host has, they cost a run minutes less; and a kernel that crashes
or never ends is met in a process of its own.

``python -m vgg_kernels.measure.precompile TIER BATCH`` is one such process.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

TIMEOUT_S = 150.0  # for all jobs together: the 24 that come first take about 60 on 16 cores (estimated)
MOST_PROCESSES = 16
BYTES_A_PROCESS = (
    8e9  # of the device: a CUDA context, the weights while they are packed, the workspace of a large batch
)


def command(tier: str, batch: int) -> list[str]:
    """What compiles one tier at one batch."""
    return [sys.executable, "-m", "vgg_kernels.measure.precompile", tier, str(batch)]


def processes(cores: int, memory_bytes: float) -> int:
    """How many at once: one a core, as many as the device's memory holds."""
    return max(1, min(cores, MOST_PROCESSES, int(memory_bytes // BYTES_A_PROCESS)))


def precompile(
    jobs: Sequence[tuple[str, int]],
    at_once: int,
    make: Callable[[str, int], list[str]] = command,
    timeout_s: float = TIMEOUT_S,
) -> list[dict[str, Any]]:
    """Run every (tier, batch) job, ``at_once`` at a time, in their order, for at most ``timeout_s`` seconds in all.

    Returns:
        One row a job: ``tier``, ``batch``, ``seconds``, ``error`` (the last line of what it said; null where it went
        well) and ``timed_out`` (the time was up before it had ended, or begun, which says nothing of its kernels). A
        failure here fails nothing: the gate will meet the same kernel.
    """
    until = time.monotonic() + timeout_s

    def run(job: tuple[str, int]) -> dict[str, Any]:
        tier, batch = job
        began, timed_out = time.monotonic(), False
        try:
            done = subprocess.run(make(tier, batch), capture_output=True, text=True, timeout=max(0.0, until - began))
            said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            error = said if done.returncode else None
        except subprocess.TimeoutExpired:
            error, timed_out = f"did not end within {timeout_s:.0f} s of all", True
        seconds = round(time.monotonic() - began, 1)
        return {"tier": tier, "batch": batch, "seconds": seconds, "error": error, "timed_out": timed_out}

    with ThreadPoolExecutor(max(1, min(at_once, len(jobs)))) as pool:
        return list(pool.map(run, jobs))


def main(tier: str, batch: int) -> None:
    """One forward, with whatever weights: only the kernels count."""
    from .supervisor import die_with_parent

    die_with_parent()  # a run that is ended while its kernels compile leaves nothing behind on the device
    import torch

    from ..kernels.model import VGG
    from ..workload.network import network
    from ..workload.reference import Reference

    table = network("vgg19")
    with torch.device("cuda"):
        model = VGG.from_reference(Reference(table), tier=tier)
        model(torch.rand(batch, 3, table.image, table.image))
    torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
