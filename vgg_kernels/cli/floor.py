"""``floor``: the least each layer can take, by tier, and the public floor beside it."""

from typing import Annotated

import typer

from ..floor.algorithms import ALGORITHMS
from ..floor.hardware import device as find_device
from ..floor.public import public_floor_us, record_ratio
from ..floor.rates import RATES, at_clock
from ..floor.roofline import FUSIONS, layer_floors, total_us
from ..workload.lookup import lookup
from ..workload.network import network as build_network
from ..workload.precision import TIERS
from .output import Json, print_json, print_table


def command(
    device: Annotated[str, typer.Option(help="Key of the card.")] = "h100_sxm",
    batch: Annotated[int, typer.Option(help="Images.")] = 10,
    network: Annotated[str, typer.Option(help="vgg11, vgg13, vgg16 or vgg19.")] = "vgg19",
    algorithm: Annotated[str, typer.Option(help=f"Of the convolutions: {', '.join(ALGORITHMS)}.")] = "direct",
    fusion: Annotated[str, typer.Option(help=f"Which activations cross HBM: {', '.join(FUSIONS)}.")] = "layerwise",
    rates: Annotated[str, typer.Option(help=f"Whose rates: {', '.join(RATES)}.")] = "data-sheet",
    clock_mhz: Annotated[float | None, typer.Option(help="A sampled SM clock, in place of --rates.")] = None,
    json: Json = False,
) -> None:
    """The least time each layer can take, from operations, bytes and a card's rates (evidence: derived)."""
    layers = build_network(network)
    card = find_device(device)
    chosen = lookup("rates", rates, RATES)(card) if clock_mhz is None else at_clock(card, 1e6 * clock_mhz)
    tiers = {}
    for tier in (t for t in TIERS.values() if t.rate in chosen.peaks):  # not every rate has been published
        rows = layer_floors(layers, tier.name, device, batch, algorithm=algorithm, fusion=fusion, rates=chosen)
        tiers[tier.name] = {
            "stagewise_us": total_us(rows, fusion),
            "layers": [
                {"layer": row.layer, "flops": row.flops, "bytes": row.bytes, "floor_us": row.floor_us,
                 "arithmetic_us": row.arithmetic_us, "traffic_us": row.traffic_us, "bound": row.bound}
                for row in rows
            ],
        }  # fmt: skip
    document = {
        "device": device,
        "batch": batch,
        "network": network,
        "algorithm": algorithm,
        "fusion": fusion,
        "rates": chosen.name,
        "evidence": "derived",
        "tiers": tiers,
        "public_floor": {
            "us": public_floor_us(layers, device, batch),
            "record_ratio": record_ratio(layers, device, batch),
        },
    }
    print_json(document) if json else _print(document)


def _print(document: dict) -> None:
    tiers = document["tiers"]
    names = [row["layer"] for row in next(iter(tiers.values()))["layers"]]
    rows = [
        [name, *(f"{tier['layers'][i]['floor_us']:.1f} {tier['layers'][i]['bound'][0]}" for tier in tiers.values())]
        for i, name in enumerate(names)
    ]
    rows.append(["network", *(f"{tier['stagewise_us']:.1f}" for tier in tiers.values())])
    public = document["public_floor"]
    ratio = f"; the public record is {public['record_ratio']:.2f} times it" if public["record_ratio"] else ""
    print_table(
        f"Floor, µs: {document['network']}, batch {document['batch']}, {find_device(document['device']).title}",
        ["layer", *tiers],
        rows,
        f"derived; {document['algorithm']} convolution, {document['fusion']} activations, {document['rates']} rates; "
        f"a = arithmetic binds, h = HBM\nthe public floor: {public['us']:.2f} µs (reading the input){ratio}",
    )
