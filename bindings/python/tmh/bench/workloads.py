"""Workloads: what is measured, who takes part, and whom the others are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.context import ForkContext
from pathlib import Path
from typing import Any, Callable, Sequence

from . import dicts, transfers
from .contestants import Contestant

# Arguments are made before the clock runs, and used again in a circle.
ARGUMENTS_MAX = 1 << 14
# Operations of a process in a run that inserts.
INSERTS_MAX = 100_000


@dataclass(frozen=True)
class Workload:
    """Some operations on one kind of data.

    Attributes
    ----------
    title : str
        Of its table.
    operations : tuple of str
        Each is measured by itself.
    contestants : sequence of class
        In the order of the rows.
    baseline : class
        The contestant that the ratios refer to.
    make : function of class, path, context and int
        Makes a contestant's object; the number is that of the records.
    arguments : function of contestant, str, int and int
        Arguments of an operation; the numbers are a seed and how many at most.
    """

    title: str
    operations: tuple[str, ...]
    contestants: Sequence[type[Contestant]]
    baseline: type[Contestant]
    make: Callable[[type[Contestant], Path, ForkContext, int], Contestant]
    arguments: Callable[[Any, str, int, int], list[tuple]]


def _make_transfers(
    kind: type[Contestant], folder: Path, context: ForkContext, records: int
) -> Contestant:
    return kind(folder, context)


def _transfer_arguments(
    contestant: Contestant, operation: str, seed: int, count_max: int
) -> list[tuple]:
    return transfers.arguments(seed, min(count_max, ARGUMENTS_MAX))


def _store_maker(durable: bool) -> Callable[..., Contestant]:
    def make(
        kind: type[dicts.Store], folder: Path, context: ForkContext, records: int
    ) -> Contestant:
        return kind(folder, context, records, durable)

    return make


def _store_arguments(
    contestant: dicts.Store, operation: str, seed: int, count_max: int
) -> list[tuple]:
    # A key that comes again is no new one.
    count = INSERTS_MAX if operation == "insert" else ARGUMENTS_MAX
    return contestant.arguments(operation, seed, min(count_max, count))


WORKLOADS: dict[str, Workload] = {
    "transfers": Workload(
        f"Transfers between two random cells of {transfers.CELLS:,}",
        ("transfer",),
        transfers.CONTESTANTS,
        transfers.LockedTransfers,
        _make_transfers,
        _transfer_arguments,
    ),
    "dict": Workload(
        f"Dict, nothing durable: values of {dicts.VALUE_BYTES} bytes, one transaction each",
        ("get", "put", "insert"),
        dicts.CONTESTANTS,
        dicts.LmdbStore,
        _store_maker(durable=False),
        _store_arguments,
    ),
    "durable": Workload(
        f"Dict, each put on the disk when it returns: values of {dicts.VALUE_BYTES} bytes",
        ("get", "put"),
        dicts.CONTESTANTS,
        dicts.SqliteStore,
        _store_maker(durable=True),
        _store_arguments,
    ),
}

CONTESTANT_NAMES: list[str] = list(
    dict.fromkeys(each.name for workload in WORKLOADS.values() for each in workload.contestants)
)
