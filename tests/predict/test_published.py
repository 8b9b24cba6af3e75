import csv
from pathlib import Path
from statistics import median

import pytest

from vgg_kernels.floor.hardware import device
from vgg_kernels.predict.constants import constant, constants
from vgg_kernels.predict.published import Convolution, compare, convolution_us, product_us, sizes
from vgg_kernels.predict.work import FMA, WGMMA

FOLDER = Path(__file__).parents[2] / "data" / "reported"


def rows(name):
    with (FOLDER / name).open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def outcome():
    return compare(rows("kernelbench_h100.csv"), rows("hopper_public.csv"))


def test_every_reported_row_is_either_a_test_or_left_out_with_a_reason(outcome):
    tests, left_out = outcome
    assert len(tests) + len(left_out) == len(rows("kernelbench_h100.csv")) + len(rows("hopper_public.csv"))
    assert all(row.reason for row in left_out)


def test_rows_that_gave_a_constant_test_nothing(outcome):
    tests, left_out = outcome
    named = {key for entry in constants().values() for key in entry.taken_from.split("; ") if key}
    assert named
    assert not named & {f"{row.device} {' '.join(row.what.split()[:2])}" for row in tests}
    assert len(named) == sum("constant of the model" in row.reason for row in left_out)


def test_both_cards_and_all_three_kinds_are_tested(outcome):
    seen = {(row.kind, row.device) for row in outcome[0]}
    for kind in ("matrix product", "convolution", "bandwidth"):
        assert {(kind, "h100_sxm"), (kind, "h100_pcie")} <= seen


def test_the_error_is_what_it_is_and_no_worse_than_stated(outcome):
    errors = [abs(row.error) for row in outcome[0]]
    assert 0.05 < median(errors) < 0.20  # a model that suddenly fits everything has been fitted


def test_reported_times_are_the_reports(outcome):
    row = next(r for r in outcome[0] if r.what.startswith("relu") and r.device == "h100_sxm" and "eager" in r.what)
    assert row.reported_us == 4280
    gluon = next(r for r in outcome[0] if "k=4096 gluon persistent pipelined" in r.what)
    assert gluon.reported_us == pytest.approx(2 * 8192 * 8192 * 4096 / 640.48e12 * 1e6)


def test_a_slower_clock_slows_products_only():
    fast, _ = compare(rows("kernelbench_h100.csv"), [])
    slow, _ = compare(rows("kernelbench_h100.csv"), [], clocks_hz={"h100_pcie": constant("loaded_clock_hz.h100_pcie")})
    for before, after in zip(fast, slow, strict=True):
        changed = after.predicted_us > before.predicted_us
        assert changed <= (before.device == "h100_pcie" and before.kind != "bandwidth")
    assert any(a.predicted_us > b.predicted_us for a, b in zip(slow, fast, strict=True))


def test_output_extents_of_a_convolution():
    alexnet = Convolution(256, 3, 96, 224, 224, 11, 11, stride=4, padding=(2, 2))
    assert alexnet.outputs == 256 * 55 * 55
    dilated = Convolution(8, 32, 64, 512, 512, 5, 9, padding=(2, 4), dilation=(2, 3))
    assert dilated.outputs == 8 * (512 + 4 - 8) * (512 + 8 - 24)


def test_a_product_is_above_its_roofline():
    card = device("h100_sxm")
    flops = 2 * 4096**3
    assert product_us("fp16", 4096, 4096, 4096, card, WGMMA).time_us > 1e6 * flops / card.peaks["fp16"]
    assert product_us("fp32", 4096, 4096, 4096, card, FMA).time_us > 1e6 * flops / card.peaks["fp32"]
    conv = Convolution(10, 256, 256, 56, 56, 3, 3, padding=(1, 1))
    assert convolution_us(conv, card).time_us > 1e6 * 2 * conv.outputs * 256 * 256 * 9 / card.peaks["tf32"]


def test_shapes_are_key_value_pairs():
    assert sizes("m=8 n=4") == {"m": "8", "n": "4"}
