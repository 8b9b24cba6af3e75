"""The workload page: every element, computed, and holding against its schema."""

import ast
import json
import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from vgg_kernels.records.reading import read_runs
from vgg_kernels.report import page as report
from vgg_kernels.report import study
from vgg_kernels.report.page import history, page, records
from vgg_kernels.report.publish import html
from vgg_kernels.workload.precision import TIERS

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def recorded():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VGG_STUDY", "recorded")
        return page()


@pytest.fixture
def with_runs(tmp_path, fake, monkeypatch):
    """A study whose ledger holds fake runs of an H100 and of a CPU, one of them spoilt."""
    place = tmp_path / "measured"
    fake.run(
        place / "h100_sxm" / "a",
        {"eager": fake.times(3.9), "ours_fp16": fake.times(0.9)},
        gate={"ours_fp16": True},
        row={"tier": "tf32"},
    )
    fake.run(place / "h100_sxm" / "b", {"ours_fp16": fake.times(0.8)}, row={"tier": "fp16"})
    fake.run(place / "cpu" / "c", {"eager": fake.times(900.0)}, name="Fake CPU", kind="cpu", row={"tier": "fp32"})
    broken = fake.run(place / "h100_sxm" / "d", {"eager": [1.0]}, seal=False)
    (broken / "provenance.json").unlink()
    monkeypatch.setattr(study, "runs", lambda: {"data/measured": read_runs(place)})
    return page()


def test_the_headline_is_the_public_record(recorded):
    standing = recorded.standing(recorded.headline.standing)
    assert standing.record.times.as_published_ms == 2.43
    assert standing.record.cohort.device == "h100_sxm"
    assert recorded.headline.sentence == (
        "Fastest of this cohort in the files read here, as of 2026-03-05: inductor, 2.43 ms"  # KernelBench's revision
    )
    assert "mean of 100 calls" in recorded.headline.protocol


def test_the_public_records_by_hardware(recorded):
    first = {
        e.device: [recorded.standing(c.standing).record.times.mean_ms for c in e.fastest] for e in recorded.environments
    }
    assert 2.43 in first["h100_sxm"]
    assert 3.64 in first["h100_pcie"]


def test_what_was_not_measured_says_so_and_what_is_known_instead(recorded):
    b200 = next(e for e in recorded.environments if e.device == "b200")
    if b200.fastest:  # somebody has measured one since
        pytest.fail("the B200 has a record: this test's example is out of date")
    assert b200.state == "not measured"
    assert {row.tier for row in b200.estimates} == set(TIERS)
    assert all(0 < row.floor_us < row.predicted_us for row in b200.estimates)


def test_no_page_says_fastest_possible(recorded):
    text = html.fragment(recorded).lower()
    assert "fastest of this cohort in the files read here, as of" in text
    assert "fastest known" not in text
    assert text.count("fastest possible") == sum(rule.text.lower().count("fastest possible") for rule in recorded.rules)


def test_every_ranked_record_is_in_one_ranking_and_no_other_is(recorded):
    listed = [identity for row in recorded.rankings for identity in row.standings]
    assert sorted(listed) == sorted(s.id for s in recorded.standings if s.status == "ranked")


def test_ranks_and_ratios_rise_within_a_ranking(recorded):
    for row in recorded.rankings:
        ranks = [recorded.standing(identity).rank for identity in row.standings]
        ratios = [recorded.standing(identity).versus_first for identity in row.standings]
        assert ranks[0] == 1
        assert ratios[0] == 1
        assert ratios == sorted(ratios)


def test_every_speed_up_names_a_baseline_or_a_reason(recorded):
    for standing in recorded.standings:
        assert (standing.speedup is None) == (standing.speedup_refused is not None)
        if standing.speedup:
            baseline = recorded.standing(standing.baseline).record
            assert standing.speedup == pytest.approx(baseline.times.mean_ms / standing.record.times.mean_ms, rel=1e-4)


def test_the_history_shows_that_records_were_replaced_or_removed(recorded):
    sxm = [e for e in recorded.history if e.device == "h100_sxm" and "warm" in e.protocol]
    assert (sxm[0].variant, sxm[0].mean_ms) == ("inductor max-autotune", 2.21)
    assert any(e.change == "all replaced or removed" and e.mean_ms is None for e in sxm)
    assert [e.day for e in recorded.history] == sorted(e.day for e in recorded.history)


def test_the_history_only_falls_unless_something_was_replaced_or_removed(recorded):
    last = {}
    for event in recorded.history:
        line = event.device, event.protocol
        if last.get(line) and event.mean_ms and event.mean_ms > last[line]:
            assert "replaced or removed" in event.change
        last[line] = event.mean_ms


def test_the_public_floor_is_reproduced_and_replaced(recorded):
    assert round(recorded.floor.public_us, 2) == 1.80
    assert recorded.floor.record_ratio == 1351.99
    assert [parts.tier for parts in recorded.floor.parts] == ["fp32", "tf32", "fp16"]
    assert all(parts.floor_us > parts.parameters_us > 10 * recorded.floor.public_us for parts in recorded.floor.parts)


def test_every_semantic_names_a_test_that_exists(recorded):
    for semantic in recorded.semantics:
        file, name = semantic.test.split("::")
        tree = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name in names, semantic.test


def test_every_open_challenge_is_without_a_record(recorded):
    titles = {e.device: e.title for e in recorded.environments}
    have = {
        (titles[s.record.cohort.device], s.record.cohort.tier)
        for s in recorded.standings
        if s.status == "ranked" and s.record.cohort.batch == 10
    }
    open_ = {(c.device, c.tier) for c in recorded.challenges}
    assert open_
    assert not open_ & have
    assert ("B200", "fp16") in open_ | have


