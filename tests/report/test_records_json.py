"""``records verify``: everything recomputed, and one digit changed anywhere is named by file and row."""

import json
import shutil

import pytest

from vgg_kernels.report import records_json, study


@pytest.fixture
def copy(tmp_path, fake, monkeypatch):
    """A copy of the study's data with two fake runs, published."""
    (tmp_path / "notebooks").mkdir()
    shutil.copytree(study.root() / "data" / "reported", tmp_path / "data" / "reported")
    place = tmp_path / "data" / "measured" / "h100_sxm"
    fake.run(place / "a", {"eager": fake.times(3.9, 30), "inductor": fake.times(2.4, 30)})
    fake.run(place / "b", {"ours": fake.times(0.9, 30)}, gate={"ours": True}, card="bbbbbbbbbbbb")
    monkeypatch.setenv("VGG_STUDY_ROOT", str(tmp_path))
    records_json.publish()
    return tmp_path


def test_the_committed_data_hold():
    assert records_json.verify() == []
    assert records_json.summary()["records"] >= 15


def test_a_copy_holds_and_says_how_much_was_checked(copy):
    assert records_json.verify() == []
    assert records_json.summary() == {"files": 3 + 2 * 4, "seals": 2, "records": 15 + 3}


@pytest.mark.parametrize(
    ("name", "old", "new", "where"),
    [
        ("data/reported/kernelbench_vgg19.csv", ",2.43,", ",2.42,", "data/reported/kernelbench_vgg19.csv row 16"),
        ("data/reported/kernelbench_h100.csv", "2.43", "2.42", "data/reported/kernelbench_h100.csv row "),
        ("data/reported/hopper_public.csv", "491.74", "491.75", "data/reported/hopper_public.csv row 2"),
        ("data/measured/h100_sxm/a/samples.csv", ",12,3", ",12,4", "data/measured/h100_sxm/a/samples.csv row 14"),
        ("data/measured/h100_sxm/a/provenance.json", "2.11.0", "2.11.1", "a/provenance.json row"),
        ("data/measured/h100_sxm/b/notes.jsonl", "true", "false", "b/notes.jsonl row 1"),
        ("data/measured/h100_sxm/b/seal.json", '"run": "b"', '"run": "c"', "b/seal.json row"),
    ],
)
def test_one_digit_changed_is_named_by_file_and_row(copy, name, old, new, where):
    path = copy / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    problems = records_json.verify()
    assert len(problems) == 1
    assert where in problems[0]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda s: s["record"]["times"].update(mean_ms=s["record"]["times"]["mean_ms"] - 0.01), "record.times.mean_ms"),
        (lambda s: s["record"]["times"].update(high_ms=9.0), "record.times.high_ms"),
        (lambda s: s["trust"].update(level="replicated"), "trust.level"),
        (lambda s: s.update(rank=7), "rank"),
        (lambda s: s.update(status="quarantined"), "status"),
        (lambda s: s.update(speedup=99.0), "speedup"),
        (lambda s: s.update(id="0" * 64), "id"),
        (lambda s: s.update(stale=[]), "stale"),
    ],
    ids=["mean", "interval", "trust", "rank", "status", "speed-up", "id", "stale"],
)
def test_one_published_value_changed_is_named(copy, change, key):
    path = copy / records_json.PUBLISHED
    document = json.loads(path.read_text())
    change(document["standings"][0])
    path.write_text(json.dumps(document))
    problems = records_json.verify()
    assert any("record 1 (data/" in p and f": {key} is published as" in p for p in problems), problems


def test_a_seal_that_was_forged_with_the_samples_is_still_named(copy):
    """Whoever rewrites a run and its seal has to rewrite the publication too, and that is in the history."""
    from vgg_kernels.records.store import seal

    run = copy / "data" / "measured" / "h100_sxm" / "a"
    text = (run / "samples.csv").read_text()
    (run / "samples.csv").write_text(text.replace(",12,3", ",12,2", 1))
    (run / "seal.json").unlink()
    seal(run, "a")
    assert "a/samples.csv row 14" in " ".join(records_json.verify())


def test_a_new_run_has_to_be_published(copy, fake):
    fake.run(copy / "data" / "measured" / "h100_sxm" / "c", {"eager": fake.times(3.8, 30)})
    problems = records_json.verify()
    assert any("h100_sxm/c/samples.csv: not in data/records.json yet" in p for p in problems)
    records_json.publish()
    assert records_json.verify() == []


def test_a_run_that_vanished_is_named(copy):
    shutil.rmtree(copy / "data" / "measured" / "h100_sxm" / "b")
    assert "data/measured/h100_sxm/b/notes.jsonl: published, and now missing" in records_json.verify()


def test_unsealed_runs_are_not_published(copy, fake):
    fake.run(copy / "data" / "measured" / "h100_sxm" / "d", {"eager": [1.0]}, seal=False)
    with pytest.raises(ValueError, match=r"data/measured/h100_sxm/d/seal\.json: missing"):
        records_json.publish()


@pytest.mark.parametrize(
    ("text", "problem"),
    [('{"version": 1, "stand', "data/records.json row 1: not whole JSON"), ("{}", "data/records.json row 1: workload")],
)
def test_a_broken_publication_is_named(copy, text, problem):
    (copy / records_json.PUBLISHED).write_text(text)
    assert records_json.verify()[0].startswith(problem)


def test_a_missing_publication_says_how_to_write_it(copy):
    (copy / records_json.PUBLISHED).unlink()
    assert "records publish" in records_json.verify()[0]
