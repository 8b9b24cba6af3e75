"""NVIDIA's own matmul heuristics as a second opinion on matrix products: a CPU-only library, never required.

The library (``pip install nvidia-matmul-heuristics``) is proprietary and not a dependency of this project. Its
estimates for the published matrix products are recorded in ``second_opinion.csv`` with its version; ``estimate_us``
asks it anew where it is installed. Its word is a model's too: modelled, not measured.
"""

import csv
import importlib
import importlib.metadata
from dataclasses import asdict, astuple, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from ..workload.lookup import lookup

MODULE = "nvMatmulHeuristics"
DISTRIBUTION = "nvidia-matmul-heuristics"
# Operand, accumulation and result: H half, S single. Its tf32 code estimates above tf32's peak, so it is not asked.
PRECISIONS = {"fp16": "HSH", "fp32": "SSS"}
CARDS = {"h100_sxm": "H100_SXM", "h100_pcie": "H100_PCIE", "h200": "H200_SXM", "b200": "B200"}


@dataclass(frozen=True)
class Opinion:
    """The library's estimate of one matrix product ``[m, k] x [k, n]``, in microseconds."""

    device: str
    rate: str
    m: int
    n: int
    k: int
    estimate_us: float
    version: str


def estimate_us(rate: str, m: int, n: int, k: int, device: str) -> Opinion:
    """Ask the library.

    Raises:
        UnknownName: for a rate or card that it is not asked about.
        ValueError: where it is not installed.
    """
    precision, card = lookup("rate", rate, PRECISIONS), lookup("device", device, CARDS)
    try:
        library = importlib.import_module(MODULE)
    except ModuleNotFoundError:
        raise ValueError(
            f"{DISTRIBUTION} is not installed, so there is no fresh second opinion; pip install {DISTRIBUTION}"
        ) from None
    interface = library.NvMatmulHeuristicsInterfaceEx(
        backend=library.NvMatmulHeuristicsTarget.CUTLASS3,
        flags=library.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
        gpu=library.NvMatmulHeuristicsNvidiaGpu[card],
    )
    problem = interface.makeNvMatmulHeuristicsProblem(m, n, k, library.NvMatmulHeuristicsMatmulLayout.TN_ROW_MAJOR)
    best = interface.get(problem, 1, precision=precision)[0]
    return Opinion(device, rate, m, n, k, 1e6 * best["runtime"], importlib.metadata.version(DISTRIBUTION))


@cache
def recorded() -> tuple[Opinion, ...]:
    """Its recorded estimates of the published matrix products."""
    text = files(__package__).joinpath("second_opinion.csv").read_text()
    return tuple(
        Opinion(
            row["device"], row["rate"], int(row["m"]), int(row["n"]), int(row["k"]),
            float(row["estimate_us"]), row["version"],
        )
        for row in csv.DictReader(text.splitlines())
    )  # fmt: skip


def record(problems: list[tuple[str, int, int, int, str]], path: Path) -> None:
    """Ask about every (rate, m, n, k, device) and write the answers as CSV."""
    rows = [estimate_us(*problem) for problem in problems]
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(asdict(rows[0]))
        writer.writerows([*astuple(row)[:5], round(row.estimate_us, 2), row.version] for row in rows)
