"""Shared memory: loads, stores and matrix fragments, and which warp touched which bytes between two barriers."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from . import hazards
from .alu import Built
from .memory import UNSIGNED
from .ptx import EmulationError, Instruction, address_of, registers_of

if TYPE_CHECKING:
    from .group import Group

BASE = 1024  # dynamic shared memory begins after the KB that sm_90 reserves
POISON = 0xFF  # NaN as fp16, bf16, fp32 and e4m3
CHUNK = np.dtype("c16")  # 16 bytes that move as one
ASYNC, NEVER = -2, -1  # who wrote a granule: the async proxy, nobody


class SharedMemory:
    """The shared memory of each CTA of a group.

    With ``Options.checks`` it keeps, for each granule of 1 or 2 bytes, the epoch (barriers passed) and the warp of the
    last write and read, and whether ``fence.proxy.async`` followed the write.
    """

    def __init__(self, group: "Group", size: int):
        self.group, self.limit = group, BASE + size
        self.bytes = np.zeros((group.ctas, -(-self.limit // 1024) * 1024), np.uint8)
        self.views = {width: self.bytes.view(dtype) for width, dtype in UNSIGNED.items()}
        self.chunks = self.bytes.view(CHUNK)
        bytewise = any(".b8" in i.op for block in group.program.blocks for i in block)
        self.granule = 1 if bytewise else 2
        self.checked = group.options.checks

    def reset(self) -> None:
        """Before a CTA starts: nothing is written."""
        self.bytes[:] = POISON
        if self.checked:
            shape = self.group.ctas, self.bytes.shape[1] // self.granule
            self.written, self.writer = np.full(shape, NEVER, np.int32), np.full(shape, NEVER, np.int16)
            self.read, self.reader = np.full(shape, NEVER, np.int32), np.full(shape, NEVER, np.int16)
            self.unfenced = np.zeros(shape, bool)

    def check(self, ins: Instruction, addresses: np.ndarray, size: int) -> None:
        """Bounds and alignment of ``size`` bytes at each address, and copies in flight that they meet."""
        low, high = int(addresses.min()), int(addresses.max()) + size
        if low < BASE or high > self.limit:
            raise EmulationError(f"shared memory {low} to {high} is outside of {BASE} to {self.limit}: {ins}")
        if (addresses & (size - 1)).any():
            raise EmulationError(f"misaligned access to shared memory: {ins}")
        for copy in self.group.copies.loads:
            if low < copy.high and high > copy.low and ((addresses < copy.high) & (addresses + size > copy.low)).any():
                self.group.report.hazard(hazards.COPY_TARGET, ins)

    def _granules(self, addresses: np.ndarray, size: int) -> np.ndarray:
        return (addresses // self.granule)[:, None] + np.arange(size // self.granule)

    def note_read(self, ins: Instruction, cta: np.ndarray, warp: np.ndarray, addresses: np.ndarray, size: int) -> None:
        """Compare a read with the writes before it."""
        if not self.checked:
            return
        at, cta, warp = self._granules(addresses, size), cta[:, None], warp[:, None]
        hazard, epoch = self.group.report.hazard, self.group.epoch
        written = self.written[cta, at]
        if ((written == epoch) & (self.writer[cta, at] != warp)).any():
            hazard(hazards.NO_BARRIER_READ, ins)
        if (written == NEVER).any():
            hazard(hazards.UNWRITTEN, ins)
        several = (self.read[cta, at] == epoch) & (self.reader[cta, at] != warp)
        self.reader[cta, at] = np.where(several, ASYNC, warp)
        self.read[cta, at] = epoch

    def note_write(self, ins: Instruction, cta: np.ndarray, warp: np.ndarray, addresses: np.ndarray, size: int) -> None:
        """Compare a write with the accesses before it."""
        if not self.checked:
            return
        group = self.group
        at, cta, warp = self._granules(addresses, size), cta[:, None], warp[:, None]
        others = (self.written[cta, at] == group.epoch) & (self.writer[cta, at] != warp)
        if (others | ((self.read[cta, at] == group.epoch) & (self.reader[cta, at] != warp))).any():
            group.report.hazard(hazards.NO_BARRIER_WRITE, ins)
        low, high = addresses, addresses + size
        for kind, ranges in (
            (hazards.STORE_SOURCE, group.copies.sources()),
            (hazards.OPERAND_OVERWRITTEN, group.tensor_cores.operands()),
            (hazards.OPERAND_UNORDERED, group.tensor_cores.unordered()),
        ):
            if any(((low < b) & (high > a)).any() for a, b in ranges):
                group.report.hazard(kind, ins)
        self.written[cta, at], self.writer[cta, at], self.unfenced[cta, at] = group.epoch, warp, True

    def note_async(self, ins: Instruction, ctas: np.ndarray, low: int, high: int, warp: int, writes: bool) -> None:
        """Compare what a bulk copy, issued by ``warp``, or a wgmma (-1) touches with the generic accesses before it."""
        if not self.checked:
            return
        hazard, epoch = self.group.report.hazard, self.group.epoch
        at = np.ix_(np.atleast_1d(ctas), np.arange(low // self.granule, high // self.granule))
        others = (self.written[at] == epoch) & (self.writer[at] != warp)
        if writes:
            if (others | ((self.read[at] == epoch) & (self.reader[at] != warp))).any():
                hazard(hazards.NO_BARRIER_WRITE, ins)
            self.unfenced[at], self.written[at], self.writer[at] = False, ASYNC, ASYNC
            return
        if self.unfenced[at].any():
            hazard(hazards.NO_PROXY_FENCE, ins)
        if others.any() and self.group.warps > 1:
            hazard(hazards.NO_BARRIER_READ, ins)
        if (self.written[at] == NEVER).any():
            hazard(hazards.UNWRITTEN, ins)

    def fence(self) -> None:
        """``fence.proxy.async``: what was written so far can be read by the async proxy."""
        if self.checked:
            self.unfenced[:] = False


def build(group: "Group", ins: Instruction) -> Built | None:
    """The call of an access to shared memory by the generic proxy, None for another instruction."""
    width = {"b8": 1, "b16": 2, "b32": 4, "b64": 8}.get(ins.type)
    if ins.op.startswith("ld.shared") and width:
        names = registers_of(ins.operands[0])
        return partial(_load, group, ins, width, names), names
    if ins.op.startswith("st.shared") and width:
        return partial(_store, group, ins, width, registers_of(ins.operands[1])), []
    if ins.op.startswith("ldmatrix.sync.aligned.m8n8") and ins.predicate is None:
        names = registers_of(ins.operands[0])
        return partial(_load_matrices, group, ins, names), names
    if ins.op.startswith("stmatrix.sync.aligned.m8n8") and ins.predicate is None:
        return partial(_store_matrices, group, ins, registers_of(ins.operands[1])), []
    if ins.op == "fence.proxy.async.shared::cta" and ins.predicate is None:
        return (lambda: group.shared.fence()), []
    return None


def _lanes(group: "Group", ins: Instruction, operand: str) -> tuple[np.ndarray | slice, np.ndarray]:
    lanes = group.running(ins)
    name, offset = address_of(operand)
    return lanes, group.pick(group.source(name, np.uint32), lanes).astype(np.int64) + offset


def _load(group: "Group", ins: Instruction, width: int, names: list[str]) -> None:
    lanes, addresses = _lanes(group, ins, ins.operands[1])
    if not len(addresses):
        return
    memory, cta, size = group.shared, group.cta[lanes], width * len(names)
    memory.check(ins, addresses, size)
    index = addresses // width
    for j, name in enumerate(names):
        group.row(name)[lanes] = memory.views[width][cta, index + j]
    memory.note_read(ins, cta, group.warp[lanes], addresses, size)
    _count_wavefronts(group, addresses, size, lanes)


def _store(group: "Group", ins: Instruction, width: int, names: list[str]) -> None:
    lanes, addresses = _lanes(group, ins, ins.operands[0])
    if not len(addresses):
        return
    memory, cta, size = group.shared, group.cta[lanes], width * len(names)
    memory.check(ins, addresses, size)
    index = addresses // width
    for j, name in enumerate(names):
        value = group.row(name) if name.startswith("%") else group.source(name, UNSIGNED[width])
        memory.views[width][cta, index + j] = group.pick(value, lanes).astype(UNSIGNED[width])
    memory.note_write(ins, cta, group.warp[lanes], addresses, size)
    _count_wavefronts(group, addresses, size, lanes)


def _matrix_rows(group: "Group", ins: Instruction, operand: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Row addresses ``[ctas, warps, count, 8]`` of the running CTAs, and which CTAs those are."""
    name, offset = address_of(operand)
    addresses = group.pick(group.source(name, np.uint32), slice(None)).astype(np.int64) + offset
    ctas = np.nonzero(group.active_ctas())[0]
    return addresses.reshape(group.ctas, group.warps, 4, 8)[ctas][:, :, :count], ctas


