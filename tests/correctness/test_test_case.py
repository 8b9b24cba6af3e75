"""Cases in reverse order, batch sizes, and pixels that are not finite."""

import torch

from vgg_kernels.correctness.suite import prepare
from vgg_kernels.correctness.test_case import KAIMING, backwards


def test_a_reversed_case_has_its_references_reversed(suite):
    case = suite.weight_sets[-1].cases[0]
    turned = backwards(case)
    assert torch.equal(turned.x[0], case.x[-1])
    assert torch.equal(turned.oracle.logits[0], case.oracle.logits[-1])
    assert torch.equal(turned.error_bound["fc8"][0], case.error_bound["fc8"][-1])


def test_later_weight_sets_have_an_unusual_batch_size(tiny_network):
    batches = {
        len(prepare(tiny_network, "fp16", "quick", seed=s, schemes=(KAIMING,)).weight_sets[-1].cases[0].x)
        for s in range(3)
    }
    assert len(batches) == 3
    assert min(batches) > 10


def test_a_poison_is_named_after_its_pixels(suite):
    (non_finite,) = [weight_set.non_finite for weight_set in suite.weight_sets if weight_set.non_finite]
    assert non_finite.name == "NaN and infinity"
    assert torch.isfinite(non_finite.x[0]).all()
    assert [int((~torch.isfinite(image)).sum()) for image in non_finite.x] == [0, 1, 1]
    assert not non_finite.finite[1:].any()
