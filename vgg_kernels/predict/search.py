"""The tile search: rank the legal tiles by the time model, compile the best, drop what the compiler spoils, choose.

A candidate is dropped where its kernel spills, has a stack, needs more shared memory than a CTA may have, or fails
to compile. The rest are ranked by the time model with the compiled kernel's own occupancy. What was chosen is stored
with the reason in ``kernels/tuned_tiles.csv``, from which ``kernels.tile_selection.select_tile`` takes it.
"""

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from ..floor.hardware import Device
from ..floor.hardware import device as find_device
from ..kernels import tile_selection
from ..kernels.plan import Launch, conv_launches, linear_launch
from ..kernels.tile_selection import candidates
from ..kernels.tiles import Tile, shape_key
from ..workload.network import Conv, Layer, Network
from ..workload.precision import Tier
from ..workload.precision import tier as find_tier
from .compiled import Facts, inspect_all
from .timemodel import MODEL_VERSION, time_of
from .work import from_launch

TABLE = Path(tile_selection.__file__).with_name("tuned_tiles.csv")
KEEP = 4  # candidates of a layer that are compiled
ROUNDS = 4  # times that a layer gets another KEEP where the compiler spoiled all before


@dataclass(frozen=True)
class Choice:
    """A row of ``tuned_tiles.csv``: the tile, and why.

    Attributes:
        shape, tier, device, batch: what it is for.
        tile: the tile's text.
        time_us: the time model's, with the compiled kernel's occupancy (evidence: modelled).
        bound: what binds the layer.
        ctas, waves: of the main kernel; waves at the occupancy of the compiled kernel.
        l2_bytes_per_clock: asked of L2 by one SM at the tensor cores' full rate.
        registers, shared_bytes: of the main kernel.
        legal, compiled, dropped: candidates considered, compiled, and dropped for what they compiled to.
        runner_up, runner_up_us: the next best that was not dropped.
        model_version, triton: with which it was found.
    """

    shape: str
    tier: str
    device: str
    batch: int
    tile: str
    time_us: float
    bound: str
    ctas: int
    waves: float
    l2_bytes_per_clock: float
    registers: int
    shared_bytes: int
    legal: int
    compiled: int
    dropped: int
    runner_up: str
    runner_up_us: float | None
    model_version: str
    triton: str


def launches_of(layer: Layer, tier: Tier, batch: int, tile: Tile, pad: int) -> list[Launch]:
    """The layer's launches under a tile."""
    if isinstance(layer, Conv):
        return conv_launches(layer, tier, batch, tile, pad)
    return [linear_launch(layer, tier, batch, tile)]


def _time_us(launches: Iterable[Launch], card: Device, facts: Facts | None = None) -> float:
    # the facts are the main kernel's; a reducing launch behind it is bound by its bytes whatever its occupancy
    return sum(
        time_of(from_launch(launch, card, facts if i == 0 else None), card).time_us for i, launch in enumerate(launches)
    )


def _rank(launches: list[Launch], card: Device, facts: Facts | None = None) -> tuple[float, int, int]:
    """Predicted time to 10 ns; of equals the one with fewer waves, then more bytes under way over the whole card."""
    main = launches[0]
    slots = card.sms * from_launch(main, card, facts).resident
    return (
        round(_time_us(launches, card, facts), 2),
        ceil(main.ctas / slots),
        -min(main.ctas, slots) * main.bytes_in_flight,
    )


def _usable(
    pairs: list[tuple[Tile, list[Launch]]], facts: dict[Launch, Facts], card: Device
) -> list[tuple[Tile, list[Launch]]]:
    """Those that are compiled, without spills, within a CTA's shared memory and on the tier's own units.

    Where tensor memory does not suffice, Triton makes a kernel without any instructions of its own and says so only
    when it is loaded: such a one has no tensor-core instruction either.
    """

    def clean(launch: Launch, made: Facts) -> bool:
        native = made.mma_count > 0 or launch.tier.rate == "fp32"
        return native and not made.spills and not made.stack_bytes and made.shared_bytes <= card.shared_bytes_per_block

    return [pair for pair in pairs if pair[1][0] in facts and clean(pair[1][0], facts[pair[1][0]])]


