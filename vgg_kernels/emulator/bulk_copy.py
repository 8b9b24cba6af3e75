"""Bulk tensor copies between global and shared memory (TMA), applied as early or as late as the rules allow."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from . import hazards
from .alu import Built
from .ptx import EmulationError, Instruction, address_of
from .shared import BASE, CHUNK, POISON

if TYPE_CHECKING:
    from .group import Group

SWIZZLE_MASK = {0: 0, 1: 1, 2: 3, 3: 7}  # which bits of the 128-byte line's number are added to the 16-byte chunk's


@lru_cache(maxsize=4096)
def swizzled_chunks(start: int, size: int, swizzle: int) -> np.ndarray:
    """Where a box's 16-byte chunks lie in shared memory, in the box's order."""
    linear = start + np.arange(size // 16, dtype=np.int64) * 16
    return (linear ^ (((linear >> 7) & SWIZZLE_MASK[swizzle]) << 4)) >> 4


@dataclass
class Copy:
    """One copy in flight: its bytes ``low`` to ``high`` of shared memory.

    Attributes:
        barrier: address of the mbarrier that a load completes.
        phase: of the barrier, in which it completes.
        apply: what a store does.
    """

    low: int
    high: int
    barrier: int = 0
    phase: int = 0
    apply: Callable[[], Any] | None = None

    def meets(self, low: int, high: int) -> bool:
        """Whether it shares a byte with ``low`` to ``high``."""
        return low < self.high and high > self.low


class BulkCopies:
    """The loads and stores in flight of a group."""

    def __init__(self, group: "Group"):
        self.group = group
        self.loads: list[Copy] = []
        self.stores: list[list[Copy]] = [[]]  # groups, the last one open

    def reset(self) -> None:
        """Before a CTA starts: none."""
        self.loads, self.stores = [], [[]]

    def landed(self, barrier: int, phase: int) -> None:
        """A wait has seen the phases before ``phase`` of a barrier: their loads are done."""
        self.loads = [copy for copy in self.loads if copy.barrier != barrier or copy.phase >= phase]

    def sources(self) -> Iterator[tuple[int, int]]:
        """Bytes that stores in flight still read."""
        return ((copy.low, copy.high) for stores in self.stores for copy in stores)

    def commit(self) -> None:
        """Close a group of stores."""
        self.stores.append([])

    def wait(self, pending: int) -> None:
        """All but the last ``pending`` groups of stores have read their source."""
        while len(self.stores) - 1 > pending:
            for copy in self.stores.pop(0):
                if not self.group.options.early and copy.apply:
                    copy.apply()

    def check_exit(self) -> None:
        """What must not be in flight when a CTA ends."""
        if self.loads:
            self.group.report.hazard(hazards.EXIT_LOADS)
        if any(self.stores):
            self.group.report.hazard(hazards.EXIT_STORES)


def build(group: "Group", ins: Instruction) -> Built | None:
    """The call of a bulk copy or of its ordering, None for another instruction."""
    if ins.op.startswith("cp.async.bulk.tensor."):
        store = ".global.shared" in ins.op
        tensor, shared = (ins.operands[0], ins.operands[1]) if store else (ins.operands[1], ins.operands[0])
        handle, _, rest = tensor.strip("[]").partition(",")
        coordinates = [name.strip() for name in rest.strip(" {}").split(",")][::-1]
        function = _store if store else _load
        return partial(_by_warp, function, group, ins, handle.strip(), coordinates, address_of(shared)[0]), []
    if ins.op == "cp.async.bulk.commit_group":
        return (lambda: group.copies.commit()), []
    if ins.op == "cp.async.bulk.wait_group.read":
        return (lambda: group.copies.wait(int(ins.operands[0]))), []
    return None


def _by_warp(function: Callable[..., None], group: "Group", ins: Instruction, handle: str, coordinates: list[str],
             shared: str) -> None:  # fmt: skip
    """Each warp may issue one copy a CTA: the lanes that do, those of one warp number together."""
    lanes = np.arange(group.lanes)[group.running(ins)]
    for warp in np.unique(group.warp[lanes]):
        mine = lanes[group.warp[lanes] == warp]
        if len(np.unique(group.cta[mine])) != len(mine):
            raise EmulationError(f"several threads of a warp issue a bulk copy: {ins}")
        tensor = group.parameter(int(group.pick(group.source(handle, np.uint64), mine)[0]))
        start = _uniform(group, shared, mine, ins)
        if start % 128 or start < BASE or start + tensor.bytes > group.shared.limit:
            raise EmulationError(f"bulk copy of {tensor.bytes} bytes at {start:#x} of shared memory: {ins}")
        where = np.stack([group.pick(group.source(name, np.int32), mine) for name in coordinates], 1).tolist()
        chunks = swizzled_chunks(start, tensor.bytes, tensor.swizzle)
        function(group, ins, group.cta[mine], int(warp), tensor, where, Copy(start, start + tensor.bytes), chunks, mine)


def _uniform(group: "Group", name: str, lanes: np.ndarray, ins: Instruction) -> int:
    values = group.pick(group.source(name, np.uint32), lanes)
    if (values != values[0]).any():
        raise EmulationError(f"address differs over the group: {ins}")
    return int(values[0])


def _load(group: "Group", ins: Instruction, ctas: np.ndarray, warp: int, tensor: Any, where: list, copy: Copy,
          chunks: np.ndarray, lanes: np.ndarray) -> None:  # fmt: skip
    name, offset = address_of(ins.operands[2])
    copy.barrier = _uniform(group, name, lanes, ins) + offset
    barrier = group.barriers.use(copy.barrier, warp, ins)
    copy.phase = int(barrier.phase[ctas].max())
    for kind, ranges in (
        (hazards.COPY_OVER_COPY, ((x.low, x.high) for x in group.copies.loads)),
        (hazards.STORE_SOURCE, group.copies.sources()),
        (hazards.OPERAND_OVERWRITTEN, group.tensor_cores.operands()),
        (hazards.OPERAND_UNORDERED, group.tensor_cores.unordered()),
    ):
        if any(copy.meets(*bounds) for bounds in ranges):
            group.report.hazard(kind, ins)
    group.shared.note_async(ins, ctas, copy.low, copy.high, warp, writes=True)
    group.report.counts["bulk_loads"] += len(ctas)
    group.report.counts["bulk_load_bytes"] += len(ctas) * tensor.bytes

    def apply() -> None:
        for cta, at in zip(ctas.tolist(), where, strict=True):
            group.shared.chunks[cta, chunks] = tensor.read(at).reshape(-1).view(CHUNK)
            barrier.bytes[cta] -= tensor.bytes
        barrier.complete()

    group.copies.loads.append(copy)
    if group.options.early:
        apply()
    else:
        group.shared.bytes[ctas, copy.low : copy.high] = POISON
        barrier.arriving.append(apply)


def _store(group: "Group", ins: Instruction, ctas: np.ndarray, warp: int, tensor: Any, where: list, copy: Copy,
           chunks: np.ndarray, lanes: np.ndarray) -> None:  # fmt: skip
    if any(load.meets(copy.low, copy.high) for load in group.copies.loads):
        group.report.hazard(hazards.COPY_TARGET, ins)
    group.shared.note_async(ins, ctas, copy.low, copy.high, warp, writes=False)

    def apply() -> None:
        for cta, at in zip(ctas.tolist(), where, strict=True):
            box = group.shared.chunks[cta, chunks].view(tensor.dtype)
            group.report.counts["bulk_store_bytes"] += tensor.write(at, box)

    group.report.counts["bulk_stores"] += len(ctas)
    copy.apply = apply
    if group.options.early:
        apply()
    group.copies.stores[-1].append(copy)
