"""``dev hazards``: change every ordering of some kernels and store what the emulator's checks find."""

from pathlib import Path
from typing import Annotated

import typer

from ..progress import progress_bar

LAYERS = ["conv1_1", "conv1_2", "conv3_2", "conv4_2", "fc7"]  # stem, row pairs, flat, split K, classifier


def command(
    out: Annotated[Path, typer.Option(help="The CSV file.")],
    tier: Annotated[str, typer.Option(help="Precision tier.")] = "fp16",
) -> None:
    """Remove or change each wait, fence, barrier, commit and byte count in turn; two minutes."""
    import os

    os.environ["TRITON_INTERPRET"] = "0"  # before anything imports triton: the kernels are compiled
    import pandas as pd

    from ...emulator.mutations import table
    from ...files import write_whole
    from ...workload.network import network

    with progress_bar("hazards") as update:
        steps = iter(range(1000))
        found = table(tier, network("vgg19"), LAYERS, lambda text: update(next(steps), 50, text))
    write_whole(out, pd.DataFrame(map(vars, found)).to_csv(index=False, lineterminator="\n"))
