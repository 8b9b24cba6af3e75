"""What executing a launch finds: how much it did, and what it does that a card may do otherwise."""

from collections import Counter
from dataclasses import dataclass, field

from .ptx import Instruction

# Kinds of hazards. On a card each is a race, undefined, or a wait for ever.
COPY_TARGET = "access to the target of a bulk copy in flight"
COPY_OVER_COPY = "bulk copy over a bulk copy in flight"
STORE_SOURCE = "write to the source of a bulk store in flight"
OPERAND_OVERWRITTEN = "write to an operand of a wgmma in flight"
OPERAND_UNORDERED = "write to what another warp's wgmma may still read: no barrier since its wait"
REGISTER_IN_FLIGHT = "register of a wgmma in flight"
NO_WGMMA_FENCE = "wgmma on registers written since the last wgmma.fence"
NO_PROXY_FENCE = "async proxy reads generic writes without fence.proxy.async"
NO_BARRIER_READ = "read of another warp's write without a barrier"
NO_BARRIER_WRITE = "write over another warp's access without a barrier"
UNWRITTEN = "read of shared memory that nothing wrote"
MBARRIER_INVISIBLE = "mbarrier used before a barrier made its init visible"
MBARRIER_BUSY = "mbarrier invalidated while in use"
MBARRIER_TWICE = "mbarrier initialised by several threads"
EXIT_LOADS = "exit with bulk loads in flight"
EXIT_STORES = "exit with bulk stores not waited for"
EXIT_WGMMA = "exit with wgmma in flight"


@dataclass
class Report:
    """What one launch did.

    Attributes:
        ctas: CTAs that ran.
        instructions: executed by class, one per CTA and statement.
        counts: bytes of bulk copies and of global accesses, tensor-core clocks, shared-memory wavefronts.
        hazards: how often each was met, by kind and statement.
    """

    ctas: int = 0
    instructions: Counter = field(default_factory=Counter)
    counts: Counter = field(default_factory=Counter)
    hazards: Counter = field(default_factory=Counter)

    def hazard(self, kind: str, at: Instruction | None = None) -> None:
        """Count one."""
        self.hazards[f"{kind} ({at})" if at else kind] += 1

    @property
    def kinds(self) -> list[str]:
        """The kinds of the hazards met."""
        return sorted({key.split(" (line ")[0] for key in self.hazards})
