"""Many cards or nodes: one function that any engine can map over them, and the table of what they wrote.

Each worker writes a run of its own, so there is nothing to lock and nothing to merge but folders: the ledger reads
whatever lies below one root. ``docs/scaling.md`` shows it under Slurm (submitit), joblib and by hand.
"""

from functools import partial
from pathlib import Path
from typing import Any

from ..measure import plan
from ..measure.run import Device
from ..workload.network import network as find_network
from . import session


def measure_here(
    out: Path | str,
    budget_s: float = 480.0,
    only: tuple[str, ...] = (),
    batches: tuple[int, ...] = (),
    network: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Measure the device that this process sees into a run of its own below ``out``; picklable in and out.

    Args:
        out: a folder, shared or not.
        budget_s: seconds.
        only: as ``--only``.
        batches: images; by default what suits the device.
        network: arguments of ``workload.network.network``, VGG19 by default.

    Returns:
        ``run`` (its id), ``folder``, ``device_name``, ``samples`` (rows of the run), ``complete``.
    """
    network = network or {"name": "vgg19"}
    device = Device(arguments={"network": network})
    found = device.describe()
    kind = found["hardware"]["kind"]
    parts, chosen = plan.choose(kind, only)
    steps = partial(plan.steps, kind, chosen, batches or plan.BATCHES[kind], parts)
    run = session.run(found, device.start, Path(out), find_network(**network), steps, budget_s)
    return {
        "run": run.folder.name,
        "folder": str(run.folder),
        "device_name": found["device_name"],
        "samples": len(run.samples),
        "complete": run.outcome.complete,
    }
