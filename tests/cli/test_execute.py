"""``execute`` compiles, so it runs in a process of its own: this one interprets."""

import json
import os
import subprocess
import sys

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}


def run(*arguments):
    command = [sys.executable, "-m", "vgg_kernels", "execute", "--network", "vgg11", "--image", "32", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)


def test_one_json_document_of_one_layer():
    done = run("--layer", "fc8", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["arch"], document["tier"], document["evidence"]) == (90, "fp16", "executed")
    (row,) = document["launches"]
    assert {"layer", "kernel", "ctas", "instructions", "bulk_bytes", "wgmma_clocks", "hazards", "relative_error",
            "seconds"} <= set(row)  # fmt: skip
    assert row["wgmma_clocks"] > 0
    assert 0 < row["relative_error"] < 1e-3
    assert row["hazards"] == {}


def test_an_unknown_layer_is_one_line_that_names_those_that_exist():
    done = run("--layer", "conv9_9")
    assert done.returncode == 2
    assert "conv9_9" in done.stderr
    assert "conv5_2" in done.stderr
    assert "Traceback" not in done.stderr