def search(
    network: Network,
    tiers: Iterable[str],
    device: str,
    batch: int,
    *,
    keep: int = KEEP,
    jobs: int = -1,
    progress: Callable[[int, int, str], None] = lambda done, total, text: None,
) -> list[Choice]:
    """Choose a tile for every layer behind the stem, in each tier.

    Args:
        network: the layer table; layers of one shape are searched once.
        tiers: names of precision tiers.
        device: key of the card.
        batch: images.
        keep: candidates of a layer that are compiled, the time model's best; where all are spoiled, as many again.
        jobs: worker processes; ``joblib.parallel_config`` can put them on a cluster.
        progress: called with (kernels compiled, kernels to compile, what was compiled).

    Raises:
        UnknownName: for an unknown tier or device.
        RuntimeError: where a layer's candidates were dropped in every round, naming the layer and what was wrong.
    """
    card = find_device(device)
    wanted = [
        _rank_candidates(layer, find_tier(name), card, batch, pad=0 if layer == network.convs[-1] else 1)
        for name in tiers
        for layer in reversed({shape_key(layer): layer for layer in reversed(network.layers[1:])}.values())
    ]
    facts: dict[Launch, Facts] = {}
    for tried in range(keep, ROUNDS * keep + 1, keep):
        # a layer whose best tiles the compiler spoiled gets its next ones
        open_ones = [w for w in wanted if not _usable(w.ranked[: tried - keep], facts, card)]
        mains = [launches[0] for w in open_ones for _, launches in w.ranked[tried - keep : tried]]
        total = len(facts) + len(mains)
        for launch, found in inspect_all(mains, card.arch, jobs):
            facts[launch] = found
            progress(len(facts), total, f"{launch.tier.name} {launch.layer} {launch.tile}")
    return [_choose(w, facts, card, batch) for w in wanted]


@dataclass(frozen=True)
class _Ranked:
    """A layer's distinct candidates, the time model's best first, each with its launches; ``legal`` of them in all."""

    layer: Layer
    tier: Tier
    legal: int
    ranked: list[tuple[Tile, list[Launch]]]


def _rank_candidates(layer: Layer, tier: Tier, card: Device, batch: int, pad: int) -> _Ranked:
    legal = candidates(layer, tier, card, batch)
    ranked = sorted(
        ((tile, launches_of(layer, tier, batch, tile, pad)) for tile in legal), key=lambda pair: _rank(pair[1], card)
    )
    # boxes of another shape and the same count are the same to the model: one of them is compiled
    alike = {(replace(tile, box=None), tile.view, launches[0].ctas): i for i, (tile, launches) in
             reversed(list(enumerate(ranked)))}  # fmt: skip
    return _Ranked(layer, tier, len(legal), [ranked[i] for i in sorted(alike.values())])


def _choose(wanted: _Ranked, facts: dict[Launch, Facts], card: Device, batch: int) -> Choice:
    compiled = [pair for pair in wanted.ranked if pair[1][0] in facts]
    usable = _usable(compiled, facts, card)
    layer, tier = wanted.layer, wanted.tier
    if not usable:
        spoiled = "; ".join(f"{tile}: {facts[launches[0]]}" for tile, launches in compiled)
        raise RuntimeError(
            f"no tile of {layer.name} in {tier.name} compiles cleanly, compile more of them (keep): {spoiled}"
        )
    usable.sort(key=lambda pair: _rank(pair[1], card, facts[pair[1][0]]))
    (tile, launches), *others = usable
    main = launches[0]
    made = facts[main]
    work = from_launch(main, card, made)
    return Choice(
        shape=shape_key(layer),
        tier=tier.name,
        device=card.key,
        batch=batch,
        tile=str(tile),
        time_us=_rank(launches, card, made)[0],
        bound=time_of(work, card).bound,
        ctas=main.ctas,
        waves=round(main.ctas / (card.sms * work.resident), 2),
        l2_bytes_per_clock=round(main.l2_bytes_per_clock(card) or 0.0, 1),
        registers=made.registers,
        shared_bytes=made.shared_bytes,
        legal=wanted.legal,
        compiled=len(compiled),
        dropped=len(compiled) - len(usable),
        runner_up=str(others[0][0]) if others else "",
        runner_up_us=_rank(others[0][1], card, facts[others[0][1][0]])[0] if others else None,
        model_version=str(MODEL_VERSION),
        triton=made.triton,
    )


def store(choices: Iterable[Choice], table: Path = TABLE) -> None:
    """Write choices into the table, in place of those for the same (shape, tier, device, batch); others stay."""
    rows = {}
    if table.is_file():
        with table.open(newline="") as lines:
            rows = {_identity(row): row for row in csv.DictReader(lines)}
    for choice in choices:
        row = {name: "" if value is None else str(value) for name, value in vars(choice).items()}
        rows[_identity(row)] = row
    half = table.with_suffix(".tmp")
    with half.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, fieldnames=list(Choice.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))
    half.replace(table)
    tile_selection.stored.cache_clear()
    tile_selection.select_tile.cache_clear()


def _identity(row: dict[str, str]) -> tuple[str, str, int, str]:
    return row["device"], row["tier"], int(row["batch"]), row["shape"]
