"""``records`` and its sub-commands, as a user calls them."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from vgg_kernels.cli.records import app
from vgg_kernels.report import records_json, study
from vgg_kernels.report.schemas import validate


@pytest.fixture
def call(monkeypatch):
    monkeypatch.setenv("VGG_STUDY", "recorded")

    def run(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    return run


def test_json_is_one_document_that_holds_against_its_schema(call):
    result = call("--json")
    assert result.exit_code == 0
    validate(json.loads(result.stdout), "page")


def test_the_table_shows_the_public_record_and_what_was_not_measured(call):
    text = call().stdout
    assert "2.43" in text
    assert "B200: not measured" in text


def test_html_is_written_where_it_is_asked(call, tmp_path):
    result = call("--html", tmp_path / "page.html")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "2.43 ms" in (tmp_path / "page.html").read_text()


def test_show_prints_one_record_that_holds(call):
    page = json.loads(call("--json").stdout)
    first = page["headline"]["standing"]
    document = json.loads(call("show", first[:10], "--json").stdout)
    validate(document, "record")
    assert document["id"] == first
    assert "trust.level" in call("show", first[:10]).stdout


def test_verify_passes_on_the_committed_data(call):
    result = call("verify", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["passed"] is True
    assert document["checked"]["records"] >= 15


def test_verify_fails_on_a_copy_with_one_digit_changed(call, tmp_path, monkeypatch):
    shutil.copytree(study.root() / "data", tmp_path / "data", ignore=shutil.ignore_patterns("local"))
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setenv("VGG_STUDY_ROOT", str(tmp_path))
    assert call("verify").exit_code == 0
    path = tmp_path / "data" / "reported" / "kernelbench_vgg19.csv"
    path.write_text(path.read_text().replace("2.43", "2.44"))
    result = call("verify")
    assert result.exit_code == 1
    assert "data/reported/kernelbench_vgg19.csv row 16" in result.stdout
    assert json.loads(call("verify", "--json").stdout)["passed"] is False


def test_publish_writes_what_verify_wants(call, tmp_path, monkeypatch):
    shutil.copytree(study.root() / "data" / "reported", tmp_path / "data" / "reported")
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setenv("VGG_STUDY_ROOT", str(tmp_path))
    assert call("verify").exit_code == 1
    assert call("publish").exit_code == 0
    assert (tmp_path / records_json.PUBLISHED).exists()
    assert call("verify").exit_code == 0


def test_check_and_seal_a_run_of_ones_own(call, tmp_path, fake):
    folder = fake.run(tmp_path / "h100" / "run1", {"mine": fake.times(1.9)}, gate={"mine": True}, seal=False)
    assert call("seal", folder).exit_code == 0
    result = call("check", folder, "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert document["problems"] == []
    assert document["standings"][0]["rank"] == 1
    assert "How they would stand" in call("check", folder).stdout


def test_check_fails_on_a_run_that_cannot_be_read(call, tmp_path, fake):
    folder = fake.run(tmp_path / "run1", {"mine": [1.0]})
    (folder / "provenance.json").write_text("{")
    result = call("check", folder)
    assert result.exit_code == 1
    assert "provenance.json row 1: not whole JSON" in result.stdout


def test_try_gates_and_times_a_module(call, tmp_path):
    module = tmp_path / "mine.py"
    module.write_text("def build(reference):\n    return lambda x: reference(x)\n")
    result = call("try", module, "--tier", "fp32", "--network", "vgg11", "--image", 32, "--batch", 1, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["verdict"]["passed"] is True
    assert document["rows"][0]["variant"] == "mine"
    assert document["standings"] == []  # vgg11 is not the workload
