"""``mutants``: which check finds which wrong network."""

from pathlib import Path
from typing import Annotated

import typer

from ..output import Json, print_json, print_table
from ..progress import progress_bar
from ..recording import record


def command(
    network: Annotated[str, typer.Option(help="vgg11, vgg13, vgg16 or vgg19.")] = "vgg19",
    image: Annotated[int, typer.Option(help="Image size in pixels; small ones take seconds per network.")] = 32,
    only: Annotated[list[str] | None, typer.Option(help="A wrong network's name; repeat for several.")] = None,
    seed: Annotated[int, typer.Option(help="Of our gate's cases.")] = 0,
    full: Annotated[
        bool, typer.Option("--full", help="Also at 224 pixels, and our kernels as the right ones.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON document to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Run every wrong network before six gates; exit status 0 only where ours rejects exactly the wrong ones."""
    from ...correctness.kill_matrix import FULL_SIZE, GATES, kill_matrix
    from ...correctness.mutants.catalogue import WRONG_NETWORKS
    from ...workload.lookup import lookup
    from ...workload.network import network as find_network
    from ...workload.precision import TIERS

    for name in only or ():
        lookup("mutant", name, WRONG_NETWORKS)
    subject = find_network(network, image=image)
    with progress_bar("mutants") as update:
        matrix = kill_matrix(
            subject,
            seed=seed,
            names=only,
            tiers=TIERS if full else (),
            full_size=find_network(network, image=FULL_SIZE) if full else None,
            progress=update,
        )
    document = matrix.document()
    if out:
        record(out, document)
    if as_json:
        print_json(document)
    else:
        rows = [
            (row.name, row.group, row.intent, *("killed" if gate in row.killed_by else "accepted" for gate in GATES))
            for row in (*matrix.mutants, *matrix.correct)
        ]
        title = f"Wrong networks on {subject.name}, {subject.image} pixels"
        print_table(title, ("candidate", "group", "intent", *GATES), rows, spare=("intent", *GATES[:-1]))
        counts = [(name, g["networks"], *g["accepted"].values()) for name, g in document["groups"].items()]
        print_table("Accepted, by group", ("group", "networks", *GATES), counts, spare=GATES[:-1])
        for name, gates in matrix.differ.items():
            typer.echo(f"  another result at {FULL_SIZE} pixels: {name} ({'; '.join(gates)})")
    ours = GATES[-1]
    raise typer.Exit(1 if matrix.survivors(ours) or matrix.false_kills(ours) else 0)
