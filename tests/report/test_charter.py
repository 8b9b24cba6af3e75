"""The page's words: every figure in them is filled in, and every test that they name exists."""

import re

import pytest

from vgg_kernels.records.statistics import samples_needed
from vgg_kernels.report import charter as module
from vgg_kernels.report.charter import charter
from vgg_kernels.report.study import root


def test_every_figure_is_filled_in():
    text = charter().model_dump_json()
    assert not re.search(r"\{[a-z_0-9]+\}", text)
    assert f"p95 from {samples_needed(0.95)} samples" in text


@pytest.mark.parametrize("semantic", charter().semantics, ids=lambda semantic: semantic.property)
def test_a_semantic_names_a_test_that_exists(semantic):
    path, name = semantic.test.split("::")
    assert f"def {name}(" in (root() / path).read_text()


def test_an_unknown_figure_is_refused(monkeypatch):
    monkeypatch.setattr(module, "FIGURES", {})
    with pytest.raises(KeyError):
        charter.__wrapped__()
