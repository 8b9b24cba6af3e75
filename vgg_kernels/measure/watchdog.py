"""A limit on how long a step may take, kept even where the main thread is stuck in a driver call.

A kernel that waits for ever holds ``cudaDeviceSynchronize`` for ever, and no Python exception gets in. So the limit
is kept by a thread: it first interrupts the main thread, which suffices for anything that returns to Python, and
after a grace period ends the process. Where no thread can run, because a library that hangs holds the interpreter's
lock, a timer of the kernel ends the process after a second grace period. What was measured is on the disk by then;
the next process goes on behind it.
"""

import os
import signal
import threading
import time
from collections.abc import Callable

GRACE_S = 15.0
SETTLE_S = 0.05  # in which a signal that was sent is sure to be seen
STUCK = 75  # exit status (EX_TEMPFAIL): this process is lost, another may go on


def _interrupt_main() -> None:
    """A real signal to the main thread: unlike ``_thread.interrupt_main`` it also ends a wait in the kernel."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _alarm(seconds: float) -> None:
    """SIGALRM, which nobody handles, in so many seconds; the one wait that needs no interpreter."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


class Watchdog:
    """A context manager that interrupts the main thread (``KeyboardInterrupt``) once ``limit_s`` have passed.

    ``expired`` tells its interruption from the user's.

    Args:
        limit_s: seconds, by the wall clock.
        last_words: called before the process is ended, to write down why.
        grace_s: seconds between the interruption and the end.
        interrupt: interrupts the main thread.
        end: ends the process at once.
        alarm: lets the kernel end the process in so many seconds; zero calls it off.
    """

    def __init__(
        self,
        limit_s: float,
        last_words: Callable[[], None],
        grace_s: float = GRACE_S,
        interrupt: Callable[[], None] = _interrupt_main,
        end: Callable[[int], None] = os._exit,
        alarm: Callable[[float], None] = _alarm,
    ):
        self.limit_s, self._last_words, self._grace_s = limit_s, last_words, grace_s
        self._interrupt, self._end, self._alarm = interrupt, end, alarm
        self._over = threading.Event()
        self.expired = False
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def _watch(self) -> None:
        if self._over.wait(self.limit_s):
            return
        self.expired = True
        self._interrupt()
        if not self._over.wait(self._grace_s):
            try:
                self._last_words()
            finally:  # a disk that is full must not keep a stuck process
                self._end(STUCK)

    def __enter__(self) -> "Watchdog":
        """Start counting."""
        # A command that a script starts in the background inherits an ignored SIGINT, and would not hear ours.
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._thread.start()
        self._alarm(self.limit_s + 2 * self._grace_s)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop counting. An interruption that was on its way arrives here, not in what comes after.

        Raises:
            KeyboardInterrupt: where the limit passed at the very end of the block.
        """
        self._alarm(0.0)
        self._over.set()
        self._thread.join()
        if self.expired:
            time.sleep(SETTLE_S)
