"""Where a run happened: the machine, the software, the source revision and the flags, as one JSON document.

Nothing here is a measurement of the kernels; it is what a reader needs to decide whether two measurements may be
compared. No path, host name or user name is kept.
"""

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..floor.hardware import device_by_torch_name
from ..workload.lookup import UnknownName

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
SOURCES = (".py", ".toml", ".csv")  # tuned_tiles.csv decides what runs as much as code does
IDENTITY = ("device_name", "card", "torch", "triton", "git_revision", "source_sha256")


def collect(kind: str | None = None) -> dict[str, Any]:
    """Describe this process's machine and software.

    Args:
        kind: "cpu" or "cuda"; by default the GPU where there is one.

    Returns:
        A JSON-able document. At its top what decides whether two runs compare: ``device`` (key of its data sheet, or
        a name made from its own), ``device_name``, ``card`` (a digest that tells equal cards of one host apart),
        ``torch``, ``triton``, ``git_revision``, ``git_dirty``, ``source_sha256`` (which holds without git too) and
        ``observed`` (UTC). Below it ``hardware`` (memory, and NVML's state for a GPU), ``host`` (CPU, cores,
        threads, load average), ``software`` (packages, and what ``torch.utils.collect_env`` says) and ``flags``.
    """
    import torch

    kind = kind or ("cuda" if torch.cuda.is_available() else "cpu")
    hardware: dict[str, Any] = gpu() if kind == "cuda" else {"name": cpu_name(), "memory_bytes": memory_bytes()}
    if mismatch := cuda_mismatch():
        hardware["cuda_mismatch"] = mismatch
    packages = installed()
    return {
        "device": device_key(hardware["name"], kind),
        "device_name": hardware["name"],
        "card": hardware.pop("card", None),
        "torch": torch.__version__,
        "triton": packages.get("triton"),
        **source(),
        "observed": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": hardware | {"kind": kind},
        "host": {
            "cpu": cpu_name(),
            "cores": os.cpu_count(),
            "usable_cores": len(os.sched_getaffinity(0)),
            "threads": torch.get_num_threads(),
            "load_average": load_average(),
        },
        "software": {"packages": packages, **software()},
        "flags": flags(),
    }


def identity(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """What must be equal for one measurement to be the continuation of another."""
    return {key: provenance.get(key) for key in IDENTITY}


def device_key(name: str, kind: str) -> str:
    """The data sheet's key where the table knows the card, else one made from the name: "cpu_amd_epyc"."""
    try:
        return device_by_torch_name(name).key
    except UnknownName:
        words = re.findall(r"[a-z0-9]+", name.lower())
        return "_".join(words if kind == "cuda" else ["cpu", *words])


def gpu(index: int = 0) -> dict[str, Any]:
    """What PyTorch and NVML say about one NVIDIA GPU; NVML's part is null where the driver does not answer."""
    import torch

    from .telemetry import open_gpu

    properties = torch.cuda.get_device_properties(index)
    handle = open_gpu(index)
    return {
        "name": properties.name,
        "card": hashlib.sha256(str(properties.uuid).encode()).hexdigest()[:12],
        "arch": 10 * properties.major + properties.minor,
        "sms": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "l2_bytes": properties.L2_cache_size,
        "nvml": None if handle is None else handle.describe(),
    }


def cuda_mismatch() -> str | None:
    """Both versions in a sentence, where PyTorch was built for another CUDA than the GPU or its driver has; or none."""
    import torch

    from .telemetry import driver_cuda

    built = f"PyTorch {torch.__version__} is built " + (
        f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
    )
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        accepted = torch.cuda.get_arch_list()
        if not accepted or any(_runs(name, major, minor) for name in accepted):
            return None
        return f"{built} and {', '.join(accepted)}; {torch.cuda.get_device_name()} is sm_{major}{minor}"
    if driver := driver_cuda():
        return (
            f"{built}, and the NVIDIA driver here offers CUDA {driver}: no GPU is used; install PyTorch's build for it"
        )
    return None


def _runs(name: str, major: int, minor: int) -> bool:
    """Whether code for ``name`` ("sm_90", "compute_90", "sm_90a") runs on that capability."""
    found = re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", name)
    if not found:
        return False
    kind, at_major, at_minor = found[1], int(found[2]), int(found[3])
    if kind == "compute":
        return (at_major, at_minor) <= (major, minor)
    return at_major == major and at_minor <= minor


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


def installed() -> dict[str, str]:
    """Versions of the packages that a time depends on, those that are there."""
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def software() -> dict[str, Any]:
    """Versions of Python, CUDA, cuDNN and the system below them."""
    import torch

    found = _environment()
    return {
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        **{key: found.get(key) for key in ENVIRONMENT},
    }


@cache  # a second of subprocesses, and what they say holds as long as the process does
def _environment() -> Mapping[str, Any]:
    from torch.utils.collect_env import get_env_info

    with suppress(Exception):  # it reads what a dozen programs print: what it makes of them is worth no failure
        return get_env_info()._asdict()
    return {}


def source() -> dict[str, Any]:
    """The package's git revision, whether its files differ from it, and the SHA-256 of the files themselves.

    A copy that travelled without git may be told its revision in ``$VGG_REVISION``; ``revision_stated`` says so, and
    whoever has that revision can hold its ``source_sha256`` against what is recorded.

    Raises:
        ValueError: for a ``$VGG_REVISION`` that is no whole hash.
    """
    status, revision = _git("status", "--porcelain", "--", "."), _git("rev-parse", "HEAD")
    stated = None if revision else os.environ.get("VGG_REVISION")
    if stated and not re.fullmatch(r"[0-9a-f]{40}", stated):
        raise ValueError(f"VGG_REVISION is {stated!r}; the 40 digits of git rev-parse HEAD are accepted")
    return {
        "git_revision": revision or stated,
        "git_dirty": False if stated else None if status is None else bool(status),
        "source_sha256": source_sha256(),
        **({"revision_stated": True} if stated else {}),
    }


def source_sha256(package: Path = PACKAGE) -> str:
    """SHA-256 over the names and contents of the package's own files, in order of name."""
    digest = hashlib.sha256()
    for path in sorted(p for p in package.rglob("*") if p.suffix in SOURCES and "__pycache__" not in p.parts):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(("git", "-C", str(PACKAGE), *words), capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
