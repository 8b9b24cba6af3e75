"""``records``: the workload page, its verification, and the ways to add a record."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from .output import Json, print_json, print_table

app = typer.Typer(help="The workload page: every record, its trust, and what nobody has measured.")


@app.callback(invoke_without_command=True)
def page(
    context: typer.Context,
    json: Json = False,
    html: Annotated[Path | None, typer.Option(help="Write the page to this file instead.")] = None,
) -> None:
    """Show the workload page: rankings by cohort, floors and predictions where nothing was measured."""
    if context.invoked_subcommand:
        return
    from ..report import page as report

    document = report.page()
    if html:
        from ..report.publish.html import document as as_html

        html.write_text(as_html(document), encoding="utf-8")
        Console(stderr=True).print(f"wrote {html}", highlight=False)
    elif json:
        print_json(document.model_dump(mode="json"))
    else:
        _print(document)


def _print(page) -> None:
    console = Console()
    console.print(f"[bold]{page.workload.name}[/], {page.workload.identity[:12]}, as of {page.as_of}", highlight=False)
    for remark in page.remarks:
        console.print(f"- {remark}", highlight=False)
    for ranking in page.rankings:
        rows = [_row(page.standing(identity)) for identity in ranking.standings]
        columns = ["implementation", "#", "mean ms", "95 % interval", "vs #1", "on eager", "trust", "observed", "id"]
        print_table(f"\n{ranking.cohort}", columns, rows, ranking.claim.sentence)
    for environment in page.environments:
        if environment.state == "not measured":
            known = ", ".join(f"{e.tier} {e.floor_us:.0f} / {e.predicted_us:.0f}" for e in environment.estimates)
            console.print(f"{environment.title}: not measured; floor / prediction in us: {known}", highlight=False)
    unranked = [standing for standing in page.standings if standing.status != "ranked"]
    console.print(f"{len(unranked)} observations are not ranked; `records show ID` says why", highlight=False)
    for problem in page.problems:
        console.print(f"[bold red]not read:[/] {escape(problem)}", highlight=False)


def _row(standing) -> list[str]:
    times = standing.record.times
    return [
        standing.record.variant,
        f"{standing.rank}{'=' if standing.tied_with else ''}",
        _ms(times.as_published_ms, 3),
        f"{_ms(times.low_ms)} to {_ms(times.high_ms)}" if times.low_ms is not None else "too few",
        f"{standing.versus_first:.2f}",
        f"{standing.speedup:.2f}" if standing.speedup else "refused",
        standing.trust.level,
        str(standing.record.origin.observed) + (" stale" if standing.stale else ""),
        standing.id[:8],
    ]


def _ms(value: float, digits: int = 4) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.{digits}g}"


@app.command()
def show(
    identity: Annotated[str, typer.Argument(help="The first digits of a record's id.")], json: Json = False
) -> None:
    """Show one record: its facts, what follows from them, and why."""
    from ..report import page as report

    standing = report.page().standing(identity)
    document = standing.model_dump(mode="json")
    if json:
        print_json(document)
    else:
        print_table(f"record {standing.id}", ["fact", "value"], list(_flat(document)))


def _flat(value, key: str = ""):
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from _flat(entry, f"{key}.{name}" if key else name)
    else:
        yield key, "; ".join(map(str, value)) if isinstance(value, list) else value


@app.command()
def verify(json: Json = False) -> None:
    """Recompute every hash, statistic, trust level and rank, offline; exit status 1 names the first row that fails."""
    from ..report import records_json

    problems = records_json.verify()
    checked = {} if problems else records_json.summary()
    if json:
        print_json({"passed": not problems, "checked": checked, "problems": problems})
    elif problems:
        Console().print("\n".join(problems), markup=False, highlight=False, soft_wrap=True)
    else:
        print("; ".join(f"{n} {what}" for what, n in checked.items()) + ": all hold")
    raise typer.Exit(1 if problems else 0)


@app.command()
def publish() -> None:
    """Write data/records.json from the recorded data, after a run was added."""
    from ..report import records_json

    records_json.publish()
    print(f"wrote {records_json.PUBLISHED}")


@app.command()
def compile(
    tier: Annotated[list[str] | None, typer.Option(help="Only this tier. Repeatable; all where none is named.")] = None,
) -> None:
    """Compile every launch of VGG19 for sm_90 and sm_100, with no GPU, and write data/compiled.csv."""
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    from ..report import compiled
    from ..workload.precision import TIERS

    columns = (TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("compiling", total=None)
        tiers = tier or list(TIERS)
        table = compiled.record(tiers=tiers, tell=lambda done: progress.update(task, description=done))
    print(f"wrote {compiled.FILE}: {len(table)} launches")


@app.command()
def check(folder: Annotated[Path, typer.Argument(help="A run, or a folder of runs.")], json: Json = False) -> None:
    """Read runs from anywhere, name what does not hold by file and row, and show how they would rank."""
    from ..report.submissions import standings_of

    standings, problems = standings_of(folder)
    if json:
        print_json({"problems": problems, "standings": [s.model_dump(mode="json") for s in standings]})
    else:
        Console().print("\n".join(problems), markup=False, highlight=False, soft_wrap=True)
        rows = [
            [s.record.variant, s.record.cohort, s.status, s.rank or "-", s.trust.level, "; ".join(s.reasons)]
            for s in standings
        ]
        print_table("How they would stand", ["implementation", "cohort", "status", "#", "trust", "why"], rows)
    raise typer.Exit(0 if standings else 1)


@app.command()
def seal(folder: Annotated[Path, typer.Argument(help="A run's folder: samples.csv and provenance.json.")]) -> None:
    """Seal a run of your own after checking it; a sealed run is never written again."""
    from ..report.submissions import seal as seal_run

    print(f"sealed: {seal_run(folder)}")


@app.command("try")
def attempt(
    module: Annotated[Path, typer.Argument(help="A Python file with build(reference) -> callable. Its code is run.")],
    tier: Annotated[str, typer.Option(help="The precision that it claims: it is gated and ranked by it.")],
    name: Annotated[str | None, typer.Option(help="Of the implementation; by default the file's.")] = None,
    network: Annotated[str, typer.Option(help="vgg11, vgg13, vgg16 or vgg19; records are of vgg19.")] = "vgg19",
    image: Annotated[int, typer.Option(help="Height and width; records are of 224.")] = 224,
    batch: Annotated[int, typer.Option(help="Images.")] = 10,
    effort: Annotated[str, typer.Option(help="How much the gate asks: quick or full.")] = "quick",
    budget: Annotated[float, typer.Option(help="Seconds for all of it.")] = 480.0,
    out: Annotated[Path | None, typer.Option(help="Keep the run below this folder.")] = None,
    json: Json = False,
) -> None:
    """Put an implementation of your own through the gate, time it like ours, and show where it would stand."""
    from tempfile import TemporaryDirectory

    from ..measure.explain import jsonable
    from ..records.submission import attempt
    from ..report.submissions import standings_of

    with TemporaryDirectory() as scratch:
        folder = out or Path(scratch)
        table = {"name": network, "image": image}
        session = attempt(module, table, name or module.stem, tier, batch, folder, budget, effort)
        standings, problems = standings_of(session.folder)
    verdict = next((n["payload"]["verdict"] for n in session.notes if n["kind"] == "gate"), None)
    if json:
        document = {"verdict": verdict, "rows": jsonable(session.rows.to_dict("records")), "problems": problems}
        print_json(document | {"standings": [standing.model_dump(mode="json") for standing in standings]})
    else:
        for check in (c for c in verdict["checks"] if not c["passed"]) if verdict else ():
            print(f"gate: {check['name']}, {check['inputs'] or check['weights']}: {check['detail']}")
        keys = ["variant", "tier", "batch", "timer", "cache", "samples"]
        rows = [[*(row[key] for key in keys), f"{row['median_ms']:.4g}"] for row in session.rows.to_dict("records")]
        print_table("Times (measured)", ["implementation", "tier", "batch", "timer", "cache", "n", "median ms"], rows)
        if not standings:
            print("No record of the workload came of it: those are of vgg19 at 224 pixels.")
        for standing in standings:
            place = f"rank {standing.rank}" if standing.rank else f"{standing.status}: {'; '.join(standing.reasons)}"
            print(f"{standing.record.cohort}: {place}")
        for step, reason in session.outcome.reasons.items():
            print(f"{step}: {reason}")
    raise typer.Exit(0 if verdict and verdict["passed"] and len(session.rows) else 1)
