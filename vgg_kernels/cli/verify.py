"""``verify``: does a candidate compute the network, in the arithmetic that it claims?"""

from pathlib import Path
from typing import Annotated

import typer

from .output import Json, print_json, print_table
from .progress import progress_bar
from .recording import record


def command(
    tier: Annotated[str, typer.Option(help="fp32, fp16x3, tf32, fp16, bf16 or fp8.")] = "fp16",
    network: Annotated[str, typer.Option(help="vgg11, vgg13, vgg16 or vgg19.")] = "vgg19",
    image: Annotated[int, typer.Option(help="Image size in pixels.")] = 224,
    effort: Annotated[
        str | None, typer.Option(help="single, quick or full; by default what the machine allows.")
    ] = None,
    candidate: Annotated[
        Path | None, typer.Option(help="A Python file with build(reference); else our kernels.")
    ] = None,
    arithmetic: Annotated[
        str | None, typer.Option(help="compiled, interpreted or executed; by default what the machine has.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of weights and inputs; by default a fresh one.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON document to this file.")] = None,
    as_json: Json = False,
) -> None:
    """Compare a tier of our kernels (or a candidate of yours) with float64; exit status 0 only where it passed."""
    import os

    import torch

    if arithmetic == "executed":
        os.environ["TRITON_INTERPRET"] = "0"  # before anything imports triton: the kernels are compiled
    from ..correctness import gate
    from ..workload.network import network as find_network

    subject = find_network(network, image=image)
    build = gate.load_build(candidate) if candidate else None
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with progress_bar("verify") as update:
        document = gate.run(
            tier,
            subject,
            build=build,
            arithmetic=arithmetic,
            seed=seed,
            effort=effort,
            device=device,
            progress=lambda title: lambda done, total, text: update(done, total, f"{title}: {text}"),
        )
    if out:
        record(out, document)
    if as_json:
        print_json(document)
    else:
        _show(document)
    raise typer.Exit(0 if document["passed"] else 1)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2e}"


def _show(document: dict) -> None:
    title = f"{document['tier']} on {document['network']}: {'passed' if document['passed'] else 'FAILED'}"
    groups: dict[tuple, list[dict]] = {}
    for check in document["checks"]:
        name = check["name"].split(" ")[0] if check["name"].startswith(("layer ", "up to ")) else check["name"]
        name = {"layer": "each layer on its own input", "up": "error up to each layer"}.get(name, name)
        groups.setdefault((name, check["weights"], f"{check['network']}/{check['image']}"), []).append(check)
    rows = []
    for (name, weights, where), checks in groups.items():
        measured = [c for c in checks if c["relative_error"] is not None and c["budget"]]
        worst = max(measured, key=lambda c: c["relative_error"] / c["budget"], default={})
        good = sum(c["passed"] for c in checks)
        rows.append(
            (
                name,
                weights,
                where,
                f"{good}/{len(checks)}",
                _number(worst.get("relative_error")),
                _number(worst.get("budget")),
            )
        )
    caption = f"{document['arithmetic']} on {document['device']}"
    print_table(
        title,
        ("check", "weights", "network", "passed", "worst error", "error bound"),
        rows,
        caption,
        ("network", "weights"),
    )
    for check in [c for c in document["checks"] if not c["passed"]][:10]:
        typer.echo(f"  failed: {check['name']} ({check['weights']}, {check['inputs']}): {check['detail']}")
    print_table(
        "What each check can tell apart (under 1: nothing)",
        ("check", "weights", "network", "spread", "tolerance", "sensitivity"),
        [
            (
                c["check"],
                c["weights"],
                f"{c['network']}/{c['image']}",
                _number(c["spread"]),
                _number(c["tolerance"]),
                f"{c['sensitivity']:.3g}",
            )
            for c in document["certificates"]
        ],
        spare=("network",),
    )
