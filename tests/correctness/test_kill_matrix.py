"""No wrong network passes, and no right one fails."""

import builtins

from vgg_kernels.correctness.isolation import kept
from vgg_kernels.correctness.kill_matrix import GATES, Bench, kill_matrix
from vgg_kernels.correctness.mutants.catalogue import MUTANTS
from vgg_kernels.correctness.test_case import KAIMING
from vgg_kernels.correctness.verify import WATCHED
from vgg_kernels.workload.network import network


def test_a_mistake_that_changes_nothing_is_no_mutant(tiny_network):
    flattened = MUTANTS["FlattenedChannelsLast"]
    assert flattened.differs(tiny_network)
    assert not flattened.differs(network("vgg19", image=32))
    left = kill_matrix(network("vgg11", image=32), names=["FlattenedChannelsLast"], tiers=())
    assert left.mutants == ()


def test_an_exam_that_a_cheat_has_changed_is_not_used_again(tiny_network):
    bench = Bench(tiny_network, 4, batch=3, trials=1)
    cheat = MUTANTS["BudgetsWidened"]
    first = bench.exam(cheat.claims, KAIMING)
    row = bench.try_out("BudgetsWidened", "", cheat.claims, cheat)
    assert row.found_by[GATES[-1]] == "values"
    assert max(float(budget.max()) for budget in first.papers[0].questions[0].budget.values()) == 2.0
    again = bench.exam(cheat.claims, KAIMING)
    assert again is not first
    assert max(float(budget.max()) for budget in again.papers[0].questions[0].budget.values()) < 0.1
    assert bench.exam(cheat.claims, KAIMING) is again


def test_the_matrix(tiny_network):
    """In one test, since the matrix is the dear part."""
    matrix = kill_matrix(tiny_network, seed=4, batch=3, trials=2)
    public, older, public_kaiming, older_kaiming, default, ours = GATES

    assert matrix.survivors(ours) == []
    assert matrix.false_kills(ours) == matrix.false_kills(default) == []

    # those that only remember, alias or change something need more than a look at values
    found = {row.name: row.found_by[ours] for row in matrix.mutants}
    assert found["OutputReused"] == "no aliasing"
    assert found["InputNormalised"] == "input unchanged"
    assert found["WeightsRoundedInPlace"] == "weights unchanged"
    assert found["StridesIgnored"] == found["CachedBySum"] == "layout: channels_last slice"
    assert found["InfinityClamped"] == "infinity is kept"
    assert found["OverflowSaturates"] == "overflow is not a wrong number"
    assert found["CachedByContent"].startswith("weights changed")
    assert found["Leaves"] == "runs"
    assert found["ModeLeftOn"] == found["HookLeftOn"] == found["ClockStopped"] == "global state"

    survivors = matrix.survivors(public)
    assert {"CachedByPointer", "OutputReused", "NaNSwallowed", "ImagesSwapped"} <= set(survivors)
    assert {"JudgePatched", "AllIsTrue", "ModeLeftOn", "HookLeftOn", "AnswersStolen"} <= set(survivors)
    assert set(survivors) <= set(matrix.survivors(older))

    # on weights that keep the signal the same rule still sees nothing but values
    assert {"NaNSwallowed", "OutputReused", "InputNormalised"} <= set(matrix.survivors(public_kaiming))
    assert set(matrix.survivors(public_kaiming)) <= set(matrix.survivors(older_kaiming))

    with kept(WATCHED) as changed:  # the cheats have left nothing behind
        assert builtins.all([]) and not builtins.all([False])  # noqa: PT018
    assert changed == []

    document = matrix.document()
    assert document["killed"][ours] == len(document["mutants"]) == len(MUTANTS)
    assert document["gates"] == list(GATES)
    for row in document["mutants"]:
        assert sorted(row["killed_by"] + row["survives"]) == sorted(GATES)
