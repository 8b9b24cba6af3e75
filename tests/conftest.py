"""What holds for every test: nothing is written into the tree, and GPU tests are deselected, and counted, without one.

``fake`` makes runs of the ledger that nobody measured, for the tests of what is done with runs.
"""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import vgg_kernels.kernels.backend  # noqa: F401 - decides how Triton runs, before any test imports what imports Triton
from vgg_kernels.measure.provenance import device_key
from vgg_kernels.records.store import RunWriter


@pytest.fixture(scope="session", autouse=True)
def _figures_elsewhere(tmp_path_factory):
    os.environ["VGG_STUDY_FIGURES"] = str(tmp_path_factory.mktemp("figures"))
    os.environ["VGG_STUDY"] = "recorded"  # what this machine has measured is no test's business


@pytest.fixture(autouse=True)
def _figures_closed():
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


NEED_GPU = pytest.StashKey[int]()


@pytest.hookimpl(trylast=True)  # behind -m and -k, so that only what was asked for is counted
def pytest_collection_modifyitems(config, items):
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not on_gpu:
        return
    import torch

    if not torch.cuda.is_available():
        items[:] = [item for item in items if item not in on_gpu]
        config.hook.pytest_deselected(items=on_gpu)
        config.stash[NEED_GPU] = len(on_gpu)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """pytest-xdist: a worker has ended; each of them collected everything."""
    node.config.stash[NEED_GPU] = getattr(node, "workeroutput", {}).get("need_gpu", 0)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["need_gpu"] = session.config.stash.get(NEED_GPU, 0)


def pytest_terminal_summary(terminalreporter, config):
    count = config.stash.get(NEED_GPU, 0)
    if count:
        are = "test needs an NVIDIA GPU and was" if count == 1 else "tests need an NVIDIA GPU and were"
        terminalreporter.write_line(f"{count} {are} deselected: none is present here", yellow=True)


FAKE_ROW = {
    "variant": "eager",
    "tier": "tf32",
    "network": "vgg19",
    "batch": 10,
    "layer": "network",
    "timer": "kernelbench",
    "cache": "cold",
    "dtype": "fp32",
    "cudnn_allow_tf32": True,
    "matmul_allow_tf32": False,
}
FAKE_PROVENANCE = {
    "card": "aaaaaaaaaaaa",
    "torch": "2.11.0",
    "triton": "3.6.0",
    "git_revision": "0" * 40,
    "git_dirty": False,
    "source_sha256": "1" * 64,
    "observed": "2026-03-10T12:00:00+00:00",
    "flags": {"cudnn_allow_tf32": True, "matmul_allow_tf32": False},
}


def fake_provenance(name: str = "NVIDIA H100 80GB HBM3", kind: str = "cuda", **changed: object) -> dict:
    """Provenance of a machine that does not exist."""
    device = {"device": device_key(name, kind), "device_name": name, "hardware": {"kind": kind}}
    return {**FAKE_PROVENANCE, **device, **changed}


def fake_times(mean_ms: float, n: int = 100, seed: int = 0) -> list[float]:
    """Times that nobody measured: normal, half a per cent wide."""
    return [float(t) for t in mean_ms * (1 + 0.005 * np.random.default_rng(seed).standard_normal(n))]


def write_fake_run(
    folder: Path,
    times: dict[str, list[float]],
    *,
    gate: dict[str, bool] | None = None,
    seal: bool = True,
    row: dict | None = None,
    **provenance: object,
) -> Path:
    """A run of the ledger that nobody measured: ``times`` and ``gate`` by variant."""
    run = RunWriter(folder, fake_provenance(**provenance))
    for variant, samples in times.items():
        rows = {**FAKE_ROW, **(row or {}), "variant": variant}
        run.append({**rows, "sample": i, "time_ms": t} for i, t in enumerate(samples))
    for variant, passed in (gate or {}).items():
        tier = {**FAKE_ROW, **(row or {})}["tier"]
        run.note("gate", {"variant": variant, "tier": tier, "network": "vgg19", "passed": passed})
    if seal:
        run.finish()
    else:
        run.close()
    return folder


@pytest.fixture
def fake():
    """The makers of fake runs, as one object: ``fake.run``, ``fake.times``, ``fake.provenance``, ``fake.row``."""

    class Fake:
        run = staticmethod(write_fake_run)
        times = staticmethod(fake_times)
        provenance = staticmethod(fake_provenance)
        row = FAKE_ROW

    return Fake


@pytest.fixture(scope="session")
def tiny_network():
    """A network of VGG's layers that is small enough to verify in a second: five narrow blocks, 64-pixel images."""
    from vgg_kernels.workload.network import Conv, Linear, Network

    widths = ((3, 16), (16, 16), (16, 32), (32, 32), (32, 32), (32, 32), (32, 32))
    pooled = (False, True, True, True, False, True, True)
    convs, size = [], 64
    for i, ((c_in, c_out), pool) in enumerate(zip(widths, pooled, strict=True)):
        index = sum(3 if p else 2 for p in pooled[:i])
        convs.append(Conv(f"conv{i + 1}", f"features.{index}", c_in, c_out, size, size, pool))
        size //= 2 if pool else 1
    sizes = (32 * size * size, 128, 128, 300)
    linears = tuple(Linear(f"fc{6 + i}", f"classifier.{3 * i}", sizes[i], sizes[i + 1], relu=i < 2) for i in range(3))
    return Network("tiny", 64, sizes[-1], tuple(convs), linears)
