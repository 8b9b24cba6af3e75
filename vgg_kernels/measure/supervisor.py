"""Measuring in a process of its own, and in the next one where that one is lost.

A wrong kernel can poison its process's CUDA context, crash it, or never return. None of that may cost the rest of a
run, so the command that the user starts does not touch the device: it starts a worker, and where that is lost, another
one, which goes on with the same run behind the step that failed.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .watchdog import STUCK

WORKERS = 12  # at most: one a failing variant, and some to spare
HAND_ON_S = 5.0
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
LOST = (*CRASHES, signal.SIGALRM)  # the watchdog's last resort


def supervise(
    arguments: Sequence[str], tell: Callable[[str], None], start: Callable[[Sequence[str]], Any] = subprocess.Popen
) -> int:
    """Run ``python -m vgg_kernels ARGUMENTS`` until it ends by itself; its exit status.

    Ctrl-C reaches the worker too, which then closes its run; here it is only waited for.

    Args:
        arguments: of the worker.
        tell: prints a sentence for the user.
        start: starts a process from a command.
    """
    for _ in range(WORKERS):
        worker = start([sys.executable, "-m", "vgg_kernels", *arguments])
        code = _wait(worker)
        if code != STUCK and -code not in LOST:
            return code if code >= 0 else 128 - code
        tell(f"the measuring process was lost ({_name(code)}); another goes on behind the step that cost it")
    tell(f"{WORKERS} measuring processes were lost; what they measured is in the folder")
    return 1


def _wait(worker: Any) -> int:
    """Wait for the worker; an interruption that reached this process alone (``kill -INT``) is handed on."""
    try:
        return worker.wait()
    except KeyboardInterrupt:
        try:
            return worker.wait(timeout=HAND_ON_S)
        except subprocess.TimeoutExpired:
            worker.send_signal(signal.SIGINT)
            return _wait(worker)


def _name(code: int) -> str:
    stuck = code in (STUCK, -signal.SIGALRM)
    return "a step did not end, or its device no longer answers" if stuck else signal.Signals(-code).name


def die_with_parent() -> None:
    """Let the kernel end this process with the one that started it, so that ``kill -9`` leaves no worker behind."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
