"""Transfers between two random cells of an array that all processes share."""

from __future__ import annotations

import multiprocessing.shared_memory
import random
from multiprocessing.context import ForkContext
from pathlib import Path
from typing import Any

import numpy as np

import tmh

from .contestants import Contestant, Worker, WrongResult

CELLS = 1_000
# What a cell has at first; the sum of all cells never changes.
AT_FIRST = 1_000


def arguments(seed: int, count: int) -> list[tuple[int, int]]:
    """Pairs of two different cells."""
    draw = random.Random(seed)
    return [tuple(draw.sample(range(CELLS), 2)) for _ in range(count)]  # type: ignore[misc]


def _check_sum(total: int, name: str) -> None:
    if total != CELLS * AT_FIRST:
        raise WrongResult(f"{name}: the cells add up to {total}, not {CELLS * AT_FIRST}")


class TmhTransfers(Contestant):
    name = "tmh"
    levels = "hybrid"

    @classmethod
    def version(cls) -> str:
        return f"tmh {tmh.__version__}"

    def _open(self) -> tuple[tmh.Domain, tmh.Array]:
        domain = tmh.open(self.folder, levels=self.levels)
        return domain, domain.map("bank").array("cells", CELLS, np.int64)

    def prepare(self) -> None:
        domain, cells = self._open()
        with domain:
            domain.atomically(lambda: cells.fill(AT_FIRST))()

    def open(self) -> Worker:
        domain, cells = self._open()

        @domain.atomically
        def transfer(source: int, target: int) -> None:
            cells[source] -= 1
            cells[target] += 1

        return Worker({"transfer": transfer}, domain.close)

    def check(self) -> None:
        domain, cells = self._open()
        with domain:
            with domain.query():
                total = int(cells.sum())
        _check_sum(total, self.name)


class TmhPageTransfers(TmhTransfers):
    name = "tmh-page"
    label = 'tmh, levels="page"'
    levels = "page"


def _locked_worker(cells: Any, lock: Any) -> Worker:
    def transfer(source: int, target: int) -> None:
        with lock:
            cells[source] -= 1
            cells[target] += 1

    return Worker({"transfer": transfer}, lambda: None)


class LockedTransfers(Contestant):
    name = "lock"
    label = "shared_memory + Lock"
    module = "multiprocessing.shared_memory"

    def __init__(self, folder: Path, context: ForkContext) -> None:
        super().__init__(folder, context)
        self._memory = multiprocessing.shared_memory.SharedMemory(create=True, size=CELLS * 8)
        self._lock = context.Lock()

    def _cells(self) -> np.ndarray:
        return np.ndarray(CELLS, np.int64, self._memory.buf)

    def prepare(self) -> None:
        self._cells().fill(AT_FIRST)

    def open(self) -> Worker:
        return _locked_worker(self._cells(), self._lock)

    def check(self) -> None:
        _check_sum(int(self._cells().sum()), self.name)

    def stop(self) -> None:
        self._memory.close()
        self._memory.unlink()


class ServedTransfers(Contestant):
    name = "manager"
    label = "Manager().list() + its Lock"
    module = "multiprocessing.managers"

    def __init__(self, folder: Path, context: ForkContext) -> None:
        super().__init__(folder, context)
        self._server: Any = context.Manager()
        self._cells = self._server.list([AT_FIRST] * CELLS)
        self._lock = self._server.Lock()

    def prepare(self) -> None:
        """The server has the data from its start."""

    def open(self) -> Worker:
        return _locked_worker(self._cells, self._lock)

    def check(self) -> None:
        _check_sum(sum(self._cells[:]), self.name)

    def stop(self) -> None:
        self._server.shutdown()


CONTESTANTS: list[type[Contestant]] = [
    TmhTransfers, TmhPageTransfers, LockedTransfers, ServedTransfers,
]
