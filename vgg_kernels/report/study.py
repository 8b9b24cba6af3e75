"""Where the study's files are, and the rows it stands on: reported by others, measured here.

``VGG_STUDY`` decides which measurements are shown: ``recorded`` (those committed under ``data/measured``, and under
``data/submitted`` what others contributed) or ``fresh`` (those of this machine under ``data/local`` as well). Unset, it
is ``fresh``, which is the same where nothing was measured.
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pandas as pd

from ..records import tables
from ..records.reading import read_runs
from ..records.store import Runs
from ..workload.lookup import lookup

CHOICES = {
    "recorded": ("data/measured", "data/submitted"),
    "fresh": ("data/measured", "data/submitted", "data/local"),
}


def root() -> Path:
    """The repository's folder: ``$VGG_STUDY_ROOT``, else the folder above this package or the working directory.

    Raises:
        FileNotFoundError: none of them holds the study's ``data`` and ``notebooks``.
    """
    named = os.environ.get("VGG_STUDY_ROOT")
    candidates = [Path(named)] if named else [*Path(__file__).resolve().parents[2:], Path.cwd(), *Path.cwd().parents]
    for folder in candidates:
        if (folder / "data").is_dir() and (folder / "notebooks").is_dir():
            return folder
    raise FileNotFoundError(f"no study found in {', '.join(map(str, candidates))}; set VGG_STUDY_ROOT to its folder")


def _csv(name: str, table: tables.pa.DataFrameSchema) -> pd.DataFrame:
    return tables.check_csv((root() / "data" / "reported" / name).read_bytes(), table, f"data/reported/{name}")


def reported() -> pd.DataFrame:
    """KernelBench's published times, one row a problem, device and variant; columns as in ``data/README.md``."""
    return _csv("kernelbench_h100.csv", tables.KERNELBENCH)


def reported_vgg19() -> pd.DataFrame:
    """Every time that KernelBench has published for VGG19 on an H100, those it withdrew included."""
    return _csv("kernelbench_vgg19.csv", tables.KERNELBENCH_VGG19)


def reported_hopper() -> pd.DataFrame:
    """Published rates of Hopper cards: matrix products in TFLOP/s, reads in GB/s."""
    return _csv("hopper_public.csv", tables.HOPPER)


def runs() -> dict[str, Runs]:
    """The ledger's runs by where they are kept, as ``VGG_STUDY`` decides.

    A run may supersede one that is kept elsewhere. Of two places that hold a run of one id the first counts.

    Raises:
        UnknownName: for another value of ``VGG_STUDY``.
    """
    return read_places(lookup("VGG_STUDY", os.environ.get("VGG_STUDY", "fresh"), CHOICES))


def read_places(places: Iterable[str]) -> dict[str, Runs]:
    """The runs of several of the study's folders, as ``runs`` has them."""
    found: dict[str, Runs] = {}
    for place in places:
        ledger = read_runs(root() / place)
        for earlier, known in found.items():
            for run in set(known.provenance) & set(ledger.provenance):
                ledger = ledger.without(run, f"its run id {run!r} is that of a run in {earlier}")
        found[place] = ledger
    superseded = {old: new for ledger in found.values() for old, new in ledger.superseded.items()}
    return {place: replace(ledger, superseded=superseded) for place, ledger in found.items()}


def measured() -> pd.DataFrame:
    """Every sample measured by this project, one row a timed call; columns as in ``data/README.md``.

    ``origin`` says whether a row is ``recorded`` (committed) or ``local`` (this machine's); runs that were superseded
    are left out.
    """
    tables = []
    for place, ledger in runs().items():
        current = ledger.samples[~ledger.samples["run"].isin(ledger.superseded)]
        tables.append(current.assign(evidence="measured", origin="local" if place == "data/local" else "recorded"))
    filled = [table for table in tables if len(table)]
    return pd.concat(filled, ignore_index=True) if filled else tables[0]
