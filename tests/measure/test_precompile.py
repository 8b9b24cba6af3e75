"""The fan-out, with processes that compile nothing; and that the real command at least reaches its device."""

import subprocess
import sys
import time

import pytest
import torch

from vgg_kernels.measure.precompile import command, precompile, processes


def stand_in(code):
    return lambda tier, batch: [sys.executable, "-c", code, tier, str(batch)]


def test_jobs_run_side_by_side_and_say_how_long_they_took():
    began = time.monotonic()
    rows = precompile([("fp16", 10), ("tf32", 1)], at_once=2, make=stand_in("import time; time.sleep(1.5)"))
    assert time.monotonic() - began < 2.9
    assert [(r["tier"], r["batch"], r["error"]) for r in rows] == [("fp16", 10, None), ("tf32", 1, None)]
    assert all(r["seconds"] >= 1.5 for r in rows)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise ValueError('no such tile')", "ValueError: no such tile"),
        ("raise SystemExit(3)", "exit status 3"),
        ("import os; os.abort()", "exit status -6"),
    ],
)
def test_a_job_that_fails_is_named_and_stops_nothing(code, error):
    [row] = precompile([("fp16", 10)], at_once=1, make=stand_in(code))
    assert row["error"] == error
    assert not row["timed_out"]


def test_the_time_is_for_all_jobs_and_those_it_was_too_short_for_are_told_from_those_that_failed():
    began = time.monotonic()
    jobs = [("fp16", 10), ("fp16", 3), ("fp16", 1)]
    rows = precompile(jobs, at_once=1, make=stand_in("import time; time.sleep(60)"), timeout_s=1.5)
    assert time.monotonic() - began < 10
    assert [row["error"] for row in rows] == ["did not end within 2 s of all"] * 3
    assert all(row["timed_out"] for row in rows)


@pytest.mark.parametrize(
    ("cores", "memory", "expected"),
    [(16, 143e9, 16), (16, 80e9, 10), (4, 143e9, 4), (16, 24e9, 3), (16, 6e9, 1), (64, 1e12, 16)],
)
def test_no_more_processes_than_cores_and_memory_allow(cores, memory, expected):
    assert processes(cores, memory) == expected


@pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU the command below compiles everything")
def test_the_real_command_needs_a_gpu_and_says_so():
    done = subprocess.run(command("fp16", 1), capture_output=True, text=True)
    assert done.returncode == 1
    assert "CUDA" in done.stderr.splitlines()[-1] or "NVIDIA" in done.stderr.splitlines()[-1]
