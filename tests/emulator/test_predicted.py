import json
from pathlib import Path

import pytest

from vgg_kernels.predict.compiled import PLAN_SOURCES, sources_digest
from vgg_kernels.workload.network import network

STORED = json.loads((Path(__file__).resolve().parents[2] / "data" / "predicted_logits.json").read_text())


@pytest.mark.parametrize("key", STORED)
def test_the_stored_bits_are_of_the_kernels_as_they_are(key):
    row = STORED[key]
    assert key == f"{row['tier']} {row['batch']}"
    assert row["evidence"] == "executed"
    assert row["kernels_sha256"] == sources_digest(PLAN_SOURCES)
    assert list(row["layers"]) == [layer.name for layer in network("vgg19").layers]
    assert row["layers"]["fc8"] == row["logits_sha256"]
    assert row["hazards"] == 0 or row["tier"] == "fp8"  # zeros that Triton writes after a fence, see test_execute


def again(tier: str) -> dict:
    from vgg_kernels.emulator.predicted import predict
    from vgg_kernels.workload.network import network

    return predict(tier, network("vgg19"), 1)


@pytest.mark.slow
@pytest.mark.parametrize("key", STORED)
def test_they_come_out_again(compiling, key):
    fresh = compiling(again, STORED[key]["tier"])
    assert fresh["layers"] == STORED[key]["layers"]
    assert fresh["logits"] == STORED[key]["logits"]
