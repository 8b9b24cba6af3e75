"""Real measuring processes on this CPU and a small network: killed, interrupted, and gone on with."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vgg_kernels.measure.run import Device, DeviceLost
from vgg_kernels.records.reading import read_runs

SAMPLE = ["variant", "batch", "layer", "timer", "cache", "sample"]
SMALL = {"name": "vgg11", "image": 32, "classes": 10}
MEASURE = """
import sys
from pathlib import Path
from vgg_kernels.cli.measure import measure
from vgg_kernels.measure import provenance
provenance.source_sha256 = lambda: "1" * 64
sys.exit(measure(Path(sys.argv[1]), 100.0, ("eager", "time", "layers"), (1, 2), False, {network}))
"""


def start(out):
    script = MEASURE.format(network=SMALL)
    return subprocess.Popen([sys.executable, "-c", script, str(out)], stderr=subprocess.PIPE, text=True)


def until(process, text):
    for line in process.stderr:
        if text in line:
            return
    pytest.fail(f"never printed {text!r}")


def children(pid):
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def test_kill_9_loses_no_finished_row_and_leaves_no_process(tmp_path):
    first = start(tmp_path)
    until(first, "done     time/eager/1")
    workers = children(first.pid)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    [path] = tmp_path.rglob("samples.csv")
    before = path.read_bytes()
    assert b"eager,fp32,vgg11,1,network,host,warm" in before
    for _ in range(100):
        if not any(
            Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() for pid in workers
        ):
            break
        time.sleep(0.05)
    else:
        pytest.fail("a measuring process outlives its parent")
    second = start(tmp_path)
    log = second.communicate()[1]
    assert second.returncode == 0
    assert "begins   time/eager/1" not in log
    assert path.read_bytes().startswith(before)
    runs = read_runs(tmp_path)
    assert runs.problems == []
    assert not runs.samples.duplicated(SAMPLE).any()
    assert set(runs.samples[runs.samples["layer"] == "network"]["batch"]) == {1, 2}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_stops_within_5_s_and_names_what_is_done(tmp_path, number):
    process = start(tmp_path)
    until(process, "done     time/eager/1")
    process.send_signal(number)
    began = time.monotonic()
    log = process.communicate()[1]
    assert time.monotonic() - began < 5
    assert process.returncode == 130
    assert "interrupted" in log
    assert "done: time/eager/1" in log
    assert "too small" not in log
    assert not list(tmp_path.rglob("seal.json"))


def test_a_device_that_is_not_there_is_said_in_one_line():
    with pytest.raises(DeviceLost, match="CUDA"):
        Device(arguments={"kind": "cuda", "network": SMALL}).describe()
