import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgg_kernels.floor.hardware import devices
from vgg_kernels.report.style import (
    EVIDENCE_STYLE,
    MARKERS,
    PALETTE,
    SHAPES,
    apply,
    bar,
    headline,
    pale,
    plain_log,
    point,
    save,
    significant,
    subject,
)
from vgg_kernels.workload.lookup import UnknownName
from vgg_kernels.workload.precision import TIERS

FRAME = pd.DataFrame({"layer": ["conv1_1", "fc8"], "time_us": [1 / 3, 123456.789]})


def figure(shift=0.0):
    with matplotlib.rc_context():
        apply()
        fig, axes = plt.subplots()
        axes.bar([0], [1 + shift], **bar("modelled", PALETTE["fp16"]))
        axes.plot([0, 1 / 3], [0.5, 2 / 3 + shift], **point("measured", PALETTE["tf32"]))
        axes.set_title("Time per layer (µs)")
    return fig


def test_a_figure_is_the_same_bytes_from_run_to_run(tmp_path):
    first = save(figure(), "03_floor", FRAME, "Two bars.", tmp_path / "a")
    again = save(figure(), "03_floor", FRAME, "Two bars.", tmp_path / "b")
    assert first.svg.read_bytes() == again.svg.read_bytes()
    assert first.csv.read_bytes() == again.csv.read_bytes()
    assert first.png == again.png


def test_a_users_matplotlibrc_changes_no_byte(tmp_path):
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 9\nlines.dashed_pattern: 9, 1\nsavefig.bbox: tight\n")
    script = f"""
import pandas as pd
import matplotlib.pyplot as plt
from vgg_kernels.report.style import apply, save
apply()
fig, axes = plt.subplots()
axes.plot([0, 1], [2, 3], linestyle="--")
print(save(fig, "01_line", pd.DataFrame({{"x": [0]}}), "A line.", {str(tmp_path)!r}).svg.read_text())
"""
    drawn = [
        subprocess.run(
            [sys.executable, "-c", script], env=os.environ | extra, capture_output=True, text=True, check=True
        )
        for extra in ({}, {"MATPLOTLIBRC": str(tmp_path / "matplotlibrc")})
    ]
    assert drawn[0].stdout == drawn[1].stdout


def test_the_last_digits_of_a_coordinate_change_no_byte(tmp_path):
    first = save(figure(), "03_floor", FRAME, "Two bars.", tmp_path / "a")
    noisy = save(figure(1e-12), "03_floor", FRAME, "Two bars.", tmp_path / "b")
    moved = save(figure(0.1), "03_floor", FRAME, "Two bars.", tmp_path / "c")
    assert first.svg.read_bytes() == noisy.svg.read_bytes()
    assert first.svg.read_bytes() != moved.svg.read_bytes()


def test_the_svg_is_well_formed_described_and_undated(tmp_path):
    saved = save(figure(), "03_floor", FRAME, 'Bars "<fp16>" & more.', tmp_path)
    tree = ElementTree.parse(saved.svg).getroot()
    assert tree.get("aria-label") == 'Bars "<fp16>" & more.'
    assert tree.get("role") == "img"
    text = saved.svg.read_text()
    references = set(re.findall(r"(?:url\(|href=\")#([\w-]+)", text))
    assert references <= {element.get("id") for element in tree.iter()}
    assert "Matplotlib" not in text
    assert not re.search(r"20\d\d-\d\d", text)


def test_the_data_behind_the_figure_lie_next_to_it(tmp_path):
    saved = save(figure(), "03_floor", FRAME, "Two bars.", tmp_path)
    assert saved.csv.read_text() == "layer,time_us\nconv1_1,0.333333\nfc8,123457\n"


def test_a_saved_figure_shows_itself_once_with_alternative_text_and_no_absolute_path(tmp_path):
    fig = figure()
    saved = save(fig, "03_floor", FRAME, "Two bars.", tmp_path)
    data, metadata = saved._repr_mimebundle_()
    assert data["text/plain"] == repr(saved) == "figures/03_floor.svg"
    assert metadata["image/png"]["alt"] == "Two bars."
    assert not plt.fignum_exists(fig.number)


