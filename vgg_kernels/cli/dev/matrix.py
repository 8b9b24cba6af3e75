"""``matrix``: do the kernels compile to the same kind of code under other versions of Triton?"""

from pathlib import Path
from typing import Annotated

import typer

from ..output import Json, print_json, print_table
from ..progress import progress_bar


def command(
    triton: Annotated[list[str] | None, typer.Option(help="A version; repeat for several.")] = None,
    tier: Annotated[list[str] | None, typer.Option(help="Precision tier; repeat for several, all by default.")] = None,
    arch: Annotated[int, typer.Option(help="Compute capability as one number: 90 or 100.")] = 90,
    folder: Annotated[Path, typer.Option(help="Where the versions are unpacked.")] = Path(".cache/triton"),
    json: Json = False,
) -> None:
    """Compile every tier under several versions of Triton; exit status 0 only where all compile without spills."""
    from ...predict import matrix
    from ...workload.precision import TIERS

    versions, tiers = tuple(triton or matrix.VERSIONS), tuple(tier or TIERS)
    cells = []
    with progress_bar("compile matrix") as update:
        update(0, len(versions) * len(tiers), "")
        for found in matrix.cells(versions, tiers, arch, folder.absolute()):
            cells.append(found)
            update(len(cells), len(versions) * len(tiers), f"Triton {found.triton} {found.tier}")
    if json:
        print_json({"arch": arch, "cells": [vars(found) | {"clean": found.clean} for found in cells]})
    else:
        print_table(
            f"Compiled for sm_{arch}, batch 10, not run on hardware",
            ("Triton", "tier", "launches", "tensor cores", "bulk copies", "mma.sync", "spilling", "too large", "clean"),
            [
                (
                    found.triton, found.tier, found.launches, found.tensor_core, found.bulk, found.mma_sync,
                    found.spilling, found.too_large, found.error or ("yes" if found.clean else "no"),
                )
                for found in cells
            ],
        )  # fmt: skip
    raise typer.Exit(0 if all(found.clean for found in cells) else 1)
