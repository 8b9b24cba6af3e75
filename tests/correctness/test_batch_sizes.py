"""The batch sizes that are compiled ahead are those of a real exam's calls, no more and no fewer."""

from vgg_kernels.correctness import batch_sizes
from vgg_kernels.correctness.verify import examine


def test_a_real_exam_asks_in_exactly_these_batch_sizes(behind, exam):
    called = set()

    def noting(model, x):
        called.add(len(x))
        return model(x)

    assert examine(behind(noting), exam).passed
    assert called == set(batch_sizes.batches(exam.seed))
    assert called > set(batch_sizes.ALWAYS)


def test_another_seed_asks_in_another_unusual_batch_and_in_the_usual_ones_all_the_same():
    found = [batch_sizes.batches(seed) for seed in range(7)]
    assert len(set(found)) == 7
    assert all(sizes[:2] == batch_sizes.ALWAYS == (3, 1) and len(sizes) == 3 for sizes in found)
