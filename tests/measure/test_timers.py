"""The timers on a fake device with a fake clock (no time here was measured), and the host timer on the real CPU."""

import time

import pytest

from vgg_kernels.measure import timers
from vgg_kernels.measure.device import Cpu
from vgg_kernels.measure.timed_call import TimedCall
from vgg_kernels.measure.timers import TIMERS, Allowance, disagreement


@pytest.fixture
def machine(fakes):
    return fakes.FakeMachine()


@pytest.fixture
def subject(fakes, machine):
    return fakes.FakeSubject(machine)


def allow(machine, **changed):
    return Allowance(machine.now, **changed)


def test_the_public_protocol_is_three_warm_ups_one_discarded_and_a_hundred_kept(machine, subject):
    times = timers.kernelbench(subject, machine, allow(machine))
    assert len(times) == 100
    assert machine.log.count("call") == 3 + 1 + 100
    assert machine.log.count("flush") == 1 + 100
    assert machine.log.count("release") == 1


@pytest.mark.parametrize("timer", TIMERS["cuda"], ids=lambda t: f"{t.name}-{t.cache}")
def test_only_the_call_is_timed_not_the_feeding_nor_the_flush(machine, subject, timer):
    times = timer.measure(subject, machine, allow(machine))
    assert times == pytest.approx([2.0] * len(times))
    assert len(times) >= timers.FEWEST_TRIALS


@pytest.mark.parametrize("timer", TIMERS["cuda"], ids=lambda t: f"{t.name}-{t.cache}")
def test_every_timed_call_reads_content_of_its_own(machine, subject, timer):
    times = timer.measure(subject, machine, allow(machine))
    timed = subject.called_on[-len(times) :]
    assert len(set(timed)) == len(timed)


@pytest.mark.parametrize("timer", TIMERS["cuda"], ids=lambda t: f"{t.name}-{t.cache}")
def test_the_flush_is_what_makes_a_timer_cold(machine, subject, timer):
    timer.measure(subject, machine, allow(machine))
    flushes = machine.log.count("flush")
    assert (flushes > 0) == (timer.cache == "cold" and timer.name != "do_bench")  # do_bench flushes by itself


def test_between_the_two_events_there_is_the_call_and_nothing_else(machine, subject):
    timers.kernelbench(subject, machine, allow(machine))
    marks = [i for i, word in enumerate(machine.log) if word == "record"]
    assert all(machine.log[a + 1 : b] == ["call"] for a, b in zip(marks[::2], marks[1::2], strict=True))


def test_outputs_are_kept_from_timed_calls(machine, subject):
    timers.kernelbench(subject, machine, allow(machine))
    assert len(subject.kept) == 101
    assert subject.kept == subject.called_on[-101:]


def test_a_graph_is_captured_once_and_replayed(machine, subject):
    timers.graph(subject, machine, allow(machine), cold=True)
    assert machine.log.count("capture") == 1


def test_a_spent_allowance_stops_a_timer_but_leaves_enough_to_read(machine, subject):
    assert len(timers.kernelbench(subject, machine, allow(machine, until_s=0.0))) == timers.FEWEST_TRIALS


def test_fewer_trials_than_the_fewest_can_be_asked_for(machine, subject):
    assert len(timers.kernelbench(subject, machine, allow(machine, until_s=0.0, trials=2))) == 2


def test_variants_with_graphs_of_their_own_are_not_captured_again():
    assert {t.name for t in TIMERS["cuda"] if not t.graphs} == {"graph"}


def test_no_two_timers_share_their_columns():
    keys = [(t.name, t.cache) for t in TIMERS["cuda"]]
    assert len(set(keys)) == len(keys)


def test_disagreement_is_told_against_the_public_protocol():
    rows = disagreement({("graph", "warm"): [1.0, 1.0, 1.0], ("kernelbench", "cold"): [2.0, 2.0, 9.0]})
    assert {(r["timer"], r["ratio"]) for r in rows} == {("graph", 0.5), ("kernelbench", 1.0)}
    assert rows[0]["against"] == "kernelbench cold"


def test_disagreement_of_nothing_is_nothing():
    assert disagreement({}) == []
    assert disagreement({("host", "warm"): []}) == []


def test_the_host_timer_measures_real_seconds_on_the_cpu():
    def slow(x):
        time.sleep(0.02)
        return x.sum()

    subject = TimedCall(slow, (1, 3, 4, 4), "cpu")
    times = timers.host(subject, Cpu(), Allowance(time.perf_counter, trials=5), cold=False)
    assert len(times) == 5
    assert all(20 <= t < 500 for t in times)
