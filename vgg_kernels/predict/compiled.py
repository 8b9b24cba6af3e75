"""Facts of the compiled kernels, with no GPU: registers, spills, shared memory and instructions, read from the cubin.

Triton compiles for a named architecture on any machine, and the ``cuobjdump`` in its wheel disassembles the result.
A process that interprets cannot compile, so this runs in worker processes; results are kept by content, under a key
over the kernel's sources, its arguments, the architecture and Triton's version.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from ..kernels.plan import Launch
from ..workload.lookup import lookup

PLANNED_FOR = {90: "h100_sxm", 100: "b200"}  # architecture: the card whose tiles are compiled for it
SHARED_SOURCES = ("numerics.py", "signature.py")
MODULES = ("stem", "conv3x3", "row_pairs", "reduce", "linear")
PLAN_SOURCES = (
    *SHARED_SOURCES,
    *(f"{name}.py" for name in MODULES),
    "plan.py",
    "tiles.py",
    "tile_selection.py",
    "tuned_tiles.csv",
)


@dataclass(frozen=True)
class Facts:
    """What the compiler made of one launch.

    Attributes:
        registers: per thread.
        spills: loads and stores of local memory in the code (LDL, STL).
        stack_bytes: stack frame of one thread.
        shared_bytes: shared memory of one CTA.
        mma: shapes of the tensor-core instructions ("64x256x16"), or kinds for tcgen05 ("f16"); empty without any.
        mma_count: tensor-core instructions of Hopper's and Blackwell's own kind (HGMMA, QGMMA, UTC*MMA).
        mma_sync_count: tensor-core instructions of the older, slower kind (HMMA, IMMA, QMMA).
        fma_count: FFMA instructions.
        bulk_loads: bulk tensor loads (UTMALDG).
        bulk_stores: bulk tensor stores (UTMASTG).
        instructions: length of the code.
        triton: version that compiled it.
    """

    registers: int
    spills: int
    stack_bytes: int
    shared_bytes: int
    mma: str
    mma_count: int
    mma_sync_count: int
    fma_count: int
    bulk_loads: int
    bulk_stores: int
    instructions: int
    triton: str


def _read(built) -> Facts:
    """Disassemble one compiled kernel."""
    import subprocess
    import tempfile

    import triton.backends.nvidia as nvidia

    cuobjdump = Path(nvidia.__file__).parent / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernel.cubin"
        cubin.write_bytes(built.asm["cubin"])
        sass, usage = (
            subprocess.run([cuobjdump, flag, cubin], capture_output=True, text=True, check=True).stdout
            for flag in ("-sass", "-res-usage")
        )
    # an instruction: "/*0a40*/  @!P0 HGMMA.64x256x16.F32 R24, ... ;"
    code = [m[1] for m in re.finditer(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", sass)]

    def count(*prefixes: str) -> int:
        return sum(name.startswith(prefixes) for name in code)

    ptx = built.asm["ptx"]
    shapes = {f"{m}x{n}x{k}" for m, n, k in re.findall(r"wgmma\.mma_async\S*?\.m(\d+)n(\d+)k(\d+)", ptx)}
    shapes |= set(re.findall(r"tcgen05\.mma\S*?\.kind::(\w+)", ptx))
    registers, stack = (int(re.findall(rf"{key}:(\d+)", usage)[0]) for key in ("REG", "STACK"))
    return Facts(
        registers=registers,
        spills=count("LDL", "STL"),
        stack_bytes=stack,
        shared_bytes=built.metadata.shared,
        mma=" ".join(sorted(shapes)),
        mma_count=count("HGMMA", "QGMMA", "UTCHMMA", "UTCQMMA", "UTCIMMA"),
        mma_sync_count=count("HMMA", "IMMA", "QMMA", "OMMA"),
        fma_count=count("FFMA"),
        bulk_loads=count("UTMALDG"),
        bulk_stores=count("UTMASTG"),
        instructions=len(code),
        triton=version("triton"),
    )


def compile_launch(launch: Launch, arch: int) -> Facts:
    """Compile one launch for ``sm_<arch>`` and read the cubin. For a process in which Triton does not interpret.

    Raises:
        RuntimeError: in an interpreting process.
    """
    os.environ["TRITON_INTERPRET"] = "0"
    from ..kernels.backend import INTERPRETED

    if INTERPRETED:
        raise RuntimeError("this process interprets Triton kernels and cannot compile them: use compiled.inspect")
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from ..kernels.signature import OPTIONS

    module = import_module(f"..kernels.{_module(launch)}", __package__)
    spec = module.signature(launch, interpreted=False)
    constants = dict(spec.constants)
    types, aligned = {}, {}
    for i, (name, kind) in enumerate(spec.types.items()):
        value = spec.integers.get(name)
        if kind is None or value == 1:  # absent, or what Triton makes a constant of by itself
            constants[name] = value
            types[name] = "constexpr"
            continue
        types[name] = kind
        if kind.startswith("*") or (value is not None and value % 16 == 0):
            aligned[(i,)] = [["tt.divisibility", 16]]
    types |= dict.fromkeys(spec.constants, "constexpr")
    source = ASTSource(spec.kernel, types, constexprs=constants, attrs=aligned)
    options = {"num_warps": spec.warps, "num_stages": spec.stages, **OPTIONS}
    return _read(triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options))


@cache
def sources_digest(names: tuple[str, ...]) -> str:
    """SHA-256 over files of the kernels' folder: facts of another source are not facts of this one.

    A kernel's own facts follow from ``SHARED_SOURCES``, its module and its launch; which launches there are, from
    ``PLAN_SOURCES``.
    """
    folder = Path(__file__).parent.parent / "kernels"
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in names)).hexdigest()


def _module(launch: Launch) -> str:
    if launch.tile.pairs:
        return "row_pairs"
    return "reduce" if launch.kernel == "maxpool" else launch.kernel


def _key(launch: Launch, arch: int) -> str:
    # Two layers of one shape are one kernel: the name stays out.
    identity = [
        sources_digest((*SHARED_SOURCES, f"{_module(launch)}.py")),
        version("triton"),
        arch,
        launch.kernel,
        launch.tier.name,
        launch.batch,
        launch.pad,
    ]
    identity += [asdict(launch.tile), type(launch.shape).__name__]
    identity += [{k: v for k, v in asdict(launch.shape).items() if k not in ("name", "key")}]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "vgg_kernels" / "compiled"


def _recall(key: str) -> Facts | None:
    try:
        return Facts(**json.loads((_cache() / f"{key}.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None  # absent, or half-written by an interrupted run: compile again


def _compile_and_keep(launch: Launch, arch: int) -> Facts:
    facts = compile_launch(launch, arch)
    folder = _cache()
    folder.mkdir(parents=True, exist_ok=True)
    half = folder / f"{_key(launch, arch)}.{os.getpid()}.tmp"
    half.write_text(json.dumps(asdict(facts)))
    half.replace(folder / f"{_key(launch, arch)}.json")
    return facts


def inspect_all(launches: Iterable[Launch], arch: int, jobs: int = -1) -> Iterator[tuple[Launch, Facts]]:
    """Facts of many launches, in order, compiled in parallel by joblib and each yielded as it is ready.

    Args:
        launches: of one or several plans; equal kernels are compiled once.
        arch: 90 for Hopper, 100 for Blackwell.
        jobs: worker processes, -1 for one a core; ``joblib.parallel_config`` can put them on a cluster.

    Raises:
        UnknownName: for an architecture that has no bulk tensor copies, or that we have no card of.
    """
    lookup("architecture", arch, PLANNED_FOR)
    from joblib import Parallel, delayed

    launches = list(launches)
    keys = [_key(launch, arch) for launch in launches]
    known = {key: facts for key in dict.fromkeys(keys) if (facts := _recall(key)) is not None}
    missing = {key: launch for key, launch in zip(keys, launches, strict=True) if key not in known}
    waiting = iter(missing)
    workers = min(jobs, len(missing)) if jobs > 0 else jobs
    tasks = (delayed(_compile_and_keep)(launch, arch) for launch in missing.values())
    results = Parallel(n_jobs=workers, return_as="generator")(tasks) if missing else iter(())
    for key, launch in zip(keys, launches, strict=True):
        while key not in known:
            known[next(waiting)] = next(results)
        yield launch, known[key]
    next(results, None)  # lets joblib see its end


def inspect(launch: Launch, arch: int) -> Facts:
    """Facts of one launch; see ``inspect_all``."""
    return next(iter(inspect_all([launch], arch, jobs=1)))[1]