def _each_matrix(group: "Group", ins: Instruction, rows: np.ndarray, ctas: np.ndarray) -> tuple[np.ndarray, ...]:
    cta = np.broadcast_to(ctas[:, None, None, None], rows.shape)
    warp = np.broadcast_to(np.arange(group.warps, dtype=np.int16)[None, :, None, None], rows.shape)
    group.shared.check(ins, rows.ravel(), 16)
    return cta, warp


def _store_matrices(group: "Group", ins: Instruction, names: list[str]) -> None:
    rows, ctas = _matrix_rows(group, ins, ins.operands[0], len(names))
    cta, warp = _each_matrix(group, ins, rows, ctas)
    for i, name in enumerate(names):
        value = group.row(name).reshape(group.ctas, group.warps, 32)[ctas]
        if ".trans" in ins.op:  # lane l holds rows 2*(l%4) and 2*(l%4)+1 of column l//4
            parts = value.view(np.uint16).reshape(*value.shape[:2], 8, 4, 2).transpose(0, 1, 3, 4, 2)
            value = np.ascontiguousarray(parts).view(np.uint32)
        chunks = np.ascontiguousarray(value).reshape(*value.shape[:2], 8, 4).view(CHUNK)[..., 0]
        group.shared.chunks[cta[:, :, i], rows[:, :, i] >> 4] = chunks
    group.shared.note_write(ins, cta.ravel(), warp.ravel(), rows.ravel(), 16)
    _count_matrix(group, rows)


