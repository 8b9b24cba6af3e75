"""The one boundary at which data are read: what a file must hold, and a sentence naming file and row where it does not.

Inside the package data are trusted; here they are not. Tables are checked by pandera, documents by pydantic.
"""

import csv
import json
from io import StringIO
from typing import Any, Literal, TypeVar

import pandas as pd
import pandera.pandas as pa
from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from ..workload.network import CONVS_PER_BLOCK
from ..workload.precision import TIERS

SHORTEST_MS = 1e-3  # a microsecond: below what an event timer resolves
LONGEST_MS = 600_000.0  # ten minutes for one call: anything above is a unit gone wrong
TIMERS = ("kernelbench", "graph", "do_bench", "host", "cuda_events")
CACHES = ("cold", "warm")
FIRST_ROW = 2  # row 1 of a CSV is its header
NAMED_FAILURES = 3  # so many rows are named; where a file is bad in one place it is often bad in thousands
TRUTH = {"true": True, "false": False}


class BadData(ValueError):
    """Data that do not hold; the message names file and row."""


def _text(*accepted: str, **options: Any) -> pa.Column:
    return pa.Column(str, pa.Check.isin(accepted) if accepted else pa.Check.str_length(min_value=1), **options)


def _count(least: int) -> pa.Column:
    whole = pa.Check(lambda values: values % 1 == 0, error="a whole number")
    return pa.Column(float, [pa.Check.ge(least), whole], metadata={"dtype": int})


def _ms(**options: Any) -> pa.Column:
    return pa.Column(float, [pa.Check.ge(SHORTEST_MS), pa.Check.le(LONGEST_MS)], **options)


SAMPLES = pa.DataFrameSchema(
    {
        "variant": _text(),
        "tier": _text(*TIERS),
        "network": _text(*CONVS_PER_BLOCK),
        "batch": _count(1),
        "layer": _text(),
        "timer": _text(*TIMERS),
        "cache": _text(*CACHES),
        "dtype": _text(),
        "cudnn_allow_tf32": pa.Column(bool),
        "matmul_allow_tf32": pa.Column(bool),
        "sample": _count(0),
        "time_ms": _ms(),
    },
    unique=["variant", "tier", "network", "batch", "layer", "timer", "cache", "dtype", "sample"],
)

_PUBLISHED = {  # where a public figure comes from
    "source": _text(),
    "path": _text(),
    "commit": _text(),
}

KERNELBENCH = pa.DataFrameSchema(
    {
        "level": _count(1),
        "problem": _count(1),
        "op": _text(),
        "shape": _text(),
        "device": _text(),
        "device_name": _text(),
        "host": _text(),
        "variant": _text(),
        "dtype": _text(),
        "cudnn_allow_tf32": pa.Column(bool),
        "matmul_allow_tf32": pa.Column(bool),
        "torch_version": _text(),
        "cuda_version": _text(),
        "warmups": _count(0),
        "trials": _count(1),
        "mean_ms": _ms(),
        "std_ms": pa.Column(float, pa.Check.ge(0)),
        "min_ms": _ms(),
        "max_ms": _ms(),
        **_PUBLISHED,
        "date": _text(),
        "license": _text(),
        "evidence": _text("reported"),
    },
    unique=["level", "problem", "device", "variant"],
)

KERNELBENCH_VGG19 = pa.DataFrameSchema(
    {
        "device": _text(),
        "device_name": _text(),
        "host": _text(),
        "variant": _text(),
        "batch": _count(1),
        "dtype": _text(),
        "cudnn_allow_tf32": pa.Column(bool),
        "matmul_allow_tf32": pa.Column(bool),
        "timer": _text(*TIMERS),
        "cache": _text(*CACHES),
        "torch_stated": _text(),
        "torch_pinned": _text(),
        "warmups": _count(0),
        "trials": _count(1),
        "mean_ms": _ms(),
        "std_ms": pa.Column(float, pa.Check.ge(0)),
        "min_ms": _ms(),
        "max_ms": _ms(),
        "problem_sha256": pa.Column(str, pa.Check.str_length(64, 64)),
        **_PUBLISHED,
        "date": _text(),
        "withdrawn_commit": pa.Column(str),
        "withdrawn": pa.Column(str),
        "license": _text(),
        "evidence": _text("reported"),
    },
    unique=["path", "commit"],
)

HOPPER = pa.DataFrameSchema(
    {
        "device": _text(),
        "device_name": pa.Column(str),
        "operation": _text(),
        "dtype": pa.Column(str),
        "shape": _text(),
        "variant": _text(),
        "tflop_per_s": pa.Column(float, pa.Check.gt(0), nullable=True),
        "gb_per_s": pa.Column(float, pa.Check.gt(0), nullable=True),
        **_PUBLISHED,
        "date": pa.Column(str),
        "note": pa.Column(str),
        "evidence": _text("reported"),
    },
)


