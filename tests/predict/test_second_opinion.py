import importlib.util

import pytest

from vgg_kernels.floor.hardware import device
from vgg_kernels.predict.second_opinion import CARDS, DISTRIBUTION, MODULE, PRECISIONS, estimate_us, recorded
from vgg_kernels.workload.lookup import UnknownName


def test_recorded_estimates_are_complete_and_no_faster_than_the_card():
    assert len(recorded()) == len({(o.device, o.rate, o.m, o.n, o.k) for o in recorded()}) > 10
    for opinion in recorded():
        assert opinion.device in CARDS
        card = device(opinion.device)
        highest = card.peaks[opinion.rate] * card.max_clock_hz / card.clock_of(opinion.rate)
        assert 2 * opinion.m * opinion.n * opinion.k / opinion.estimate_us / 1e-6 < highest
        assert opinion.version


def test_it_is_asked_anew_only_where_it_is_installed():
    first = recorded()[0]
    if importlib.util.find_spec(MODULE) is None:
        with pytest.raises(ValueError, match=DISTRIBUTION):
            estimate_us(first.rate, first.m, first.n, first.k, first.device)
    else:
        assert estimate_us(first.rate, first.m, first.n, first.k, first.device).estimate_us > 0


def test_what_it_is_not_asked_about_is_refused():
    assert "tf32" not in PRECISIONS
    with pytest.raises(UnknownName, match="fp32"):
        estimate_us("tf32", 1, 1, 1, "h100_sxm")
    with pytest.raises(UnknownName, match="h200"):
        estimate_us("fp16", 1, 1, 1, "a100")
