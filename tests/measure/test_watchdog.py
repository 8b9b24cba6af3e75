import signal
import subprocess
import sys
import threading
import time

import pytest

from vgg_kernels.measure import watchdog
from vgg_kernels.measure.watchdog import STUCK, Watchdog


class Witness:
    def __init__(self):
        self.log = []
        self.ended = threading.Event()

    def dog(self, limit_s, grace_s=0.02):
        return Watchdog(
            limit_s,
            lambda: self.log.append("last words"),
            grace_s,
            interrupt=lambda: self.log.append("interrupt"),
            end=lambda code: (self.log.append(code), self.ended.set()),
            alarm=lambda seconds: None,
        )


def test_a_step_within_its_limit_is_left_alone():
    witness = Witness()
    with witness.dog(10.0) as dog:
        pass
    time.sleep(0.03)
    assert witness.log == []
    assert not dog.expired


def test_a_step_over_its_limit_is_interrupted_and_may_end_by_itself():
    witness = Witness()
    with witness.dog(0.02, grace_s=10.0) as dog:
        time.sleep(0.1)
    assert witness.log == ["interrupt"]
    assert dog.expired


def test_a_step_that_does_not_come_back_takes_the_process_with_it_but_first_says_so():
    witness = Witness()
    with witness.dog(0.02):
        assert witness.ended.wait(5.0)
    assert witness.log == ["interrupt", "last words", STUCK]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_last_words_that_cannot_be_written_do_not_keep_a_stuck_process():
    witness = Witness()

    def full():
        raise OSError(28, "No space left on device")

    dog = witness.dog(0.02)
    dog._last_words = full
    with dog:
        assert witness.ended.wait(5.0)
    assert witness.log == ["interrupt", STUCK]


def test_an_interruption_at_the_very_end_of_a_block_arrives_within_it():
    """A signal that is under way when the block ends must not strike what comes after."""
    where = "nowhere"
    dog = Watchdog(0.05, lambda: None, grace_s=30.0)
    dog._interrupt = lambda: (time.sleep(0.1), watchdog._interrupt_main())  # the block is over by then
    try:
        try:
            with dog:
                time.sleep(0.1)
        except KeyboardInterrupt:
            where = "at its end"
        time.sleep(0.2)
    except KeyboardInterrupt:
        where = "behind it"
    assert where == "at its end"


HOLDS_THE_LOCK = """
from vgg_kernels.measure.watchdog import Watchdog
with Watchdog(0.2, lambda: None, grace_s=0.2):
    sum(range(10**12))  # no other thread runs, and no signal is handled, until it is through: hours
"""


def test_a_library_that_holds_the_interpreters_lock_cannot_keep_the_process():
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", HOLDS_THE_LOCK], timeout=60)
    assert done.returncode == -signal.SIGALRM
    assert time.monotonic() - began < 30


def test_the_last_resort_is_called_off_at_the_end_of_a_block():
    with Watchdog(10.0, lambda: None):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 10.0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_interruption_reaches_a_main_thread_that_waits():
    dog = Watchdog(0.2, lambda: None, grace_s=30.0)  # a name that exists even if the interruption comes at once
    interrupted, began = False, time.monotonic()
    try:
        with dog:
            time.sleep(10.0)
    except KeyboardInterrupt:
        interrupted = True
    assert interrupted
    assert time.monotonic() - began < 5.0
    assert dog.expired


def test_a_command_that_a_script_put_in_the_background_is_interrupted_all_the_same():
    """Such a process inherits an ignored SIGINT."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), Watchdog(0.05, lambda: None, grace_s=30.0):
            time.sleep(5.0)
    finally:
        signal.signal(signal.SIGINT, before)
