"""``measure``: gate, time, profile and take the ceilings of the device at hand, inside a budget of seconds."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .output import Json, print_json, print_table

BUDGET_S = 480.0
OUT = "Folder for the run; by default the study's data/local, which git ignores."
ONLY = (
    "Only this: a variant, a family (eager, inductor, ours), one of our tiers, "
    "or a part (compile, verify, time, repeat, layers, profile, ceilings). Repeatable."
)
BUDGET = (
    "Seconds, compile time included. A step that hangs may take 45 s more and the record of it as long again: "
    "give a job at least 100 s above the budget."
)
UNTIL = "Worker process: measure here and now, until this time (seconds since 1970)."


def command(
    out: Annotated[Path | None, typer.Option(help=OUT)] = None,
    budget: Annotated[float, typer.Option(help=BUDGET)] = BUDGET_S,
    only: Annotated[list[str] | None, typer.Option(help=ONLY)] = None,
    batch: Annotated[list[int] | None, typer.Option(help="Images; repeatable. On a GPU 10, 1, 64.")] = None,
    json: Json = False,
    until: Annotated[float | None, typer.Option(hidden=True, help=UNTIL)] = None,
) -> None:
    """Measure this machine, most important first, each of our tiers verified before it is timed; evidence: measured.

    Every row is on the disk as soon as it exists. Interrupted, even by kill -9, the same command goes on with the run.
    Exit status 0 where anything was measured: a time, a verdict of the gate, a profile or a ceiling.
    """
    if not 0 < budget < float("inf"):
        raise ValueError(f"a budget of {budget:g} s is not accepted: a positive number of seconds is")
    if min(batch or [1]) < 1:
        raise ValueError(f"batches {batch} are not accepted: each at least 1 is")
    folder = (out or _default_folder()).absolute()
    if until is None:
        sys.exit(_supervised(folder, budget, only or [], batch or [], json))
    sys.exit(_worker(folder, max(until - time.time(), 0.0), tuple(only or ()), tuple(batch or ()), json))


def measure_first(budget: float = BUDGET_S) -> None:
    """Measure, where ``records.fresh`` wants it: what ``study`` does on a GPU before it runs the notebooks.

    A measurement that fails has said so; the notebooks then show what is recorded.
    """
    from ..records.fresh import gpu_name, wanted

    folder = _default_folder()
    if wanted(folder, gpu_name()):
        _say(f"Measuring this GPU first, for at most {budget:.0f} s (VGG_STUDY=recorded leaves that out).")
        _supervised(folder, budget, [], [], json=False)


def _default_folder() -> Path:
    """``data/local`` of the study; found without ``report.study``, whose libraries a measuring machine may lack."""
    from ..measure.provenance import PACKAGE

    study = Path(os.environ.get("VGG_STUDY_ROOT") or PACKAGE.parent)
    if not (study / "data").is_dir():
        raise ValueError("no study's data folder beside the package: say with --out where the run should go")
    return study / "data" / "local"


def _supervised(folder: Path, budget: float, only: list[str], batch: list[int], json: bool) -> int:
    from ..measure.supervisor import supervise

    words = ["measure", "--until", str(time.time() + budget), "--out", str(folder), "--budget", str(budget)]
    words += [word for name in only for word in ("--only", name)]
    words += [word for size in batch for word in ("--batch", str(size))]
    return supervise(words + (["--json"] if json else []), _say)


def _say(sentence: str) -> None:
    Console(stderr=True).print(sentence, markup=False, highlight=False, soft_wrap=True)


def _worker(folder: Path, budget: float, only: tuple[str, ...], batch: tuple[int, ...], json: bool) -> int:
    from ..measure.supervisor import die_with_parent

    die_with_parent()
    from ..measure import schedule
    from ..measure.run import DeviceLost
    from ..measure.torch_device import TorchBench
    from ..measure.watchdog import STUCK
    from ..measure.writing import OutputLost
    from ..records import session
    from .steps import Steps

    try:
        bench = TorchBench()
    except RuntimeError as error:
        _say(f"the GPU does not answer: {str(error).splitlines()[0]}")
        return 1
    if bench.kind == "cpu":
        version = bench.provenance()["torch"]
        _say(f"PyTorch {version} sees no NVIDIA GPU, so this measures the CPU; what a GPU adds is said at the end.")
    parts, chosen = schedule.choose(bench.kind, only)
    steps = schedule.steps(bench.kind, chosen, batch or schedule.BATCHES[bench.kind], parts)
    try:
        with Steps(bench, len(steps), budget) as progress:
            found = session.run(bench, folder, steps, budget, progress.tell)
    except DeviceLost:
        sys.stdout.flush()
        os._exit(STUCK)  # not by way of clean-up, which waits for a device that no longer answers
    except OutputLost as error:
        _say(f"{error}; {error.kept} samples stay in {folder}, and with room the same command goes on with that run")
        return 0 if error.kept else 1
    except OSError as error:
        _say(f"no run can be begun in {folder}: {error.strerror or error}")
        return 1
    document = _document(bench, found)
    print_json(document) if json else _print(document)
    for sentence in _closing(bench, found, budget):
        _say(sentence)
    return 0 if found.measured else 1


def _document(bench, found) -> dict:
    from ..measure.explain import jsonable
    from ..measure.summary import throttled

    return jsonable(
        {
            "device": bench.provenance()["device"],
            "device_name": bench.name,
            "evidence": "measured",
            "run": found.folder.name,
            "folder": str(found.folder),
            "sealed": found.sealed,
            "complete": found.outcome.complete,
            "interrupted": found.outcome.interrupted,
            "gates": {n["payload"]["variant"]: n["payload"]["passed"] for n in found.notes if n["kind"] == "gate"},
            "steps": found.outcome.ended,
            "reasons": found.outcome.reasons,
            "throttled": throttled(found.notes),
            "rows": found.rows.to_dict("records"),
        }
    )


def _print(document: dict) -> None:
    if document["rows"]:
        _print_rows(document)
    if document["gates"]:
        passed = [f"{name} {'passed' if ok else 'FAILED'}" for name, ok in document["gates"].items()]
        print(f"Gate: {', '.join(passed)}.")
    for sentence in document["throttled"]:
        print(f"Throttled: {sentence}.")
    print(f"Rows, notes and provenance: {document['folder']}")


def _print_rows(document: dict) -> None:
    def ratio(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}x"

    print_table(
        f"Measured on {document['device_name']}: whole network",
        ("variant", "batch", "timer, L2", "n", "median ms", "spread", "vs eager", "vs inductor"),
        (
            (
                row["variant"], row["batch"], f"{row['timer']} {row['cache']}", row["samples"],
                f"{float(format(row['median_ms'], '.4g')):,g}",
                f"{(row['high_ms'] - row['low_ms']) / row['median_ms']:.1%}",
                ratio(row["vs_eager"]), ratio(row["vs_inductor"]),
            )
            for row in document["rows"]
        ),
        caption="Spread: the middle half of the samples. Ratios: within this run, same batch, timer and cache state; "
        "above 1 is faster.",
    )  # fmt: skip


def _closing(bench, found, budget: float) -> list[str]:
    """What a reader should know about what is missing."""
    outcome = found.outcome
    missing = {name: state for name, state in outcome.ended.items() if state != "done"}
    skipped = [name for name, state in missing.items() if state == "skipped"]
    sentences = [
        f"{state}: {name}: {outcome.reasons.get(name, '')}" for name, state in missing.items() if state != "skipped"
    ]
    if skipped:
        sentences.append(f"not begun, {len(skipped)} steps, which a larger --budget may reach: {', '.join(skipped)}")
    if not found.measured:
        sentences.append(f"nothing was measured: a budget of {budget:.0f} s is too small, or every step failed (above)")
    if outcome.interrupted:
        sentences.append("interrupted: the same command goes on with this run")
    if bench.kind == "cpu":
        sentences.append(
            f"No NVIDIA GPU here: eager and inductor are timed on the CPU ({bench.name}), our kernels verified on a "
            "small network in Triton's interpreter, which says nothing about their speed. On a GPU of compute "
            "capability 9.0 or later the same command times them too, beside eager and inductor at every precision, "
            "with every timer, and takes the card's ceilings and clocks."
        )
    return sentences
