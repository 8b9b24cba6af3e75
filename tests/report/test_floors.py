import pytest

from vgg_kernels.floor.roofline import floor_us
from vgg_kernels.report import floors
from vgg_kernels.report.study import reported, reported_vgg19
from vgg_kernels.workload.network import network

VGG = network("vgg19")
TIERS = ("tf32", "fp16")


@pytest.mark.parametrize(
    "rows",
    [
        floors.audit_rows(VGG, "h100_sxm", 10),
        floors.roofline_rows(VGG, TIERS, "h100_sxm", 10),
        floors.ceilings(TIERS, "h100_sxm"),
        floors.named_floors(VGG, "h100_sxm", 10),
        floors.lowest_rows(VGG, "h100_sxm", 10),
        floors.device_rows(VGG, 10),
        floors.batch_rows(VGG, TIERS, "h100_sxm"),
    ],
    ids=["audit", "roofline", "ceilings", "named", "lowest", "devices", "batch"],
)
def test_every_row_says_that_it_is_derived(rows):
    assert len(rows)
    assert set(rows["evidence"]) == {"derived"}
    assert not rows.isna().any().any()


def test_no_layer_stands_above_its_roof():
    rows = floors.roofline_rows(VGG, TIERS, "h100_sxm", 10)
    roofs = floors.ceilings(TIERS, "h100_sxm").set_index("tier")
    for row in rows.itertuples():
        roof = min(roofs["tflop_per_s"][row.tier], roofs["tb_per_s"][row.tier] * row.flop_per_byte)
        assert row.tflop_per_s == pytest.approx(roof)


def test_no_named_floor_goes_under_the_bar():
    bars = floors.lowest_rows(VGG, "h200", 3).set_index("tier")["lowest_us"]
    rows = floors.named_floors(VGG, "h200", 3)
    assert (rows["floor_us"] >= rows["tier"].map(bars) * (1 - 1e-12)).all()


def test_a_rate_that_nobody_published_gives_no_floor():
    rates = {
        card: set(floors.named_floors(VGG, card, 1).query("tier == 'tf32'")["rates"]) for card in ("h200", "h100_sxm")
    }
    assert "best-published" in rates["h100_sxm"]
    assert rates["h200"] == {"data-sheet", "highest-clock"}


def test_the_batch_rows_are_the_floor():
    rows = floors.batch_rows(VGG, ("fp16",), "h100_sxm").set_index("batch")
    assert rows["us_per_image"][10] == pytest.approx(floor_us(VGG, "fp16", "h100_sxm", 10) / 10)
    assert (rows["by_hbm"].diff().dropna() <= 0).all()


def test_reported_networks_come_with_card_and_variant():
    times = floors.reported_networks(reported())
    assert times["vgg19", "h100_sxm", "inductor"] == 2.43
    assert times["vgg16", "h100_pcie", "eager"] == 4.89


def findings(published, **changed):
    rows = reported().assign(**changed)
    found = floors.finding_rows(rows, published, VGG, network("vgg16"), 10)
    return {follows: list(found.loc[found["follows"] == follows, "finding"]) for follows in (True, False)}


def test_findings_follow_only_where_the_margin_is_more_than_a_few_per_cent():
    proven, open_ = ("\n".join(findings(reported_vgg19())[follows]) for follows in (True, False))
    assert "inductor, 2.43 ms: cannot have been made by fp32 direct (5.99 ms), fp32 winograd-2x2 (2.81 ms)" in proven
    assert "marginally excluded: fp32 winograd-4x4 (0.33 ms), by 2.4%" in open_
    assert "0.30 to 0.32 ms: cannot have been made by fp32 direct (1.24 ms), fp32 winograd-2x2 (0.56 ms)" in proven
    assert "tf32 direct (0.91 ms)" in open_


def test_a_rate_from_a_difference_of_rounded_figures_is_a_range():
    assert "inductor: 83.2 GFLOP in 0.30 to 0.32 ms are 260 to 277 TFLOP/s" in findings(reported_vgg19())[True]


def test_a_ratio_of_two_protocols_stays_open_and_names_them():
    published = reported_vgg19()
    (ratio,) = (text for text in findings(published)[False] if text.startswith("inductor: the PCIe card takes 1.50"))
    assert "PCIe cuda_events timer, warm cache (2025-07-21), SXM kernelbench timer, cold cache (2025-12-31)" in ratio
    alike = findings(published.assign(timer="kernelbench", cache="cold"))
    assert any(text.startswith("inductor: the PCIe card takes 1.50 times as long") for text in alike[True])
    assert not any("protocols differ" in text for text in alike[False])


def test_slower_times_exclude_nothing():
    assert "made by" not in "".join(findings(reported_vgg19(), mean_ms=100 * reported()["mean_ms"])[True])


def test_claims_are_held_against_the_floors_that_are_counted():
    claims = floors.claim_rows(VGG, TIERS, "h100_sxm", 10, {"record": 2.43, "dream": 0.01})
    verdicts = claims.set_index(["claim", "tier"])["verdict"]
    assert verdicts["record", "tf32"] == "not excluded"
    assert verdicts["dream", "fp16"].startswith(
        "below every floor counted here (10.0 us is under the lowest fp16 floor"
    )
