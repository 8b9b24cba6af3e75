"""``verify``, ``mutants`` and ``export`` as a user meets them."""

import json

import pytest
from typer.testing import CliRunner

from vgg_kernels.__main__ import build
from vgg_kernels.correctness.kill_matrix import GATES
from vgg_kernels.correctness.mutants.base import WrongNetwork
from vgg_kernels.correctness.mutants.catalogue import WRONG_NETWORKS
from vgg_kernels.workload.lookup import UnknownName

RIGHT = """
from vgg_kernels.correctness.emulation import Emulation

def build(reference):
    return Emulation(reference, "fp16")
"""
WRONG = (
    RIGHT
    + """

def build(reference):
    return lambda x: Emulation(reference, "fp16")(x.flip(0))
"""
)


@pytest.fixture(autouse=True)
def _small(monkeypatch, tiny_network):
    """The command line names networks; here every name means the tiny one."""
    monkeypatch.setattr("vgg_kernels.workload.network.network", lambda *args, **kwargs: tiny_network)


def run(*arguments):
    return CliRunner().invoke(build(), arguments)


def candidate(tmp_path, text):
    path = tmp_path / "candidate.py"
    path.write_text(text)
    return str(path)


def test_a_right_candidate_passes_and_the_document_has_its_keys(tmp_path):
    result = run("verify", "--tier", "fp16", "--effort", "quick", "--candidate", candidate(tmp_path, RIGHT), "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert {"tier", "network", "passed", "checks", "certificates"} <= set(document)
    assert document["passed"] is True
    assert {"weights", "relative_error", "budget", "passed"} <= set(document["checks"][0])
    public = [c for c in document["certificates"] if c["check"].startswith("KernelBench")]
    assert [c["tolerance"] for c in public] == [1e-4, 1e-2]


def test_a_wrong_candidate_fails_readably_and_the_file_says_so(tmp_path):
    out = tmp_path / "verdict.json"
    path = candidate(tmp_path, WRONG)
    result = run("verify", "--tier", "fp16", "--effort", "quick", "--candidate", path, "--out", str(out))
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
    assert "failed: values (kernelbench, uniform): images 0, 2" in result.stdout
    recorded = json.loads(out.read_text())
    assert recorded["passed"] is False
    assert recorded["evidence"] == "measured"
    assert recorded["provenance"]["torch"]


def test_an_unknown_tier_is_named():
    assert isinstance(run("verify", "--tier", "fp12").exception, UnknownName)


def test_mutants_counts_and_exits_with_zero_only_where_none_survives(tmp_path, monkeypatch):
    result = run("dev", "mutants", "--only", "Zeros", "--only", "OutputReused", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [row["name"] for row in document["mutants"]] == ["Zeros", "OutputReused"]
    assert document["killed"][GATES[-1]] == 2

    class Harmless(WrongNetwork):
        """is right, and so survives"""

    monkeypatch.setitem(WRONG_NETWORKS, "Harmless", Harmless)
    assert run("dev", "mutants", "--only", "Harmless").exit_code == 1
    assert isinstance(run("dev", "mutants", "--only", "Unicorn").exception, UnknownName)