def test_the_page_is_a_function_of_the_data(recorded, monkeypatch):
    monkeypatch.setenv("VGG_STUDY", "recorded")
    assert html.fragment(page()) == html.fragment(recorded)


def test_runs_appear_with_their_standing_and_what_is_wrong(with_runs):
    assert {run.run for run in with_runs.runs} == {"a", "b", "c"}
    assert with_runs.problems == [
        "data/measured/h100_sxm/d/provenance.json: missing; a run without provenance is no evidence"
    ]
    ungated = next(s for s in with_runs.standings if s.record.origin.source == "data/measured/h100_sxm/b")
    assert ungated.status == "quarantined"
    gated = next(s for s in with_runs.standings if s.record.variant == "ours_fp16" and s.status == "ranked")
    assert gated.trust.level == "measured here"
    assert with_runs.counts.runs == 3


def test_another_device_is_an_environment_without_estimates(with_runs):
    cpu = next(e for e in with_runs.environments if e.device == "cpu_fake_cpu")
    assert cpu.state == "measured"
    assert cpu.title == "Fake CPU"
    assert cpu.estimates == []
    assert cpu.compiled is None


def test_a_claim_is_as_of_the_day_that_its_own_rows_speak_for(with_runs):
    """A run on a CPU makes no claim about a card newer; a run of a cohort makes that cohort's."""
    claims = {str(row.cohort): row.claim.sentence for row in with_runs.rankings}
    ran = max(s.record.origin.observed for s in with_runs.standings if s.record.origin.evidence == "measured")
    read = report.read_day()
    assert ran != read
    assert f"as of {read}:" in claims["h100_pcie, batch 10, tf32, cuda_events timer, warm cache"]  # published only
    assert f"as of {max(ran, read)}:" in claims["h100_sxm, batch 10, tf32, kernelbench timer, cold cache"]  # both
    assert f"as of {ran}:" in next(text for name, text in claims.items() if name.startswith("cpu_fake_cpu"))


def test_published_and_measured_rows_of_one_cohort_rank_together(with_runs):
    sxm = with_runs.rankings[0]
    found = {with_runs.standing(i).record.origin.evidence for i in sxm.standings}
    assert found == {"reported", "measured"}


def test_a_published_row_is_stale_once_a_newer_torch_was_measured(with_runs):
    public = with_runs.standing(with_runs.headline.standing)
    eager = [
        s for s in with_runs.standings if s.record.origin.evidence == "reported" and s.record.cohort.cache == "cold"
    ]
    assert all(
        any("torch 2.11.0 has been" in why or "2.11.0 has been measured" in why for why in s.stale) for s in eager
    )
    assert public.record.cohort.device == "h100_sxm"


def test_a_quarantined_time_is_no_history(with_runs, tmp_path):
    found = records({"data/measured": read_runs(tmp_path / "measured")})
    assert "fp16, kernelbench, cold" not in {event.protocol for event in history(found)}


def test_the_html_holds_every_section_and_record(with_runs):
    soup = BeautifulSoup(html.document(with_runs), "html.parser")
    headings = {h.get_text() for h in soup.find_all("h3")}
    assert {
        "Current records by hardware", "Ranking", "Not ranked, and why", "Implementations", "Record history",
        "The estimated floor, audited", "Semantics, each with the test that holds it", "Identity",
        "How records are decided", "Open challenges: what nobody has measured", "Runs of the ledger",
        "Every record in detail", "What could not be read", "Sources", "Bring your own record",
    } <= headings  # fmt: skip
    targets = {tag["id"] for tag in soup.find_all(id=True)}
    links = [a["href"][1:] for a in soup.find_all("a", href=True) if a["href"].startswith("#")]
    assert links
    assert set(links) <= targets
    assert len([t for t in targets if t.startswith("r-")]) == len(with_runs.standings)


def test_the_html_escapes_what_data_say(with_runs):
    hostile = with_runs.model_copy(update={"problems": ["<script>alert(1)</script>"]})
    assert "<script>" not in html.fragment(hostile)


def test_the_html_needs_nothing_from_elsewhere(recorded):
    soup = BeautifulSoup(html.document(recorded), "html.parser")
    assert not soup.find_all(["script", "img", "iframe", "object"])
    assert not soup.find_all("link", rel="stylesheet")
    assert len(html.fragment(recorded)) < 250_000


def test_every_time_carries_its_evidence_word(recorded):
    words = set(re.findall(r'class="ev ev-(\w+)"', html.fragment(recorded)))
    assert words == {"reported", "measured", "derived", "modelled"}


def test_the_export_survives_json(recorded):
    document = json.loads(json.dumps(recorded.model_dump(mode="json"), allow_nan=False))
    assert type(recorded).model_validate(document) == recorded


def test_a_record_is_found_by_the_first_digits_of_its_id(recorded):
    first = recorded.standings[0]
    assert recorded.standing(first.id[:12]) == first
    with pytest.raises(ValueError, match="0 records have an id that begins with 'zz'"):
        recorded.standing("zz")
    with pytest.raises(ValueError, match=f"{len(recorded.standings)} records"):
        recorded.standing("")


def test_no_public_record_is_an_error_that_names_the_file():
    with pytest.raises(ValueError, match=r"kernelbench_vgg19\.csv holds no current record"):
        report.headline([])
