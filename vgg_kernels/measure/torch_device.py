"""The device at hand through PyTorch: the current NVIDIA GPU, or the CPU."""

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..kernels import backend  # before anything imports triton: it decides whether kernels are interpreted
from ..workload.network import Network
from ..workload.network import network as find_network
from ..workload.reference import Reference
from ..workload.weights import reference
from . import peak_rates, provenance, telemetry, variants
from .device import Cpu, Cuda, Timing
from .explain import explain
from .profile import profile
from .timed_call import KEPT, Check, TimedCall, fill_activations, fill_images
from .timers import TIMERS, TRIALS, Allowance, Timer
from .variants import Variant

KEPT_ON_CPU = 2  # each costs a forward of the reference, which takes seconds there
LAYER_TRIALS = {"cuda": 50, "cpu": 5}
TRIALS_OF = {"cuda": TRIALS, "cpu": 15}
CPU_SECONDS = 8.0  # for one timer of one variant; FEWEST_TRIALS are taken whatever they cost
GPU_SECONDS = 10.0
STRICT = Variant("strict", "eager", "fp32", **variants.STRICT)  # what outputs are compared with
COMPILE_S = 150.0  # for all compilers of a step together; 18 take about 30 on 16 cores (estimated)
MOST_PROCESSES = 16
BYTES_A_PROCESS = 8e9  # of the device: a CUDA context, the weights while they are packed, a large batch's workspace
SMALL: dict[str, Any] = {"name": "vgg11", "image": 32}  # what the gate interprets on a CPU: every kernel, in seconds


