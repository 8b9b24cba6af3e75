"""How long a launch takes, from what it asks of the card: waves of CTAs, and in each the busiest resource.

    T = launch + max(waves * (fill + steps * max(mma, L2, shared, latency) + epilogue) / clock, HBM)

A wave is as many CTAs as the card holds at once; CTAs that share an SM share its units, and one's fill and epilogue
hide behind another's main loop. The tensor cores of a CTA alone on its SM stand while it waits for them to run dry
(``tiles.drains``) or adds outside of them (``tiles.outer_sums``). Latency is that of one CTA's own chain: its copies
run ``stages - 1`` steps ahead, and are asked for behind the last of a step's waits, when ``drains`` of its
``drains + 1`` products are done (seen in Triton's TTGIR):

    latency = (drains / (drains + 1) * mma + L2 latency + L2) / (stages - 1)        of one CTA's mma and L2

The launch is a CUDA graph's gap between kernels that do not overlap: ours do (programmatic dependent launch), and what
that saves is not credited, for want of a public measurement; "no launch gap" among the changes bounds it. Every
constant is in ``constants.toml`` with its source. What comes out is modelled, never measured.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

from ..floor.hardware import Device
from ..floor.hardware import device as find_device
from ..floor.rates import at_clock, data_sheet
from ..floor.roofline import layer_floors
from ..kernels.plan import Launch, plan
from ..workload.network import Network
from .constants import constant, hbm_us
from .work import Compiled, Work, from_launch, multicast, other_tiles

MODEL_VERSION = "3"
LANES = 128  # FMA lanes of an SM
RESOURCES = ("mma", "l2", "shared", "latency")  # of the main loop


@dataclass(frozen=True)
class Timing:
    """One launch's predicted time and what it is made of, in microseconds.

    Attributes:
        name: the launch's name.
        launch_us: from the kernel before to this one.
        loops_us: the main loops of all waves, each resource as if it were alone, by resource.
        main_us: the main loops as they bind each other.
        edges_us: pipeline fills and epilogues that nothing hides.
        hbm_us: the traffic with memory.
        waves: waves of CTAs.
    """

    name: str
    launch_us: float
    loops_us: dict[str, float]
    main_us: float
    edges_us: float
    hbm_us: float
    waves: int

    @property
    def time_us(self) -> float:
        """The predicted time."""
        return self.launch_us + max(self.main_us + self.edges_us, self.hbm_us)

    @property
    def bound(self) -> str:
        """The resource whose relief would help most: "mma", "l2", "shared", "latency", "edges", "hbm" or "launch"."""
        parts = {"hbm": self.hbm_us, "launch": self.launch_us, "edges": self.edges_us}
        if self.main_us + self.edges_us > self.hbm_us:
            parts["hbm"] = 0.0
            parts |= {max(RESOURCES, key=lambda r: self.loops_us[r]): self.main_us}
        else:
            parts["edges"] = 0.0
        return max(parts, key=lambda name: parts[name])


def time_of(work: Work, device: Device, *, clock_hz: float | None = None, launch_us: float | None = None) -> Timing:
    """The predicted time of one launch.

    Args:
        work: what it asks for.
        device: the card.
        clock_hz: the SM clock; by default the one at which the data sheet states this rate's peak.
        launch_us: the gap before it; by default that of a CUDA graph.
    """
    clock = device.clock_of(work.rate) if clock_hz is None else clock_hz
    step = {resource: 0.0 for resource in RESOURCES}
    main, edges, waves, left = 0.0, 0.0, 0, work.ctas if work.iterations else 0
    full = _wave(work, device, device.sms * work.resident)
    while left > 0:
        at_once = device.sms * work.resident
        repeats, wave = (left // at_once, full) if left >= at_once else (1, _wave(work, device, left))
        loop, edge = wave
        for resource in RESOURCES:
            step[resource] += repeats * work.iterations * loop[resource]
        main += repeats * work.iterations * max(loop.values())
        edges += repeats * edge
        waves += repeats
        left -= repeats * at_once
    us = 1e6 / clock
    return Timing(
        name=work.name,
        launch_us=constant("launch_us") if launch_us is None else launch_us,
        loops_us={resource: us * clocks for resource, clocks in step.items()},
        main_us=us * main,
        edges_us=us * edges,
        hbm_us=hbm_us(device.key, work.hbm_read, work.hbm_write),
        waves=waves,
    )


def _wave(work: Work, device: Device, ctas: int) -> tuple[dict[str, float], float]:
    """Clocks of one main-loop step by resource, and of the fill and epilogue that show, for one wave of ``ctas``."""
    together = ceil(ctas / device.sms)
    busy = min(device.sms, ctas)
    l2_rate = min(constant("l2_port_bytes_per_clock"), constant("l2_bytes_per_clock") * device.sms / busy)
    # a second CTA on the SM feeds the tensor cores while the first waits for them, or adds outside of them
    waiting = work.drains * constant("drain_clocks") + work.outer_sums / LANES if together == 1 else 0.0
    mma, l2 = work.flops / (work.fraction * device.flops_per_clock(work.rate)), work.load_bytes / l2_rate
    late = work.drains / (work.drains + 1) * mma
    loop = {
        "mma": together * mma + waiting,
        "l2": together * l2,
        "shared": together * work.shared_bytes / constant("shared_bytes_per_clock"),
        "latency": (late + constant("l2_latency_clocks") + l2) / max(1, work.stages - 1),
    }
    epilogue = work.values * constant("epilogue_instructions") / LANES + work.store_bytes / l2_rate
    return loop, constant("l2_latency_clocks") + epilogue  # of one CTA: its neighbours' hide behind main loops


@dataclass(frozen=True)
class LayerPrediction:
    """One layer: its launches together, the floor under it, what binds, and what one change would save (us)."""

    layer: str
    kernels: tuple[str, ...]
    tile: str
    time_us: float
    floor_us: float
    bound: str
    waves: int
    timings: tuple[Timing, ...]
    savings_us: dict[str, float]

    @property
    def efficiency(self) -> float:
        """Floor over time."""
        return self.floor_us / self.time_us


def predict(
    network: Network, tier: str, device: str, batch: int, *, clock_hz: float | None = None,
    facts: Callable[[Launch], Compiled] | None = None,
) -> tuple[LayerPrediction, ...]:  # fmt: skip
    """Every layer's predicted time, in order; their sum is the network's.

    Args:
        network: the layer table.
        tier: precision tier.
        device: key of the card.
        batch: images.
        clock_hz: a card's own SM clock, in place of the data sheet's; the floor is then that clock's too.
        facts: what the compiler made of a launch, where compiled kernels are at hand: it refines occupancy.

    Raises:
        UnknownName: for a tier or device that is not in the tables.
        ValueError: for a batch that cannot be planned, or a clock that the card does not reach.
    """
    card = find_device(device)
    launches: dict[str, list[Launch]] = {}
    for launch in plan(network, tier, batch, device):
        launches.setdefault(launch.layer, []).append(launch)
    rates = data_sheet(card) if clock_hz is None else at_clock(card, clock_hz)
    floors = {row.layer: row.floor_us for row in layer_floors(network, tier, device, batch, rates=rates)}
    rows = []
    for layer, group in launches.items():
        works = [from_launch(launch, card, facts(launch) if facts else None) for launch in group]
        timings = tuple(time_of(work, card, clock_hz=clock_hz) for work in works)
        time_us = sum(timing.time_us for timing in timings)
        changed = {name: change(works, group) for name, change in CHANGES.items()}
        savings = {
            name: time_us - sum(_changed_us(name, work, card, clock_hz) for work in works)
            for name, works in changed.items()
        }
        longest = max(timings, key=lambda timing: timing.time_us)
        rows.append(
            LayerPrediction(
                layer, tuple(launch.kernel for launch in group), str(group[0].tile), time_us, floors[layer],
                longest.bound, timings[0].waves, timings, savings,
            )
        )  # fmt: skip
    return tuple(rows)


def another_tile(network: Network, tier: str, device: str, batch: int) -> dict[str, tuple[str, float]]:
    """By layer, the tile of the same view and split that the model likes best, and the microseconds it would save.

    A layer is absent where no other tile is predicted faster than the one it runs with.
    """
    card = find_device(device)
    better = {}
    for launch in plan(network, tier, batch, device):
        now = time_of(from_launch(launch, card), card).time_us
        rivals = {
            str(other.tile): time_of(from_launch(other, card), card).time_us for other in other_tiles(launch, card)
        }
        best = min(rivals, key=lambda tile: rivals[tile], default=None)
        if best is not None and rivals[best] < now:
            better[launch.layer] = (best, now - rivals[best])
    return better


def _changed_us(change: str, work: Work, card: Device, clock_hz: float | None) -> float:
    return time_of(work, card, clock_hz=clock_hz, launch_us=0.0 if change == "no launch gap" else None).time_us


def _multicast(works: list[Work], launches: list[Launch]) -> list[Work]:
    pairs = zip(works, launches, strict=True)
    return [multicast(work, launch) if work.flops else work for work, launch in pairs]


# What one change alone would buy: two-CTA clusters that share loads, tensor cores that never run dry within a step,
# launches back to back, an epilogue for nothing, a second CTA on the SM, and activations that never leave the chip.
CHANGES = {
    "multicast": _multicast,
    "no drains": lambda works, launches: [replace(w, drains=0, outer_sums=0) for w in works],
    "no launch gap": lambda works, launches: works,
    "free epilogue": lambda works, launches: [replace(w, values=0, store_bytes=0) for w in works],
    "one more CTA a SM": lambda works, launches: [replace(w, resident=w.resident + 1) for w in works],
    "no HBM traffic": lambda works, launches: [replace(w, hbm_read=0, hbm_write=0) for w in works],
}
