import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from vgg_kernels.__main__ import build
from vgg_kernels.predict.timemodel import MODEL_VERSION


def run(*arguments):
    return CliRunner().invoke(build(), ["predict", *arguments])


def test_one_document():
    document = json.loads(run("--device", "h200", "--tier", "tf32", "--batch", "4", "--json").stdout)
    assert (document["device"], document["tier"], document["batch"]) == ("h200", "tf32", 4)
    assert (document["evidence"], document["model_version"]) == ("modelled", MODEL_VERSION)
    assert len(document["layers"]) == 19
    assert sum(row["time_us"] for row in document["layers"]) == pytest.approx(document["total_us"])
    for row in document["layers"]:
        assert row["floor_us"] <= row["time_us"]
        assert row["bound"]


def test_compiled_kernels_give_their_occupancy(monkeypatch):
    crowded = SimpleNamespace(registers=255, shared_bytes=200_000)
    inspected = []

    def inspect_all(launches, arch):
        inspected.append(arch)
        return ((launch, crowded) for launch in launches)

    monkeypatch.setattr("vgg_kernels.predict.compiled.inspect_all", inspect_all)
    by_tiles, by_compiler = (json.loads(run("--json", *flag).stdout) for flag in ((), ("--compiled",)))
    assert inspected == [90]
    assert (by_tiles["occupancy"], by_compiler["occupancy"]) == ("tiles", "compiled")
    assert by_compiler["total_us"] > by_tiles["total_us"]


def test_a_table_that_says_it_is_modelled():
    result = run()
    assert result.exit_code == 0
    assert "modelled" in result.stdout
    assert "not measured" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--batch", "0"), "at least 1"), (("--tier", "int4"), "fp16x3"), (("--device", "tpu"), "h200"),
     (("--clock-mhz", "9000"), "1980"), (("--clock-mhz", "0"), "above 0"), (("--network", "lenet"), "vgg11")],
)  # fmt: skip
def test_bad_input_is_a_value_error_that_names_what_is_accepted(arguments, message):
    result = run(*arguments)
    assert isinstance(result.exception, ValueError)
    assert message in str(result.exception)
