"""``ladder``: every tier's error behind every layer, and how far each layer still sees its input."""

from pathlib import Path
from typing import Annotated

import typer

from ..output import Json, print_json, print_table
from ..progress import progress_bar
from ..recording import record


def command(
    network: Annotated[str, typer.Option(help="vgg11, vgg13, vgg16 or vgg19.")] = "vgg19",
    image: Annotated[int, typer.Option(help="Image size in pixels.")] = 224,
    batch: Annotated[int, typer.Option(help="Images.")] = 3,
    seed: Annotated[int, typer.Option(help="Of weights and images.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON document to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Emulate every tier at full size and hold it against float64; minutes on two cores, no GPU needed."""
    from ...correctness.ladder import ladder
    from ...workload.network import network as find_network

    subject = find_network(network, image=image)
    with progress_bar("ladder") as update:
        steps = iter(range(1000))
        document = ladder(subject, batch=batch, seed=seed, progress=lambda text: update(next(steps), 10, text))
    if out:
        record(out, document)
    if as_json:
        print_json(document)
        return
    last = subject.layers[-1].name
    rows = [
        (r["arithmetic"], *("" if r[k] is None else f"{r[k]:.2e}" for k in ("relative_error", "expected", "budget")))
        for r in document["errors"]
        if r["layer"] == last
    ]
    title = f"Relative error of the logits, {network} with {image} pixels, emulated"
    print_table(title, ("arithmetic", "error", "expected", "budget"), rows)
