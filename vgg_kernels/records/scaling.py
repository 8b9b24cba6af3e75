"""Many cards or nodes: one function that any engine can map over them, and the table of what they wrote.

Each worker writes a run of its own, so there is nothing to lock and nothing to merge but folders: the ledger reads
whatever lies below one root. ``docs/scaling.md`` shows it under Slurm (submitit), joblib and by hand.
"""

from pathlib import Path
from typing import Any

from ..measure import schedule
from ..measure.torch_device import TorchBench
from ..workload.network import Network
from . import session


def measure_here(
    out: Path | str,
    budget_s: float = 480.0,
    only: tuple[str, ...] = (),
    batches: tuple[int, ...] = (),
    table: Network | None = None,
) -> dict[str, Any]:
    """Measure the device that this process sees into a run of its own below ``out``; picklable in and out.

    Args:
        out: a folder, shared or not.
        budget_s: seconds.
        only: as ``--only``.
        batches: images; by default what suits the device.
        table: the network, VGG19 by default.

    Returns:
        ``run`` (its id), ``folder``, ``device_name``, ``samples`` (rows written by this worker), ``complete``.
    """
    bench = TorchBench(table=table)
    parts, chosen = schedule.choose(bench.kind, only)
    steps = schedule.steps(bench.kind, chosen, batches or schedule.BATCHES[bench.kind], parts)
    found = session.run(bench, Path(out), steps, budget_s)
    return {
        "run": found.folder.name,
        "folder": str(found.folder),
        "device_name": bench.name,
        "samples": found.outcome.rows,
        "complete": found.outcome.complete,
    }
