"""One launch: compiled for sm_90 with the arguments that the host code passes, and executed group by group."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np
import torch

from .group import Group, Options
from .hazards import Report
from .memory import GlobalMemory, TensorMap
from .ptx import EmulationError, Program, parse

ARCH = 90
GROUP_THREADS = 4096  # that run in lockstep: rows of registers long enough for numpy, short enough for the cache
TYPES = {
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.int32: "i32",
    torch.float8_e4m3fn: "fp8e4nv",
}  # fmt: skip

parsed = lru_cache(maxsize=256)(parse)


def execute(
    program: Program,
    grid: Sequence[int],
    shared_bytes: int,
    parameters: Sequence[Any],
    memory: GlobalMemory,
    options: Options = Options(),  # noqa: B008 - frozen
    first: int | None = None,
) -> Report:
    """Execute a grid; its first CTA with every check, the others in groups of ``GROUP_THREADS`` threads.

    Args:
        program: the kernel.
        grid: CTAs along x, y and z.
        shared_bytes: dynamic shared memory of a CTA.
        parameters: in the entry's order: integers, floats, addresses and tensor maps.
        memory: what the addresses point into.
        options: arithmetic and effects.
        first: how many CTAs run, in launch order; None for all.

    Raises:
        EmulationError: for what a card would not run, or the emulator cannot.
    """
    if len(parameters) != program.parameters:
        raise EmulationError(f"{program.name} takes {program.parameters} parameters, got {len(parameters)}")
    x, y, z = (*grid, 1, 1)[:3]
    blocks = np.stack(np.meshgrid(range(z), range(y), range(x), indexing="ij"), -1).reshape(-1, 3)[:first, ::-1]
    report = Report()

    def group(size: int, options: Options) -> Group:
        return Group(program, size, (x, y, z), shared_bytes, parameters, memory, report, options)

    group(1, replace(options, checks=True)).run(blocks[:1])
    most = max(1, GROUP_THREADS // program.threads)
    made: dict[int, Group] = {}
    done = 1
    while done < len(blocks):
        rest = blocks[done : done + most]
        alike = (rest[:, 1:] == rest[0, 1:]).all(1)  # one share of K at a time
        size = len(rest) if alike.all() else int(np.argmin(alike))
        if size not in made:
            made[size] = group(size, options)
        made[size].run(rest[:size])
        done += size
    return report


@dataclass(frozen=True)
class Executed:
    """One launch as it was executed.

    Attributes:
        kernel: name of the jitted function.
        grid: CTAs along each axis.
        report: what it did.
        seconds: it took, compilation apart.
        ptx_sha256: of the code.
    """

    kernel: str
    grid: tuple[int, ...]
    report: Report
    seconds: float
    ptx_sha256: str


@dataclass
class Launcher:
    """Takes the launches of the kernels' host code and executes them.

    Attributes:
        options: arithmetic and effects.
        executed: what has run.
        change: applied to the PTX before it runs, to see that a fault is found.
        first: how many CTAs of each launch run, None for all.
    """

    options: Options
    executed: list[Executed] = field(default_factory=list)
    change: Callable[[str], str] | None = None
    first: int | None = None

    def __call__(self, signature: Any, grid: tuple[int, ...], arguments: Sequence[Any]) -> None:
        """Run one launch, as ``Signature.run`` would on a card."""
        built, passed = compile_for(signature, arguments)
        metadata = built.metadata
        if metadata.num_ctas != 1 or metadata.global_scratch_size or metadata.profile_scratch_size:
            raise EmulationError(f"{signature.kernel.__name__}: clusters and scratch memory are not emulated")
        memory, parameters = GlobalMemory(), list[Any]()
        maps = iter(metadata.tensordesc_meta or ())
        for value in passed:
            if isinstance(value, torch.Tensor):
                memory.add(value)
                parameters.append(value.data_ptr())
            elif hasattr(value, "block_shape"):
                made = TensorMap(value.base, value.shape, value.strides, next(maps), memory)
                parameters += [made, *value.shape, *value.strides]
            else:
                parameters.append(value)
        parameters += [0, 0]  # scratch memory that the kernel does not use
        ptx = built.asm["ptx"] if self.change is None else self.change(built.asm["ptx"])
        started = perf_counter()
        report = execute(parsed(ptx), grid, metadata.shared, parameters, memory, self.options, self.first)
        digest = hashlib.sha256(ptx.encode()).hexdigest()
        self.executed.append(Executed(signature.kernel.__name__, tuple(grid), report, perf_counter() - started, digest))


@contextmanager
def launching(launcher: Launcher) -> Iterator[Launcher]:
    """Inside, the kernels' launches go to ``launcher``.

    Raises:
        RuntimeError: in a process in which Triton interprets: it cannot compile. Set ``TRITON_INTERPRET=0`` first.
    """
    from ..kernels.backend import INTERPRETED, LAUNCHER

    if INTERPRETED:
        raise RuntimeError("this process interprets Triton kernels and cannot compile them: set TRITON_INTERPRET=0")
    token = LAUNCHER.set(launcher)
    try:
        yield launcher
    finally:
        LAUNCHER.reset(token)


def compiling_processes(workers: int = 1) -> Executor:
    """Processes in which Triton compiles, for one in which it interprets; use as a context manager."""
    from joblib.externals.loky import ProcessPoolExecutor

    return ProcessPoolExecutor(max_workers=workers, env={"TRITON_INTERPRET": "0"})


_compiled: dict[str, Any] = {}


def compile_for(signature: Any, arguments: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Triton's compiled kernel for these arguments, and those that it takes at run time.

    Specialised as Triton's JIT does: addresses and integers that are multiples of 16, integers that are 1, None.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from ..kernels.signature import OPTIONS, tensordesc

    kernel = signature.kernel
    names = [name for name in kernel.arg_names if name not in signature.constants]
    types: dict[str, str] = dict.fromkeys(signature.constants, "constexpr")
    constants, aligned, passed = dict(signature.constants), {}, []
    for name, value in zip(names, arguments, strict=True):
        place = (kernel.arg_names.index(name),)
        if value is None or (isinstance(value, int) and value == 1):
            types[name], constants[name] = "constexpr", value
            continue
        passed.append(value)
        if hasattr(value, "block_shape"):
            types[name] = tensordesc(TYPES[value.base.dtype], value.block_shape)
        elif isinstance(value, torch.Tensor):
            types[name] = f"*{TYPES[value.dtype]}"
            if value.data_ptr() % 16 == 0:
                aligned[place] = [["tt.divisibility", 16]]
        elif isinstance(value, int):
            types[name] = "i32"
            if value % 16 == 0:
                aligned[place] = [["tt.divisibility", 16]]
        else:
            types[name] = "fp32"
    types = {name: types[name] for name in kernel.arg_names}
    key = repr((kernel.__name__, types, aligned, sorted((k, str(v)) for k, v in constants.items()),
                signature.warps, signature.stages))  # fmt: skip
    if key not in _compiled:
        source = ASTSource(kernel, types, constexprs=constants, attrs=aligned)
        options = {"num_warps": signature.warps, "num_stages": signature.stages, **OPTIONS}
        _compiled[key] = triton.compile(source, target=GPUTarget("cuda", ARCH, 32), options=options)
    return _compiled[key], passed
