"""``measure``: gate, time, profile and take the peak rates of the device at hand, within a time budget."""

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from .output import Json, print_json, print_table

BUDGET_S = 480.0
INTERRUPTED = 130  # exit status, as a shell gives it
OUT = "Folder for the run; by default the study's data/local, which git ignores."
ONLY = (
    "Only this: a variant, a family (eager, inductor, ours), one of our tiers, "
    "or a part (compile, verify, time, repeat, layers, profile, peak_rates). Repeatable."
)
BUDGET = "Seconds, compile time included. A step that hangs may take 30 s more: give a job 60 s above the budget."


def command(
    out: Annotated[Path | None, typer.Option(help=OUT)] = None,
    budget: Annotated[float, typer.Option(help=BUDGET)] = BUDGET_S,
    only: Annotated[list[str] | None, typer.Option(help=ONLY)] = None,
    batch: Annotated[list[int] | None, typer.Option(help="Images; repeatable. On a GPU 10, 1, 64.")] = None,
    json: Json = False,
) -> None:
    """Measure this machine, most important first, each of our tiers verified before it is timed; evidence: measured.

    Every step runs in a process of its own and leaves a file. Interrupted, even by kill -9, the same command goes on
    with the run. Exit status 0 where anything was measured: a time, a verdict of the gate, a profile or a peak rate.
    """
    if not 0 < budget < float("inf"):
        raise ValueError(f"budget must be a positive number of seconds, got {budget:g}")
    if min(batch or [1]) < 1:
        raise ValueError(f"batch must be >= 1, got {min(batch or [1])}")
    folder = (out or _default_folder()).absolute()
    sys.exit(measure(folder, budget, tuple(only or ()), tuple(batch or ()), json))


def measure_first(budget: float = BUDGET_S) -> None:
    """Measure, where ``records.fresh`` wants it: what ``study`` does on a GPU before it runs the notebooks.

    A measurement that fails has said so; the notebooks then show what is recorded.

    Raises:
        KeyboardInterrupt: where the user interrupted it.
    """
    from ..records.fresh import gpu_name, wanted

    folder = _default_folder()
    if wanted(folder, gpu_name()):
        _say(f"Measuring this GPU first, for at most {budget:.0f} s (VGG_STUDY=recorded leaves that out).")
        if measure(folder, budget) == INTERRUPTED:
            raise KeyboardInterrupt


def _default_folder() -> Path:
    """``data/local`` of the study; found without ``report.study``, whose libraries a measuring machine may lack."""
    from ..measure.provenance import PACKAGE

    study = Path(os.environ.get("VGG_STUDY_ROOT") or PACKAGE.parent)
    if not (study / "data").is_dir():
        raise ValueError("no study's data folder beside the package: say with --out where the run should go")
    return study / "data" / "local"


def _say(sentence: str) -> None:
    Console(stderr=True).print(sentence, markup=False, highlight=False, soft_wrap=True)


def measure(
    folder: Path,
    budget: float,
    only: tuple[str, ...] = (),
    batch: tuple[int, ...] = (),
    json: bool = False,
    network: dict | None = None,
) -> int:
    """Measure into a run below ``folder`` and print what came of it; the exit status.

    Args:
        folder: for runs.
        budget: seconds.
        only: parts, variants, families and tiers; none for everything.
        batch: images; by default what suits the device.
        json: print one JSON document instead of a table.
        network: arguments of ``workload.network.network``, VGG19 by default.
    """
    for number in (signal.SIGINT, signal.SIGTERM):  # a script's background command inherits an ignored SIGINT
        signal.signal(number, signal.default_int_handler)
    try:
        return _measure(folder, budget, only, batch, json, network or {"name": "vgg19"})
    except KeyboardInterrupt:
        _say("interrupted outside any step; where a run was begun, the same command goes on with it")
        return INTERRUPTED


