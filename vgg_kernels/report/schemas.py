"""The published JSON Schemas (2020-12) of the page and of the records, made from the models that write them."""

import json
from importlib.resources import files
from typing import Any

from pydantic import BaseModel

from ..records.ranking import Standing
from ..records.tables import Provenance
from .page_model import Page
from .records_json import Publication

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MODELS: dict[str, type[BaseModel]] = {
    "page": Page,
    "record": Standing,
    "records": Publication,
    "provenance": Provenance,
}


def generate(name: str) -> dict[str, Any]:
    """The schema of one document, from its model."""
    return {"$schema": DIALECT, **MODELS[name].model_json_schema(mode="serialization")}


def published(name: str) -> dict[str, Any]:
    """The schema as it ships with the package; a test holds it against ``generate``."""
    return json.loads(files(__package__).joinpath("schema", f"{name}.json").read_text(encoding="utf-8"))


def validate(document: dict[str, Any], name: str) -> None:
    """Hold a document against its published schema.

    Raises:
        ValueError: naming the first place that does not hold.
    """
    from jsonschema import Draft202012Validator

    errors = sorted(Draft202012Validator(published(name)).iter_errors(document), key=lambda e: list(e.absolute_path))
    if errors:
        place = ".".join(str(part) for part in errors[0].absolute_path) or "the document"
        raise ValueError(f"{name}: {place}: {errors[0].message}")
