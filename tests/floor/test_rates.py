import pytest

from vgg_kernels.floor.hardware import device, devices
from vgg_kernels.floor.rates import at_clock, best_published, data_sheet
from vgg_kernels.workload.lookup import UnknownName


@pytest.mark.parametrize("key", ["h100_sxm", "h100_pcie", "h200"])
def test_nobody_has_published_more_than_the_highest_clock_allows(key):
    card = device(key)
    published, highest = best_published(card), at_clock(card, card.max_clock_hz)
    assert published.hbm_bytes_per_s <= card.hbm_bytes_per_s
    for rate, achieved in published.peaks.items():
        assert achieved <= highest.peaks[rate]
        assert published.sources[rate]


def test_a_card_without_published_bandwidth_is_refused_with_the_ones_that_have_it():
    with pytest.raises(UnknownName, match="h100_sxm"):
        best_published(device("b200"))


def test_the_stated_clock_gives_the_data_sheet_back():
    card = device("h100_sxm")
    assert at_clock(card, card.clock_hz).peak("fp16") == pytest.approx(data_sheet(card).peak("fp16"))
    assert at_clock(card, card.clock_hz / 2).peak("tf32") == pytest.approx(card.peaks["tf32"] / 2)


@pytest.mark.parametrize("clock_hz", [0.0, -1.0, 2.5e9])
def test_a_clock_that_no_card_reaches_is_refused(clock_hz):
    for card in devices().values():
        with pytest.raises(ValueError, match="MHz is not accepted"):
            at_clock(card, clock_hz)
