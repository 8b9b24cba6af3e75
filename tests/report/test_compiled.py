"""Recorded facts of compiled kernels: read through the boundary, and said to be old when the sources moved on."""

import pytest

from vgg_kernels.kernels.plan import plan
from vgg_kernels.predict.compiled import PLAN_SOURCES, sources_digest
from vgg_kernels.records.tables import BadData
from vgg_kernels.report import compiled
from vgg_kernels.workload.network import network

ROW = "{arch},fp16,conv1_2,conv3x3,168,{spills},0,100000,64x256x16,36,0,0,4,1,2000,3.7.1,{digest}"


@pytest.fixture
def table(tmp_path, monkeypatch):
    for name in ("data", "notebooks"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("VGG_STUDY_ROOT", str(tmp_path))

    def write(*rows):
        (tmp_path / compiled.FILE).write_text("\n".join([",".join(compiled.TABLE.columns), *rows]) + "\n")
        return compiled.facts()

    return write


def test_nothing_recorded_says_how_to_compile(table):
    assert compiled.facts() is None
    assert compiled.sentence(100, None) == (
        "Not compiled yet for sm_100: `python -m vgg_kernels inspect --arch 100` does"
    )


def test_the_sentence_counts_what_is_there(table):
    found = table(ROW.format(arch=100, spills=0, digest=sources_digest(PLAN_SOURCES)))
    text = compiled.sentence(100, found)
    assert "Triton 3.7.1" in text
    assert "1 launches in 1 tiers; of the 1 tensor-core products 1 use" in text
    assert text.endswith("no register spills")
    assert "Not compiled yet for sm_90" in compiled.sentence(90, found)


def test_spills_and_older_sources_are_said(table):
    text = compiled.sentence(90, table(ROW.format(arch=90, spills=3, digest="0" * 64)))
    assert "1 launches spill registers (in fp16)" in text
    assert text.endswith("of an earlier state of the kernels")


def test_a_bad_row_is_named(table):
    with pytest.raises(BadData, match=r"data/compiled\.csv row 2: arch is '80'"):
        table(ROW.format(arch=80, spills=0, digest="0" * 64))


def test_recording_compiles_the_plan(table, monkeypatch):
    """One layer of one tier, really compiled for Hopper."""
    launches = [launch for launch in plan(network("vgg19"), "fp16", 10, "h100_sxm") if launch.layer == "conv4_2"]
    monkeypatch.setattr(compiled, "plan", lambda *_: launches)
    told = []
    written = compiled.record((90,), ("fp16",), told.append)
    assert told[0] == "sm_90 fp16 conv4_2"
    products = written[written["kernel"] == "conv3x3"]
    assert (products["mma_count"] > 0).all()
    assert (products["bulk_loads"] > 0).all()
    assert compiled.facts().equals(written.astype(compiled.facts().dtypes.to_dict()))


def test_the_recorded_facts_are_of_the_kernels_as_they_are():
    """After a change to kernels or tiles, ``records compile`` writes them anew."""
    assert set(compiled.facts()["kernels_sha256"]) == {sources_digest(PLAN_SOURCES)}