def test_figures_go_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("VGG_STUDY_FIGURES", str(tmp_path / "there"))
    assert save(figure(), "03_floor", FRAME, "Two bars.").svg == tmp_path / "there" / "03_floor.svg"


@pytest.mark.parametrize(
    ("name", "frame", "alt", "told"),
    [
        ("floor", FRAME, "Bars.", "figure name 'floor'"),
        ("03_floor/../x", FRAME, "Bars.", "accepted: two digits"),
        ("03_floor", FRAME.head(0), "Bars.", "has no rows"),
        ("03_floor", FRAME, "  ", "alt is empty"),
    ],
)
def test_a_figure_without_name_data_or_description_is_refused(tmp_path, name, frame, alt, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        save(figure(), name, frame, alt, tmp_path)
    assert not list(tmp_path.iterdir())


def test_every_tier_has_its_colour_and_shape_and_every_device_its_marker():
    assert set(TIERS) == set(PALETTE)
    assert set(devices()) <= set(MARKERS)
    assert len({PALETTE[tier] for tier in TIERS}) == len(TIERS)
    assert len({SHAPES[tier] for tier in TIERS}) == len(TIERS)
    assert len({MARKERS[device] for device in devices()}) == len(devices())


def test_the_subject_is_what_all_rows_share():
    rows = pd.DataFrame({"device": "h200", "tier": ["tf32", "fp16"], "batch": 10, "evidence": "derived"})
    assert subject(rows) == "VGG19, H200, batch 10, derived"
    assert subject(rows[1:]) == "VGG19, H200, fp16, batch 10, derived"
    assert subject(rows[["tier"]]) == "VGG19"


def test_message_and_subject_stand_above_each_other_at_the_left():
    fig, ax = plt.subplots()
    headline(ax, "What it says", "of what")
    fig.canvas.draw()
    message, about = (title.get_window_extent() for title in (ax._left_title, ax.title))
    assert message.x0 == pytest.approx(about.x0, abs=2)
    assert message.y1 > about.y1 > about.y0 > ax.get_window_extent().y1
    plt.close(fig)


def test_a_pale_colour_is_lighter_than_its_own():
    assert pale("#000000") == "#b2b2b2"
    assert pale("#ffffff") == "#ffffff"


def test_a_log_axis_has_plain_numbers():
    fig, ax = plt.subplots()
    ax.set_xscale("log")
    ax.set_xlim(0.09, 3000)
    plain_log(ax.xaxis)
    fig.canvas.draw()
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert {"0.1", "0.2", "5", "1,000"} <= set(labels)
    plt.close(fig)


def test_the_four_kinds_of_evidence_are_drawn_apart():
    assert list(EVIDENCE_STYLE) == ["reported", "measured", "derived", "modelled"]
    assert len({str(point(evidence, "C0")) for evidence in EVIDENCE_STYLE}) == 4
    assert len({str(bar(evidence, "C0")) for evidence in EVIDENCE_STYLE}) == 4
    with pytest.raises(UnknownName, match="accepted: reported, measured, derived, modelled"):
        bar("guessed", "C0")


@given(st.floats(1e-9, 1e12), st.integers(1, 6))
def test_rounding_keeps_the_asked_for_digits(value, digits):
    rounded = significant(pd.DataFrame({"name": ["a"], "count": [12345], "value": [value]}), digits)
    assert abs(rounded["value"][0] - value) <= 0.5001 * 10 ** (np.floor(np.log10(value)) - digits + 1)
    assert rounded["count"][0] == 12345
    assert len(f"{rounded['value'][0]:.15g}".replace(".", "").strip("0").split("e")[0]) <= digits


def test_rounding_leaves_missing_and_infinite_values():
    values = significant(pd.DataFrame({"x": [np.nan, np.inf, 1.2345]}))["x"]
    assert np.isnan(values[0])
    assert values[1:].tolist() == [np.inf, 1.23]
