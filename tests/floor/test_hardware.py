import pytest

from vgg_kernels.floor.hardware import device, device_by_torch_name, devices, parse
from vgg_kernels.workload.lookup import UnknownName

FIGURES = ("sms", "clock_hz", "max_clock_hz", "peaks", "hbm_bytes_per_s", "hbm_bytes", "l2_bytes")


@pytest.mark.parametrize("card", devices().values(), ids=lambda card: card.key)
def test_every_figure_has_a_source(card):
    for figure in (*FIGURES, "shared_bytes_per_sm", "shared_bytes_per_block"):
        assert card.sources[figure]


@pytest.mark.parametrize("card", devices().values(), ids=lambda card: card.key)
def test_tensor_peaks_are_whole_operations_per_clock(card):
    # a digit wrong in an SM count, a clock or a peak shows here: tensor cores do a power of two a clock
    fp16 = {90: 4096, 100: 8192}[card.arch]
    for rate, expected in (("tf32", fp16 / 2), ("fp16", fp16), ("fp8", 2 * fp16)):
        assert card.flops_per_clock(rate) == pytest.approx(expected, rel=1e-3)
    assert card.flops_per_clock("fp32") == pytest.approx(256, rel=0.08)  # the B200's is stated 7 % high


def test_names_of_torch_lead_to_cards_and_unknown_ones_to_a_message():
    assert device_by_torch_name("NVIDIA H100 80GB HBM3") is device("h100_sxm")
    with pytest.raises(UnknownName, match=r"devices\.toml"):
        device_by_torch_name("NVIDIA GeForce RTX 4090")
    with pytest.raises(UnknownName, match="h100_sxm"):
        device("h100")


def test_unknown_rate_is_named():
    with pytest.raises(UnknownName, match="fp4"):
        device("b200").flops_per_clock("fp4")


def test_a_table_that_lacks_a_figure_is_named():
    with pytest.raises(ValueError, match=r"\[new\]: missing \['arch', .*unknown \['speed'\]"):
        parse('[new]\ntitle = "New"\nspeed = 1')
