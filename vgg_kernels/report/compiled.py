"""Recorded facts of the compiled kernels, for a page that must not wait for a compiler: ``data/compiled.csv``.

The facts hold for one state of the kernels' sources, whose digest is in every row; of another state they say so.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict

import pandas as pd
import pandera.pandas as pa

from ..files import write_whole
from ..kernels.plan import plan
from ..predict.compiled import PLAN_SOURCES, PLANNED_FOR, inspect_all, sources_digest
from ..records import tables
from ..workload.identity import KERNELBENCH
from ..workload.network import network
from ..workload.precision import TIERS
from . import study

FILE = "data/compiled.csv"

_COUNT = pa.Column(float, pa.Check.ge(0), metadata={"dtype": int})
_WORD = pa.Column(str, pa.Check.str_length(min_value=1))
TABLE = pa.DataFrameSchema(
    {
        "arch": pa.Column(float, pa.Check.isin(list(PLANNED_FOR)), metadata={"dtype": int}),
        "tier": pa.Column(str, pa.Check.isin(list(TIERS))),
        "layer": _WORD,
        "kernel": _WORD,
        "registers": _COUNT,
        "spills": _COUNT,
        "stack_bytes": _COUNT,
        "shared_bytes": _COUNT,
        "mma": pa.Column(str),
        "mma_count": _COUNT,
        "mma_sync_count": _COUNT,
        "fma_count": _COUNT,
        "bulk_loads": _COUNT,
        "bulk_stores": _COUNT,
        "instructions": _COUNT,
        "triton": _WORD,
        "kernels_sha256": pa.Column(str, pa.Check.str_length(64, 64)),
    }
)


def record(
    arches: Iterable[int] = tuple(PLANNED_FOR),
    tiers: Iterable[str] = tuple(TIERS),
    tell: Callable[[str], None] = lambda done: None,
) -> pd.DataFrame:
    """Compile every launch of VGG19 at the public batch for each architecture; write and return the facts.

    Takes minutes on two cores where nothing is cached, and no GPU.

    Args:
        arches: 90 for Hopper, 100 for Blackwell.
        tiers: precision tiers; the file holds these and no others.
        tell: called with "sm_90 fp16 conv1_1" as each launch is done.
    """
    rows = []
    for arch in arches:
        for tier in tiers:
            launches = plan(network("vgg19"), tier, KERNELBENCH.batch, PLANNED_FOR[arch])
            for launch, facts in inspect_all(launches, arch):
                about = {"arch": arch, "tier": tier, "layer": launch.layer, "kernel": launch.kernel}
                rows.append(about | asdict(facts) | {"kernels_sha256": sources_digest(PLAN_SOURCES)})
                tell(f"sm_{arch} {tier} {launch.layer}")
    table = pd.DataFrame(rows)[list(TABLE.columns)]
    write_whole(study.root() / FILE, table.to_csv(index=False, lineterminator="\n"))
    return table


def facts() -> pd.DataFrame | None:
    """The recorded facts, one row a launch; None where none were recorded.

    Raises:
        BadData: naming file and row of what does not hold.
    """
    path = study.root() / FILE
    return tables.check_csv(path.read_bytes(), TABLE, FILE) if path.exists() else None


def sentence(arch: int, table: pd.DataFrame | None) -> str:
    """What compiling for ``sm_<arch>`` showed, in words."""
    mine = None if table is None else table[table["arch"] == arch]
    if mine is None or mine.empty:
        return f"Not compiled yet for sm_{arch}: `python -m vgg_kernels inspect --arch {arch}` does"
    products = mine[mine["kernel"].isin(("stem", "conv3x3", "linear")) & (mine["tier"] != "fp32")]
    native, bulk = (products["mma_count"] > 0).sum(), (products["bulk_loads"] > 0).sum()
    spilling = sorted(set(mine.loc[mine["spills"] > 0, "tier"]))
    state = (
        "" if set(mine["kernels_sha256"]) == {sources_digest(PLAN_SOURCES)} else "; of an earlier state of the kernels"
    )
    count = (mine["spills"] > 0).sum()
    spills = f"{count} launches spill registers (in {', '.join(spilling)})" if spilling else "no register spills"
    versions = ", ".join(sorted(set(mine["triton"])))
    return (
        f"Compiled for sm_{arch} with no GPU (Triton {versions}): {len(mine)} launches in {mine['tier'].nunique()} "
        f"tiers; of the {len(products)} tensor-core products {native} use the architecture's own instructions and "
        f"{bulk} its bulk copies; {spills}{state}"
    )
