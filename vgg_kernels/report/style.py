"""The look of every figure, and the one way to store it: an SVG and the CSV of what it draws, side by side.

Colour tells the tier, the marker's shape tells the device (the tier, where all are of one device), and the filling
tells the evidence:

=========  =======================  =======================
evidence   ``point`` (``ax.plot``)  ``bar`` (``ax.bar(h)``)
=========  =======================  =======================
reported   filled                   filled
measured   hollow, thick edge       hollow, thick edge
derived    a line, no marker        hollow, dashed edge
modelled   half filled              hatched
=========  =======================  =======================
"""

import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import as_file, files
from io import BytesIO
from pathlib import Path
from types import MappingProxyType

import matplotlib.pyplot as plt
import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from PIL import Image

from ..floor.hardware import device as find_device
from ..workload.lookup import lookup
from .study import root

# Okabe and Ito's colours, which stay apart under the common colour-vision deficiencies.
PALETTE: Mapping[str, str] = MappingProxyType(
    {
        "fp32": "#555555",
        "fp16x3": "#D55E00",
        "tf32": "#0072B2",
        "fp16": "#E69F00",
        "bf16": "#CC79A7",
        "fp8": "#009E73",
    }
)
SHAPES: Mapping[str, str] = MappingProxyType(  # tells tiers apart where all points are of one device
    {"fp32": "s", "fp16x3": "D", "tf32": "o", "fp16": "^", "bf16": "v", "fp8": "P"}
)
GREY = "#555555"  # whatever stands for no tier and no device
MARKERS: Mapping[str, str] = MappingProxyType(
    {"h100_sxm": "o", "h100_pcie": "s", "h200": "D", "b200": "^", "cpu": "X", "hopper_unnamed": "P"}
)


@dataclass(frozen=True)
class Look:
    """How one kind of evidence is drawn: ``fillstyle`` of points, ``hatch`` and ``filled`` of bars, their edge."""

    fillstyle: str
    filled: bool
    hatch: str
    linestyle: str
    edge: float


EVIDENCE_STYLE: Mapping[str, Look] = MappingProxyType(
    {
        "reported": Look("full", True, "", "-", 0.8),
        "measured": Look("none", False, "", "-", 1.8),
        "derived": Look("none", False, "", "--", 1.2),
        "modelled": Look("left", False, "////", "-", 0.8),
    }
)


def apply() -> None:
    """Make ``study.mplstyle``, over matplotlib's defaults and not a user's, the style for the rest of the process."""
    with as_file(files(__package__).joinpath("study.mplstyle")) as path:
        matplotlib.style.use(["default", path])


def point(evidence: str, colour: str, marker: str = "o") -> dict:
    """Keywords for ``ax.plot``: a marker of that evidence, or a plain dashed line where it is derived.

    Raises:
        UnknownName: ``evidence`` is none of reported, measured, derived, modelled.
    """
    look = lookup("evidence", evidence, EVIDENCE_STYLE)
    if evidence == "derived":
        return {"color": colour, "linestyle": look.linestyle, "linewidth": look.edge, "marker": ""}
    return {
        "color": colour,
        "linestyle": "",
        "marker": marker,
        "fillstyle": look.fillstyle,
        "markeredgewidth": look.edge,
        "markerfacecoloralt": "white",
    }


def bar(evidence: str, colour: str) -> dict:
    """Keywords for ``ax.bar`` or ``ax.barh``.

    Raises:
        UnknownName: ``evidence`` is none of reported, measured, derived, modelled.
    """
    look = lookup("evidence", evidence, EVIDENCE_STYLE)
    return {
        "facecolor": colour if look.filled else "white",
        "edgecolor": colour,
        "hatch": look.hatch,
        "linestyle": look.linestyle,
        "linewidth": look.edge,
    }


def pale(colour: str) -> str:
    """``colour`` mixed with white, opaque: a hatch drawn in the colour itself stays visible on it, in SVG too."""
    red, green, blue = (1 - 0.3 * (1 - channel) for channel in to_rgb(colour))
    return to_hex((red, green, blue))


def subject(rows: pd.DataFrame, network: str = "VGG19") -> str:
    """What all of ``rows`` have in common: "VGG19, H100 SXM, fp16, batch 10, modelled", as far as they have it."""
    common = {name: rows[name].iloc[0] for name in ("device", "tier", "batch", "evidence") if _is_one(rows, name)}
    if "device" in common:
        common["device"] = find_device(common["device"]).title
    if "batch" in common:
        common["batch"] = f"batch {common['batch']}"
    return ", ".join([network, *common.values()])


def _is_one(rows: pd.DataFrame, name: str) -> bool:
    return name in rows and rows[name].nunique() == 1


