"""No wrong network passes, no right one fails, and each belongs to the group that its claim is about."""

import builtins
from functools import partial

from vgg_kernels.correctness import kill_matrix as module
from vgg_kernels.correctness.emulation import Emulation
from vgg_kernels.correctness.gate import WATCHED
from vgg_kernels.correctness.isolation import preserve_global_state
from vgg_kernels.correctness.kill_matrix import GATES, OURS, Gates, kill_matrix
from vgg_kernels.correctness.mutants.base import BEYOND, CONTRACT, DISHONEST, GROUPS, PRECISION
from vgg_kernels.correctness.mutants.catalogue import WRONG_NETWORKS
from vgg_kernels.workload.network import network
from vgg_kernels.workload.precision import TIERS

*_, KAIMING = OURS


def test_a_mistake_that_changes_nothing_is_left_out(tiny_network):
    flattened = WRONG_NETWORKS["FlattenedChannelsLast"]
    assert flattened.differs(tiny_network)
    assert not flattened.differs(network("vgg19", image=32))
    left = kill_matrix(network("vgg11", image=32), names=["FlattenedChannelsLast"], tiers=())
    assert left.mutants == ()


def test_a_suite_that_a_candidate_has_written_to_is_not_used_again(tiny_network):
    gates = Gates(tiny_network, 4, batch=3, trials=1)

    def largest(suite):
        return max(float(bound.max()) for bound in suite.weight_sets[0].cases[0].error_bound.values())

    cheat = WRONG_NETWORKS["BoundsWidened"]
    first = gates.suite(cheat.claims, KAIMING)
    (row,) = gates.wrong(["BoundsWidened"], lambda text: None)
    assert row.found_by[GATES[-1]] == "values"
    assert largest(first) == 2.0
    again = gates.suite(cheat.claims, KAIMING)
    assert again is not first
    assert largest(again) < 0.1
    assert gates.suite(cheat.claims, KAIMING) is again


def test_full_size_runs_those_that_depend_on_the_size_and_names_the_results_that_differ(tiny_network):
    names = ["TapsFlipped", "NaNSwallowed", "FlattenedChannelsLast", "ColoursSwapped"]
    small = network("vgg11", image=32)
    matrix = kill_matrix(small, names=names, tiers=(), full_size=tiny_network, batch=2, trials=1)
    assert [row.name for row in matrix.mutants] == ["TapsFlipped", "NaNSwallowed", "ColoursSwapped"]
    assert [row.name for row in matrix.full_size] == ["TapsFlipped", "FlattenedChannelsLast", "ColoursSwapped"]
    assert matrix.survivors(GATES[-1]) == []
    both = {row.name: row for row in matrix.mutants}
    for row in matrix.full_size:
        if row.name in both:
            differ = [gate for gate in GATES if (gate in row.survives) != (gate in both[row.name].survives)]
            assert matrix.differ.get(row.name, []) == differ


def test_right_ones_are_what_the_arithmetic_at_hand_computes(tiny_network, monkeypatch):
    """Here a stand-in; the stored matrix has this project's kernels."""
    built = []

    def candidate(tier, arithmetic):
        built.append((tier, arithmetic))
        return partial(Emulation, tier_name=tier)

    monkeypatch.setattr(module, "candidate", candidate)
    matrix = kill_matrix(tiny_network, names=(), tiers=["fp16", "bf16"])
    assert built == [("fp16", matrix.arithmetic), ("bf16", matrix.arithmetic)]
    assert [row.name for row in matrix.correct] == ["ours fp16", "ours bf16"]
    assert all(row.survives[-2:] == tuple(OURS.values()) for row in matrix.correct)
    assert matrix.document()["right"]["arithmetic"] == matrix.arithmetic


def test_the_matrix(tiny_network):
    """In one test, since the matrix takes longest."""
    matrix = kill_matrix(tiny_network, seed=4, tiers=(), batch=3, trials=2)
    public, older, public_kaiming, older_kaiming, _, ours = GATES

    assert matrix.survivors(ours) == []

    # those that only remember, alias or change something need more than a comparison of values
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
    assert {"CheckPatched", "AllIsTrue", "ModeLeftOn", "HookLeftOn", "ReferenceStolen"} <= set(survivors)
    assert set(survivors) <= set(matrix.survivors(older))

    # on weights that keep the signal the same rule still compares nothing but values
    assert {"NaNSwallowed", "OutputReused", "InputNormalised"} <= set(matrix.survivors(public_kaiming))
    assert set(matrix.survivors(public_kaiming)) <= set(matrix.survivors(older_kaiming))

    with preserve_global_state(WATCHED) as changed:  # the dishonest ones have left nothing changed
        assert builtins.all([]) and not builtins.all([False])  # noqa: PT018
    assert changed == []

    document = matrix.document()
    assert document["killed"][ours] == len(document["mutants"]) == len(WRONG_NETWORKS)
    assert document["gates"] == list(GATES)
    assert list(document["groups"]) == list(GROUPS) == [CONTRACT, BEYOND, PRECISION, DISHONEST]
    assert sum(group["networks"] for group in document["groups"].values()) == len(WRONG_NETWORKS)
    for gate in GATES:
        accepted = sum(group["accepted"][gate] for group in document["groups"].values())
        assert accepted == len(WRONG_NETWORKS) - document["killed"][gate]
    assert {row["claims"] for row in document["mutants"]} == set(TIERS)
    for row in document["mutants"]:
        assert sorted(row["killed_by"] + row["survives"]) == sorted(GATES)
