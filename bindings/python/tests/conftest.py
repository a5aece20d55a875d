"""Each test has a domain in a folder of its own, and leaves no thread and no process behind.

No test hangs on the machine's speed: tests wait for events, and a deadline only ends what hangs.
"""

from __future__ import annotations

import contextlib
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import pathlib
import shlex
import signal
import sys
import threading
import time

import pytest

# Else numpy's BLAS starts a thread in the midst of the test that uses it first.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import tmh

SLOWDOWN = int(os.environ.get("TMH_TEST_SLOWDOWN") or 1)
assert SLOWDOWN > 0, "TMH_TEST_SLOWDOWN: a whole number above 0"


def hung_s(seconds=60):
    """After so long, on a machine that is not slow, something counts as hung."""
    return seconds * SLOWDOWN


def wait_for(condition):
    """Return when `condition()` is true. For what no event tells: counters."""
    until = time.monotonic() + hung_s()
    while not condition():
        assert time.monotonic() < until, "what was waited for does not come"
        time.sleep(0.001)


def wait(event):
    assert event.wait(hung_s()), "the event does not come"


def join(*ending):
    """Wait for the ends of threads or processes."""
    until = time.monotonic() + hung_s()
    for each in ending:
        each.join(max(0, until - time.monotonic()))
    hanging = [each.name for each in ending if each.is_alive()]
    assert not hanging, f"{hanging} do not end"


def started(*works):
    """A running thread for each function."""
    threads = [threading.Thread(target=work, name=work.__name__) for work in works]
    for thread in threads:
        thread.start()
    return threads


@contextlib.contextmanager
def beside(*works):
    """Threads run these functions beside the block, which does not end before them."""
    threads = started(*works)
    try:
        yield
    finally:
        join(*threads)


class Interrupts:
    """Signals to the main thread by senders, threads of a test.

    The handlers stay until all senders have ended: the default action would end pytest.
    """

    def __init__(self):
        self.stop = threading.Event()
        self._main = threading.get_ident()
        self._before = {}
        self._senders = []

    def handle(self, number, function):
        """From here on to the end of the test a signal calls `function()`."""

        def call(*_):
            if not self.stop.is_set():
                function()

        self._before.setdefault(number, signal.signal(number, call))

    def send(self, number):
        if not self.stop.is_set():
            signal.pthread_kill(self._main, number)

    def comes(self, event):
        """Wait for the event; false when the test has ended without it."""
        while not event.wait(0.05):
            if self.stop.is_set():
                return False
        return True

    def start(self, work):
        """The running sender that does `work`, which ends soon when `stop` is set."""
        [sender] = started(work)
        self._senders.append(sender)
        return sender

    def end(self):
        self.stop.set()
        join(*self._senders)
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_IGN)  # forgets one that is on its way
            signal.signal(number, before)


@pytest.fixture
def interrupts():
    made = Interrupts()
    yield made
    made.end()


def _threads():
    """Names of this process's threads by id of the kernel: Python's and others."""
    tasks = pathlib.Path("/proc/self/task").iterdir()
    names = {int(task.name): f"thread {_text(task / 'comm').strip()}" for task in tasks}
    names.update({each.native_id: f"thread {each.name}" for each in threading.enumerate()})
    return names


def _pids_of_children():
    try:
        tasks = pathlib.Path("/proc/self/task").iterdir()
        return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}
    except OSError:  # a kernel without these files, or a thread that ends
        return {
            int(process.name) for process in pathlib.Path("/proc").glob("[0-9]*")
            if f"\nPPid:\t{os.getpid()}\n" in _text(process / "status")
        }


def _text(file):
    try:
        return file.read_text()
    except OSError:  # its process has ended
        return ""


def _children():
    """Command lines of this process's children by pid; not multiprocessing's own helpers."""
    # They stay until the interpreter ends.
    helpers = {
        multiprocessing.resource_tracker._resource_tracker._pid,
        multiprocessing.forkserver._forkserver._forkserver_pid,
    }
    return {
        pid: f"process {pid} {_text(pathlib.Path(f'/proc/{pid}/cmdline'))}".replace("\0", " ")
        for pid in _pids_of_children() - helpers
    }


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    """Fails the test that leaves a thread or a child behind, with the names."""
    before = {**_threads(), **_children()}
    yield
    until = time.monotonic() + hung_s()
    pause_s = 0.001
    while left := {
        key: name for key, name in {**_threads(), **_children()}.items() if key not in before
    }:
        if time.monotonic() > until:
            break
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.1)
    for child in left.keys() & _children().keys():  # no test after it has them
        os.kill(child, signal.SIGKILL)
    if left:
        pytest.fail(f"left behind: {', '.join(left.values())}", pytrace=False)


def _short(test):
    """The test's name without the folders of its file."""
    file, *inside = test.split("::", 1)
    return "::".join((pathlib.PurePath(file).name, *inside))


def _alone(test):
    """The command that runs a test alone. in_fresh_environment.py tells its own."""
    if runs_one := os.environ.get("TMH_RUNS_ONE_TEST"):
        return f"{runs_one} {shlex.quote(_short(test))}"
    return f"{shlex.quote(sys.executable)} -m pytest {shlex.quote(test)}"


def pytest_runtest_logstart(nodeid):
    """Writes down which test runs, for whoever sees how the process ended."""
    if note := os.environ.get("TMH_RUNNING_TEST"):
        pathlib.Path(note).write_text(_short(nodeid))


def pytest_sessionfinish():
    if note := os.environ.get("TMH_RUNNING_TEST"):
        pathlib.Path(note).unlink(missing_ok=True)


def pytest_terminal_summary(terminalreporter):
    found = terminalreporter.stats
    failed = {report.nodeid: None for kind in ("failed", "error") for report in found.get(kind, ())}
    for test in failed:
        terminalreporter.write_line(f"FAILED {_short(test)}; alone: {_alone(test)}")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "domain"


@pytest.fixture(params=["hybrid", "page"])
def domain(request, folder):
    """A volatile domain, once for each choice of levels."""
    with tmh.open(folder, levels=request.param) as opened:
        yield opened


@pytest.fixture
def hybrid_cells(folder):
    """At level 1, where threads run instances at once."""
    with tmh.open(folder) as opened:
        yield opened, opened.map("data.db").array("cells", 1024, "i8")


@pytest.fixture
def segment(domain):
    return domain.map("data.db")


@pytest.fixture
def durable(tmp_path):
    with tmh.open(tmp_path / "durable", "strict") as opened:
        yield opened


@pytest.fixture
def cells(segment):
    return segment.array("cells", 1024, "i8")


def total(domain, cells):
    """The sum of all cells in one snapshot."""
    with domain.query():
        return int(cells.sum())


def conflict_with(domain, cells):
    """Another thread commits to the cell that this thread's running instance has read."""
    join(*started(domain.atomically(lambda: cells.__setitem__(0, cells[0] + 1))))
