import pytest

from vgg_kernels.floor.roofline import floor_us
from vgg_kernels.report import floors
from vgg_kernels.report.study import reported
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


def test_findings_and_claims_are_sentences():
    found = floors.finding_rows(reported(), VGG, network("vgg16"), 10)
    assert set(found["follows"]) == {True, False}
    claims = floors.claim_rows(VGG, TIERS, "h100_sxm", 10, {"record": 2.43, "dream": 0.01})
    verdicts = claims.set_index(["claim", "tier"])["verdict"]
    assert verdicts["record", "tf32"] == "possible"
    assert "under the lowest fp16 floor" in verdicts["dream", "fp16"]