class _Document(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class Hardware(_Document):
    """What a run's device is; more of it (memory, NVML's state) is kept as it is."""

    kind: Literal["cpu", "cuda"]


class Supersession(_Document):
    """A run that this one corrects, and why."""

    run: str
    why: str


class Provenance(_Document):
    """The least that a provenance document says; more is kept as it is."""

    run: str
    device: str
    device_name: str
    card: str | None = None
    torch: str
    git_revision: str | None
    git_dirty: bool | None
    source_sha256: str
    observed: AwareDatetime
    hardware: Hardware
    flags: dict[str, Any]
    supersedes: list[Supersession] = []


class Note(_Document):
    """One line of ``notes.jsonl``."""

    kind: str
    payload: Any


class Gate(_Document):
    """The payload of a note of kind ``gate``: whether a variant passed ``verify``, and the whole verdict beside it."""

    variant: str
    tier: str
    network: str
    passed: bool


class Fingerprint(_Document):
    """A file's SHA-256, and four digits of each line's."""

    sha256: str
    lines: str


class Seal(_Document):
    """``seal.json``."""

    run: str
    workload: str
    files: dict[str, Fingerprint]
    sha256: str


Model = TypeVar("Model", bound=BaseModel)


def check_document(text: str, model: type[Model], name: str, row: int | None = None) -> Model:
    """The JSON ``text`` as a ``model``.

    Args:
        text: one JSON document.
        model: what it must hold.
        name: the file's name in messages.
        row: the line of a file of many documents; for a file of one, the line comes from the JSON error.

    Raises:
        BadData: naming file, row, and the first key that does not hold.
    """
    try:
        return model.model_validate(json.loads(text))
    except json.JSONDecodeError as error:
        raise BadData(f"{name} row {row or error.lineno}: not whole JSON ({error.msg})") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the document"
        raise BadData(f"{name} row {row or 1}: {key}: {first['msg'].lower()}") from error


def check_csv(content: bytes, schema: pa.DataFrameSchema, name: str) -> pd.DataFrame:
    """The CSV ``content`` as a table with the schema's columns and types.

    Raises:
        BadData: naming file, row, column and value of the first failures.
    """
    expected = list(schema.columns)
    header, rows = _split(content, name)
    missing, extra = [c for c in expected if c not in header], [c for c in header if c not in expected]
    if missing or extra:
        raise BadData(f"{name} row 1: columns missing: {missing}, not known: {extra}; accepted: {', '.join(expected)}")
    for row, fields in enumerate(rows, start=FIRST_ROW):  # pandas' own reader would let it pass
        if len(fields) != len(header):
            raise BadData(f"{name} row {row}: {len(fields)} fields, and the header has {len(header)}")
    raw = pd.DataFrame(rows, columns=header, dtype=str)
    typed = pd.DataFrame({column: _typed(raw[column], schema.columns[column]) for column in expected})
    try:
        schema.validate(typed, lazy=True)
    except pa.errors.SchemaErrors as error:
        raise BadData("; ".join(_sentences(error.failure_cases, raw, name))) from error
    return typed.astype({c: s.metadata["dtype"] for c, s in schema.columns.items() if s.metadata})


def _split(content: bytes, name: str) -> tuple[list[str], list[list[str]]]:
    """The fields of a CSV as text, header and rows."""
    try:
        lines = list(csv.reader(StringIO(content.decode("utf-8"))))
    except UnicodeDecodeError as error:
        row = content[: error.start].count(b"\n") + 1
        raise BadData(f"{name} row {row}: no text in UTF-8") from error
    if not lines:
        raise BadData(f"{name} row 1: no header, so no table")
    header, *rows = lines
    if len(set(header)) < len(header):
        raise BadData(f"{name} row 1: a column is there twice: {', '.join(header)}")
    return header, rows


def _typed(values: pd.Series, column: pa.Column) -> pd.Series:
    kind = str(column.dtype)
    if kind == "float64":
        return pd.to_numeric(values, errors="coerce").astype(float)
    if kind == "bool":
        typed = values.str.lower().map(TRUTH)
        return typed.astype(bool) if typed.notna().all() else typed.astype(object)
    return values


def _sentences(cases: pd.DataFrame, raw: pd.DataFrame, name: str) -> list[str]:
    sentences: dict[int, str] = {}
    for case in cases.itertuples():
        if pd.isna(case.index):  # a whole column of another type: find the first value that made it so
            bad = raw[case.column].str.lower().isin(TRUTH)
            row = int((~bad).idxmax())
        else:
            row = int(case.index)
        if case.check == "multiple_fields_uniqueness":
            sentences.setdefault(row, f"{name} row {row + FIRST_ROW}: repeats another row's key")
            continue
        why = "of another type" if case.check in ("not_nullable", "dtype('bool')") else case.check
        sentences.setdefault(row, f"{name} row {row + FIRST_ROW}: {case.column} is {raw[case.column][row]!r} ({why})")
    return [sentences[row] for row in sorted(sentences)[:NAMED_FAILURES]]
