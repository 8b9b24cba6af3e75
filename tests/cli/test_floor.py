import json

import pytest
from typer.testing import CliRunner

from vgg_kernels.__main__ import build
from vgg_kernels.floor.hardware import devices


def run(*arguments):
    return CliRunner().invoke(build(), ["floor", *arguments])


@pytest.mark.parametrize("device", sorted(devices()))
def test_one_document_with_every_tier(device):
    result = run("--device", device, "--batch", "10", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert (document["device"], document["batch"], document["evidence"]) == (device, 10, "derived")
    assert set(document["tiers"]) == {"fp32", "fp16x3", "tf32", "fp16", "bf16", "fp8"}
    for tier in document["tiers"].values():
        assert len(tier["layers"]) == 19
        assert sum(row["floor_us"] for row in tier["layers"]) == pytest.approx(tier["stagewise_us"])
        assert {"layer", "flops", "bytes", "floor_us", "bound"} <= set(tier["layers"][0])


def test_the_public_floor_stands_beside():
    public = json.loads(run("--json").stdout)["public_floor"]
    assert round(public["us"], 2) == 1.80
    assert round(public["record_ratio"], 2) == 1351.99
    assert json.loads(run("--device", "h200", "--json").stdout)["public_floor"]["record_ratio"] is None


def test_a_table_for_reading():
    result = run("--rates", "best-published", "--device", "h100_pcie")
    assert result.exit_code == 0
    assert "conv5_4" in result.stdout
    assert "fp8" not in result.stdout  # no fp8 rate of the PCIe card was found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--batch", "0"), "at least 1"),
        (("--device", "a100"), "h100_pcie"),
        (("--network", "resnet"), "vgg19"),
        (("--algorithm", "magic"), "winograd-4x4"),
        (("--fusion", "none"), "layerwise"),
        (("--rates", "guess"), "best-published"),
        (("--clock-mhz", "3000"), "1980"),
    ],
)
def test_bad_input_is_a_value_error_that_names_what_is_accepted(arguments, message):
    result = run(*arguments)
    assert isinstance(result.exception, ValueError)
    assert message in str(result.exception)
