"""Tests that need a GPU: taken where there is one, deselected and counted where there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py").read_text()
TESTS = """
import pytest

@pytest.mark.gpu
def test_on_the_card():
    print("ran on the card")

@pytest.mark.gpu
def test_unasked():
    pass

def test_anywhere():
    pass
"""
PRETENCE = """
import torch
torch.cuda.is_available = lambda: True
"""


def run(folder, *arguments):
    for name, text in (("conftest.py", CONFTEST), ("test_one.py", TESTS), ("pretence.py", PRETENCE)):
        (folder / name).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = gpu: needs an NVIDIA GPU\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "a worker"])
def test_without_a_gpu_those_asked_for_are_deselected_and_counted(tmp_path, workers):
    output = run(tmp_path, "-k", "not unasked", *workers)
    assert "1 passed" in output
    assert "skipped" not in output
    assert "1 test needs an NVIDIA GPU and was deselected: none is present here" in output


def test_with_a_gpu_they_run(tmp_path):
    """A pretended one: the tests do nothing with it."""
    output = run(tmp_path, "-p", "pretence", "-s")
    assert "ran on the card" in output
    assert "3 passed" in output
    assert "deselected" not in output
