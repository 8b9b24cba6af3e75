"""The boundary, and its dictionary: data/README.md says what the schemas ask for, no more and no less."""

import re

import pandas as pd
import pytest

from vgg_kernels.records import tables
from vgg_kernels.records.store import COLUMNS
from vgg_kernels.report import compiled, study

TABLES = {
    "samples.csv": tables.SAMPLES,
    "reported/kernelbench_vgg19.csv": tables.KERNELBENCH_VGG19,
    "reported/kernelbench_h100.csv": tables.KERNELBENCH,
    "reported/hopper_public.csv": tables.HOPPER,
    "compiled.csv": compiled.TABLE,
}


def dictionary():
    """The first column of each table of data/README.md, by the section's file."""
    text = (study.root() / "data" / "README.md").read_text(encoding="utf-8")
    sections = re.split(r"^### `([^`]+)`$", text, flags=re.MULTILINE)[1:]
    return {
        name: re.findall(r"^\| `([^`]+)` \|", re.split(r"^## ", body, flags=re.MULTILINE)[0], flags=re.MULTILINE)
        for name, body in zip(sections[::2], sections[1::2], strict=True)
    }


@pytest.mark.parametrize("name", TABLES)
def test_the_dictionary_lists_every_column_in_order(name):
    assert dictionary()[name] == list(TABLES[name].columns)


def test_the_dictionary_lists_every_key_of_provenance():
    listed, asked = dictionary()["provenance.json"], tables.Provenance.model_fields
    assert set(listed) == set(asked)


def test_the_dictionary_lists_every_file():
    files = {path.relative_to(study.root() / "data").as_posix() for path in (study.root() / "data").glob("reported/*")}
    assert files == {name for name in dictionary() if name.startswith("reported/")}


def test_the_writers_columns_are_the_schemas():
    assert list(COLUMNS) == list(tables.SAMPLES.columns)


def test_times_and_rates_carry_their_unit():
    units = ("_ms", "_per_s")
    plain = {"batch", "sample", "level", "problem", "warmups", "trials"} | set(compiled.TABLE.columns)  # counts
    for table in TABLES.values():
        for name, column in table.columns.items():
            if str(column.dtype) == "float64":
                assert name in plain or name.endswith(units), name


def test_committed_tables_hold():
    assert len(study.reported()) == 76
    assert len(study.reported_vgg19()) == 15
    assert len(study.reported_hopper()) > 50


def test_types_are_the_schemas():
    frame = study.reported_vgg19()
    assert frame["batch"].dtype == int
    assert frame["cudnn_allow_tf32"].dtype == bool
    assert frame["mean_ms"].dtype == float
    assert frame["withdrawn"].iloc[-1] == ""


def table(*lines):
    return ("\n".join(lines) + "\n").encode()


HEAD = ",".join(COLUMNS)
GOOD = "eager,tf32,vgg19,10,network,kernelbench,cold,fp32,True,False,{},3.9"


def test_the_first_bad_rows_are_named_and_the_rest_is_left_unsaid():
    rows = [GOOD.format(i).replace("3.9", "-1") for i in range(50)]
    with pytest.raises(tables.BadData) as error:
        tables.check_csv(table(HEAD, *rows), tables.SAMPLES, "x.csv")
    assert str(error.value).count("x.csv row") == tables.NAMED_FAILURES
    assert str(error.value).startswith("x.csv row 2: time_ms is '-1'")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "x.csv row 1: no header"),
        (table(HEAD, GOOD.format(0) + ",extra"), "x.csv row 2: 13 fields, and the header has 12"),
        (table(HEAD, GOOD.format(0), "eager,tf32"), "x.csv row 3"),
        (table(HEAD + ",batch", GOOD.format(0)), "x.csv row 1: a column is there twice"),
        (table(HEAD, GOOD.format(0), ""), "x.csv row 3"),
        (table(HEAD, GOOD.format(0).replace("3.9", "3,9")), "x.csv row 2: 13 fields"),
        (table(HEAD, GOOD.format(0)) + b"\xff\xfe", "x.csv row 3: no text"),
    ],
    ids=[
        "empty",
        "a field too many",
        "fields too few",
        "a column twice",
        "a blank line",
        "a decimal comma",
        "not text",
    ],
)
def test_a_file_that_is_no_table_is_named(content, said):
    with pytest.raises(tables.BadData, match=re.escape(said)):
        tables.check_csv(content, tables.SAMPLES, "x.csv")


def test_a_header_alone_is_an_empty_table():
    frame = tables.check_csv(table(HEAD), tables.SAMPLES, "x.csv")
    assert isinstance(frame, pd.DataFrame)
    assert frame.empty


def test_lower_case_truth_is_truth():
    frame = tables.check_csv(table(HEAD, GOOD.format(0).replace("True", "true")), tables.SAMPLES, "x.csv")
    assert frame["cudnn_allow_tf32"].iloc[0]
