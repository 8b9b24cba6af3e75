"""Compile our kernels for a GPU in several processes at once, into Triton's cache on disk, before anything is timed.

One forward compiles some twenty kernels one after the other, for each tier and batch. Side by side, on the cores that a
GPU's host has, they cost a run minutes less; and a kernel that crashes or never ends is met in a process of its own.

``python -m vgg_kernels.evidence.precompile TIER BATCH...`` is one such process.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

TIMEOUT_S = 150.0
MOST_PROCESSES = 12  # each holds a CUDA context and a copy of the weights


def command(tier: str, batches: Iterable[int]) -> list[str]:
    """What compiles one tier at some batches."""
    return [sys.executable, "-m", "vgg_kernels.evidence.precompile", tier, *map(str, batches)]


def precompile(
    jobs: Sequence[tuple[str, tuple[int, ...]]],
    cores: int,
    make: Callable[[str, Iterable[int]], list[str]] = command,
    timeout_s: float = TIMEOUT_S,
) -> list[dict[str, Any]]:
    """Run every (tier, batches) job, as many at once as there are cores for.

    Returns:
        One row a job: ``tier``, ``batches``, ``seconds`` and ``error`` (the last line of what it said; null where it
        went well). A failure here fails nothing: the gate will meet the same kernel.
    """

    def run(job: tuple[str, tuple[int, ...]]) -> dict[str, Any]:
        tier, batches = job
        began = time.monotonic()
        try:
            done = subprocess.run(make(tier, batches), capture_output=True, text=True, timeout=timeout_s)
            said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            error = said if done.returncode else None
        except subprocess.TimeoutExpired:
            error = f"did not end within {timeout_s:.0f} s"
        return {"tier": tier, "batches": list(batches), "seconds": round(time.monotonic() - began, 1), "error": error}

    with ThreadPoolExecutor(max(1, min(cores, MOST_PROCESSES, len(jobs)))) as pool:
        return list(pool.map(run, jobs))


def main(tier: str, batches: Sequence[int]) -> None:
    """One forward at each batch, with whatever weights: only the kernels count."""
    import torch

    from ..kernels.model import VGG
    from ..workload.network import network
    from ..workload.reference import Reference

    table = network("vgg19")
    with torch.device("cuda"):
        model = VGG.from_reference(Reference(table), tier=tier)
        for batch in batches:
            model(torch.rand(batch, 3, table.image, table.image))
    torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1], [int(word) for word in sys.argv[2:]])
