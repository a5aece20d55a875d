"""Each test has a domain in a folder of its own."""

from __future__ import annotations

import threading
import time

import pytest

import tmh


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


def wait_for(condition):
    """Return when `condition()` is true; fail after 60 s. For what no event tells: counters."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def total(domain, cells):
    """The sum of all cells in one snapshot."""
    with domain.query():
        return int(cells.sum())


def conflict_with(domain, cells):
    """Another thread commits to the cell that this thread's running instance has read."""
    thread = threading.Thread(target=domain.atomically(lambda: cells.__setitem__(0, cells[0] + 1)))
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
