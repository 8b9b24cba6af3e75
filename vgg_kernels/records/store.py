"""The ledger: append-only runs of raw samples that survive ``kill -9``, each sealed with a SHA-256.

A run is a folder of four files::

    provenance.json   who, where, when, with what: written once, first, in one piece
    samples.csv       one row a timed call, appended; the header is ``COLUMNS``
    notes.jsonl       everything else that was found (gate verdicts, failures, ceilings, profiles), one JSON a line
    seal.json         the SHA-256 of the three above and of the workload's identity, written last

A line that has no line end was cut off by a crash: the reader leaves it out and says so, the writer cuts it off when it
resumes. A sealed run is never written again; a correction is a new run whose provenance says what it supersedes.

Writing needs the standard library and pandas only, so that a bare measuring machine can do it; what is read back is
checked by ``records.tables``.
"""

import csv
import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ..files import Lines, fingerprint, write_whole
from ..measure.provenance import identity
from ..workload.identity import IDENTITY

COLUMNS = (
    "variant",
    "tier",
    "network",
    "batch",
    "layer",
    "timer",
    "cache",
    "dtype",
    "cudnn_allow_tf32",
    "matmul_allow_tf32",
    "sample",
    "time_ms",
)
PROVENANCE, SAMPLES, NOTES, SEAL = "provenance.json", "samples.csv", "notes.jsonl", "seal.json"


def _csv_line(values: Iterable[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()


def _sample_line(row: Mapping[str, Any]) -> str:
    missing, extra = [c for c in COLUMNS if c not in row], [c for c in row if c not in COLUMNS]
    if missing or extra:
        raise ValueError(f"a sample row has the columns {', '.join(COLUMNS)}; missing: {missing}, not known: {extra}")
    time_ms = float(row["time_ms"])
    if not (math.isfinite(time_ms) and time_ms > 0):
        raise ValueError(f"time_ms is {time_ms} for {row['variant']!r}; a positive, finite number is accepted")
    return _csv_line(time_ms if column == "time_ms" else row[column] for column in COLUMNS)


class RunWriter:
    """Writes one run into ``folder``, or goes on with the one that is there.

    Args:
        folder: the run's own folder; it is created. Its name becomes the run's id.
        provenance: what ``measure.provenance.collect()`` returns, plus what the run is about; JSON values.

    Raises:
        ValueError: if the run in ``folder`` is sealed, belongs to another environment (naming the difference), or is
            being written by another process.
    """

    def __init__(self, folder: Path | str, provenance: Mapping[str, Any]):
        self.folder = Path(folder)
        self.run = self.folder.resolve().name
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / SEAL).exists():
            raise ValueError(f"{self.folder} is sealed: a run is never written again; start another folder")
        path = self.folder / PROVENANCE
        resumed = path.exists()
        if resumed:
            self._refuse_another_environment(json.loads(path.read_text(encoding="utf-8")), provenance)
        else:
            document = {**provenance, "run": self.run}
            write_whole(path, json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n")
        self._samples = Lines(self.folder / SAMPLES)
        self._notes = Lines(self.folder / NOTES)
        if self._samples.empty:
            self._samples.append(_csv_line(COLUMNS))
        if resumed:
            torn = [lines.torn for lines in (self._samples, self._notes) if lines.torn]
            self.note("resumed", {"observed": provenance.get("observed"), "half_written_lines_cut": torn})

    def _refuse_another_environment(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        old, new = identity(before), identity(now)
        changed = [f"{key} was {old[key]!r} and is {new[key]!r}" for key in old if old[key] != new[key]]
        if changed:
            raise ValueError(f"{self.folder} holds a run of another environment: {'; '.join(changed)}")

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append samples, one mapping a timed call with exactly the keys ``COLUMNS``; durable when it returns.

        Raises:
            ValueError: for other columns, or a time that is not positive and finite. Nothing is written then.
            OSError: where the disk is full or gone; the rows before stay whole.
        """
        self._samples.append("".join([_sample_line(row) for row in rows]))

    def note(self, kind: str, payload: object) -> None:
        """Append one finding of ``kind``, any JSON value; durable when it returns.

        The records read two kinds: ``gate``, with at least {"variant", "tier", "network", "passed"}, and ``failure``,
        with at least {"variant", "tier", "error"}. Others are kept as they are.
        """
        self._notes.append(json.dumps({"kind": kind, "payload": payload}, allow_nan=False) + "\n")

    def samples(self) -> pd.DataFrame:
        """What the run holds so far, as written: for resuming and for a summary; not yet checked by the schema."""
        return pd.read_csv(self.folder / SAMPLES)

    def close(self) -> None:
        """Stop writing without sealing; the run can be resumed."""
        self._samples.close()
        self._notes.close()

    def finish(self) -> Path:
        """Seal the run and return the path of its seal; nothing can be written after."""
        self.close()
        return seal(self.folder, self.run)


def seal(folder: Path, run: str) -> Path:
    """Write the seal of the run in ``folder`` and return its path.

    Raises:
        ValueError: where it is sealed already.
    """
    path = folder / SEAL
    if path.exists():
        raise ValueError(f"{path} exists: a run is sealed once")
    content = sealed_content(folder, run)
    write_whole(path, json.dumps({**content, "sha256": seal_hash(content)}, indent=1) + "\n")
    return path


def sealed_content(folder: Path, run: str) -> dict[str, Any]:
    """What a seal covers: the run's id, the workload's identity, and the fingerprint of each file."""
    files = {name: fingerprint(folder / name) for name in (NOTES, PROVENANCE, SAMPLES)}
    return {"run": run, "workload": IDENTITY, "files": files}


def seal_hash(content: Mapping[str, Any]) -> str:
    """SHA-256 of the RFC 8785 canonical JSON of ``content``.

    ``content`` holds nothing but ASCII strings and mappings of them, for which sorted keys without white space *are*
    the canonical form; so sealing needs no library, and a test holds it against one.
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode("ascii")).hexdigest()


@dataclass(frozen=True)
class Runs:
    """Every run that could be read, and what is wrong with the others.

    Attributes:
        samples: one row a timed call: ``COLUMNS``, and from the provenance ``run``, ``device``, ``device_name``,
            ``torch``, ``observed`` (UTC) and ``sealed``.
        notes: ``run``, ``device``, ``kind``, ``payload`` (the JSON value), one row a note.
        provenance: each run's provenance, by run id.
        folders: each run's folder from the root that was read, by run id.
        seals: each sealed run's SHA-256, by run id.
        superseded: a corrected run's id to the id of the run that corrects it.
        problems: one sentence each, with file and row.
    """

    samples: pd.DataFrame
    notes: pd.DataFrame
    provenance: dict[str, dict[str, Any]] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)
    seals: dict[str, str] = field(default_factory=dict)
    superseded: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def without(self, run: str, why: str) -> "Runs":
        """These runs less one, with a problem in its place."""

        def less(table: dict[str, Any]) -> dict[str, Any]:
            return {key: value for key, value in table.items() if key != run}

        return Runs(
            samples=self.samples[self.samples["run"] != run],
            notes=self.notes[self.notes["run"] != run],
            provenance=less(self.provenance),
            folders=less(self.folders),
            seals=less(self.seals),
            superseded={old: new for old, new in self.superseded.items() if new != run},
            problems=[*self.problems, f"{self.folders[run]}: {why}"],
        )
