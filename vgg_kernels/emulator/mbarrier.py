"""mbarriers: arrivals, expected bytes and phases."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from . import hazards
from .alu import Built
from .ptx import EmulationError, Instruction, address_of
from .shared import BASE

if TYPE_CHECKING:
    from .group import Group


@dataclass
class Barrier:
    """One mbarrier of each CTA of a group.

    Attributes:
        count: arrivals that complete a phase.
        left: arrivals still missing.
        bytes: of copies still missing.
        phase: phases completed.
        epoch: the group's when it was initialised.
        warp: that initialised it.
        arriving: copies in flight that complete it, to be applied where they take effect late.
        waited: the group's epoch when it was last waited for.
    """

    count: np.ndarray
    left: np.ndarray
    bytes: np.ndarray
    phase: np.ndarray
    epoch: int
    warp: int
    arriving: list[Callable[[], Any]] = field(default_factory=list)
    waited: int = -1

    def complete(self) -> None:
        """Start the next phase where all arrivals and bytes are there."""
        done = (self.left == 0) & (self.bytes == 0) & (self.count > 0)
        self.phase[done] += 1
        self.left[done] = self.count[done]


class Barriers:
    """The mbarriers of a group, by shared address."""

    def __init__(self, group: "Group"):
        self.group = group
        self.at: dict[int, Barrier] = {}

    def reset(self) -> None:
        """Before a CTA starts: there are none."""
        self.at.clear()

    def find(self, address: int, ins: Instruction) -> Barrier:
        """The barrier at an address.

        Raises:
            EmulationError: where none was initialised.
        """
        if address not in self.at:
            raise EmulationError(f"no mbarrier was initialised at {address:#x}: {ins}")
        return self.at[address]

    def use(self, address: int, warp: int, ins: Instruction) -> Barrier:
        """The same, for a warp that arrives or copies: its init must be visible."""
        barrier = self.find(address, ins)
        if barrier.epoch == self.group.epoch and barrier.warp != warp:
            self.group.report.hazard(hazards.MBARRIER_INVISIBLE, ins)
        return barrier


def build(group: "Group", ins: Instruction) -> Built | None:
    """The call of an mbarrier instruction, None for another."""
    calls = {
        "mbarrier.init.shared::cta.b64": _init,
        "mbarrier.inval.shared::cta.b64": _invalidate,
        "mbarrier.arrive.expect_tx.shared::cta.b64": _expect,
        "mbarrier.wait": _wait,
    }
    return (partial(calls[ins.op], group, ins), []) if ins.op in calls else None


def _by_cta(group: "Group", ins: Instruction, operand: str) -> tuple[np.ndarray, np.ndarray, int]:
    """CTAs and addresses of the threads that run, and the warp of the first."""
    lanes = np.arange(group.lanes)[group.running(ins)]
    name, offset = address_of(operand)
    addresses = group.pick(group.source(name, np.uint32), lanes).astype(np.int64) + offset
    return group.cta[lanes], addresses, int(group.warp[lanes[0]]) if len(lanes) else 0


def _init(group: "Group", ins: Instruction) -> None:
    ctas, addresses, warp = _by_cta(group, ins, ins.operands[0])
    for address in map(int, np.unique(addresses)):
        if address % 8 or address < BASE or address + 8 > group.shared.limit:
            raise EmulationError(f"mbarrier at {address:#x}: {ins}")
        who = ctas[addresses == address]
        if len(np.unique(who)) != len(who):
            group.report.hazard(hazards.MBARRIER_TWICE, ins)
        count, left, missing, phase = np.zeros((4, group.ctas), np.int64)
        fresh = Barrier(count, left, missing, phase, group.epoch, warp)
        barrier = group.barriers.at.setdefault(address, fresh)
        barrier.count[who] = barrier.left[who] = int(ins.operands[1])
        barrier.bytes[who] = barrier.phase[who] = 0
        barrier.epoch, barrier.warp = group.epoch, warp


def _invalidate(group: "Group", ins: Instruction) -> None:
    ctas, addresses, _ = _by_cta(group, ins, ins.operands[0])
    for address in map(int, np.unique(addresses)):
        barrier = group.barriers.find(address, ins)
        waited = group.warps > 1 and barrier.waited == group.epoch
        if waited or barrier.arriving or barrier.bytes[ctas].any():
            group.report.hazard(hazards.MBARRIER_BUSY, ins)
        del group.barriers.at[address]


def _expect(group: "Group", ins: Instruction) -> None:
    ctas, addresses, warp = _by_cta(group, ins, ins.operands[1])
    for cta, address in zip(ctas, addresses, strict=True):
        barrier = group.barriers.use(int(address), warp, ins)
        barrier.bytes[cta] += int(ins.operands[2])
        barrier.left[cta] -= 1
        if barrier.left[cta] < 0:
            raise EmulationError(f"mbarrier: more arrivals than its count: {ins}")
        barrier.complete()


def _wait(group: "Group", ins: Instruction) -> None:
    name, offset = address_of(ins.operands[0])
    on = group.active_ctas()
    addresses = group.pick(group.source(name, np.uint32), slice(None)).reshape(group.ctas, -1)[on]
    parity = group.pick(group.source(ins.operands[1], np.uint32), slice(None)).reshape(group.ctas, -1) & 1
    if (addresses != addresses[:1, :1]).any() or (parity != parity[:, :1])[on].any():
        raise EmulationError(f"mbarrier address or parity differs over the group: {ins}")
    address = int(addresses[0, 0]) + offset
    barrier = group.barriers.find(address, ins)
    if barrier.epoch == group.epoch and group.warps > 1:
        group.report.hazard(hazards.MBARRIER_INVISIBLE, ins)
    barrier.waited = group.epoch

    def missing() -> np.ndarray:
        return on & ((barrier.phase & 1) == parity[:, 0])

    if missing().any():  # the copies that complete it arrive now
        arriving, barrier.arriving = barrier.arriving, []
        for apply in arriving:
            apply()
    if (stuck := missing()).any():
        cta = int(np.argmax(stuck))
        raise EmulationError(
            f"deadlock: {barrier.left[cta]} arrivals and {barrier.bytes[cta]} bytes of mbarrier {address:#x} never "
            f"come: {ins}"
        )
    group.copies.landed(address, int(barrier.phase[on].min()))
