"""wgmma: matrix descriptors, fragments, and products that take effect as early or as late as the rules allow."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from . import hazards, tensor_core
from .alu import Built
from .ptx import EmulationError, Instruction, registers_of

if TYPE_CHECKING:
    from .group import Group

ROWS = 64  # of D in one warpgroup's instruction
KINDS = {  # type suffix: (operand kind, torch's type, dense operations a clock of an SM)
    "f16": ("fp16", torch.float16, 4096),
    "bf16": ("bf16", torch.bfloat16, 4096),
    "tf32": ("tf32", torch.float32, 2048),
    "e4m3": ("fp8", torch.float8_e4m3fn, 8192),
}
ATOMS = {1: (128, 7), 2: (64, 3), 3: (32, 1)}  # a descriptor's swizzle: bytes of a row, mask of its lines
TF32_BITS = ~0x1FFF  # the tensor core does not look at the low 13 bits


@lru_cache(maxsize=65536)
def operand_chunks(descriptor: int, rows: int, size: int, depth: int, transposed: bool) -> tuple[np.ndarray, int, int]:
    """The 16-byte chunks that a matrix descriptor names, and the bytes from which to which they lie.

    Args:
        descriptor: 64 bits, PTX ISA "matrix descriptor format".
        rows: of the operand: 64 of A, N of B.
        size: bytes of an element.
        depth: K of the instruction, in bytes.
        transposed: stored K rows of ``rows`` elements, not ``rows`` rows of K.

    Returns:
        ``[rows, depth / 16]`` or, transposed, ``[K, rows * size / 16]``; lowest and highest byte.

    Raises:
        EmulationError: for a layout that Triton does not use.
    """
    start, leading, stride = ((descriptor >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
    if descriptor & ~(0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 3 << 62) or descriptor >> 62 not in ATOMS:
        raise EmulationError(f"matrix descriptor {descriptor:#x}: only swizzled layouts without base offset are known")
    width, mask = ATOMS[descriptor >> 62]
    line = start & ~(width - 1)
    if line % (8 * width) or (not transposed and (stride % (8 * width) or start % width + depth > width)):
        raise EmulationError(f"matrix descriptor {descriptor:#x} breaks its swizzle's atom")
    if transposed:
        k = np.arange(depth // size, dtype=np.int64)[:, None]
        row = np.arange(rows * size // 16, dtype=np.int64)[None] * 16
        linear = start + row // width * leading + row % width + k // 8 * stride + k % 8 * width
    else:
        row = np.arange(rows, dtype=np.int64)[:, None]
        linear = start + row // 8 * stride + row % 8 * width + np.arange(depth // 16, dtype=np.int64)[None] * 16
    chunks = (linear ^ ((linear >> 7 & mask) << 4)) >> 4
    return chunks, int(chunks.min()) * 16, int(chunks.max()) * 16 + 16


@dataclass
class Accumulators:
    """The registers that one chain of wgmma adds into.

    Attributes:
        registers: their numbers.
        matrix: ``[ctas, warpgroups, 64, N]`` fp32 while the values are not in registers.
        current: whether the registers hold the matrix's values too.
        in_flight: whether a wgmma that was not waited for adds into them.
    """

    registers: list[int]
    matrix: torch.Tensor | None = None
    current: bool = False
    in_flight: bool = False


@dataclass
class Product:
    """One wgmma: its accumulators, descriptors by warpgroup, and shape."""

    key: int
    a: list[int]
    b: list[int]
    accumulate: bool
    columns: int
    depth: int
    kind: str
    transposed: tuple[bool, bool]
    ctas: np.ndarray
    ranges: list[tuple[int, int]] = field(default_factory=list)

    def chains(self, other: "Product") -> bool:
        """Whether ``other`` goes on where this one ends, so that both are one product of a longer K."""
        names = ("key", "columns", "depth", "kind", "transposed")
        alike = all(getattr(self, name) == getattr(other, name) for name in names)
        return alike and other.accumulate and bool((self.ctas == other.ctas).all())


class TensorCores:
    """The wgmma in flight of a group, and the accumulators."""

    def __init__(self, group: "Group"):
        self.group, self.warpgroups = group, group.threads // 128
        self.accumulators: dict[int, Accumulators] = {}
        self.owner: dict[int, int] = {}  # register: the accumulators that it belongs to
        for block in group.program.blocks:
            for ins in block:
                if ins.op.startswith("wgmma.mma_async"):
                    numbers = [int(name[2:]) for name in registers_of(ins.operands[0])]
                    if self.accumulators.setdefault(numbers[0], Accumulators(numbers)).registers != numbers:
                        raise EmulationError(f"accumulators overlap: {ins}")
                    if {self.owner.setdefault(number, numbers[0]) for number in numbers} != {numbers[0]}:
                        raise EmulationError(f"accumulators overlap: {ins}")

    def reset(self) -> None:
        """Before a CTA starts: nothing is in flight."""
        self.committed: list[list[Product]] = []
        self.open: list[Product] = []
        self.fenced = False
        self.finished: list[tuple[int, int, int]] = []  # operands of products that were waited for, and in which epoch
        for accumulators in self.accumulators.values():
            accumulators.matrix, accumulators.current, accumulators.in_flight = None, False, False

    # registers

    def _touched(self, text: str) -> set[int]:
        numbers = map(int, re.findall(r"%r(\d+)\b", text))
        return {self.owner[number] for number in numbers if number in self.owner}

    def guard(self, call: Callable[[], Any], names: list[str], ins: Instruction) -> Callable[[], Any]:
        """Around an instruction that uses accumulators: their values come to the registers, and change there."""
        if ins.op.startswith("wgmma") or not self._touched(ins.text):
            return call
        written = self._touched(" ".join(names))

        def guarded() -> None:
            self.settle(ins)
            call()
            for key in written:
                self.accumulators[key].matrix = None
                self.fenced = False

        return guarded

    def settle(self, ins: Instruction) -> None:
        """Bring the accumulators that an instruction uses to their registers."""
        if ins.op.startswith("wgmma"):
            return
        for key in self._touched(ins.text):
            accumulators = self.accumulators[key]
            if accumulators.in_flight:
                self.group.report.hazard(hazards.REGISTER_IN_FLIGHT, ins)
                self.commit()
                self.wait(0)
            if accumulators.matrix is not None and not accumulators.current:
                self._to_registers(accumulators)

    # D's fragment: lane l of warp w holds rows 16w + l/4 + 8i and columns 8j + 2*(l%4) + c in register 4j + 2i + c
    def _to_registers(self, accumulators: Accumulators) -> None:
        assert accumulators.matrix is not None
        matrix = accumulators.matrix.numpy()
        parts = matrix.reshape(*matrix.shape[:2], 4, 2, 8, -1, 4, 2).transpose(5, 3, 7, 0, 1, 2, 4, 6)
        rows = np.ascontiguousarray(parts).reshape(-1, self.group.lanes).view(np.uint32)
        self.group.files["r"][accumulators.registers] = rows
        accumulators.current = True

    def _from_registers(self, accumulators: Accumulators, columns: int) -> torch.Tensor:
        rows = self.group.files["r"][accumulators.registers].view(np.float32)
        parts = rows.reshape(columns // 8, 2, 2, self.group.ctas, self.warpgroups, 4, 8, 4)
        matrix = np.ascontiguousarray(parts.transpose(3, 4, 5, 1, 6, 0, 7, 2))
        return torch.from_numpy(matrix.reshape(self.group.ctas, self.warpgroups, ROWS, columns))

    # ordering

    def operands(self) -> Iterator[tuple[int, int]]:
        """Bytes that products in flight read."""
        flying = (product for products in (*self.committed, self.open) for product in products)
        return (bounds for product in flying for bounds in product.ranges)

    def unordered(self) -> Iterator[tuple[int, int]]:
        """Bytes of products that another warp may not have waited for: no barrier followed the wait."""
        several = self.group.warps > 1
        return ((low, high) for low, high, epoch in self.finished if several and epoch == self.group.epoch)

    def fence(self) -> None:
        """``wgmma.fence``: what was written to registers so far is ordered before the next product."""
        self.fenced = True

    def commit(self) -> None:
        """Close a group of products."""
        self.committed.append(self.open)
        self.open = []

    def wait(self, pending: int) -> None:
        """All but the last ``pending`` groups are complete."""
        done: list[Product] = []
        while len(self.committed) > pending:
            done += self.committed.pop(0)
        if not self.group.options.early:
            self._execute(done)
        flying = {product.key for products in (*self.committed, self.open) for product in products}
        for key in {product.key for product in done}:
            self.accumulators[key].in_flight = key in flying
        self.finished = [bounds for bounds in self.finished if bounds[2] == self.group.epoch]
        self.finished += [(*bounds, self.group.epoch) for product in done for bounds in product.ranges]

    def issue(self, ins: Instruction) -> None:
        """One ``wgmma.mma_async``."""
        group = self.group
        found = re.search(r"\.m64n(\d+)k(\d+)\.", ins.op)
        a_name, b_name, scale, *rest = ins.operands[1:]
        if not found or ins.type not in KINDS or rest[:2] != ["1", "1"] or not a_name.startswith("%rd"):
            raise EmulationError(f"this form of wgmma is not known: {ins}")
        columns, k = map(int, found.groups())
        transposed = (rest[2] == "1", rest[3] == "1") if len(rest) > 2 else (False, False)
        running = slice(None) if group.active is None else group.active
        accumulate = np.unique(group.pick(group.source(scale, np.bool_), running))
        if len(accumulate) != 1:
            raise EmulationError(f"scale-d differs over the group: {ins}")
        size = KINDS[ins.type][1].itemsize
        key = int(registers_of(ins.operands[0])[0][2:])
        a, b = self._descriptors(a_name, ins), self._descriptors(b_name, ins)
        product = Product(key, a, b, bool(accumulate[0]), columns, k * size, ins.type, transposed, group.active_ctas())
        if not self.fenced:
            group.report.hazard(hazards.NO_WGMMA_FENCE, ins)
            self.fenced = True  # said once, at the first
        for descriptors, rows, across in ((a, ROWS, transposed[0]), (b, columns, transposed[1])):
            for descriptor in sorted(set(descriptors)):
                low, high = operand_chunks(descriptor, rows, size, product.depth, across)[1:]
                if high > group.shared.limit:
                    raise EmulationError(f"operand past the end of shared memory: {ins}")
                if any(load.meets(low, high) for load in group.copies.loads):
                    group.report.hazard(hazards.COPY_TARGET, ins)
                group.shared.note_async(ins, np.nonzero(product.ctas)[0], low, high, -1, writes=False)
                product.ranges.append((low, high))
        self.accumulators[key].in_flight = True
        number = int(product.ctas.sum()) * self.warpgroups
        group.report.counts["wgmma_clocks"] += number * (2 * ROWS * columns * k // KINDS[ins.type][2])
        if group.options.early:
            self._execute([product])
        self.open.append(product)

    def _descriptors(self, name: str, ins: Instruction) -> list[int]:
        """One descriptor a warpgroup, the same in every CTA."""
        values = self.group.source(name, np.uint64).reshape(self.group.ctas, self.warpgroups, 128)
        values = values[self.group.active_ctas()]
        if (values != values[:1, :, :1]).any():
            raise EmulationError(f"descriptors differ over the group: {ins}")
        return [int(value) for value in values[0, :, 0]]

    def check_exit(self) -> None:
        """What must not be in flight when a CTA ends."""
        if self.committed or self.open:
            self.group.report.hazard(hazards.EXIT_WGMMA)

    # arithmetic

    def _operand(self, descriptors: list[list[int]], rows: int, product: Product, transposed: bool) -> torch.Tensor:
        """``[ctas, warpgroups or 1, rows, K]`` fp32 of a chain of products."""
        dtype = KINDS[product.kind][1]
        shared_by_all = all(len(set(each)) == 1 for each in descriptors)
        parts = []
        for warpgroup in range(1 if shared_by_all else self.warpgroups):
            chunks = [
                operand_chunks(each[warpgroup], rows, dtype.itemsize, product.depth, transposed)[0]
                for each in descriptors
            ]
            index = np.concatenate(chunks, axis=0 if transposed else 1)
            parts.append(np.take(self.group.shared.chunks, index, axis=1).view(np.uint8))
        values = torch.from_numpy(np.stack(parts, 1)).view(dtype)
        if product.kind == "tf32":
            values = (values.view(torch.int32) & TF32_BITS).view(torch.float32)
        values = values.float()
        return values.transpose(-1, -2) if transposed else values

    def _execute(self, products: list[Product]) -> None:
        while products:
            length = 1
            while length < len(products) and products[0].chains(products[length]):
                length += 1
            self._add(products[:length])
            products = products[length:]

    def _add(self, chain: list[Product]) -> None:
        first, ctas = chain[0], chain[0].ctas
        accumulators = self.accumulators[first.key]
        if accumulators.matrix is None:
            accumulators.matrix = self._from_registers(accumulators, first.columns)
        matrix = accumulators.matrix
        if not first.accumulate:
            matrix[torch.from_numpy(ctas)] = 0
        a = self._operand([p.a for p in chain], ROWS, first, first.transposed[0])
        b = self._operand([p.b for p in chain], first.columns, first, first.transposed[1])
        if b.shape[1] == 1:  # all warpgroups share B: their rows are one matrix
            a = a.expand(-1, self.warpgroups, -1, -1).flatten(1, 2)
            b = b[:, 0]
        else:
            a = a.expand(-1, self.warpgroups, -1, -1).flatten(0, 1)
            b = b.flatten(0, 1)
        total = matrix.reshape(len(a), -1, first.columns)
        if self.group.options.exact:
            kind = KINDS[first.kind][0]
            operands = a.numpy(), b.transpose(1, 2).numpy(), total.numpy()
            added = torch.from_numpy(tensor_core.multiply_add(kind, *operands, self.group.options.unit))
        else:
            added = torch.baddbmm(total, a, b.transpose(1, 2))
        added = added.reshape(matrix.shape)
        running = torch.from_numpy(ctas)
        accumulators.matrix = added if ctas.all() else torch.where(running[:, None, None, None], added, matrix)
        accumulators.current = False


def build(group: "Group", ins: Instruction) -> Built | None:
    """The call of a wgmma instruction, None for another."""
    calls: dict[str, Callable[[], Any]] = {
        "wgmma.fence.sync.aligned": lambda: group.tensor_cores.fence(),
        "wgmma.commit_group.sync.aligned": lambda: group.tensor_cores.commit(),
        "wgmma.wait_group.sync.aligned": lambda: group.tensor_cores.wait(int(ins.operands[0])),
    }
    if ins.op.startswith("wgmma.mma_async.sync.aligned"):
        return (lambda: group.tensor_cores.issue(ins)), []
    return (calls[ins.op], []) if ins.op in calls else None
