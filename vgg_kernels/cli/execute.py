"""``execute``: run the compiled Hopper code of a forward pass on this CPU, with an H100's own sums."""

from typing import Annotated

import typer

from .output import Json, print_json, print_table
from .progress import progress_bar


def command(
    tier: Annotated[str, typer.Option(help="fp32, fp16x3, tf32, fp16, bf16 or fp8.")] = "fp16",
    network: Annotated[str, typer.Option(help="vgg11, vgg13, vgg16 or vgg19.")] = "vgg19",
    image: Annotated[int, typer.Option(help="Image size in pixels.")] = 224,
    batch: Annotated[int, typer.Option(help="Images.")] = 1,
    layer: Annotated[str | None, typer.Option(help="This layer alone.")] = None,
    seed: Annotated[int, typer.Option(help="Of weights and images.")] = 0,
    fast: Annotated[bool, typer.Option("--fast", help="Sum as this CPU does: as right, other bits.")] = False,
    json: Json = False,
) -> None:
    """Execute every launch from its PTX: hazards, traffic, tensor-core clocks, and the error against float64."""
    import os

    os.environ["TRITON_INTERPRET"] = "0"  # before anything imports triton: the kernels are compiled
    from ..emulator import execute
    from ..emulator.group import Options
    from ..emulator.ptx import EmulationError
    from ..workload.inputs import draw
    from ..workload.network import network as find_network
    from ..workload.weights import reference

    subject, options = find_network(network, image=image), Options(exact=not fast)
    with progress_bar(f"execute {tier}") as update:
        try:
            found = execute.run(
                reference(subject, "dyadic", seed), subject, tier, draw(subject, batch, "dyadic", seed),
                layer=layer, options=options, progress=update,
            )  # fmt: skip
        except EmulationError as error:
            raise ValueError(str(error)) from error
    document = execute.document(found, tier=tier, network=subject, batch=batch, options=options)
    print_json(dict(document)) if json else _print(document)
    raise typer.Exit(1 if document["hazards"] else 0)


def _print(document) -> None:
    rows = [
        (
            row["layer"], row["kernel"], row["ctas"], f"{sum(row['instructions'].values()):,}",
            f"{row['bulk_bytes'] / 1e6:,.1f}", f"{row['wgmma_clocks']:,}", sum(row["hazards"].values()),
            "" if row["relative_error"] is None else f"{row['relative_error']:.1e}", f"{row['seconds']:.1f}",
        )
        for row in document["launches"]
    ]  # fmt: skip
    error = document["relative_error"]
    print_table(
        f"Executed from PTX for sm_{document['arch']}, {document['tier']}, batch {document['batch']}: "
        + (f"logits {error:.2e} from float64" if error is not None else "one layer"),
        ("layer", "kernel", "CTAs", "instr.", "MB bulk", "MMA clk", "hazards", "error", "s"),
        rows,
        caption="Errors are each layer's own, on the input that it had; not run on hardware.",
        spare=("instr.", "MMA clk", "MB bulk"),
    )
    for row in document["launches"]:
        for hazard, times in row["hazards"].items():
            typer.echo(f"  {row['layer']} {row['kernel']}: {hazard}, {times} times")
