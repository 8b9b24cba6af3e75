"""Workers that do not exist, and one real process that crashes for real."""

import signal
import subprocess
import sys
import time

import pytest

from vgg_kernels.measure.supervisor import WORKERS, supervise
from vgg_kernels.measure.watchdog import STUCK


class FakeWorkers:
    def __init__(self, *codes):
        self.codes, self.commands = list(codes), []

    def __call__(self, command):
        self.commands.append(command)
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        return type("Worker", (), {"wait": staticmethod(lambda: code)})()


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_worker_that_ends_by_itself_decides(code):
    workers = FakeWorkers(code)
    assert supervise(["measure"], print, workers) == code
    assert len(workers.commands) == 1
    assert workers.commands[0][1:] == ["-m", "vgg_kernels", "measure"]


@pytest.mark.parametrize("lost", [STUCK, -signal.SIGALRM, -signal.SIGSEGV, -signal.SIGABRT])
def test_a_lost_worker_is_followed_by_another(lost):
    workers, told = FakeWorkers(lost, lost, 0), []
    assert supervise(["measure"], told.append, workers) == 0
    assert len(workers.commands) == 3
    assert len(told) == 2


def test_it_does_not_go_on_for_ever():
    workers, told = FakeWorkers(STUCK), []
    assert supervise(["measure"], told.append, workers) == 1
    assert len(workers.commands) == WORKERS


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, 137), (signal.SIGTERM, 143)])
def test_a_worker_that_someone_ended_is_not_replaced(sign, code):
    workers = FakeWorkers(-sign)
    assert supervise(["measure"], print, workers) == code
    assert len(workers.commands) == 1


def test_an_interruption_that_the_worker_has_not_seen_is_handed_on(monkeypatch):
    log = []

    class Deaf:
        def wait(self, timeout=None):
            log.append("wait")
            if len(log) == 1:
                raise KeyboardInterrupt
            if timeout is not None:
                raise subprocess.TimeoutExpired("worker", timeout)
            return 0

        def send_signal(self, sign):
            log.append(sign)

    assert supervise(["measure"], print, lambda command: Deaf()) == 0
    assert log == ["wait", "wait", signal.SIGINT, "wait"]


def test_a_real_crash_is_recognised():
    def start(command):
        script = "import os; os.abort()" if not crashed else "raise SystemExit(0)"
        crashed.append(script)
        return subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL)

    crashed, told = [], []
    assert supervise([], told.append, start) == 0
    assert "SIGABRT" in told[0]


CHILD = """
import time
from vgg_kernels.measure.supervisor import die_with_parent
die_with_parent()
print("up", flush=True)
time.sleep(60)
"""
PARENT = f"""
import subprocess, sys
worker = subprocess.Popen([sys.executable, "-c", {CHILD!r}])
print(worker.pid, flush=True)
worker.wait()
"""


def test_kill_9_leaves_no_worker_behind():
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    pid = int(process.stdout.readline())
    assert process.stdout.readline() == "up\n"
    process.kill()
    process.wait()
    for _ in range(100):
        if not _running(pid):
            break
        time.sleep(0.05)
    assert not _running(pid)


def _running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_worker_whose_parent_is_there_goes_on():
    code = "from vgg_kernels.measure.supervisor import die_with_parent; die_with_parent()"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
