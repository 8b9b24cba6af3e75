"""Questions turned round, and how many calls an exam takes."""

import torch

from vgg_kernels.correctness.suite import prepare
from vgg_kernels.correctness.test_case import backwards


def test_a_question_backwards_has_its_answers_backwards(exam):
    question = exam.papers[-1].questions[0]
    turned = backwards(question)
    assert torch.equal(turned.x[0], question.x[-1])
    assert torch.equal(turned.oracle.logits[0], question.oracle.logits[-1])
    assert torch.equal(turned.budget["fc8"][0], question.budget["fc8"][-1])


def test_later_weights_are_asked_in_a_number_that_nobody_expects(tiny_network):
    batches = {len(prepare(tiny_network, "fp16", "quick", seed=s).papers[-1].questions[0].x) for s in range(3)}
    assert len(batches) == 3
    assert min(batches) > 10


def test_a_poison_is_named_after_its_pixels(exam):
    (poison,) = [paper.poison for paper in exam.papers if paper.poison]
    assert poison.name == "NaN and infinity"
    assert torch.isfinite(poison.x[0]).all()
    assert [int((~torch.isfinite(image)).sum()) for image in poison.x] == [0, 1, 1]
    assert not poison.finite[1:].any()
