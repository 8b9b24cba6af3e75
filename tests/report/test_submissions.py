"""Bringing a run of one's own: checked by file and row, sealed, and shown where it would stand."""

import json

import pytest

from vgg_kernels.records.store import COLUMNS
from vgg_kernels.report.submissions import seal, standings_of


@pytest.fixture
def own(tmp_path, fake):
    """What data/README.md asks for: samples.csv and provenance.json, written by hand."""
    folder = tmp_path / "theirs" / "run1"
    folder.mkdir(parents=True)
    rows = [",".join(COLUMNS)]
    key = "mine,tf32,vgg19,10,network,kernelbench,cold,fp32,True,False"
    rows += [f"{key},{i},{time}" for i, time in enumerate(fake.times(1.9, 100))]
    (folder / "samples.csv").write_text("\n".join(rows) + "\n")
    (folder / "provenance.json").write_text(json.dumps({"run": "run1", **fake.provenance()}))
    return folder


def test_a_run_of_ones_own_is_sealed_and_reproducible(own):
    digest = seal(own)
    standings, problems = standings_of(own)
    assert problems == []
    (standing,) = standings
    assert standing.record.samples_sha256 == digest
    assert standing.trust.level == "reproducible"
    assert standing.status == "quarantined"  # nobody has gated it
    assert "gate missing" in standing.reasons[0]


def test_a_gated_run_of_ones_own_ranks_beside_the_public_record(own):
    verdict = {"variant": "mine", "tier": "tf32", "network": "vgg19", "passed": True}
    (own / "notes.jsonl").write_text(json.dumps({"kind": "gate", "payload": verdict}) + "\n")
    seal(own)
    (standing,), _ = standings_of(own)
    assert standing.status == "ranked"
    assert standing.rank == 1
    assert standing.speedup is None
    assert "torch 2.11.0 against 2.5.0+cu124" in standing.speedup_refused


def test_a_bad_row_is_named_and_nothing_is_sealed(own):
    path = own / "samples.csv"
    path.write_text(path.read_text().replace(",7,1.", ",7,-1.", 1))
    with pytest.raises(ValueError, match=r"samples\.csv row 9: time_ms is '-1\."):
        seal(own)
    assert not (own / "seal.json").exists()


def test_a_run_is_sealed_once(own):
    seal(own)
    with pytest.raises(ValueError, match="sealed once"):
        seal(own)


def test_an_unsealed_run_is_shown_with_what_it_lacks(own):
    (own / "notes.jsonl").touch()
    (standing,), problems = standings_of(own)
    assert any("seal.json: missing" in problem for problem in problems)
    assert standing.trust.level == "reported"


def test_no_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match="is no folder"):
        standings_of(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds 0 runs"):
        seal(tmp_path / "empty")
