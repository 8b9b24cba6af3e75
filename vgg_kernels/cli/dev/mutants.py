"""``mutants``: which check finds which wrong network."""

from pathlib import Path
from typing import Annotated

import typer

from ..output import Json, print_json, print_table
from ..progress import progress_bar
from ..recording import record


def command(
    network: Annotated[str, typer.Option(help="vgg11, vgg13, vgg16 or vgg19.")] = "vgg19",
    image: Annotated[int, typer.Option(help="Image size in pixels; small ones take seconds a mutant.")] = 32,
    only: Annotated[list[str] | None, typer.Option(help="A mutant's name; repeat for several.")] = None,
    seed: Annotated[int, typer.Option(help="Of our gate's questions.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON document to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Try every mutant before six gates; exit status 0 only where ours kills exactly the wrong ones."""
    from ...correctness.kill_matrix import GATES, kill_matrix
    from ...correctness.mutants.catalogue import MUTANTS
    from ...workload.lookup import lookup
    from ...workload.network import network as find_network

    for name in only or ():
        lookup("mutant", name, MUTANTS)
    subject = find_network(network, image=image)
    with progress_bar("mutants") as update:
        matrix = kill_matrix(subject, seed=seed, names=only, progress=update)
    document = matrix.document()
    if out:
        record(out, document)
    if as_json:
        print_json(document)
    else:
        rows = [
            (row.name, row.intent, *("killed" if gate in row.killed_by else "accepted" for gate in GATES))
            for row in (*matrix.mutants, *matrix.correct)
        ]
        counts = ", ".join(f"{gate}: {n} of {len(matrix.mutants)} killed" for gate, n in document["killed"].items())
        print_table(f"Mutants on {subject.name}, {subject.image} pixels", ("candidate", "intent", *GATES), rows, counts)
    ours = GATES[-1]
    raise typer.Exit(1 if matrix.survivors(ours) or matrix.false_kills(ours) else 0)
