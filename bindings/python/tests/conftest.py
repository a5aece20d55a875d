"""Each test has a domain in a folder of its own."""

from __future__ import annotations

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
    """Return when `condition()` is true, at the latest after 60 s."""
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def total(domain, cells):
    """The sum of all cells in one snapshot."""
    with domain.query():
        return int(cells.sum())
