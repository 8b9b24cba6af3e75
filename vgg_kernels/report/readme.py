"""The README's table, computed: one row a tier, each column with its evidence word."""

import re
from pathlib import Path

import pandas as pd

from ..evidence.ranking import Standing
from ..floor.hardware import devices
from ..predict.timemodel import predict
from ..workload.precision import TIERS
from .accuracy import error_rows, ladder_table, recorded
from .page import BATCH, SUBJECT, VGG19, Page

BEGIN, END = "<!-- table:begin -->", "<!-- table:end -->"
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


def markdown(frame: pd.DataFrame) -> str:
    """A frame of text as a Markdown table, its first column to the left."""
    lines = [frame.columns, [":--", *["--:"] * (frame.shape[1] - 1)], *frame.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def render(text: str, page: Page) -> str:
    """``text`` with what stands between its two markers replaced by the table.

    Raises:
        ValueError: the markers are not there exactly once.
    """
    found = re.findall(f"{BEGIN}.*?{END}", text, flags=re.DOTALL)
    if len(found) != 1:
        raise ValueError(f"{len(found)} blocks between {BEGIN} and {END}; accepted: exactly one")
    return text.replace(found[0], f"{BEGIN}\n{markdown(table(page))}\n{END}")


def update(path: Path, page: Page) -> None:
    """Rewrite the table of the README at ``path``."""
    path.write_text(render(path.read_text(encoding="utf-8"), page), encoding="utf-8")
