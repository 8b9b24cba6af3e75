"""``inspect``: one document, a readable table, and clear words for what it does not know."""

import json

import pytest
from typer.testing import CliRunner

from vgg_kernels.__main__ import build
from vgg_kernels.predict.compiled import Facts

KEYS = {"layer", "kernel", "tile", "registers", "spills", "stack_bytes", "shared_bytes", "mma", "mma_count",
        "bulk_loads", "ctas", "waves", "l2_bytes_per_clock"}  # fmt: skip


def run(*arguments):
    return CliRunner().invoke(build(), ["inspect", *arguments])


@pytest.fixture
def compiler(monkeypatch):
    """Facts that no compiler made, and what was asked for."""
    asked = []

    def inspect_all(launches, arch):
        for launch in launches:
            asked.append((launch.layer, arch))
            yield launch, Facts(168, 0, 0, 100_000, "64x256x16", 4, 0, 0, 6, 1, 900, "0.0")

    monkeypatch.setattr("vgg_kernels.predict.compiled.inspect_all", inspect_all)
    return asked


def test_one_document(compiler):
    document = json.loads(run("--tier", "fp16", "--json").stdout)
    assert (document["arch"], document["tier"], document["network"], document["batch"]) == (90, "fp16", "vgg19", 10)
    assert set(compiler) == {(row["layer"], 90) for row in document["layers"]}
    assert len({row["layer"] for row in document["layers"]}) == 19
    for row in document["layers"]:
        assert row.keys() >= KEYS
        assert row["waves"] == pytest.approx(row["ctas"] / (132 * row["resident"]), abs=0.005)
    reducing = {row["l2_bytes_per_clock"] for row in document["layers"] if row["kernel"] in ("reduce", "maxpool")}
    assert reducing <= {None}


def test_another_architecture_has_another_cards_tiles(compiler):
    document = json.loads(run("--arch", "100", "--network", "vgg11", "--batch", "2", "--json").stdout)
    assert (document["arch"], document["tiles_for"]) == (100, "b200")
    assert {arch for _, arch in compiler} == {100}


def test_the_table_says_that_nothing_was_run(compiler):
    result = run("--network", "vgg11", "--batch", "1")
    assert result.exit_code == 0
    assert "not run on hardware" in " ".join(result.stdout.split())
    assert "conv5_2" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--arch", "80"), "90, 100"), (("--tier", "int4"), "fp16x3"), (("--batch", "0"), "at least 1"),
     (("--network", "lenet"), "vgg11")],
)  # fmt: skip
def test_bad_input_is_a_value_error_that_names_what_is_accepted(arguments, message):
    result = run(*arguments)
    assert isinstance(result.exception, ValueError)
    assert message in str(result.exception)
