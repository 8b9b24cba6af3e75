"""No wrong network passes, and no right one fails."""

import pytest

from vgg_kernels.evidence.mutants import GATES, MUTANTS, kill_matrix


@pytest.fixture(scope="module")
def matrix(tiny_network):
    return kill_matrix(tiny_network, seed=4, batch=3, trials=2)


def test_there_are_many_and_each_says_what_it_does():
    assert len(MUTANTS) >= 24
    intents = [kind.__doc__ for kind in MUTANTS.values()]
    assert len(set(intents)) == len(intents)
    assert all(intent and "\n" not in intent for intent in intents)


def test_ours_kills_every_mutant(matrix):
    assert matrix.survivors(GATES[-1]) == []


def test_ours_accepts_every_tiers_right_arithmetic(matrix):
    assert matrix.false_kills(GATES[-1]) == []
    assert matrix.false_kills(GATES[-2]) == []


def test_mutants_that_only_remember_or_alias_need_more_than_values(matrix):
    found = {row.name: row.found_by[GATES[-1]] for row in matrix.mutants}
    assert found["OutputReused"] == "no aliasing"
    assert found["InputNormalised"] == "input unchanged"
    assert found["WeightsRoundedInPlace"] == "weights unchanged"
    assert found["StridesIgnored"] == "layout: channels_last"
    assert found["OverflowSaturates"] == "overflow is not a wrong number"
    assert found["CachedByContent"].startswith("weights changed")


def test_the_public_rule_lets_many_through(matrix):
    survivors = matrix.survivors(GATES[0])
    assert {"CachedByPointer", "OutputReused", "NaNSwallowed", "ImagesSwapped"} <= set(survivors)
    assert set(survivors) <= set(matrix.survivors(GATES[1]))


def test_the_document_counts(matrix):
    document = matrix.document()
    assert document["killed"][GATES[-1]] == len(document["mutants"]) == len(MUTANTS)
    assert document["gates"] == list(GATES)
    for row in document["mutants"]:
        assert sorted(row["killed_by"] + row["survives"]) == sorted(GATES)
