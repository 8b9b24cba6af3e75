"""What the README states in numbers, computed: the answer in three lines, a table with one row a tier, the check."""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from ...floor.hardware import devices
from ...floor.rates import at_clock
from ...floor.roofline import floor_us
from ...predict.timemodel import predict
from ...records.ranking import Standing
from ...workload.precision import TIERS
from ..accuracy import error_rows, ladder_table, matrix_rows, matrix_table, recorded
from ..page import BATCH, SUBJECT, VGG19, Page
from ..predictions import comparisons, corrected_rows
from ..study import reported, reported_hopper

NONE = "–"


def table(page: Page) -> pd.DataFrame:
    """Error, floor, prediction and fastest record by tier; times in milliseconds.

    The error is that of the tier's arithmetic, emulated, against float64 with Kaiming weights. Floor and prediction
    are the public record's card's; records are the fastest of each tier's cohort whose timer is KernelBench's with a
    cold L2, one column a card that has any.
    """
    ladder = ladder_table(error_rows(recorded("ladder"))).set_index("arithmetic")
    rows = {name: _error(ladder.loc[name]) | _bounds(name) for name in TIERS}
    for standing in page.standings:
        cohort = standing.record.cohort
        protocol = (cohort.network, cohort.batch, cohort.timer, cohort.cache)
        if standing.rank == 1 and protocol == ("vgg19", BATCH, "kernelbench", "cold") and cohort.device in devices():
            rows[cohort.tier].setdefault(_column(standing), _cell(standing))
    return pd.DataFrame.from_dict(rows, orient="index").fillna(NONE).rename_axis("tier").reset_index()


def _error(row: pd.Series) -> dict[str, str]:
    return {f"error, emulated ({row['evidence']})": f"{row['relative_error']:.1e}"}


def _bounds(tier: str) -> dict[str, str]:
    layers = predict(VGG19, tier, SUBJECT, BATCH)
    title = devices()[SUBJECT].title
    return {
        f"floor, {title} (derived)": f"{sum(layer.floor_us for layer in layers) / 1e3:.2f}",
        f"our kernels, {title} (modelled)": f"{sum(layer.time_us for layer in layers) / 1e3:.2f}",
    }


def _column(standing: Standing) -> str:
    record = standing.record
    return f"fastest, {devices()[record.cohort.device].title} ({record.origin.evidence})"


def _cell(standing: Standing) -> str:
    return f"{standing.record.times.mean_ms:.3g} {standing.record.variant}"


def answer(page: Page) -> str:
    """The answer as a list: what cannot be beaten, what is published, what our kernels should take; milliseconds.

    A prediction is given as the model has it and, for fp16, as the errors of its nearest kin correct it.
    """
    card, title = devices()[SUBJECT], devices()[SUBJECT].title
    highest = at_clock(card, card.max_clock_hz)
    fused = [floor_us(VGG19, tier, SUBJECT, BATCH, fusion="perfect", rates=highest) / 1e3 for tier in ("tf32", "fp16")]
    compared, _ = comparisons(reported(), reported_hopper())
    fp16 = corrected_rows(compared, VGG19, SUBJECT, BATCH).set_index("tier").loc["fp16"]
    bounds = {tier: list(_bounds(tier).values()) for tier in ("fp16x3", "tf32", "fp16")}
    (floor_tf32, ours_tf32), (floor_fp16, ours_fp16) = bounds["tf32"], bounds["fp16"]
    first = page.standing(page.headline.standing).record
    return "\n".join(
        [
            f"- **{floor_tf32} ms** in tf32 and **{floor_fp16} ms** in fp16 is the least for direct convolution, layer "
            f"by layer, at an {title}'s data-sheet rates; {fused[0]:.2f} and {fused[1]:.2f} with all layers fused "
            "at its highest clock (derived);",
            f"- **{first.times.mean_ms:.3g} ms** is the fastest of the times that stand in KernelBench's files "
            f"({first.origin.evidence}, {first.origin.observed}: {first.variant}; that its convolutions round to "
            f"{first.cohort.tier} follows from PyTorch's default, the files do not say it). {_history(page)};",
            f"- **{ours_tf32} ms** in tf32, **{ours_fp16} ms** in fp16 at tf32's error, **{bounds['fp16x3'][1]} ms** "
            "in fp16x3 (three fp16 products of split operands) at fp32's error is what our kernels should take "
            f"(modelled). The model makes the nearest published products {-fp16['mildest']:.0%} to "
            f"{-fp16['worst']:.0%} too fast: {fp16['from_ms']:.2f} to {fp16['to_ms']:.2f} ms is likelier in fp16.",
        ]
    )


def _history(page: Page) -> str:
    """The fastest time that no longer stands on the subject's card."""
    gone = [e for e in page.history if e.device == SUBJECT and e.mean_ms and e.change == "published"]
    fastest = min(gone, key=lambda event: event.mean_ms or float("inf"))
    return (
        f"Their history has {fastest.mean_ms:.3g} ms ({fastest.variant}, timed warm, published {fastest.day}, since "
        "replaced or removed)"
    )


def check(page: Page) -> str:
    """The finding about the check, with what the kill matrix counted."""
    document = recorded("kill_matrix")
    rows = matrix_rows(document)
    gates = matrix_table(rows, "contract").set_index("gate")
    every = matrix_table(rows).set_index("gate").loc["ours, Kaiming"]
    public, lively = (gates.loc[name] for name in ("KernelBench 1e-4", "KernelBench 1e-4, Kaiming"))
    large = document["full_size"]["mutants"]
    return (
        "**The public check accepts wrong networks.** Under the benchmark's own weights the logits hardly depend on "
        f"the image, so a model that ignores its input passes. Of {public['mutants']} networks that are wrong on "
        f"inputs which the benchmark allows ({document['network'].upper()}, {document['image']}-pixel images) it "
        f"accepts {public['accepted']}, and {lively['accepted']} still on weights that keep the signal. Of these and "
        f"{every['mutants'] - public['mutants']} others (wrong on further inputs, coarser than they claim, or "
        f"dishonest) ours accepts {every['accepted']}; of our own kernels in six tiers it rejects "
        f"{every['right_rejected']}. Of {len(large)} taken at {document['full_size']['image']} pixels too, one image "
        f"each, it accepts {sum('ours, Kaiming' in row['survives'] for row in large)} ({document['evidence']}): "
        "[01 Workload](notebooks/01_workload.ipynb)."
    )


def markdown(frame: pd.DataFrame) -> str:
    """A frame of text as a Markdown table, its first column to the left."""
    lines = [frame.columns, [":--", *["--:"] * (frame.shape[1] - 1)], *frame.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


BLOCKS: dict[str, Callable[[Page], str]] = {
    "answer": answer,
    "table": lambda page: markdown(table(page)),
    "check": check,
}


def render(text: str, page: Page) -> str:
    """``text`` with what stands between each pair of markers, as <!-- table:begin -->, replaced by its block.

    Raises:
        ValueError: a pair of markers is not there exactly once.
    """
    for name, write in BLOCKS.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        found = re.findall(f"{begin}.*?{end}", text, flags=re.DOTALL)
        if len(found) != 1:
            raise ValueError(f"{len(found)} blocks between {begin} and {end}; accepted: exactly one")
        text = text.replace(found[0], f"{begin}\n{write(page)}\n{end}")
    return text


def update(path: Path, page: Page) -> None:
    """Rewrite the blocks of the README at ``path``."""
    path.write_text(render(path.read_text(encoding="utf-8"), page), encoding="utf-8")
