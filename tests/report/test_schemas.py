"""The published JSON Schemas are those of the models, and the documents hold against them."""

import json

import pytest

from vgg_kernels.measure.provenance import collect
from vgg_kernels.report import records_json, study
from vgg_kernels.report.page import page
from vgg_kernels.report.schemas import MODELS, generate, published, validate


@pytest.mark.parametrize("name", MODELS)
def test_the_published_schema_is_the_models(name):
    assert published(name) == json.loads(json.dumps(generate(name)))


def test_the_page_and_each_of_its_records_hold(monkeypatch):
    monkeypatch.setenv("VGG_STUDY", "recorded")
    document = page().model_dump(mode="json")
    validate(document, "page")
    for standing in document["standings"]:
        validate(standing, "record")


def test_the_committed_publication_holds():
    validate(json.loads((study.root() / records_json.PUBLISHED).read_text()), "records")


def test_collected_provenance_holds():
    validate({"run": "r", **collect("cpu")}, "provenance")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("rankings"), "'rankings' is a required property"),
        (lambda d: d.update(colour="red"), "colour"),
        (lambda d: d["standings"][0]["trust"].update(level="certified"), "standings.0.trust.level"),
        (lambda d: d["standings"][0]["record"]["times"].update(mean_ms="fast"), "standings.0.record.times.mean_ms"),
    ],
)
def test_a_document_that_does_not_hold_is_named(monkeypatch, change, message):
    monkeypatch.setenv("VGG_STUDY", "recorded")
    document = page().model_dump(mode="json")
    change(document)
    with pytest.raises(ValueError, match="page: ") as error:
        validate(document, "page")
    assert message in str(error.value)
