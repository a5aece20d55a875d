"""Random programs on tmh and on a model (random_programs.py), and faults that they have to find."""

from __future__ import annotations

import gc
import itertools

import pytest

import tmh
from random_programs import SETTINGS, failures

# Of which functions not every one is called.
pytestmark = pytest.mark.filterwarnings("ignore:transaction .* was never called")


@pytest.mark.quick
def test_random_programs(tmp_path):
    for failure in failures(0, 500, tmp_path):
        pytest.fail(failure, pytrace=False)


def store_left_out(monkeypatch):
    """Each fifth store of an element."""
    count = itertools.count()
    store = tmh.Array.__setitem__

    def faulty(self, key, value):
        if not isinstance(key, int) or next(count) % 5:
            store(self, key, value)

    monkeypatch.setattr(tmh.Array, "__setitem__", faulty)


def rollback_left_out(monkeypatch):
    """What a body has stored before it raises is committed."""
    whole = tmh.Domain.atomically

    def faulty(self, function):
        def body(*args):
            try:
                return function(*args), None
            except Exception as error:
                return None, error

        made = whole(self, body)

        def call(*args):
            found, error = made(*args)
            if error is not None:
                raise error
            return found

        return call

    monkeypatch.setattr(tmh.Domain, "atomically", faulty)


def actions_at_once(monkeypatch):
    """on_commit() does not wait for the commit."""
    monkeypatch.setattr(tmh, "on_commit", lambda action: action())


def value_left_behind(monkeypatch):
    """Dict.pop() gives the value, and leaves it."""
    monkeypatch.setattr(
        tmh.Dict, "pop",
        lambda self, key, *default: self.get(key, *default) if default else self[key],
        raising=False,
    )


def taken_from_the_end(monkeypatch):
    """Queue.get() takes the newest value."""

    def faulty(self, block=True, timeout=None):
        value = get(self, block, timeout)
        rest = [get(self, False) for _ in range(len(self))]
        for each in [value, *rest][:-1]:
            self.put(each)
        return [value, *rest][-1]

    get = tmh.Queue.get
    monkeypatch.setattr(tmh.Queue, "get", faulty)


@pytest.mark.parametrize("plant", [
    pytest.param(store_left_out, marks=pytest.mark.quick),
    pytest.param(rollback_left_out, marks=pytest.mark.quick),
    pytest.param(actions_at_once, marks=pytest.mark.quick), value_left_behind, taken_from_the_end,
])
def test_a_planted_fault_is_found(tmp_path, monkeypatch, plant):
    not_durable = [each for each in SETTINGS if each[0] == "none"]
    plant(monkeypatch)
    found = failures(0, 500, tmp_path, not_durable)
    told = next(found, None)
    monkeypatch.undo()
    found.close()
    gc.collect()
    assert told is not None, "500 programs have not found it"
    assert told.startswith("seed ") and " differs\n  tmh: " in told
