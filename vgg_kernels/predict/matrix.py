"""The compile matrix: the same kernels under several versions of Triton, none of them the installed one.

Each version is unpacked into a folder of its own and put before the environment's; everything else is shared.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VERSIONS = ("3.6.0", "3.7.1", "3.8.0", "3.9.0")


@dataclass(frozen=True)
class Cell:
    """One (version, tier): what its launches compiled to, or why they did not.

    Attributes:
        triton, tier, arch: what was compiled.
        launches: launches of the forward pass.
        tensor_core: launches with wgmma (or tcgen05) instructions.
        mma_sync: launches with tensor-core instructions of the older kind.
        bulk: launches with bulk tensor copies.
        spilling: launches that spill or have a stack.
        too_large: launches that ask for more shared memory than a CTA may have.
        error: the compiler's last line where it failed, else empty.
    """

    triton: str
    tier: str
    arch: int
    launches: int = 0
    tensor_core: int = 0
    mma_sync: int = 0
    bulk: int = 0
    spilling: int = 0
    too_large: int = 0
    error: str = ""

    @property
    def clean(self) -> bool:
        """Compiled, and every product on the tensor cores without spills (fp32 has none there)."""
        return not (self.error or self.mma_sync or self.spilling or self.too_large)


def unpack(version: str, folder: Path) -> Path:
    """The folder that holds this version of Triton; installed there by pip at the first call."""
    target = folder / version
    if not (target / "triton").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target)]
        subprocess.run([*command, f"triton=={version}"], check=True, stdout=sys.stderr)
    return target


def cell(version: str, tier: str, arch: int, folder: Path, shared_limit: int = 232448) -> Cell:
    """Compile one tier under one version, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(unpack(version, folder)), "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-m", "vgg_kernels", "inspect", "--arch", str(arch), "--tier", tier, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return Cell(version, tier, arch, error=lines[-1])
    rows = json.loads(done.stdout)["layers"]
    found = {row["triton"] for row in rows}
    if found != {version}:
        return Cell(version, tier, arch, error=f"compiled by Triton {', '.join(sorted(found))} instead")
    return Cell(
        version,
        tier,
        arch,
        launches=len(rows),
        tensor_core=sum(row["mma_count"] > 0 for row in rows),
        mma_sync=sum(row["mma_sync_count"] > 0 for row in rows),
        bulk=sum(row["bulk_loads"] > 0 for row in rows),
        spilling=sum(row["spills"] > 0 or row["stack_bytes"] > 0 for row in rows),
        too_large=sum(row["shared_bytes"] > shared_limit for row in rows),
    )


def cells(versions: tuple[str, ...], tiers: tuple[str, ...], arch: int, folder: Path) -> Iterator[Cell]:
    """Every cell, each yielded as it is ready."""
    for version in versions:
        for tier in tiers:
            yield cell(version, tier, arch, folder)
