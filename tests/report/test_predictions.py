import pandas as pd
import pytest

from vgg_kernels.predict.timemodel import predict
from vgg_kernels.report import predictions
from vgg_kernels.report.study import reported, reported_hopper
from vgg_kernels.workload.network import network

VGG = network("vgg19")


@pytest.fixture(scope="module")
def compared():
    return predictions.comparisons(reported(), reported_hopper())


def test_layer_rows_are_the_model():
    rows = predictions.layer_rows(VGG, "fp16", "h100_sxm", 10)
    assert rows["time_us"].tolist() == [row.time_us for row in predict(VGG, "fp16", "h100_sxm", 10)]
    assert set(rows["evidence"]) == {"modelled"}
    gap = predictions.savings(rows).set_index("change")["saves_us"]["no launch gap"]
    assert gap == pytest.approx(1.285 * sum(len(row.kernels) for row in predict(VGG, "fp16", "h100_sxm", 10)))


def test_frames_and_files_give_the_same_comparison(compared):
    tests, left_out = compared
    assert len(tests) + len(left_out) == len(reported()) + len(reported_hopper())
    biased = tests[tests["what"].str.contains("kernel_h=11") & (tests["device"] == "h100_sxm")]
    assert biased["predicted_us"].nunique() == 1  # eager and inductor alike: a bias pass and two layout passes
    assert tests["reported_us"].min() > 0


def test_errors_by_group():
    rows = pd.DataFrame({"kind": ["a", "a", "a", "b"], "error": [-0.3, 0.1, 0.2, 0.5]})
    table = predictions.errors(rows, ["kind"]).set_index("kind")
    assert table.loc["a"].to_dict() == pytest.approx(
        {"rows": 3, "median_error": 0.1, "median_size": 0.2, "within_band": 2 / 3}
    )


def test_a_model_that_is_always_a_fifth_too_fast_is_corrected_by_a_quarter():
    assert predictions.interval(800.0, pd.DataFrame({"error": [-0.2] * 8})) == pytest.approx((1000.0, 1000.0))
    assert predictions.interval(800.0, pd.DataFrame({"error": [-0.2, 0.0, -0.5]})) == pytest.approx((800.0, 1600.0))


def test_a_tiers_kin_are_large_products_in_its_own_precision(compared):
    fp16, tf32 = (predictions.kin(compared[0], tier) for tier in ("fp16", "tf32"))
    assert [set(rows["dtype"]) for rows in (fp16, tf32)] == [{"float16"}, {"tf32"}]
    assert [set(rows["device"]) for rows in (fp16, tf32)] == [{"hopper_unnamed", "h100_sxm"}, {"h100_sxm"}]
    assert not fp16["what"].str.contains("cutlass|persistent|m=2048").any()
    rows = predictions.corrected_rows(compared[0], VGG, "h100_sxm", 10).set_index("tier")
    assert (rows["from_ms"] <= rows["to_ms"]).all()
    assert rows.loc["fp16", "from_ms"] == pytest.approx(rows.loc["fp16", "modelled_ms"] / (1 + fp16["error"].max()))
    assert rows["published_floor_ms"].notna().all()
    assert predictions.corrected_rows(compared[0], VGG, "b200", 10)["published_floor_ms"].isna().all()
    assert rows.loc["fp8", "kin"] == rows.loc["fp16", "kin"] == len(fp16)


def test_the_second_opinion_stands_beside_reported_products(compared):
    table = predictions.opinions(compared[0])
    assert len(table) >= 12
    assert ((table["heuristics_us"] / table["reported_us"] - 1) == table["heuristics_error"]).all()


def test_networks_and_causes():
    table = predictions.network_rows(reported(), 10)
    assert len(table) == 8
    causes = predictions.cause_rows(VGG, "h100_sxm", 10).set_index("cause")
    assert causes.loc["products", "eager"] == causes.loc["products", "inductor"]
    modelled = table.set_index(["network", "device", "variant"])["modelled_ms"]["vgg19", "h100_sxm", "eager"]
    assert causes["eager"].sum() == pytest.approx(1e3 * modelled)


def test_constants_have_sources():
    assert predictions.constant_rows()["source"].str.len().min() > 10


def test_summary_and_batch_stay_above_the_floor():
    summary = predictions.summary_rows(VGG, 10)
    assert (summary["time_us"] >= summary["floor_us"]).all()
    scaling = predictions.batch_rows(VGG, ("fp16",), "h100_sxm")
    assert (scaling["us_per_image"] >= scaling["floor_us_per_image"]).all()
