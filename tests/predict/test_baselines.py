import csv
from pathlib import Path

import pytest

from vgg_kernels.predict.baselines import BASELINES, CAUSES, LAUNCHES, by_cause, eager, inductor, ours, waterfall
from vgg_kernels.predict.constants import constant, hbm_us
from vgg_kernels.predict.timemodel import predict
from vgg_kernels.workload.network import network

VGG = network("vgg19")
REPORTED = Path(__file__).parents[2] / "data" / "reported" / "kernelbench_h100.csv"


def reported():
    with REPORTED.open() as file:
        return [row for row in csv.DictReader(file) if row["op"] == "network"]


@pytest.mark.parametrize("row", reported(), ids=lambda r: f"{r['shape'].split()[0]}-{r['device']}-{r['variant']}")
def test_the_reported_networks_are_predicted_within_a_fifth(row):
    name = row["shape"].split()[0].removeprefix("network=")
    kernels = BASELINES[row["variant"]](network(name), row["device"], 10)
    assert sum(k.time_us for k in kernels) == pytest.approx(1e3 * float(row["mean_ms"]), rel=0.20)


def test_causes_add_up_to_the_total():
    for kernels in (eager(VGG, "h100_sxm", 10), inductor(VGG, "h100_sxm", 10)):
        assert sum(by_cause(kernels).values()) == pytest.approx(sum(k.time_us for k in kernels))
        assert set(by_cause(kernels)) == {*CAUSES, LAUNCHES}
    rows = predict(VGG, "fp16", "h100_sxm", 10)
    assert sum(ours(VGG, "fp16", "h100_sxm", 10).values()) == pytest.approx(sum(row.time_us for row in rows))


def test_the_waterfall_arrives_where_each_way_of_running_is():
    steps = waterfall(VGG, "h100_sxm", 10)
    ways = [step for step in steps if step.total]
    assert [way.name for way in ways] == ["eager", "inductor", "ours, tf32", "ours, fp16"]
    level = steps[0].total_us
    for step in steps[1:]:
        level += step.change_us
        assert step.total_us == pytest.approx(level)
    assert ways[-1].total_us == pytest.approx(sum(row.time_us for row in predict(VGG, "fp16", "h100_sxm", 10)))


def test_eager_makes_the_passes_that_its_operators_make():
    kernels = [k for k in eager(VGG, "h100_sxm", 1) if k.layer == "conv5_4"]
    passes = ["layout", "layout", "products", "layout", "bias and ReLU", "bias and ReLU", "pool"]
    assert [k.cause for k in kernels] == passes


@pytest.mark.parametrize("baseline", BASELINES.values())
def test_no_images_no_baseline(baseline):
    with pytest.raises(ValueError, match="at least 1"):
        baseline(VGG, "h100_sxm", 0)
    with pytest.raises(ValueError, match="h100_pcie"):
        baseline(VGG, "a100", 1)


def test_a_pass_over_what_fits_l2_reads_nothing_from_memory():
    def bias_us(layer):
        return next(k.time_us for k in eager(VGG, "h100_sxm", 10) if (k.layer, k.cause) == (layer, "bias and ReLU"))

    written = {name: 4 * 10 * VGG.layer(name).c_out * VGG.layer(name).height ** 2 for name in ("conv1_2", "conv5_4")}
    assert bias_us("conv1_2") == pytest.approx(constant("launch_us") + hbm_us("h100_sxm", *[written["conv1_2"]] * 2))
    assert bias_us("conv5_4") == pytest.approx(constant("launch_us") + hbm_us("h100_sxm", 0, written["conv5_4"]))
