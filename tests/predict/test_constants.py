import csv
from pathlib import Path

import pytest

from vgg_kernels.floor.hardware import devices
from vgg_kernels.predict.constants import constant, constants, hbm_us
from vgg_kernels.workload.lookup import UnknownName

ROWS = Path(__file__).parents[2] / "data" / "reported" / "hopper_public.csv"


def reported(key):
    device, operation, shape = key.split()
    with ROWS.open() as file:
        rows = [
            r for r in csv.DictReader(file) if (r["device"], r["operation"], r["shape"]) == (device, operation, shape)
        ]
    assert len(rows) == 1, key
    return 1e9 * float(rows[0]["gb_per_s"])


def test_every_constant_has_a_unit_and_a_source():
    for entry in constants().values():
        assert entry.value > 0
        assert entry.unit
        assert entry.source


def test_l2_and_launch_are_read_off_the_rows_they_name():
    l2 = constants()["l2_bytes_per_clock"]
    assert reported(l2.taken_from) / 132 / 1.98e9 == pytest.approx(l2.value, rel=1e-3)
    launch = constants()["launch_us"]
    assert 1e6 * 65536 / reported(launch.taken_from) == pytest.approx(launch.value, rel=1e-3)


def test_the_pcie_cards_memory_is_read_off_the_rows_it_names():
    for kind, key in zip(("read", "copy"), constants()["hbm.h100_pcie.read"].taken_from.split("; "), strict=True):
        assert reported(key) == constant(f"hbm.h100_pcie.{kind}")


@pytest.mark.parametrize("card", sorted(devices()))
def test_memory_is_no_faster_than_the_data_sheet(card):
    peak = devices()[card].hbm_bytes_per_s
    assert 1e6 * 1e9 / peak <= hbm_us(card, 1e9, 0)
    assert 1e6 * 1e9 / peak <= hbm_us(card, 0, 1e9)
    assert 2e15 / constant(f"hbm.{card}.copy") == pytest.approx(hbm_us(card, 1e9, 1e9))


def test_a_constant_that_does_not_exist_is_named():
    with pytest.raises(UnknownName, match="launch_us"):
        constant("magic")
    with pytest.raises(UnknownName, match=r"\[hbm\.a100\].*constants\.toml"):
        hbm_us("a100", 1, 1)
