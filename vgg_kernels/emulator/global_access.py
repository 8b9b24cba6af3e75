"""Loads, stores and atomics on global memory."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .alu import Built
from .memory import UNSIGNED
from .ptx import Instruction, address_of, registers_of

if TYPE_CHECKING:
    from .group import Group


def build(group: "Group", ins: Instruction) -> Built | None:
    """The call of an access to global memory, None for another instruction."""
    width = {"b16": 2, "b32": 4, "b64": 8, "u32": 4}.get(ins.type)
    if ins.op.startswith("ld.global") and width:
        names = registers_of(ins.operands[0])
        return partial(_load, group, ins, width, names), names
    if ins.op.startswith("st.global") and width:
        return partial(_store, group, ins, width, registers_of(ins.operands[1])), []
    if ins.op == "atom.global.gpu.acq_rel.add.u32":
        return partial(_add, group, ins), [ins.operands[0]]
    return None


def _addresses(group: "Group", operand: str, lanes: np.ndarray | slice) -> np.ndarray:
    name, offset = address_of(operand)
    return group.pick(group.source(name, np.int64), lanes) + offset


def _load(group: "Group", ins: Instruction, width: int, names: list[str]) -> None:
    lanes = group.running(ins)
    addresses = _addresses(group, ins.operands[1], lanes)
    if len(addresses):
        for name, value in zip(names, group.memory.load(addresses, UNSIGNED[width], len(names), ins), strict=True):
            group.target(name, UNSIGNED[width])[lanes] = value
    group.report.counts["global_load_bytes"] += len(addresses) * len(names) * width


def _store(group: "Group", ins: Instruction, width: int, names: list[str]) -> None:
    lanes = group.running(ins)
    addresses = _addresses(group, ins.operands[0], lanes)
    if len(addresses):
        values = [group.pick(group.source(name, UNSIGNED[width]), lanes) for name in names]
        group.memory.store(addresses, values, ins)
    group.report.counts["global_store_bytes"] += len(addresses) * len(names) * width


def _add(group: "Group", ins: Instruction) -> None:
    lanes = group.running(ins)
    values = group.pick(group.source(ins.operands[2], np.uint32), lanes)
    target = group.row(ins.operands[0])
    where = np.arange(group.lanes)[lanes], _addresses(group, ins.operands[1], lanes)
    for lane, address, value in zip(*where, values, strict=True):
        at = np.array([address])
        old = group.memory.load(at, np.uint32, 1, ins)[0]
        group.memory.store(at, [old + value], ins)
        target[lane] = old[0]
    group.report.counts["atomics"] += len(values)
