"""domain.run(), and functions that a program makes transactions of and never calls."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import warnings

import pytest

import tmh
from test_processes import in_child


def never_called(name):
    return pytest.warns(RuntimeWarning, match=f"transaction '.*{name}' was never called")


@pytest.fixture
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
        gc.collect()


def unraised(act):
    """What act() sends to sys.unraisablehook."""
    found = []
    hook = sys.unraisablehook
    sys.unraisablehook = lambda told: found.append(told.exc_value)
    try:
        act()
        gc.collect()
    finally:
        sys.unraisablehook = hook
    return found


@pytest.mark.quick
def test_run_calls_at_once_and_returns_the_result(domain, cells):
    def move(source, target, amount=1, **more):
        cells[source] -= amount
        cells[target] += amount
        return int(cells[target]), more

    assert domain.run(move, 1, 2) == (1, {})
    assert domain.run(move, 1, 2, amount=4) == (5, {})
    # Every keyword is the function's.
    keywords = {"durability": "x", "site": 1, "function": 2, "body": 3, "self": 4}
    assert domain.run(move, 1, 2, **keywords) == (6, keywords)
    assert domain.run(cells.copy).sum() == 0
    assert domain.run(lambda: domain.run(move, 3, 4)) == (1, {})


@pytest.mark.quick
def test_run_undoes_what_fails(domain, cells):
    def fails():
        cells[0] = 1
        raise KeyError("x")

    for _ in range(3):
        with pytest.raises(KeyError):
            domain.run(fails)
    with domain.query():
        assert cells[0] == 0
        with pytest.raises(tmh.NestingError):
            domain.run(fails)
    domain.close()
    with pytest.raises(tmh.ClosedError):
        domain.run(fails)


def test_run_counts_a_function_under_its_name_once(domain, cells):
    def store(number):
        cells[0] = number

    for number in range(5):
        domain.run(store, number)
        domain.run(lambda: None)
    assert len(domain._sites_of_run) == 2


@pytest.mark.parametrize("wrong", [None, 5, "x"])
def test_run_takes_a_function(domain, wrong):
    with pytest.raises(TypeError, match="the body of a transaction is a function, not"):
        domain.run(wrong)
    with pytest.raises(TypeError):
        domain.run()
    with pytest.raises(TypeError, match="no coroutine"):
        domain.run(never_ending)


def never_ending():
    yield


@pytest.mark.quick
def test_a_transaction_that_is_dropped_without_a_call_warns(domain, cells):
    def move():
        cells[0] = 1

    with never_called("move") as told:
        domain.atomically(move)
    [warning] = told
    assert warning.filename == __file__ and "domain.run(function, ...)" in str(warning.message)
    with open(__file__) as lines:
        assert "domain.atomically(move)" in lines.readlines()[warning.lineno - 1]
    with never_called("move"):
        domain.query(move)
    with never_called("move"):
        domain.atomically(durability="none")(move)
    with never_called("<lambda>"):
        domain.atomically(lambda: move())
    with never_called("Callable"):
        domain.atomically(Callable())
    with never_called("move"):
        kept = [domain.atomically(move)]
        del kept
    with never_called("decorated"):

        @domain.atomically
        def decorated():
            pass

        del decorated
    with never_called("move"):
        held = domain.atomically(move)
        held.itself = held
        del held
        gc.collect()


class Callable:
    def __call__(self):
        pass


def test_a_warning_that_is_an_error_is_told_as_one_that_nobody_catches(domain, no_warning):
    [told] = unraised(lambda: domain.atomically(never_ending.__init__) and None)
    assert isinstance(told, RuntimeWarning)


@pytest.mark.quick
def test_what_is_called_or_lives_in_a_class_does_not_warn(domain, cells, no_warning):
    def move():
        cells[0] += 1
        if cells[0] == 2:
            raise KeyError

    domain.atomically(move)()
    with pytest.raises(KeyError):
        domain.atomically(move)()
    with pytest.raises(TypeError):
        domain.atomically(move)(1)

    class Account:
        @domain.atomically
        def never(self):
            pass

        def used(self):
            pass

        used = domain.atomically(used)

    assert Account().used() is None
    assert callable(Account().never)
    del Account
    gc.collect()
    with pytest.raises(TypeError):
        domain.atomically(5)
    # The package's own.
    domain.queue("q")
    domain.counter("c")
    gc.collect()


def test_a_function_that_a_child_may_call_does_not_warn(domain, cells, no_warning):
    def move():
        cells[0] += 1

    made = domain.atomically(move)
    assert in_child(made) == 0
    del made
    held = domain.atomically(move)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(held)
    del held


PROGRAM = """
import tempfile
import tmh

domain = tmh.open(tempfile.mkdtemp())

@domain.atomically
def never():
    pass

class Account:
    @domain.atomically
    def never(self):
        pass

{more}
"""


def told_by(tmp_path, more):
    """Standard error of a program, with all warnings."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM.format(more=more))
    found = subprocess.run(
        [sys.executable, "-W", "always", os.fspath(file)], capture_output=True, text=True,
        check=True,
    )
    return found.stderr


def test_a_module_keeps_what_it_never_calls(tmp_path):
    assert told_by(tmp_path, "kept = [domain.atomically(print)]; del never; del Account") == ""
    assert told_by(tmp_path, "import sys; sys.exit(0)") == ""


@pytest.mark.parametrize("call", ["domain.atomically(print)", "domain.query(\n    print\n)"])
def test_a_module_that_drops_it_at_once_is_told_the_line(tmp_path, call):
    error = told_by(tmp_path, call)
    line = PROGRAM.split("{more}")[0].count("\n") + 1
    assert f"program.py:{line}: RuntimeWarning: transaction 'print' was never called" in error
    assert f"\n  {call.splitlines()[0]}\n" in error
