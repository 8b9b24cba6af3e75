import csv
from pathlib import Path

import pytest

from vgg_kernels.floor.public import RECORD_BATCH, RECORD_MS, audit, public_floor_us, record_ratio
from vgg_kernels.floor.roofline import floor_us
from vgg_kernels.workload.network import network

VGG = network("vgg19")
REPORTED = Path(__file__).parents[2] / "data" / "reported" / "kernelbench_h100.csv"


def test_the_public_figures_come_out_exactly():
    assert f"{public_floor_us(VGG, 'h100_sxm', 10):.2f}" == "1.80"
    assert f"{record_ratio(VGG, 'h100_sxm', 10):.2f}" == "1351.99"


def test_the_records_are_the_fastest_reported_runs():
    with REPORTED.open() as file:
        rows = [row for row in csv.DictReader(file) if row["shape"].startswith("network=vgg19 ")]
    assert rows
    for device, record in RECORD_MS.items():
        assert record == min(float(row["mean_ms"]) for row in rows if row["device"] == device)


@pytest.mark.parametrize(
    ("net", "device", "batch"),
    [(VGG, "h200", 10), (VGG, "h100_sxm", 1), (network("vgg16"), "h100_sxm", 10), (network(image=32), "h100_sxm", 10)],
)
def test_no_record_no_ratio(net, device, batch):
    assert record_ratio(net, device, batch) is None


def test_the_audit_starts_at_the_public_floor_and_ends_at_the_tiers_floors():
    bars = audit(VGG, "h100_sxm", RECORD_BATCH, ("fp32", "tf32", "fp16"))
    assert bars[0].total_us == public_floor_us(VGG, "h100_sxm", RECORD_BATCH)
    assert [bar.name for bar in bars[:3]] == ["input", "output", "parameters"]
    assert bars[2].total_us == pytest.approx(1e6 * 4 * (10 * 3 * 224**2 + 10 * 1000 + 143_667_240) / 3.35e12)
    for bar in bars[3:]:
        assert bar.total_us == floor_us(VGG, bar.name.split()[0], "h100_sxm", RECORD_BATCH)
        assert bar.added_us == pytest.approx(bar.total_us - bars[2].total_us)


def test_no_images_no_public_floor():
    with pytest.raises(ValueError, match="at least 1"):
        public_floor_us(VGG, "h100_sxm", 0)
