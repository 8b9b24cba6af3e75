"""``predict``: the time model's word on every layer, with no GPU."""

from typing import Annotated

import typer

from .output import Json, print_json, print_table


def command(
    device: Annotated[str, typer.Option(help="Key of the card.")] = "h100_sxm",
    tier: Annotated[str, typer.Option(help="Precision tier.")] = "fp16",
    batch: Annotated[int, typer.Option(help="Images.")] = 10,
    network: Annotated[str, typer.Option(help="vgg11, vgg13, vgg16 or vgg19.")] = "vgg19",
    clock_mhz: Annotated[
        float | None, typer.Option(help="The card's own SM clock, in place of the data sheet's.")
    ] = None,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="Compile every kernel first (no GPU needed) and take its occupancy.")
    ] = False,
    json: Json = False,
) -> None:
    """How long each layer should take with our kernels, and what binds it (evidence: modelled, never measured)."""
    from ..floor.hardware import device as find_device
    from ..kernels.plan import plan
    from ..predict.timemodel import MODEL_VERSION, another_tile, predict
    from ..workload.network import network as build_network

    card = find_device(device)
    clock_hz = None if clock_mhz is None else 1e6 * clock_mhz
    layers, facts = build_network(network), None
    if compiled:
        from ..predict.compiled import inspect_all

        facts = dict(inspect_all(plan(layers, tier, batch, device), card.arch)).__getitem__
    rows = predict(layers, tier, device, batch, clock_hz=clock_hz, facts=facts)
    better = another_tile(layers, tier, device, batch)
    savings = [row.savings_us | {"another tile": better.get(row.layer, ("", 0.0))[1]} for row in rows]
    document = {
        "device": device,
        "tier": tier,
        "batch": batch,
        "network": network,
        "clock_mhz": clock_mhz,
        "total_us": sum(row.time_us for row in rows),
        "floor_us": sum(row.floor_us for row in rows),
        "evidence": "modelled",
        "occupancy": "compiled" if compiled else "tiles",
        "model_version": MODEL_VERSION,
        "layers": [
            {"layer": row.layer, "kernels": row.kernels, "tile": row.tile, "time_us": row.time_us,
             "floor_us": row.floor_us, "bound": row.bound, "waves": row.waves, "savings_us": saved}
            for row, saved in zip(rows, savings, strict=True)
        ],
        "savings_us": {change: sum(saved[change] for saved in savings) for change in savings[0]},
    }  # fmt: skip
    print_json(document) if json else _print(document, card.title)


def _print(document: dict, title: str) -> None:
    rows = []
    for row in document["layers"]:
        change, saved = max(row["savings_us"].items(), key=lambda item: item[1])
        efficiency = row["floor_us"] / row["time_us"]
        rows.append(
            [row["layer"], row["tile"], f"{row['time_us']:.1f}", f"{row['floor_us']:.1f}", f"{efficiency:.0%}",
             row["bound"], row["waves"], f"{change} -{saved:.1f}"]
        )  # fmt: skip
    total, floor = document["total_us"], document["floor_us"]
    rows.append(["network", "", f"{total:.1f}", f"{floor:.1f}", f"{floor / total:.0%}", "", "", ""])
    print_table(
        f"Predicted, µs: {document['network']}, {document['tier']}, batch {document['batch']}, {title}",
        ["layer", "tile", "time", "floor", "of floor", "bound", "waves", "one change would buy"],
        rows,
        f"modelled (version {document['model_version']}), not measured; floor: data-sheet rates, direct convolution\n"
        + "; ".join(f"{change}: -{saved:.0f} µs" for change, saved in document["savings_us"].items()),
        spare=("one change would buy", "waves", "of floor"),
    )
