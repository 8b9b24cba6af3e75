"""Where a run happened: the machine, the software, the source revision and the flags, as one JSON document.

Nothing here is a measurement of the kernels; it is what a reader needs to decide whether two measurements may be
compared. No path, host name or user name is kept.
"""

import hashlib
import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
PACKAGES = (
    "torch",
    "triton",
    "numpy",
    "pandas",
    "nvidia-ml-py",
    "nvidia-cudnn-cu13",
    "nvidia-cublas",
    "nvidia-cudnn-cu12",
)
ENVIRONMENT = ("cuda_runtime_version", "nvidia_driver_version", "gcc_version", "libc_version", "os", "python_platform")
IDENTITY = (("device", "name"), ("source", "sha256"), ("software", "torch"), ("software", "triton"))


def collect(device: str | None = None) -> dict[str, Any]:
    """Describe this process's machine and software.

    Args:
        device: "cpu" or "cuda"; by default the GPU where there is one.

    Returns:
        A JSON-able document with the keys ``device`` (name, kind, memory, and NVML's state for a GPU), ``host`` (CPU,
        cores, threads, load average), ``software`` (Python, torch, triton, packages, and what
        ``torch.utils.collect_env`` says), ``flags`` (TF32 and cuDNN switches), ``source`` (git revision, whether
        the package has uncommitted changes, and the SHA-256 of its files, which holds without git too) and
        ``started`` (UTC).
    """
    import torch

    kind = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return {
        "device": gpu() if kind == "cuda" else {"name": cpu_name(), "kind": "cpu", "memory_bytes": memory_bytes()},
        "host": {
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "usable_cores": len(os.sched_getaffinity(0)),
            "threads": torch.get_num_threads(),
            "load_average": load_average(),
        },
        "software": software(),
        "flags": flags(),
        "source": source(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def identity(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """What must be equal for one measurement to be the continuation of another: device, source, torch and triton."""
    return {f"{group}.{key}": provenance.get(group, {}).get(key) for group, key in IDENTITY}


def gpu(index: int = 0) -> dict[str, Any]:
    """What PyTorch and NVML say about one NVIDIA GPU; NVML's part is null where the driver does not answer."""
    import torch

    from .telemetry import open_gpu

    properties = torch.cuda.get_device_properties(index)
    document = {
        "name": properties.name,
        "kind": "cuda",
        "arch": 10 * properties.major + properties.minor,
        "sms": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "l2_bytes": properties.L2_cache_size,
    }
    handle = open_gpu(index)
    return document | ({"nvml": None} if handle is None else {"nvml": handle.describe()})


def cpu_name() -> str:
    """The CPU's model name, as /proc/cpuinfo gives it ("AMD EPYC"); the architecture where there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else os.uname().machine


def memory_bytes() -> int:
    """Physical memory of the host, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def load_average() -> list[float]:
    """Runnable processes over the last 1, 5 and 15 minutes: above the core count, CPU times are not to be trusted."""
    return [round(value, 2) for value in os.getloadavg()]


def flags() -> dict[str, Any]:
    """The switches that change what "fp32" means, as they stand in this process."""
    import torch

    return {
        "cudnn_allow_tf32": torch.backends.cudnn.allow_tf32,
        "matmul_allow_tf32": torch.backends.cuda.matmul.allow_tf32,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
    }


def software() -> dict[str, Any]:
    """Versions of Python, torch, triton and the libraries below them."""
    import torch
    from torch.utils.collect_env import get_env_info

    found = get_env_info()._asdict()
    packages = {}
    for name in PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "python": found["python_version"].split()[0],
        "torch": torch.__version__,
        "triton": packages.get("triton"),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "packages": packages,
        "environment": {key: found.get(key) for key in ENVIRONMENT},
    }


def source() -> dict[str, Any]:
    """The package's git revision, whether its files differ from it, and the SHA-256 of the files themselves."""
    revision = _git("rev-parse", "HEAD")
    status = _git("status", "--porcelain", "--", ".")
    return {"revision": revision, "dirty": None if status is None else bool(status), "sha256": source_sha256()}


def source_sha256(package: Path = PACKAGE) -> str:
    """SHA-256 over the names and contents of the package's own files, in order of name."""
    digest = hashlib.sha256()
    for path in sorted(p for p in package.rglob("*") if p.suffix in (".py", ".toml") and "__pycache__" not in p.parts):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(("git", "-C", str(PACKAGE), *words), capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
