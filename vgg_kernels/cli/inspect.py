"""``inspect``: what the compiler makes of every kernel of a forward pass, with no GPU."""

from typing import Annotated

import typer

from .output import Json, print_json, print_table
from .progress import progress_bar


def command(
    arch: Annotated[int, typer.Option(help="Compute capability as one number: 90 or 100.")] = 90,
    tier: Annotated[str, typer.Option(help="Precision tier.")] = "fp16",
    batch: Annotated[int, typer.Option(help="Images.")] = 10,
    network: Annotated[str, typer.Option(help="vgg11, vgg13, vgg16 or vgg19.")] = "vgg19",
    json: Json = False,
) -> None:
    """Compile each launch and read the cubin: registers, spills, shared memory, tensor-core and bulk-copy instructions.

    The kernels are those that would run; they have been compiled, not run on hardware.
    """
    from ..floor.hardware import device as find_device
    from ..kernels.plan import plan
    from ..predict.compiled import PLANNED_FOR, inspect_all
    from ..predict.work import occupancy
    from ..workload.lookup import lookup
    from ..workload.network import network as build_network

    card = find_device(lookup("architecture", arch, PLANNED_FOR))
    launches = plan(build_network(network), tier, batch, card.key)
    rows = []
    with progress_bar(f"compile {tier} for sm_{arch}") as update:
        for done, (launch, facts) in enumerate(inspect_all(launches, arch), start=1):
            together = occupancy(facts.shared_bytes, facts.registers, launch.tile.warps, card)
            rows.append(
                {
                    "layer": launch.layer,
                    "kernel": launch.kernel,
                    "tile": str(launch.tile),
                    "view": launch.tile.view,
                    **vars(facts),
                    "ctas": launch.ctas,
                    "resident": together,
                    "waves": round(launch.ctas / (card.sms * together), 2),
                    "l2_bytes_per_clock": launch.l2_bytes_per_clock(card),
                    "bytes_in_flight": launch.bytes_in_flight * together,
                }
            )
            update(done, len(launches), f"{launch.layer} {launch.kernel}")
    document = {"arch": arch, "tier": tier, "network": network, "batch": batch, "tiles_for": card.key, "layers": rows}
    print_json(document) if json else _print(document)


def _print(document: dict) -> None:
    columns = (
        "layer", "kernel", "tile", "reg", "spill", "stack", "KB shared", "MMAs", "MMA", "bulk", "CTAs", "an SM",
        "waves", "L2 B/clk", "KB in flight",
    )  # fmt: skip
    print_table(
        f"Compiled for sm_{document['arch']}, {document['tier']}, batch {document['batch']}, not run on hardware",
        columns,
        [
            (
                row["layer"], row["kernel"], row["tile"], row["registers"], row["spills"], row["stack_bytes"],
                f"{row['shared_bytes'] / 1024:.0f}", row["mma_count"], row["mma"],
                f"{row['bulk_loads']}/{row['bulk_stores']}", row["ctas"], row["resident"], row["waves"],
                "" if row["l2_bytes_per_clock"] is None else f"{row['l2_bytes_per_clock']:.0f}",
                f"{row['bytes_in_flight'] / 1024:.0f}",
            )
            for row in document["layers"]
        ],
        caption="L2 B/clk: what one SM asks of L2 at the tensor cores' full rate; about 37 is what it gets.",
        spare=("KB in flight", "waves", "an SM", "L2 B/clk", "CTAs", "KB shared", "MMAs", "stack", "bulk"),
    )  # fmt: skip
