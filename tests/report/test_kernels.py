"""What notebook 04 says of the kernels: geometry that convolves, waves and bytes that add up, facts that hold."""

from math import ceil

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from vgg_kernels.floor.hardware import device
from vgg_kernels.kernels.plan import plan
from vgg_kernels.report import compiled, kernels
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import tier as find_tier

VGG = network("vgg19")


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_nine_shifted_rows_are_the_convolution(height, width, data):
    """The drawn geometry, used as the kernel uses it: rows of the flat matrix, zeros included, no other mask."""
    y, x = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    image = torch.randn(3, height, width, dtype=torch.double)
    weight = torch.randn(3, 3, dtype=torch.double)
    flat = F.pad(image, (0, 1, 0, 1)).flatten()  # one zero column and row, shared
    taps = kernels.tap_rows(height, width, (y, x))
    got = sum(flat[tap.row] * weight[tap.r, tap.s] for tap in taps.itertuples() if 0 <= tap.row < len(flat))
    want = F.conv2d(image[1][None, None], weight[None, None], padding=1)[0, 0, y, x]
    assert float(got) == pytest.approx(float(want))
    outside = taps.loc[~taps["pixel"], "row"]
    assert not flat[[row for row in outside if 0 <= row < len(flat)]].any()


def test_waves_are_ctas_over_slots():
    facts = compiled.facts().query("arch == 90 and tier == 'fp16'")
    for recorded in (None, facts):
        rows = kernels.wave_rows(VGG, "fp16", "h100_sxm", 10, recorded)
        assert rows["layer"].tolist() == [layer.name for layer in VGG.layers]
        assert rows["ctas"].tolist() == pytest.approx((rows["waves"] * rows["slots"]).tolist())
        assert (rows["slots"] == 132 * rows["resident"]).all()
        assert (rows["waves"].map(ceil) - 1 + rows["last_wave"]).tolist() == pytest.approx(rows["waves"].tolist())
    assert rows["resident"].max() > 1  # the compiled kernels' own occupancy


def test_what_l2_feeds_is_given_over_asked():
    rows = kernels.l2_rows(VGG, ("fp16x3", "fp16"), "h100_sxm", 10)
    assert (rows["fed"] == (rows["given"] / rows["asked"]).clip(upper=1)).all()
    assert set(rows["layer"]) == {conv.name for conv in VGG.convs[1:]}
    assert set(rows["given_by"]) == {"H200"}


@pytest.mark.parametrize("tier", ["fp16x3", "tf32", "fp16", "fp8"])
def test_what_is_asked_of_l2_is_the_notebooks_formula(tier):
    """flops_per_clock * bytes / (2 * products) * (1 / BM + 1 / BN); row pairs have 2 / 3 over BN."""
    card, precision = device("h100_sxm"), find_tier(tier)
    flops_per_clock = card.peaks[precision.rate] / (card.sms * card.clock_hz)
    launches = [launch for launch in plan(VGG, tier, 10) if launch.kernel == "conv3x3"]
    for row, launch in zip(kernels.l2_rows(VGG, (tier,), "h100_sxm", 10).itertuples(), launches, strict=True):
        tile = launch.tile
        bracket = 1 / tile.bm + (2 / 3 if tile.pairs else 1) / tile.bn
        asked = flops_per_clock * precision.operand_bytes / (2 * precision.products) * bracket
        assert row.asked == pytest.approx(asked)


def test_the_epilogues_bytes_are_the_plans():
    rows = kernels.epilogue_rows(VGG, "fp16", "h100_sxm", 10).set_index("layer")
    moved = {name: 0 for name in rows.index}
    before = None
    for launch in plan(VGG, "fp16", 10):
        if launch.layer in moved:
            moved[launch.layer] += launch.hbm_write_bytes + (launch.hbm_read_bytes if before == launch.layer else 0)
        before = launch.layer
    assert rows["ours_mb"].to_dict() == {name: pytest.approx(size / 1e6) for name, size in moved.items()}
    whole = 10 * 64 * 224 * 224 * 2 / 1e6
    assert rows.loc["conv1_1", "passes_mb"] == pytest.approx(3 * whole)  # written, read and written
    assert rows.loc["conv1_2", "passes_mb"] == pytest.approx(4.25 * whole)  # and read once more to be pooled


def test_the_live_check_is_within_the_tiers_rounding():
    rows = kernels.live_rows(("tf32", "fp8"))
    assert len(rows) == 2 * len(kernels.EXAMPLE_TILES)
    assert (rows["error"] < rows["unit_roundoff"]).all()
    assert (rows["error"] > 0.1 * rows["unit_roundoff"]).all()  # the tier's rounding is really applied


def test_recorded_hopper_code_is_hoppers_in_every_tensor_core_tier():
    rows = kernels.compiled_summary(compiled.facts()).query("arch == 90").set_index("tier")
    assert set(rows.index) == {"fp32", "fp16x3", "tf32", "fp16", "bf16", "fp8"}
    tensor = rows.drop(index="fp32")
    assert (tensor["products"] == len(VGG.layers)).all()
    assert (tensor["own_mma"] == tensor["products"]).all()
    assert (tensor["bulk_loads"] == tensor["products"] - 1).all()  # all but the stem
    assert not tensor[["older_mma", "spills", "stack"]].any(axis=None)


def test_recorded_blackwell_code_is_blackwells():
    rows = kernels.compiled_summary(compiled.facts()).query("arch == 100 and tier != 'fp32'")
    assert (rows["own_mma"] == rows["products"]).all()
    assert not rows[["older_mma", "spills", "stack"]].any(axis=None)


def test_pair_rows_are_the_layers_that_use_them_and_save_bytes():
    rows = kernels.pair_rows(VGG, "fp16", "h100_sxm", 10).set_index("layer")
    assert list(rows.index) == [x.layer for x in plan(VGG, "fp16", 10) if x.tile.view == "pairs"]
    # 4096 operations a clock; of 256 pixels x 64 channels: 256 + 64 operands a tap, or 2 * 256 + 3 * 64 for three
    assert rows.loc["conv1_2", "row_by_row"] == pytest.approx(4096 * (256 + 64) / (256 * 64), rel=0.01)
    assert rows.loc["conv1_2", "in_pairs"] == pytest.approx(4096 * (2 * 256 + 3 * 64) / (3 * 256 * 64), rel=0.01)
    assert (rows["in_pairs"] < rows["row_by_row"]).all()
    assert (rows["drains"] == 4).all()
