"""``tiles``: search the tiles of every layer, with no GPU, and store what was chosen and why."""

from typing import Annotated

import typer

from ..output import Json, print_json, print_table
from ..progress import progress_bar


def command(
    device: Annotated[str, typer.Option(help="Key of the card.")] = "h100_sxm",
    tier: Annotated[list[str] | None, typer.Option(help="Precision tier; repeat for several, all by default.")] = None,
    batch: Annotated[int, typer.Option(help="Images.")] = 10,
    network: Annotated[str, typer.Option(help="vgg11, vgg13, vgg16 or vgg19.")] = "vgg19",
    keep: Annotated[int, typer.Option(min=1, help="Candidates of a layer to compile.")] = 4,
    jobs: Annotated[int, typer.Option(help="Worker processes; -1 for one a core.")] = -1,
    store: Annotated[bool, typer.Option(help="Write the choice into kernels/tuned_tiles.csv.")] = True,
    json: Json = False,
) -> None:
    """Compile the time model's best tiles of each layer, drop those that spill, choose, and store the choice."""
    from ...predict import search
    from ...workload.network import network as build_network
    from ...workload.precision import TIERS

    with progress_bar("compile candidates") as update:
        choices = search.search(
            build_network(network), tier or list(TIERS), device, batch, keep=keep, jobs=jobs, progress=update
        )
    if store:
        search.store(choices)
    rows = [vars(choice) for choice in choices]
    if json:
        print_json({"device": device, "batch": batch, "evidence": "modelled", "stored": store, "tiles": rows})
        return
    columns = ("shape", "tier", "tile", "µs", "bound", "CTAs", "waves", "L2 B/clk", "dropped", "runner-up", "its µs")
    print_table(
        f"Tiles for {device}, batch {batch} (times are modelled)",
        columns,
        [
            (
                row["shape"], row["tier"], row["tile"], row["time_us"], row["bound"], row["ctas"], row["waves"],
                row["l2_bytes_per_clock"], f"{row['dropped']}/{row['compiled']}", row["runner_up"],
                "" if row["runner_up_us"] is None else row["runner_up_us"],
            )
            for row in rows
        ],
        spare=("runner-up", "its µs", "dropped", "waves", "CTAs", "L2 B/clk", "bound"),
    )  # fmt: skip
