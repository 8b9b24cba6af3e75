import csv
from pathlib import Path

import pytest

from vgg_kernels.floor.reported_times import Reported, card_ratios, isolated, verdicts
from vgg_kernels.workload.network import network

VGG19, VGG16 = network("vgg19"), network("vgg16")
FILE = Path(__file__).parents[2] / "data" / "reported" / "kernelbench_h100.csv"


@pytest.fixture(scope="module")
def times():
    with FILE.open() as file:
        rows = [row for row in csv.DictReader(file) if row["op"] == "network"]
    return {(r["shape"].split()[0][8:], r["device"], r["variant"]): float(r["mean_ms"]) for r in rows}


def test_three_digits_have_a_width():
    assert Reported.three_digits(2.43) == Reported(2.43, 0.005)
    assert Reported.three_digits(22.2) == Reported(22.2, 0.05)
    difference = Reported.three_digits(2.43) - Reported.three_digits(2.12)
    assert difference.mean_ms == pytest.approx(0.31)
    assert difference.longest_us == pytest.approx(320)


def test_three_layers_of_83_gflop_are_isolated():
    names = isolated(VGG19, VGG16)
    assert len(names) == 3
    assert round(sum(VGG19.layer(name).flops(10) for name in names) / 1e9, 1) == 83.2
    assert {VGG19.layer(name).height for name in names} == {56, 28, 14}


def test_networks_that_do_not_nest_isolate_nothing():
    with pytest.raises(ValueError, match="not contained"):
        isolated(VGG16, VGG19)


def test_the_eager_run_excludes_fp32_by_definition_but_not_every_fp32():
    excluded = {(v.tier, v.algorithm): v.excluded for v in verdicts(Reported(3.88, 0.005), VGG19, "h100_sxm", 10)}
    assert excluded["fp32", "direct"]
    assert not excluded["fp32", "winograd-4x4"]
    assert not excluded["tf32", "direct"]


def test_the_difference_of_the_inductor_runs_excludes_every_fp32(times):
    part = Reported.three_digits(times["vgg19", "h100_sxm", "inductor"]) - Reported.three_digits(
        times["vgg16", "h100_sxm", "inductor"]
    )
    for verdict in verdicts(part, VGG19, "h100_sxm", 10, set(isolated(VGG19, VGG16))):
        assert verdict.excluded == (verdict.tier == "fp32"), verdict


def test_a_time_at_its_floor_is_not_excluded():
    floor = verdicts(Reported(1.0, 0.0), VGG19, "h100_sxm", 10)[0].floor_us
    assert not verdicts(Reported(floor / 1e3 * 1.0001, 0.0), VGG19, "h100_sxm", 10)[0].excluded
    assert verdicts(Reported(floor / 1e3 * 0.9999, 0.0), VGG19, "h100_sxm", 10)[0].excluded


def test_two_cards_lie_between_arithmetic_and_memory(times):
    for variant in ("eager", "inductor"):
        pcie, sxm = (Reported.three_digits(times["vgg19", card, variant]) for card in ("h100_pcie", "h100_sxm"))
        ratios = card_ratios(pcie, "h100_pcie", sxm, "h100_sxm")
        assert ratios.mixed
        assert ratios.tensor < ratios.reported < ratios.memory
