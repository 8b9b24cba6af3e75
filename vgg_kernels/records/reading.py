"""Reading the ledger: every run below a folder, each checked, none able to spoil the others."""

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..files import first_change, split_torn
from ..measure.provenance import device_key
from ..workload.identity import IDENTITY
from . import tables
from .store import COLUMNS, NOTES, PROVENANCE, SAMPLES, SEAL, Runs, seal_hash
from .tables import BadData, check_csv, check_document

FACTS = {"run": str, "device": str, "device_name": str, "torch": str, "observed": str, "sealed": bool}
NOTE_COLUMNS = ("run", "device", "kind", "payload")


@dataclass(frozen=True)
class _Run:
    folder: Path
    provenance: tables.Provenance
    samples: pd.DataFrame
    notes: list[tables.Note]
    seal: str | None
    problems: list[str]

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "run": self.provenance.run,
            "device": self.provenance.device,
            "device_name": self.provenance.device_name,
            "torch": self.provenance.torch,
            "observed": self.provenance.observed.isoformat(),
            "sealed": self.seal is not None,
        }


def _whole_lines(path: Path, name: str, problems: list[str]) -> bytes:
    if not path.exists():
        raise BadData(f"{name}: missing")
    whole, torn = split_torn(path.read_bytes())
    if torn:
        row = whole.count(b"\n") + 1
        problems.append(f"{name} row {row}: half-written, left out; the rows before it are used")
    return whole


def _read_seal(folder: Path, name: str, run: str) -> str:
    seal = check_document((folder / SEAL).read_text(encoding="utf-8"), tables.Seal, f"{name}/{SEAL}")
    for file, recorded in seal.files.items():
        if not (folder / file).exists():
            raise BadData(f"{name}/{file}: missing, but sealed")
        if change := first_change(folder / file, recorded.model_dump()):
            raise BadData(f"{name}/{file} {change}: changed after the run was sealed")
    content = seal.model_dump(exclude={"sha256"})
    if seal_hash(content) != seal.sha256:
        raise BadData(f"{name}/{SEAL}: its own SHA-256 does not hold")
    if seal.run != run or seal.workload != IDENTITY:
        raise BadData(f"{name}/{SEAL}: seals run {seal.run!r} of workload {seal.workload[:12]}, not this one")
    return seal.sha256


def _read_run(folder: Path, name: str) -> _Run:
    problems: list[str] = []
    path = folder / PROVENANCE
    if not path.exists():
        raise BadData(f"{name}/{PROVENANCE}: missing; a run without provenance is no evidence")
    text = path.read_text(encoding="utf-8", errors="replace")
    provenance = check_document(text, tables.Provenance, f"{name}/{PROVENANCE}")
    derived = device_key(provenance.device_name, provenance.hardware.kind)
    if provenance.device != derived:
        stated = f"device is {provenance.device!r}, but {provenance.device_name!r} is {derived!r}"
        raise BadData(f"{name}/{PROVENANCE}: {stated}")
    seal = _read_seal(folder, name, provenance.run) if (folder / SEAL).exists() else None
    samples = check_csv(
        _whole_lines(folder / SAMPLES, f"{name}/{SAMPLES}", problems), tables.SAMPLES, f"{name}/{SAMPLES}"
    )
    lines = _whole_lines(folder / NOTES, f"{name}/{NOTES}", problems).decode("utf-8", "replace").splitlines()
    notes = [check_document(line, tables.Note, f"{name}/{NOTES}", row) for row, line in enumerate(lines, start=1)]
    for row, note in enumerate(notes, start=1):
        if note.kind == "gate":
            check_document(json.dumps(note.payload), tables.Gate, f"{name}/{NOTES}", row)
    if seal is None:
        problems.append(
            f"{name}/{SEAL}: missing (interrupted, or still measuring); its rows are used, its trust is least"
        )
    return _Run(folder, provenance, samples, notes, seal, problems)


def _without_repeated_ids(runs: list[_Run], root: Path, problems: list[str]) -> list[_Run]:
    by_id = defaultdict(list)
    for run in runs:
        by_id[run.provenance.run].append(run)
    for run_id, same in by_id.items():
        if len(same) > 1:
            names = ", ".join(str(run.folder.relative_to(root)) for run in same)
            problems.append(f"{names}: share the run id {run_id!r} in {PROVENANCE}; none of them is used")
    return [same[0] for same in by_id.values() if len(same) == 1]


def read_runs(root: Path | str) -> Runs:
    """Every run below ``root``, in order of folder name; one that does not hold is left out, named in ``problems``.

    A run with half-written last lines is used without them. A folder that does not exist holds no runs.
    """
    root = Path(root)
    folders = sorted({path.parent for name in (PROVENANCE, SAMPLES, SEAL) for path in root.rglob(name)})
    problems: list[str] = []
    runs: list[_Run] = []
    for folder in folders:
        name = str(folder.relative_to(root)) if folder != root else folder.name
        try:
            run = _read_run(folder, name)
        except (BadData, OSError) as error:
            problems.append(str(error))
        else:
            runs.append(run)
            problems += run.problems
    runs = _without_repeated_ids(runs, root, problems)
    tables = [run.samples.assign(**run.facts) for run in runs if len(run.samples)]
    notes = [(run.facts["run"], run.facts["device"], note.kind, note.payload) for run in runs for note in run.notes]
    superseded = {old.run: run.provenance.run for run in runs for old in run.provenance.supersedes}
    return Runs(
        samples=pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*COLUMNS, *FACTS]),
        notes=pd.DataFrame(notes, columns=list(NOTE_COLUMNS)),
        provenance={run.provenance.run: run.provenance.model_dump(mode="json") for run in runs},
        folders={run.provenance.run: run.folder.relative_to(root) for run in runs},
        seals={run.provenance.run: run.seal for run in runs if run.seal},
        superseded=superseded,
        problems=problems,
    )