def headline(ax: Axes, message: str, about: str) -> None:
    """Write what the figure says in bold, and under it what it is about: device, batch, evidence."""
    ax.set_title(f"{message}\n", loc="left")
    ax.set_title(about, loc="center", x=0.0, ha="left", fontsize=9, fontweight="normal", color="#333333")


def layer_ticks(ax: Axes, names: Iterable[str], at: Iterable[float] | None = None) -> None:
    """Name the layers along the x axis, one a tick, at 0, 1, 2, ... unless ``at`` says where."""
    names = list(names)
    ax.set_xticks(range(len(names)) if at is None else list(at), names, rotation=60, ha="right", rotation_mode="anchor")
    ax.grid(axis="x", visible=False)


def plain_log(axis: Axis, steps: tuple[int, ...] = (1, 2, 5)) -> None:
    """Label a log axis with plain numbers, 1, 2, 5, 10, ..., instead of powers of ten."""
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def significant(frame: pd.DataFrame, digits: int = 3) -> pd.DataFrame:
    """``frame`` with its float columns rounded to ``digits`` significant digits, so that another CPU agrees."""

    def shorten(value: float) -> float:
        return float(f"{value:.{digits - 1}e}") if np.isfinite(value) else value

    floats = frame.select_dtypes("floating").columns
    return frame.assign(**{name: frame[name].map(shorten) for name in floats})


@dataclass(frozen=True)
class Saved:
    """A stored figure. As the last value of a notebook cell it shows the picture, with its alternative text."""

    svg: Path
    csv: Path
    png: bytes
    alt: str

    def __repr__(self) -> str:  # no absolute path: it ends up in notebooks
        return f"figures/{self.svg.name}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> tuple[dict, dict]:
        data = {"image/png": b64encode(self.png).decode(), "text/plain": repr(self)}
        return data, {"image/png": {"alt": self.alt}}


def figures_folder() -> Path:
    """Where figures go: ``$VGG_STUDY_FIGURES`` (tests redirect it), else the repository's ``figures``."""
    return Path(os.environ.get("VGG_STUDY_FIGURES") or root() / "figures")


def save(fig: Figure, name: str, data: pd.DataFrame, alt: str, folder: Path | None = None) -> Saved:
    """Write ``name.svg`` and ``name.csv``, the same bytes from run to run, and close ``fig``.

    Args:
        fig: the figure.
        name: notebook number and subject, "03_floor_waterfall".
        data: the rows that the figure draws; floats are stored with six significant digits.
        alt: what a reader who cannot see the figure should know; the SVG's description.
        folder: where to write, ``figures_folder()`` by default.

    Raises:
        ValueError: a malformed name, no rows, or no alternative text.
    """
    if not re.fullmatch(r"\d\d_[a-z0-9_]+", name):
        raise ValueError(
            f"figure name {name!r}; accepted: two digits, then _words in lower case, as 03_floor_waterfall"
        )
    if data.empty:
        raise ValueError(f"figure {name}: the data behind it has no rows")
    if not alt.strip():
        raise ValueError(f"figure {name}: alt is empty; say in a sentence or two what the figure shows")
    folder = figures_folder() if folder is None else Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    saved = Saved(folder / f"{name}.svg", folder / f"{name}.csv", _png(fig), alt)
    saved.svg.write_text(_svg(fig, alt), encoding="utf-8")
    data.to_csv(saved.csv, index=False, float_format="%.6g", lineterminator="\n")
    plt.close(fig)  # the inline backend would show it a second time
    return saved


def _png(fig: Figure) -> bytes:
    """``fig`` as a PNG of 256 colours, the palette's own exact, in a third of the bytes."""
    full, small = BytesIO(), BytesIO()
    fig.savefig(full, format="png", metadata={"Software": None})
    picture = Image.open(full).convert("RGB")
    picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    return small.getvalue()


def _svg(fig: Figure, alt: str) -> str:
    """``fig`` as SVG text that depends on the drawing alone: no date, no version, no last-digit noise in it."""
    buffer = BytesIO()
    with plt.rc_context({"svg.hashsalt": "vgg-kernels", "svg.fonttype": "path"}):
        fig.savefig(buffer, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = re.sub(r"<!--.*?-->", "", buffer.getvalue().decode(), flags=re.DOTALL)
    text = re.sub(r'((?: [dxy]|points)="|translate\()([^")]*)', lambda m: m[1] + _short(m[2]), text)
    # Ids are digests of unrounded coordinates: number them in the order in which they appear instead.
    for number, digest in enumerate(dict.fromkeys(re.findall(r'id="([a-zA-Z]+[0-9a-f]{10})"', text))):
        text = text.replace(digest, f"i{number}")
    described = f'<svg role="img" aria-label="{escape(alt)}"'
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).replace("<svg", described, 1)


def _short(coordinates: str) -> str:
    return re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), coordinates)