def _load_matrices(group: "Group", ins: Instruction, names: list[str]) -> None:
    rows, ctas = _matrix_rows(group, ins, ins.operands[1], len(names))
    cta, warp = _each_matrix(group, ins, rows, ctas)
    for i, name in enumerate(names):
        values = np.ascontiguousarray(group.shared.chunks[cta[:, :, i], rows[:, :, i] >> 4])
        matrix = values[..., None].view(np.uint16)  # [ctas, warps, 8, 8]
        if ".trans" in ins.op:
            matrix = matrix.reshape(*matrix.shape[:2], 4, 2, 8).transpose(0, 1, 4, 2, 3)
        loaded = np.ascontiguousarray(matrix).reshape(len(ctas), -1).view(np.uint32)
        group.row(name).reshape(group.ctas, -1)[ctas] = loaded
    group.shared.note_read(ins, cta.ravel(), warp.ravel(), rows.ravel(), 16)
    _count_matrix(group, rows)


def _count_wavefronts(group: "Group", addresses: np.ndarray, size: int, lanes: np.ndarray | slice) -> None:
    """Wavefronts of the first CTA's accesses, and the fewest possible (no bank conflict)."""
    if not group.shared.checked:
        return
    row = np.full(group.lanes, -1, np.int64)
    row[lanes] = addresses
    for served in row[: group.threads].reshape(-1, 32 if size <= 4 else 128 // size):  # lanes served together
        served = served[served >= 0]
        if len(served):
            words = np.unique((served >> 2)[:, None] + np.arange(max(1, size // 4)))
            group.report.counts["shared_wavefronts"] += int(np.bincount(words & 31).max())
            group.report.counts["shared_wavefronts_least"] += -(-len(words) // 32)


def _count_matrix(group: "Group", rows: np.ndarray) -> None:
    if group.shared.checked:
        for eight in rows[0].reshape(-1, 8):
            banks = (eight[:, None] // 4 + np.arange(4)) & 31
            group.report.counts["shared_wavefronts"] += int(np.bincount(banks.ravel()).max())
            group.report.counts["shared_wavefronts_least"] += 1
