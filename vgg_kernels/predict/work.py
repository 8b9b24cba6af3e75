"""What one kernel launch asks of a card, in the time model's terms: CTAs, steps, operations, bytes.

The same terms describe our kernels (``from_launch``), a library's matrix product or convolution (``matmul``,
``convolution``) and a pass over memory (``stream``), so the model can be held against other people's measurements.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import Protocol

from ..floor.hardware import Device
from ..kernels import tiles
from ..kernels.plan import Launch
from ..kernels.tile_selection import candidates
from ..kernels.tiles import Tile, resident
from .constants import constant

WARPS_PER_SM = 64  # CUDA C++ Programming Guide, compute capability 9.0 and 10.0
BLOCKS_PER_SM = 32
REGISTERS_PER_SM = 65536
INSTRUCTION_ROWS = {90: 64, 100: 128}  # rows of M of one tensor-core instruction: wgmma, tcgen05


@dataclass(frozen=True)
class Work:
    """One launch.

    Attributes:
        name: for tables.
        rate: the data-sheet rate of its arithmetic ("fp32", "tf32", "fp16", "fp8").
        ctas: CTAs of the grid.
        iterations: main-loop steps of one CTA.
        flops: operations of one CTA in one step, padding included.
        load_bytes: bytes that one CTA brings from L2 in one step.
        shared_bytes: bytes that the arithmetic reads from shared memory in one step, and the loads write to it.
        stages: depth of the copy pipeline.
        resident: CTAs that fit one SM together.
        store_bytes: bytes that one CTA writes at its end.
        values: results of one CTA that pass through its epilogue.
        hbm_read: bytes that the launch reads from HBM.
        hbm_write: bytes that the launch writes to HBM.
        fraction: of the peak that its instructions can reach.
        drains: how often a step waits for the tensor cores to run dry.
        outer_sums: values that a step adds up on the FMA units meanwhile.
    """

    name: str
    rate: str
    ctas: int
    iterations: int
    flops: float
    load_bytes: float
    shared_bytes: float
    stages: int
    resident: int
    store_bytes: float
    values: float
    hbm_read: float
    hbm_write: float
    fraction: float = 1.0
    drains: int = 0
    outer_sums: int = 0


def tensor_core_reads(m: int, n: int, k_bytes: float, rows: int) -> float:
    """Bytes that an ``m`` x ``n`` product step reads from shared memory: M once, N once per ``rows`` rows of M."""
    return (m + ceil(m / rows) * n) * k_bytes


class Compiled(Protocol):
    """What the model takes from a compiled kernel, where one is at hand (``predict.compiled.Facts`` has it)."""

    @property
    def registers(self) -> int:
        """Registers of one thread."""

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of one CTA."""


def from_launch(launch: Launch, device: Device, facts: Compiled | None = None) -> Work:
    """One of our own launches; facts of the compiled kernel, where they are at hand, give its true occupancy."""
    tile, tier = launch.tile, launch.tier
    if tier.rate == "fp32":
        # a warp's 32 x 64 outputs (8 x 8 a thread) read 96 values of each k, once
        reads = launch.flops_per_iteration / (2 * 32 * 64) * (32 + 64) * tier.operand_bytes
    else:
        reads = tiles.operand_reads(tile, tier, INSTRUCTION_ROWS[device.arch])
    second = launch.kernel in ("reduce", "maxpool")  # reads what the launch before it wrote
    if facts is None:
        together = resident(tile, tier, device)
    else:
        together = occupancy(facts.shared_bytes, facts.registers, tile.warps, device)
    return Work(
        name=launch.layer,
        rate=launch.rate,
        ctas=launch.ctas,
        iterations=launch.iterations,
        flops=launch.flops_per_iteration,
        load_bytes=launch.load_bytes_per_iteration,
        shared_bytes=(reads if launch.flops_per_iteration else 0) + launch.load_bytes_per_iteration,
        stages=tile.stages,
        resident=together,
        store_bytes=launch.store_bytes,
        values=tile.bm * tile.bn,
        hbm_read=0 if second and fits_l2(launch.hbm_read_bytes, device) else launch.hbm_read_bytes,
        hbm_write=launch.hbm_write_bytes,
        fraction=constant("fma_issue_fraction") if tier.rate == "fp32" else 1.0,
        drains=tiles.drains(tile, tier) if launch.flops_per_iteration else 0,
        outer_sums=tiles.outer_sums(tile, tier) if launch.flops_per_iteration else 0,
    )


def fits_l2(size: float, device: Device) -> bool:
    """Whether a kernel finds what the kernel before it wrote in L2: where that takes half of it at most."""
    return size <= device.l2_bytes / 2


@dataclass(frozen=True)
class Blocking:
    """How a library cuts a matrix product: tile, pipeline, warps, CTAs that share loads, and its instructions.

    ``instructions`` is "wgmma" (Hopper's), "mma.sync" (Ampere's) or "fma" (fp32 on the FMA units).
    """

    bm: int
    bn: int
    bk_bytes: int
    stages: int
    warps: int
    cluster: int = 1
    instructions: str = "wgmma"


