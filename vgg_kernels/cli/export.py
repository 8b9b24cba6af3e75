"""``export``: one self-contained ``ModelNew`` file for KernelBench."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from .output import Json, print_json

INTERPRETED_FLOPS = 2e9  # what Triton's interpreter does in a minute or so


def command(
    file: Annotated[Path, typer.Argument(help="The Python file to write.")],
    tier: Annotated[str, typer.Option(help="fp32, fp16x3, tf32, fp16, bf16 or fp8.")] = "fp16",
    network: Annotated[str, typer.Option(help="vgg11, vgg13, vgg16 or vgg19.")] = "vgg19",
    image: Annotated[int, typer.Option(help="Image size in pixels.")] = 224,
    batch: Annotated[int, typer.Option(help="The batch size that the file is for.")] = 10,
    check: Annotated[bool, typer.Option(help="Run the file against the reference.")] = True,
    as_json: Json = False,
) -> None:
    """Write FILE and run it against the reference, at KernelBench's seed and tolerance and with Kaiming weights.

    Where no GPU is present and the network is large, a file of the same layers under the same tiles is run instead,
    made the same way for one image of 32 pixels.
    """
    import torch

    from ..report.publish import export
    from ..workload.network import network as find_network

    subject = find_network(network, image=image)
    file.write_text(export.source(subject, tier, batch))
    document: dict = {"file": file.name, "tier": tier, "network": network, "image": image, "batch": batch}
    passed = True
    if check:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        with TemporaryDirectory() as folder:
            tried, ran, size = file, subject, batch
            if device == "cpu" and subject.flops(batch) > INTERPRETED_FLOPS:
                (ran, launches), tried, size = export.crop(subject, tier, batch), Path(folder) / "crop.py", 1
                tried.write_text(export.source(ran, tier, size, launches))
            outcome = export.check(tried, ran, tier, size, device)
        passed = outcome.passed
        document["check"] = {
            "network": ran.name,
            "image": ran.image,
            "batch": size,
            "device": device,
            "same_weights": outcome.same_weights,
            "kernelbench_accepts": outcome.accepted,
            "relative_error": outcome.relative_error if outcome.relative_error < float("inf") else None,
            "budget": outcome.budget,
            "passed": outcome.passed,
        }
    if as_json:
        print_json(document)
    else:
        typer.echo(f"wrote {file.name}: {network} {tier}, batch {batch}")
        if check:
            found = document["check"]
            error = "not finite" if found["relative_error"] is None else f"{found['relative_error']:.2e}"
            typer.echo(
                f"ran on {found['network']} with {found['image']} pixels, batch {found['batch']}, {found['device']}: "
                f"weights {'equal' if found['same_weights'] else 'DIFFER'}, KernelBench's rule "
                f"{'accepts' if found['kernelbench_accepts'] else 'REJECTS'}, Kaiming error {error} "
                f"(budget {found['budget']:.2e}): {'passed' if passed else 'FAILED'}"
            )
    raise typer.Exit(0 if passed else 1)
