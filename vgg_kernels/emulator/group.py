"""A group of CTAs of one kernel in lockstep: registers, operands and control flow.

A register is a row over all threads of the group, and an instruction one numpy call on rows. Blocks of instructions
run lowest first where CTAs diverge; a branch may differ between CTAs and not within one, which is what Triton emits.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from . import alu, bulk_copy, global_access, mbarrier, shared, wgmma
from .hazards import Report
from .memory import GlobalMemory, TensorMap
from .ptx import EmulationError, Instruction, Program, classify
from .tensor_core import Unit

PARAMETERS = 1 << 40  # where the kernel's parameters seem to lie
BUILDERS = (alu.build, shared.build, global_access.build, mbarrier.build, bulk_copy.build, wgmma.build)


@dataclass(frozen=True)
class Options:
    """How a launch is executed.

    Attributes:
        early: bulk copies and wgmma take effect where they are issued, not where they are waited for.
        exact: wgmma adds as an H100 does, bit for bit; else by the CPU's own fp32 matrix product.
        checks: each access to shared memory is compared with those of other warps (slow).
        unit: another tensor-core addition than the operand kind's own, to see what it would change.
    """

    early: bool = False
    exact: bool = True
    checks: bool = False
    unit: Unit | None = None


class Step(NamedTuple):
    """An instruction ready to run: its call, and the rows that it writes."""

    call: Callable[[], Any]
    instruction: Instruction
    targets: list[np.ndarray]


class Group:
    """``ctas`` CTAs that run together; ``run`` executes them from entry to exit."""

    def __init__(
        self,
        program: Program,
        ctas: int,
        grid: Sequence[int],
        shared_bytes: int,
        parameters: Sequence[Any],
        memory: GlobalMemory,
        report: Report,
        options: Options,
    ):
        self.program, self.ctas, self.grid, self.parameters = program, ctas, grid, parameters
        self.memory, self.report, self.options = memory, report, options
        self.threads, self.warps, self.lanes = program.threads, program.threads // 32, ctas * program.threads
        count = program.registers.get
        self.files: dict[str, np.ndarray] = {
            "r": np.zeros((count("r", 1), self.lanes), np.uint32),
            "rs": np.zeros((count("rs", 1), self.lanes), np.uint16),
            "rd": np.zeros((count("rd", 1), self.lanes), np.uint64),
            "p": np.zeros((count("p", 1), self.lanes), bool),
        }
        lane = np.arange(self.lanes)
        self.thread = (lane % self.threads).astype(np.uint32)
        self.warp = (self.thread // 32).astype(np.int16)
        self.cta = lane // self.threads
        self.block_index = [np.zeros(self.lanes, np.uint32) for _ in range(3)]
        x, y, z = self.block_index
        self.special = {"%tid.x": self.thread, "%ctaid.x": x, "%ctaid.y": y, "%ctaid.z": z}
        self.active: np.ndarray | None = None  # lanes of the CTAs that run, None for all
        self.epoch = 0  # barriers passed
        self.shared = shared.SharedMemory(self, shared_bytes)
        self.barriers = mbarrier.Barriers(self)
        self.copies = bulk_copy.BulkCopies(self)
        self.tensor_cores = wgmma.TensorCores(self)
        self.steps = [[self._step(i) for i in block if not _control(i)] for block in program.blocks]
        self.classes = [Counter(map(classify, block)) for block in program.blocks]

    # operands

    def row(self, name: str) -> np.ndarray:
        """The row of a register."""
        kind = name[1:].rstrip("0123456789")
        try:
            return self.files[kind][int(name[1 + len(kind) :])]
        except (KeyError, IndexError, ValueError):
            raise EmulationError(f"{self.program.name}: unknown register {name}") from None

    def source(self, operand: str, dtype: Any) -> np.ndarray:
        """An operand to be read: a register's row, a special register, or an array of one element."""
        dtype = np.dtype(dtype)
        if operand.startswith("%"):
            if operand.startswith("%nctaid."):
                return np.full(1, self.grid["xyz".index(operand[-1])], dtype)
            row = self.special[operand] if operand in self.special else self.row(operand)
            return row if row.dtype == dtype else row.view(dtype)
        if operand == "global_smem":
            return np.full(1, shared.BASE, dtype)
        if operand.startswith(f"{self.program.name}_param_"):
            return np.full(1, PARAMETERS + int(operand.rpartition("_")[2]), dtype)
        if operand.startswith("0f"):
            return np.array([int(operand[2:], 16)], np.uint32).view(dtype)
        value = int(operand.rstrip("U"), 0)
        if dtype.kind == "b":
            return np.array([value != 0])
        return np.array([value & ((1 << 8 * dtype.itemsize) - 1)], f"u{dtype.itemsize}").view(dtype)

    def target(self, name: str, dtype: Any) -> np.ndarray:
        """A register's row to be written."""
        row = self.row(name)
        return row if row.dtype == np.dtype(dtype) else row.view(dtype)

    def parameter(self, handle: int) -> TensorMap:
        """The tensor map at a parameter's address."""
        return self.parameters[handle - PARAMETERS]

    def running(self, instruction: Instruction) -> np.ndarray | slice:
        """Lanes in which an instruction has an effect."""
        mask = self.active
        if instruction.predicate is not None:
            guard = self.row(instruction.predicate) ^ instruction.negated
            mask = guard if mask is None else guard & mask
        return slice(None) if mask is None else np.nonzero(mask)[0]

    def active_ctas(self) -> np.ndarray:
        """Which CTAs run, ``[ctas]``."""
        return np.ones(self.ctas, bool) if self.active is None else self.active.reshape(self.ctas, -1)[:, 0]

    def pick(self, row: np.ndarray, lanes: np.ndarray | slice) -> np.ndarray:
        """The values of a row, or of an array of one element, in some lanes."""
        return np.broadcast_to(row, self.lanes)[lanes]

    # control

    def run(self, blocks: np.ndarray) -> None:
        """Execute the CTAs of block indices ``[ctas, 3]``.

        Raises:
            EmulationError: for what a card would not run.
        """
        self._reset(blocks)
        end = len(self.program.blocks)
        counter = np.zeros(self.ctas, int)
        while (at := int(counter.min())) < end:
            on = counter == at
            self.active = None if on.all() else np.repeat(on, self.threads)
            if self.active is None:
                for step in self.steps[at]:
                    step.call()
            else:
                self._run_some(self.steps[at])
            for name, number in self.classes[at].items():
                self.report.instructions[name] += number * int(on.sum())
            counter = np.where(on, self._next(at), counter)
        self.active = None
        self.report.ctas += self.ctas
        self.copies.check_exit()
        self.tensor_cores.check_exit()

    def _reset(self, blocks: np.ndarray) -> None:
        for file in self.files.values():
            file[:] = False if file.dtype == bool else file.dtype.type(0xDEADBEEFDEADBEEF & np.iinfo(file.dtype).max)
        for axis in range(3):
            self.block_index[axis][:] = np.repeat(blocks[:, axis], self.threads)
        self.epoch = 0
        for part in (self.shared, self.barriers, self.copies, self.tensor_cores):
            part.reset()

    def _run_some(self, steps: list[Step]) -> None:
        off = ~self.active  # type: ignore[operator]  # set by the caller
        for step in steps:
            self.tensor_cores.settle(step.instruction)  # before the idle lanes' values are kept
            kept = [row[off] for row in step.targets]
            step.call()
            for row, value in zip(step.targets, kept, strict=True):
                row[off] = value

    def _next(self, at: int) -> np.ndarray:
        """The block that each CTA runs after block ``at``."""
        last = self.program.blocks[at][-1] if self.program.blocks[at] else None
        after = np.full(self.ctas, at + 1)
        if last is None or not _control(last):
            return after
        if last.op == "ret":
            if last.predicate is not None:
                raise EmulationError(f"predicated return: {last}")
            return np.full(self.ctas, len(self.program.blocks))
        target = self.program.labels[last.operands[0]]
        if last.predicate is None:
            return np.full(self.ctas, target)
        taken = self.row(last.predicate).reshape(self.ctas, -1)
        if (taken != taken[:, :1])[self.active_ctas()].any():
            raise EmulationError(f"branch differs within a CTA: {last}")
        return np.where(taken[:, 0] ^ last.negated, target, after)

    def _step(self, instruction: Instruction) -> Step:
        for build in BUILDERS:
            made = build(self, instruction)
            if made is not None:
                call, names = made
                return Step(self.tensor_cores.guard(call, names, instruction), instruction, [*map(self.row, names)])
        raise EmulationError(f"opcode {instruction.op} is not known: {instruction}")


def _control(instruction: Instruction) -> bool:
    return instruction.op.startswith("bra") or instruction.op == "ret"
