"""What the wrong networks declare."""

from vgg_kernels.correctness.mutants.catalogue import WRONG_NETWORKS


def test_there_are_many_and_each_says_what_it_does():
    assert len(WRONG_NETWORKS) >= 24
    intents = [kind.__doc__ for kind in WRONG_NETWORKS.values()]
    assert len(set(intents)) == len(intents)
    assert all(intent and "\n" not in intent for intent in intents)
