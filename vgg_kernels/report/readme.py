"""What the README states in numbers, computed: the answer in three lines, and a table with one row a tier."""

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from ..evidence.ranking import Standing
from ..floor.hardware import devices
from ..predict.timemodel import predict
from ..workload.precision import TIERS
from .accuracy import error_rows, ladder_table, recorded
from .page import BATCH, SUBJECT, VGG19, Page

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
    """The answer as a list: what cannot be beaten, what is published, what our kernels should take; milliseconds."""
    title = devices()[SUBJECT].title
    bounds = {tier: list(_bounds(tier).values()) for tier in ("fp16x3", "tf32", "fp16")}
    (floor_tf32, ours_tf32), (floor_fp16, ours_fp16) = bounds["tf32"], bounds["fp16"]
    first = page.standing(page.headline.standing).record
    return "\n".join(
        [
            f"- **{floor_tf32} ms** in tf32 and **{floor_fp16} ms** in fp16 cannot be beaten by direct convolution on "
            f"an {title} (derived);",
            f"- **{first.times.mean_ms:.3g} ms** is the fastest published time that stands ({first.origin.evidence}: "
            f"KernelBench, {first.variant}, {first.cohort.tier});",
            f"- **{ours_tf32} ms** in tf32, **{ours_fp16} ms** in fp16 at tf32's error, **{bounds['fp16x3'][1]} ms** "
            "in fp16x3 at fp32's error are what our kernels should take (modelled).",
        ]
    )


def markdown(frame: pd.DataFrame) -> str:
    """A frame of text as a Markdown table, its first column to the left."""
    lines = [frame.columns, [":--", *["--:"] * (frame.shape[1] - 1)], *frame.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


BLOCKS: dict[str, Callable[[Page], str]] = {"answer": answer, "table": lambda page: markdown(table(page))}


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
