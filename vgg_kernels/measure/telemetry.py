"""What the machine did while it was being timed: clocks, power, temperature and the reasons for a lowered clock.

A thread samples NVML (or, on a CPU, the load average) beside the timed work; a run that was throttled says so.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

PERIOD_S = 0.05  # NVML's own readings are no fresher, and each asks for the interpreter's lock
# The older name stands for drivers before 535, which do not know the newer one.
REASONS = "nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetCurrentClocksThrottleReasons"
# NVML's bits of "current clocks event reasons" that lower the clock below what the work asked for.
THROTTLES = {
    0x0004: "power cap",
    0x0008: "hardware slowdown",
    0x0020: "thermal limit (software)",
    0x0040: "thermal limit (hardware)",
    0x0080: "power brake",
}

Sample = dict[str, Any]


class Gpu:
    """One GPU seen through NVML. A question that the driver does not answer is null, never a guess."""

    def __init__(self, nvml: Any, handle: Any):
        self._nvml, self._handle = nvml, handle

    def _ask(self, names: str, *arguments: Any) -> Any:
        """The answer to the first of the questions that this library and this driver know."""
        for name in names.split():
            with suppress(self._nvml.NVMLError, AttributeError):
                return getattr(self._nvml, name)(self._handle, *arguments)
        return None

    def _driver(self) -> str | None:
        with suppress(self._nvml.NVMLError):
            return str(self._nvml.nvmlSystemGetDriverVersion())
        return None

    def describe(self) -> dict[str, Any]:
        """Driver, limits, processes on the card (this one too) and present state: MHz, W, degrees Celsius."""
        limit = self._ask("nvmlDeviceGetEnforcedPowerLimit")
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses")
        return {
            "driver": self._driver(),
            "power_limit_w": None if limit is None else limit / 1000,
            "processes": None if processes is None else len(processes),
            "max_sm_mhz": self._ask("nvmlDeviceGetMaxClockInfo", self._nvml.NVML_CLOCK_SM),
            "max_memory_mhz": self._ask("nvmlDeviceGetMaxClockInfo", self._nvml.NVML_CLOCK_MEM),
            **self.sample(),
        }

    def sample(self) -> Sample:
        """The state now: ``sm_mhz``, ``memory_mhz``, ``power_w``, ``temperature_c`` and ``reasons`` (NVML's bits)."""
        power = self._ask("nvmlDeviceGetPowerUsage")
        return {
            "sm_mhz": self._ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM),
            "memory_mhz": self._ask("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_MEM),
            "power_w": None if power is None else power / 1000,
            "temperature_c": self._ask("nvmlDeviceGetTemperature", self._nvml.NVML_TEMPERATURE_GPU),
            "reasons": self._ask(REASONS),
        }


def open_gpu(index: int = 0) -> Gpu | None:
    """The GPU that PyTorch calls ``cuda:index``, found in NVML by its UUID; none where NVML does not answer."""
    try:
        import pynvml
        import torch

        pynvml.nvmlInit()
        uuid = torch.cuda.get_device_properties(index).uuid
        for name in (f"GPU-{uuid}", f"MIG-{uuid}"):
            with suppress(pynvml.NVMLError):
                return Gpu(pynvml, pynvml.nvmlDeviceGetHandleByUUID(name))
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except Exception:  # no driver, no library, no permission: telemetry is a witness, never a reason to stop
        return None
    return Gpu(pynvml, handle)


def driver_cuda() -> str | None:
    """The newest CUDA version that the NVIDIA driver of this machine offers, as "12.4"; none without a driver."""
    with suppress(Exception):  # no library, no driver: there is nothing to compare
        import pynvml

        pynvml.nvmlInit()
        version = pynvml.nvmlSystemGetCudaDriverVersion_v2()
        return f"{version // 1000}.{version % 1000 // 10}"
    return None


def cpu_sample() -> Sample:
    """The host's load average over the last minute: what else was running beside the timed work."""
    return {"load_average": round(os.getloadavg()[0], 2)}


class Telemetry:
    """A context manager that samples in a thread; ``summary()`` and ``samples`` are whole once it has closed.

    Args:
        read: returns one sample, a flat dict.
        period_s: seconds between samples.
        clock: seconds, monotonic.
    """

    def __init__(
        self, read: Callable[[], Sample], period_s: float = PERIOD_S, clock: Callable[[], float] = time.monotonic
    ):
        self.samples: list[Sample] = []
        self._read, self._period_s, self._clock = read, period_s, clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def _take(self) -> None:
        with suppress(Exception):  # a witness that fails is missed, and costs no measurement
            self.samples.append({"at_s": round(self._clock() - self._start, 3), **self._read()})

    def _run(self) -> None:
        while not self._stop.wait(self._period_s):
            self._take()

    def __enter__(self) -> "Telemetry":
        """Take the first sample and go on taking them in a thread."""
        self._start = self._clock()
        self._take()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread and take the last sample."""
        self._stop.set()
        self._thread.join()
        self._take()

    def summary(self) -> dict[str, Any]:
        """Lowest, median and highest of each sampled quantity, and the throttle reasons that were seen."""
        return summarise(self.samples)


def summarise(samples: Iterable[Sample]) -> dict[str, Any]:
    """Condense samples to ``{quantity: {"min", "median", "max"}}`` with ``samples`` (how many) and ``throttled``."""
    samples = list(samples)
    document: dict[str, Any] = {"samples": len(samples), "throttled": throttles(samples)}
    for key in sorted({key for sample in samples for key in sample} - {"at_s", "reasons"}):
        values = sorted(sample[key] for sample in samples if sample.get(key) is not None)
        if values:
            document[key] = {"min": values[0], "median": values[len(values) // 2], "max": values[-1]}
    return document


def throttles(samples: Iterable[Sample]) -> list[str]:
    """The names of the reasons, of ``THROTTLES``, that any sample shows; empty where the clock was never lowered."""
    seen = 0
    for sample in samples:
        seen |= sample.get("reasons") or 0
    return [name for bit, name in THROTTLES.items() if seen & bit]