class TorchDevice:
    """A real device through PyTorch: the current NVIDIA GPU, or the CPU.

    Args:
        kind: "cuda" or "cpu"; by default the GPU where there is one.
        table: the network that is timed, VGG19 at 224 pixels.
        gate: verifies ``(build, network, tier)`` and returns a verdict with ``passed`` and ``document()``.
    """

    def __init__(self, kind: str | None = None, table: Network | None = None, gate: Callable[..., Any] | None = None):
        self.kind = kind or ("cuda" if torch.cuda.is_available() else "cpu")
        self.network = table or find_network("vgg19")
        self._gate = gate
        self._machine: Any = Cuda() if self.kind == "cuda" else Cpu()
        self._found = provenance.collect(self.kind)
        self.name = self._found["device_name"]
        self._module: Reference | None = None
        self._gpu = telemetry.open_gpu() if self.kind == "cuda" else None
        self._seed = 0

    def now(self) -> float:
        """Host seconds, monotonic."""
        return self._machine.now()

    def provenance(self) -> dict[str, Any]:
        """As collected when this object was made."""
        return self._found

    @property
    def module(self) -> Reference:
        """The fp32 reference with Kaiming weights, on the device."""
        if self._module is None:
            self._module = reference(self.network).to(self.kind)
        return self._module

    def compile(self, tiers: list[str], batches: list[int]) -> list[dict[str, Any]]:
        """Compile every tier at every batch, each pair in a process of its own; only a GPU has anything to compile."""
        jobs = [(tier, batch) for batch in batches for tier in tiers]
        room = int(self._found["hardware"]["memory_bytes"] // BYTES_A_PROCESS)
        return compile_all(jobs, max(1, min(self._found["host"]["usable_cores"], MOST_PROCESSES, room)))

    def verify(self, tier: str, seed: int) -> dict[str, Any]:
        """Gate one tier: on a GPU the network itself, on a CPU a small one in Triton's interpreter."""
        from ..kernels.model import VGG

        if self._gate is None:
            from ..correctness.gate import verify

            self._gate = verify
        table = self.network if self.kind == "cuda" else find_network(**SMALL)
        effort = "quick" if self.kind == "cuda" else "single"  # the interpreter takes about 20 s for one image
        verdict = self._gate(
            lambda module: VGG.from_reference(module, tier=tier),
            table,
            tier,
            effort=effort,
            seed=seed,
            device=self.kind,
        )
        where = "in Triton's interpreter" if backend.INTERPRETED else "compiled"
        return {
            "network": table.name,
            "image": table.image,
            "where": where,
            "passed": bool(verdict.passed),
            "verdict": verdict.document(),
        }

    def time(self, variant: Variant, batch: int, done: Callable[[str, str], bool]) -> Iterator[Timing]:
        """Build once, then one timer after the other."""
        timers = [t for t in TIMERS[self.kind] if (t.graphs or not variant.graphs) and not done(t.name, t.cache)]
        if timers:
            yield from self._timed(variant, self._built(variant, batch), timers)

    def _built(self, variant: Variant, batch: int) -> TimedCall:
        with variants.precision(variant):
            subject = self._sampled(variants.build(variant, self.module), batch, self.network.convs[0].input_shape)
            with _named_kernels(self.kind):
                subject.call()
        return subject

    def _timed(self, variant: Variant, subject: TimedCall, timers: list[Timer]) -> Iterator[Timing]:
        for timer in timers:
            check = partial(subject.check, self.module, variant.bound)
            yield self._take(variant, subject, "network", timer, TRIALS_OF[self.kind], check)

    def layers(self, variant: Variant, batch: int, done: Callable[[str, str, str], bool]) -> Iterator[Timing]:
        """Each layer on its own input; on a GPU as graph replays, since one launch takes longer than some layers."""
        timers = [t for t in TIMERS[self.kind] if t.name == ("graph" if self.kind == "cuda" else "host")]
        for layer, subject, check in self._layer_subjects(variant, batch):
            for timer in timers:
                if not done(layer, timer.name, timer.cache):
                    yield self._take(variant, subject, layer, timer, LAYER_TRIALS[self.kind], check)

    def profile(self, variant: Variant, batch: int) -> list[dict[str, Any]]:
        """One forward's kernels, averaged over three (on a CPU: one)."""
        subject = self._built(variant, batch)
        with variants.precision(variant), _named_kernels(self.kind):
            return profile(subject.call, kind=self.kind, calls=3 if self.kind == "cuda" else 1)

    def peak_rates(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Copy, matrix products, and on a GPU the L2 and the launch gap."""
        if self.kind == "cpu":
            return peak_rates.cpu(self.name)
        return peak_rates.cuda(lambda: self._gpu.sample()["sm_mhz"] if self._gpu else None, self.name)

    def release(self) -> None:
        """Forget compiled code and cached memory of the last step."""
        torch._dynamo.reset()
        gc.collect()
        if self.kind == "cuda":
            torch.cuda.empty_cache()

    def usable(self) -> bool:
        """Whether a trivial piece of work still comes back."""
        try:
            return bool((torch.ones(2, device=self.kind) + 1).sum().item() == 4)
        except RuntimeError:
            return False

    def _sampled(self, forward: Callable[[Tensor], Tensor], batch: int, shape: tuple[int, ...], fill=fill_images):
        self._seed += 1
        keep = KEPT if self.kind == "cuda" else KEPT_ON_CPU
        return TimedCall(forward, (batch, *shape), self.kind, fill, seed=self._seed, keep=keep)

    def _take(
        self, variant: Variant, subject: Any, layer: str, timer: Timer, trials: int, check: Callable[[], Check]
    ) -> Timing:
        """One timer's result; its error where it failed and the device is still there for the next.

        Raises:
            Exception: whatever it raised, where the device no longer answers.
        """
        allow = Allowance(self.now, self.now() + (GPU_SECONDS if self.kind == "cuda" else CPU_SECONDS), trials)
        read = self._gpu.sample if self._gpu else telemetry.cpu_sample
        try:
            with variants.precision(variant):
                with telemetry.Telemetry(read) as witness:
                    times = timer.measure(subject, self._machine, allow)
                subject.repeat()
            with variants.precision(STRICT):
                return Timing(layer, timer.name, timer.cache, times, witness.summary(), check())
        except Exception as error:
            if not self.usable():
                raise
            nothing = Check(0, float("inf"), variant.bound, 0)
            return Timing(layer, timer.name, timer.cache, [], {}, nothing, explain(error))

    def _layer_subjects(self, variant: Variant, batch: int) -> Iterator[tuple[str, Any, Callable[[], Check]]]:
        if variant.family == "ours":
            from .layers import layer_calls

            for call in layer_calls(self.module, variant.tier, batch):
                yield call.layer, call, partial(call.check, self.module, variant.bound)
            return
        for name, layer in variants.layers(self.module).items():
            row = self.network.layer(name)
            fill = fill_images if row == self.network.convs[0] else fill_activations
            if variant.family == "inductor":  # one function's compiled forms are counted, and the ninth is refused
                torch._dynamo.reset()
            with variants.precision(variant):
                subject = self._sampled(variants.build(variant, layer), batch, row.input_shape, fill)
                subject.call()
            yield name, subject, partial(subject.check, layer, variant.bound)


def from_arguments(kind: str | None = None, network: dict[str, Any] | None = None) -> TorchDevice:
    """A device from JSON values: its kind, and the arguments of ``workload.network.network``."""
    return TorchDevice(kind, find_network(**network) if network else None)


@contextmanager
def _named_kernels(kind: str) -> Iterator[None]:
    """While inductor compiles for a CPU, let it name its generated kernels in profiles; elsewhere nothing changes."""
    if kind == "cuda":
        yield
        return
    from torch._inductor import config

    with config.patch({"cpp.enable_kernel_profile": True}):
        yield


def compile_all(
    jobs: Sequence[tuple[str, int]],
    at_once: int,
    command: Sequence[str] = (sys.executable, "-m", "vgg_kernels.measure.torch_device"),
    timeout_s: float = COMPILE_S,
) -> list[dict[str, Any]]:
    """Compile every (tier, batch) job into Triton's cache on disk, each in a process of its own.

    One forward compiles some seventeen kernels one after the other, 8 to 30 s on one core (measured on a CPU).

    Returns:
        One row a job: ``tier``, ``batch``, ``seconds``, ``error`` (the last line of stderr; null where it went well)
        and ``timed_out``. An error here fails nothing: the gate will meet the same kernel.
    """
    until = time.monotonic() + timeout_s

    def run(job: tuple[str, int]) -> dict[str, Any]:
        began, timed_out = time.monotonic(), False
        words = [*command, job[0], str(job[1])]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=max(0.0, until - began))
            said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            error = said if done.returncode else None
        except subprocess.TimeoutExpired:
            error, timed_out = f"not compiled within {timeout_s:.0f} s", True
        seconds = round(time.monotonic() - began, 1)
        return {"tier": job[0], "batch": job[1], "seconds": seconds, "error": error, "timed_out": timed_out}

    with ThreadPoolExecutor(max(1, min(at_once, len(jobs)))) as pool:
        return list(pool.map(run, jobs))


def _compile_one(tier: str, batch: int) -> None:
    """One forward with arbitrary weights: only the kernels count."""
    from ..kernels.model import VGG
    from .worker import die_with_parent

    die_with_parent()
    table = find_network("vgg19")
    with torch.device("cuda"):
        VGG.from_reference(Reference(table), tier=tier)(torch.rand(batch, 3, table.image, table.image))
    torch.cuda.synchronize()


if __name__ == "__main__":
    _compile_one(sys.argv[1], int(sys.argv[2]))
