"""The compile matrix, with subprocesses that are fakes (said to be): what counts as clean, and what as a failure."""

import json
import subprocess

import pytest

from vgg_kernels.predict import matrix

GOOD = {"triton": "3.6.0", "mma_count": 4, "mma_sync_count": 0, "bulk_loads": 8, "spills": 0, "stack_bytes": 0,
        "shared_bytes": 1000}  # fmt: skip


def run_with(monkeypatch, rows=None, error=""):
    monkeypatch.setattr(matrix, "unpack", lambda version, folder: folder / version)

    def run(command, env, capture_output, text):
        assert env["TRITON_INTERPRET"] == "0"
        assert env["PYTHONPATH"].endswith("3.6.0")
        out = json.dumps({"layers": rows}) if rows is not None else ""
        return subprocess.CompletedProcess(command, 1 if error else 0, out, error)

    monkeypatch.setattr(matrix.subprocess, "run", run)


def test_a_clean_cell_counts_its_launches(monkeypatch, tmp_path):
    run_with(monkeypatch, [GOOD, GOOD | {"mma_count": 0, "bulk_loads": 0}])
    found = matrix.cell("3.6.0", "fp16", 90, tmp_path)
    assert (found.launches, found.tensor_core, found.bulk, found.clean) == (2, 1, 1, True)


@pytest.mark.parametrize(
    "flaw", [{"mma_sync_count": 1}, {"spills": 1}, {"stack_bytes": 8}, {"shared_bytes": 10**6}, {"triton": "3.7.1"}]
)
def test_a_flaw_of_one_launch_makes_the_cell_unclean(monkeypatch, tmp_path, flaw):
    run_with(monkeypatch, [GOOD, GOOD | flaw])
    assert not matrix.cell("3.6.0", "fp16", 90, tmp_path).clean


def test_a_compiler_that_fails_is_a_cell_with_its_last_line(monkeypatch, tmp_path):
    run_with(monkeypatch, error="Traceback\nRuntimeError: no such instruction")
    found = matrix.cell("3.6.0", "fp16", 90, tmp_path)
    assert found.error == "RuntimeError: no such instruction"
    assert not found.clean
