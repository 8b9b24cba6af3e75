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


def test_the_audit_lists_each_part_by_itself():
    by_tier = {row.tier: row for row in audit(VGG, "h100_sxm", RECORD_BATCH, ("fp32", "fp16", "fp8"))}
    assert by_tier["fp32"].parameters_us == pytest.approx(1e6 * 4 * 143_667_240 / 3.35e12)
    assert f"{by_tier['fp16'].arithmetic_us:.1f} {by_tier['fp8'].arithmetic_us:.1f}" == "396.8 198.4"
    for name, row in by_tier.items():
        assert row.floor_us == floor_us(VGG, name, "h100_sxm", RECORD_BATCH)
        assert max(row.arithmetic_us, row.parameters_us + row.activations_us) < row.floor_us
        assert row.floor_us < row.arithmetic_us + row.parameters_us + row.activations_us


def test_no_images_no_public_floor():
    with pytest.raises(ValueError, match="at least 1"):
        public_floor_us(VGG, "h100_sxm", 0)
