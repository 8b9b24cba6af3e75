"""The precision ladder on a small network."""

import json

import pytest

from vgg_kernels.evidence.ladder import EAGER, ladder
from vgg_kernels.workload.precision import TIERS


@pytest.fixture(scope="module")
def document(tiny_network):
    return ladder(tiny_network, batch=3, seed=1)


def test_every_arithmetic_has_every_layer_within_its_budget(document, tiny_network):
    rows = {(row["arithmetic"], row["layer"]): row for row in document["errors"]}
    assert len(rows) == (len(TIERS) + 1) * len(tiny_network.layers)
    for (arithmetic, _), row in rows.items():
        if arithmetic == EAGER:
            assert row["budget"] is None
        else:
            assert 0 < row["relative_error"] <= row["budget"]


def test_the_ladder_descends_as_roundoffs_do(document):
    last = {row["arithmetic"]: row["relative_error"] for row in document["errors"] if row["layer"] == "fc8"}
    assert last["fp32"] < last["tf32"] < last["bf16"] < last["fp8"]
    assert last["fp16"] == pytest.approx(last["tf32"], rel=0.2)
    assert last["fp16x3"] < 1.5 * last[EAGER]


def test_spread_and_certificates_of_both_schemes(document, tiny_network):
    assert {row["weights"] for row in document["spread"]} == {"kernelbench", "kaiming"}
    assert len(document["spread"]) == 2 * len(tiny_network.layers)
    last = {row["weights"]: row["largest"] for row in document["spread"] if row["layer"] == "fc8"}
    for row in document["certificates"]:
        assert row["spread"] == pytest.approx(last[row["weights"]])
        assert row["sensitivity"] == pytest.approx(row["spread"] / row["tolerance"])
    json.dumps(document, allow_nan=False)