def _measure(
    folder: Path, budget: float, only: tuple[str, ...], batch: tuple[int, ...], json: bool, network: dict
) -> int:
    from ..measure import plan
    from ..measure.run import Device, DeviceLost
    from ..measure.worker import FolderLost
    from ..records import session
    from ..workload.network import network as find_network
    from .steps import Steps

    device = Device(arguments={"network": network})
    began = device.now()
    try:
        found = device.describe()
    except DeviceLost as error:
        _say(f"the device does not answer: {error}")
        return 1
    kind = found["hardware"]["kind"]
    for sentence in _opening(found):
        _say(sentence)
    parts, chosen, table = *plan.choose(kind, only), find_network(**network)
    steps = partial(plan.steps, kind, chosen, batch or plan.BATCHES[kind], parts)
    left = max(0.0, budget - (device.now() - began))
    try:
        with Steps(found["device_name"], len(steps()), budget, device.now) as progress:
            run = session.run(found, device.start, folder, table, steps, left, progress.tell, device.now)
    except DeviceLost as error:
        _say(f"the device does not answer: {error}; what was measured stays in {folder}, and the same command goes on")
        return 1
    except FolderLost as error:
        _say(f"{error}; what was measured stays in {folder}, and with room the same command goes on with that run")
        return 1
    except OSError as error:
        _say(f"no run can be begun in {folder}: {error.strerror or error}")
        return 1
    document = _document(run)
    print_json(document) if json else _print(document)
    for sentence in _closing(run, budget):
        _say(sentence)
    return INTERRUPTED if run.outcome.interrupted else 0 if run.measured else 1


def _opening(found: dict) -> list[str]:
    """What a reader should know before anything is compiled."""
    from ..measure.summary import remarks

    sentences = list(remarks(found))
    if found["hardware"]["kind"] == "cpu":
        sentences.append(
            f"PyTorch {found['torch']} sees no NVIDIA GPU, so this measures the CPU; the last line says what a GPU adds"
        )
    return sentences


def _document(run) -> dict:
    from ..measure.explain import jsonable
    from ..measure.summary import answers, throttled

    return jsonable(
        {
            "device": run.provenance["device"],
            "device_name": run.provenance["device_name"],
            "evidence": "measured",
            "run": run.folder.name,
            "folder": str(run.folder),
            "sealed": run.sealed,
            "complete": run.outcome.complete,
            "interrupted": run.outcome.interrupted,
            "gates": {n["payload"]["variant"]: n["payload"]["passed"] for n in run.notes if n["kind"] == "gate"},
            "steps": run.outcome.ended,
            "reasons": run.outcome.reasons,
            "throttled": throttled(run.notes),
            "rows": run.rows.to_dict("records"),
            "answers": answers(run.provenance["device"], run.samples, run.notes),
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
    _print_answers(document["answers"])
    print(f"Rows, notes and provenance: {document['folder']}")


def _print_answers(answers: dict) -> None:
    for tier, layers in answers["layers"].items():
        print_table(
            f"{tier}, batch {answers['batch']}: predicted (modelled) and measured, us",
            ("layer", "predicted", "measured", "ratio", "within"),
            (
                (row["layer"], row["predicted"], f"{row['measured_us']:.1f}", f"{row['ratio']:.2f}",
                 "yes" if row["within"] else "no")
                for row in layers
            ),
            caption=f"Ratio: measured over likely. Within: {answers['within']}.",
        )  # fmt: skip
    for sentence in answers["sentences"]:
        print(sentence)


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


def _closing(run, budget: float) -> list[str]:
    """What a reader should know about what is missing."""
    outcome = run.outcome
    missing = {name: state for name, state in outcome.ended.items() if state != "done"}
    skipped = [name for name, state in missing.items() if state == "skipped"]
    sentences = [
        f"{state}: {name}: {outcome.reasons.get(name, '')}".rstrip(": ")
        for name, state in missing.items()
        if state not in ("skipped", "interrupted")
    ]
    if outcome.interrupted:
        done = [name for name, state in outcome.ended.items() if state == "done"]
        under_way = [name for name, state in missing.items() if state == "interrupted"]
        sentences.append(
            f"interrupted{' in ' + under_way[0] if under_way else ''}; done: {', '.join(done) or 'nothing'}; "
            "the same command goes on with this run"
        )
        return sentences
    if skipped:
        sentences.append(f"not begun, {len(skipped)} steps, which a larger --budget may reach: {', '.join(skipped)}")
    if not run.measured:
        sentences.append(f"nothing was measured: a budget of {budget:.0f} s is too small, or every step failed (above)")
    if run.provenance["hardware"]["kind"] == "cpu":
        sentences.append(
            f"No NVIDIA GPU here: eager and inductor are timed on the CPU ({run.provenance['device_name']}), our "
            "kernels verified on a small network in Triton's interpreter, which says nothing about their speed. On a "
            "GPU of compute capability 9.0 or later the same command times them too, beside eager and inductor at "
            "every precision, with every timer, and takes the card's peak rates and clocks."
        )
    return sentences
