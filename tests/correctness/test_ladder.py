"""The precision ladder on a small network."""

import json

import pytest

from vgg_kernels.correctness.ladder import EAGER, KEPT, NEAREST, ladder, truncation_rows
from vgg_kernels.workload.network import network
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


def test_truncated_sums_cost_the_more_the_more_is_kept_inside(document, tiny_network):
    rows = {(row["sums"], row["layer"]): row["relative_error"] for row in document["truncation"]}
    assert len(rows) == (len(KEPT) + 2) * len(tiny_network.layers)
    wide = network("vgg11", image=32)
    found = truncation_rows(wide, 0, lambda text: None)
    errors = {row["sums"]: row["relative_error"] for row in found if row["layer"] == "conv5_2"}
    assert len({row["relative_error"] for row in found if row["layer"] == "conv1_1" and row["sums"] != EAGER}) == 1
    short, long, everything = (errors[name] for name in KEPT)
    assert errors[NEAREST] < short < long < everything
    assert everything > 10 * errors[NEAREST]


def test_spread_and_certificates_of_both_schemes(document, tiny_network):
    assert {row["weights"] for row in document["spread"]} == {"kernelbench", "kaiming"}
    assert len(document["spread"]) == 2 * len(tiny_network.layers)
    last = {row["weights"]: row["largest"] for row in document["spread"] if row["layer"] == "fc8"}
    for row in document["certificates"]:
        assert row["spread"] == pytest.approx(last[row["weights"]])
        assert row["sensitivity"] == pytest.approx(row["spread"] / row["tolerance"])
    json.dumps(document, allow_nan=False)