WGMMA = (Blocking(128, 256, 128, 4, 12, 2), Blocking(128, 128, 128, 5, 12, 2), Blocking(128, 64, 128, 6, 12, 2))
MMA_SYNC = tuple(Blocking(bm, bn, 128, 3, 8, 1, "mma.sync") for bm, bn in ((256, 128), (128, 128), (128, 64)))
FMA = tuple(
    Blocking(bm, bn, 32, 4, bm * bn // 2048, 1, "fma") for bm, bn in ((256, 128), (128, 128), (128, 64), (64, 64))
)
FRACTIONS = {"wgmma": None, "mma.sync": "mma_sync_fraction", "fma": "fma_issue_fraction"}


def matmul(
    name: str, rate: str, m: int, n: int, k: int, blocking: Blocking, device: Device,
    *, count: int = 1, out_bytes: int, hbm_read: float, hbm_write: float, split_k: int = 1,
) -> Work:  # fmt: skip
    """A matrix product ``[m, k] x [k, n]``, ``count`` of them, cut as ``blocking`` says.

    Args:
        name: for tables.
        rate: "fp32", "tf32", "fp16" or "fp8"; it sets the bytes of an operand.
        m: rows.
        n: columns.
        k: depth.
        blocking: how the library cuts it.
        device: the card.
        count: products of the batch.
        out_bytes: bytes of one result.
        hbm_read: bytes read from HBM by all of it.
        hbm_write: bytes written.
        split_k: CTAs that share one output tile.
    """
    operand = {"fp32": 4, "tf32": 4, "fp16": 2, "fp8": 1}[rate]
    bk = blocking.bk_bytes // operand
    bm, bn = blocking.bm, blocking.bn
    loads = (bm + bn / blocking.cluster) * blocking.bk_bytes
    if blocking.instructions == "wgmma":
        reads = tensor_core_reads(bm, bn, blocking.bk_bytes, INSTRUCTION_ROWS[device.arch])
    else:  # each warp reads its own strips: 64 x 64 outputs of mma.sync, 32 x 64 of FMAs
        rows = 64 if blocking.instructions == "mma.sync" else 32
        reads = bm * bn / (rows * 64) * (rows + 64) * blocking.bk_bytes
    stage = (bm + bn) * blocking.bk_bytes
    fraction = FRACTIONS[blocking.instructions]
    return Work(
        name=name,
        rate=rate,
        ctas=count * ceil(m / bm) * ceil(n / bn) * split_k,
        iterations=ceil(ceil(k / bk) / split_k),
        flops=2 * bm * bn * bk,
        load_bytes=loads,
        shared_bytes=reads + stage,
        stages=blocking.stages,
        resident=occupancy(blocking.stages * stage, bm * bn // (32 * blocking.warps) + 40, blocking.warps, device),
        store_bytes=bm * bn * out_bytes,
        values=bm * bn,
        hbm_read=hbm_read,
        hbm_write=hbm_write,
        fraction=constant(fraction) if fraction else 1.0,
    )


def occupancy(shared_bytes: float, registers: int, warps: int, device: Device) -> int:
    """CTAs that fit one SM together by shared memory, registers and warps; at least the one that runs."""
    by_shared = device.shared_bytes_per_sm // (shared_bytes + 1024) if shared_bytes else BLOCKS_PER_SM
    by_registers = REGISTERS_PER_SM // (min(255, registers) * 32 * warps)
    return max(1, int(min(by_shared, by_registers, WARPS_PER_SM // warps, BLOCKS_PER_SM)))


def stream(name: str, read_bytes: float, write_bytes: float) -> Work:
    """A pass over memory with no arithmetic worth counting: HBM bounds it and nothing else does."""
    return Work(
        name, "fp32", ctas=1, iterations=0, flops=0, load_bytes=0, shared_bytes=0, stages=1, resident=1,
        store_bytes=0, values=0, hbm_read=read_bytes, hbm_write=write_bytes,
    )  # fmt: skip


def multicast(work: Work, launch: Launch) -> Work:
    """The same launch in clusters of two CTAs that fetch the larger operand's tile once between them."""
    loaded = tiles.rows_loaded(launch.tile)
    share = max(loaded) / sum(loaded) / 2
    return replace(work, load_bytes=work.load_bytes * (1 - share))


def retiled(launch: Launch, tile: Tile) -> Launch:
    """The same convolution or linear launch cut by another tile of the same view and split."""
    layer, tier = launch.shape, launch.tier
    scale = tile.bm * tile.bn / (launch.tile.bm * launch.tile.bn)
    return replace(
        launch,
        tile=tile,
        ctas=tiles.ctas(layer, tile, launch.batch),
        iterations=tiles.iterations(layer, tile),
        flops_per_iteration=tiles.flops(tile, tier),
        load_bytes_per_iteration=tiles.load_bytes(tile, tier),
        store_bytes=int(launch.store_bytes * scale),
    )


def other_tiles(launch: Launch, device: Device) -> list[Launch]:
    """The launch under every legal tile that keeps its view and split; empty for launches that are not tiled freely."""
    if launch.kernel not in ("conv3x3", "linear"):
        return []
    own = launch.tile
    return [
        retiled(launch, tile)
        for tile in candidates(launch.shape, launch.tier, device, launch.batch)
        if (tile.view, tile.split_k) == (own.view, own.split_k) and tile != own
    ]
