"""What the mutants say of themselves."""

from vgg_kernels.correctness.mutants.catalogue import MUTANTS


def test_there_are_many_and_each_says_what_it_does():
    assert len(MUTANTS) >= 24
    intents = [kind.__doc__ for kind in MUTANTS.values()]
    assert len(set(intents)) == len(intents)
    assert all(intent and "\n" not in intent for intent in intents)
