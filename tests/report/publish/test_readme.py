import re

import pandas as pd
import pytest

from vgg_kernels.floor.public import public_floor_us
from vgg_kernels.report import page
from vgg_kernels.report.accuracy import matrix_rows, matrix_table, truncation_table
from vgg_kernels.report.accuracy import recorded as document
from vgg_kernels.report.publish.readme import answer, markdown, render, table
from vgg_kernels.report.study import root
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import TIERS


@pytest.fixture(scope="module")
def recorded():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VGG_STUDY", "recorded")
        yield page.page()


def test_the_readme_states_what_the_code_computes_now(recorded):
    text = (root() / "README.md").read_text()
    assert render(text, recorded) == text, "run: python -m vgg_kernels dev readme"


def test_every_number_of_the_table_has_its_evidence(recorded):
    frame = table(recorded)
    assert list(frame["tier"]) == list(TIERS)
    words = [re.search(r"\((reported|measured|derived|modelled)\)$", column) for column in frame.columns[1:]]
    assert all(words)
    assert {"measured", "derived", "modelled", "reported"} <= {word[1] for word in words}


def test_a_prediction_is_above_its_floor(recorded):
    frame = table(recorded)
    assert (
        frame.filter(like="modelled").iloc[:, 0].astype(float) >= frame.filter(like="derived").iloc[:, 0].astype(float)
    ).all()


def test_the_public_record_stands_in_the_tier_of_its_arithmetic(recorded):
    column = table(recorded).set_index("tier").filter(like="H100 SXM (reported)").iloc[:, 0]
    assert column["tf32"] == "2.43 inductor"
    assert column["fp32"] == "–"


ANSWER, TABLE, CHECK = (
    f"<!-- {name}:begin -->\nold | 9.99\n<!-- {name}:end -->" for name in ("answer", "table", "check")
)


def test_only_what_stands_between_the_markers_changes(recorded):
    once = render(f"before\n{ANSWER}\nbetween\n{TABLE}\nafter\n{CHECK}\n", recorded)
    assert once.startswith("before\n<!-- answer:begin -->\n- **")
    assert "-->\nbetween\n<!--" in once
    assert "-->\nafter\n<!--" in once
    assert "9.99" not in once
    assert render(once, recorded) == once


def test_the_answer_says_what_the_table_says(recorded):
    frame, lines = table(recorded).set_index("tier"), answer(recorded).splitlines()
    floors, ours = (frame.filter(like=word).iloc[:, 0] for word in ("derived", "modelled"))
    for line, values, word in (
        (lines[0], (floors["tf32"], floors["fp16"]), "derived"),
        (lines[1], (frame.filter(like="reported").loc["tf32"].iloc[0].split()[0],), "reported"),
        (lines[2].split("The model")[0], (ours["tf32"], ours["fp16"], ours["fp16x3"]), "modelled"),
    ):
        assert tuple(re.findall(r"\*\*([\d.]+) ms\*\*", line)) == values
        assert word in line


@pytest.mark.parametrize("text", ["no block", ANSWER, f"{ANSWER}{CHECK}", f"{ANSWER}{TABLE}{TABLE}{CHECK}"])
def test_a_readme_without_its_block_is_refused(recorded, text):
    with pytest.raises(ValueError, match="accepted: exactly one"):
        render(text, recorded)


def test_a_frame_becomes_a_markdown_table():
    assert markdown(pd.DataFrame({"tier": ["fp16"], "ms": ["0.49"]})) == "| tier | ms |\n| :-- | --: |\n| fp16 | 0.49 |"


def test_the_prose_of_the_readme_states_computed_figures(recorded):
    prose = " ".join((root() / "README.md").read_text().split())
    record = recorded.standing(recorded.headline.standing).record.times.as_published_ms
    floors = table(recorded).set_index("tier").filter(like="derived").iloc[:, 0]
    public = public_floor_us(network("vgg19"), "h100_sxm", 10)
    assert f"{public:.2f} µs beside a record of {record:.2f} ms" in prose
    assert f"{floors['tf32']} ms in tf32 (derived)" in prose
    rows = matrix_rows(document("kill_matrix"))
    public = matrix_table(rows, "contract").set_index("gate").loc["KernelBench 1e-4"]
    ours = matrix_table(rows).set_index("gate").loc["ours, Kaiming"]
    assert f"it accepts {public['accepted']}, and" in prose
    assert public["accepted"] > 0
    assert ours["accepted"] == ours["right_rejected"] == 0
    errors = table(recorded).set_index("tier").filter(like="error").iloc[:, 0].astype(float)
    assert float(floors["fp16"]) <= 1.02 * float(floors["tf32"]) / 2
    assert errors["fp16"] < 1.25 * errors["tf32"]
    assert float(floors["fp16x3"]) < float(floors["fp32"]) / 4
    assert errors["fp16x3"] < 1.25 * errors["fp32"]
    kept = truncation_table(document("ladder")).set_index("sums").loc["truncated, 64 at a time", "of_eager"]
    assert 1.4 < kept < 2.5  # "nearer twice"
