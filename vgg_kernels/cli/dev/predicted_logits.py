"""``dev predicted-logits``: execute VGG19 in some tiers and store the bits that a card must print."""

from pathlib import Path
from typing import Annotated

import typer

from ..progress import progress_bar


def command(
    tiers: Annotated[list[str], typer.Option("--tier", help="Repeat for several.")],
    out: Annotated[Path, typer.Option(help="The file; what it holds of other tiers stays.")],
    batch: Annotated[int, typer.Option(help="Images.")] = 1,
) -> None:
    """Store digests of every layer's output in ``data/predicted_logits.json``; a minute or two for a tier and image."""
    import json
    import os

    os.environ["TRITON_INTERPRET"] = "0"  # before anything imports triton: the kernels are compiled
    from importlib.metadata import version

    from ...emulator.predicted import predict
    from ...files import write_whole
    from ...predict.compiled import PLAN_SOURCES, sources_digest
    from ...workload.network import network

    document = json.loads(out.read_text()) if out.exists() else {}
    made_of = {"triton": version("triton"), "kernels_sha256": sources_digest(PLAN_SOURCES)}
    with progress_bar("execute") as update:
        for done, tier in enumerate(tiers):
            update(done, len(tiers), tier)
            document[f"{tier} {batch}"] = predict(tier, network("vgg19"), batch) | made_of
            write_whole(out, json.dumps(dict(sorted(document.items())), indent=1) + "\n")
