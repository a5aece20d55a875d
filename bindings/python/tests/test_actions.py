"""Actions of ``on_commit()``: when they run, and what they raise."""

from __future__ import annotations

import signal
import sys

import pytest

import tmh
from conftest import conflict_with, total


@pytest.mark.quick
def test_actions_run_once_behind_the_commit_and_outside(hybrid_cells):
    domain, cells = hybrid_cells
    done = []
    runs = []

    @domain.atomically
    def body(fails=False):
        runs.append(1)
        cells[0]
        tmh.on_commit(lambda: done.append(domain.atomically(lambda: int(cells[1]))()))
        cells[1] += 1
        if len(runs) == 1:
            conflict_with(domain, cells)
            cells[0]
        if fails:
            raise ValueError

    body()
    assert (len(runs), done) == (2, [1])
    with pytest.raises(ValueError):
        body(True)
    assert done == [1]
    with pytest.raises(TypeError):
        domain.atomically(lambda: tmh.on_commit(5))()


def test_actions_of_a_query(domain, cells):
    done = []
    with domain.query():
        tmh.on_commit(lambda: done.append(total(domain, cells)))
        assert done == []
    assert done == [0]
    with pytest.raises(ValueError):
        with domain.query():
            tmh.on_commit(lambda: done.append("never"))
            raise ValueError
    domain.query(lambda: tmh.on_commit(lambda: done.append(2)))()
    domain.atomically(lambda: cells.__setitem__(0, 1))()
    assert done == [0, 2]


def test_an_action_that_raises_is_reported_and_undoes_nothing(domain, cells, monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: reported.append(what.exc_type))

    @domain.atomically
    def body():
        cells[0] = 1
        tmh.on_commit(lambda: 1 / 0)
        return 5

    assert body() == 5
    assert reported == [ZeroDivisionError] and total(domain, cells) == 1


def test_a_key_that_interrupts_an_action_is_seen_behind_it(domain, cells):
    """As Ctrl-C during an action: the commit stands, and the program is interrupted."""
    done = []

    def action():
        done.append(1)
        raise KeyboardInterrupt

    @domain.atomically
    def body():
        cells[0] = 1
        tmh.on_commit(action)
        tmh.on_commit(lambda: done.append(2))

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            body()
            for _ in range(100):
                pass
    finally:
        signal.signal(signal.SIGINT, before)
    assert done == [1, 2] and total(domain, cells) == 1
