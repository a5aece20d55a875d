"""Values of 100 bytes under random numbers, beside embedded databases.

Each operation is a transaction of its own. ``get`` and ``put`` take keys that are there, so that
these rows see a store of the same size however fast its contestant is; ``insert`` takes new ones,
which are removed after the run. Keys are made in each contestant's own form before the clock runs.
Each contestant has the settings that its documentation names for speed.
"""

from __future__ import annotations

import random
from multiprocessing.context import ForkContext
from pathlib import Path
from typing import Any, Callable, ClassVar, Iterable, Iterator

import tmh

from .contestants import Contestant, Operation, Worker, WrongResult

VALUE_BYTES = 100
# Keys whose values are looked at after each run.
_CHECKED = 200
# How long a process waits for a lock of a database before it gives up.
_LOCK_S = 60
_MAP_BYTES = 4 << 30
# Records of one transaction that fills a store of tmh.
_BATCH = 1_000


def numbers(records: int) -> list[int]:
    """The keys of a store: scattered over 62 bits, the same for each contestant."""
    return random.Random(records).sample(range(1 << 62), records)


def value_of(number: int, version: int) -> bytes:
    """100 bytes that tell their key, so that a wrong one shows."""
    head = number.to_bytes(8, "big") + version.to_bytes(8, "big")
    return head + bytes([version & 0xFF]) * (VALUE_BYTES - len(head))


def is_value_of(number: int, value: Any) -> bool:
    """Is this one of the values that the key has ever had?"""
    return (
        isinstance(value, bytes)
        and len(value) == VALUE_BYTES
        and value == value_of(number, int.from_bytes(value[8:16], "big"))
    )


class Store(Contestant):
    """A contestant with puts and gets.

    Parameters
    ----------
    folder, context
        As ``Contestant``.
    records : int
        How many the store has.
    durable : bool
        Whether a put has reached the disk when it returns.
    """

    module: ClassVar[str]

    def __init__(
        self, folder: Path, context: ForkContext, records: int, durable: bool
    ) -> None:
        super().__init__(folder, context)
        self.records = records
        self.durable = durable

    def key(self, number: int) -> Any:
        """The key in the form that the store takes."""
        return number

    def pairs(self) -> Iterator[tuple[Any, bytes]]:
        """What the store holds at first."""
        return ((self.key(number), value_of(number, 0)) for number in numbers(self.records))

    def check(self) -> None:
        worker = self.open()
        get = worker.operations["get"]
        for number in random.sample(numbers(self.records), min(_CHECKED, self.records)):
            if not is_value_of(number, get(self.key(number))):
                raise WrongResult(f"{self.name}: key {number} has a wrong value")
        worker.close()

    def arguments(self, operation: str, seed: int, count: int) -> list[tuple]:
        """Arguments of `count` operations."""
        draw = random.Random(seed)
        if operation == "insert":
            chosen = [draw.getrandbits(62) for _ in range(count)]
        else:
            chosen = draw.choices(numbers(self.records), k=count)
        if operation == "get":
            return [(self.key(number),) for number in chosen]
        return [
            (self.key(number), value_of(number, draw.getrandbits(63))) for number in chosen
        ]

    @staticmethod
    def worker(
        get: Operation, put: Operation, remove: Callable[[list], Any], close: Callable[[], Any]
    ) -> Worker:
        """A worker that inserts as it puts."""
        return Worker({"get": get, "put": put, "insert": put}, close, remove)


class TmhStore(Store):
    name = "tmh"

    @classmethod
    def version(cls) -> str:
        return f"tmh {tmh.__version__}"

    def _open(self) -> tuple[tmh.Domain, tmh.Dict]:
        domain = tmh.open(self.folder, "strict" if self.durable else "none")
        return domain, domain.dict("store")

    def prepare(self) -> None:
        domain, values = self._open()
        with domain:
            for some in _batches(self.pairs()):
                values.update(some)

    def open(self) -> Worker:
        domain, values = self._open()

        def get(key: int) -> Any:
            return values[key]

        def put(key: int, value: bytes) -> None:
            values[key] = value

        def remove(keys: list[int]) -> None:
            for key in keys:
                values.pop(key, None)

        return self.worker(get, put, remove, domain.close)


class SqliteStore(Store):
    """WAL, one connection per process, an autocommit statement per operation."""

    name = "sqlite3"
    module = "sqlite3"
    install = "build Python with libsqlite3-dev"

    @classmethod
    def version(cls) -> str:
        import sqlite3

        return f"SQLite {sqlite3.sqlite_version}"

    def _open(self) -> Any:
        import sqlite3

        connection = sqlite3.connect(
            self.folder / "store.sqlite", timeout=_LOCK_S, isolation_level=None
        )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={'FULL' if self.durable else 'OFF'}")
        connection.execute("PRAGMA mmap_size=1073741824")
        connection.execute("PRAGMA cache_size=-65536")
        return connection

    def prepare(self) -> None:
        connection = self._open()
        connection.execute("CREATE TABLE store (key INTEGER PRIMARY KEY, value BLOB)")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO store VALUES (?, ?)", self.pairs())
        connection.execute("COMMIT")
        connection.close()

    def open(self) -> Worker:
        connection = self._open()
        execute = connection.execute

        def get(key: int) -> bytes:
            return execute("SELECT value FROM store WHERE key = ?", (key,)).fetchone()[0]

        def put(key: int, value: bytes) -> None:
            execute("INSERT OR REPLACE INTO store VALUES (?, ?)", (key, value))

        def remove(keys: list[int]) -> None:
            execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM store WHERE key = ?", ((key,) for key in keys))
            execute("COMMIT")

        return self.worker(get, put, remove, connection.close)


class LmdbStore(Store):
    """One environment per process, opened after the fork."""

    name = "lmdb"
    module = "lmdb"
    install = "pip install lmdb"

    @classmethod
    def version(cls) -> str:
        import lmdb

        return "lmdb {} (LMDB {})".format(lmdb.__version__, ".".join(map(str, lmdb.version())))

    def _open(self) -> Any:
        import lmdb

        return lmdb.open(
            str(self.folder), map_size=_MAP_BYTES, sync=self.durable, metasync=self.durable,
            writemap=not self.durable,
        )

    def key(self, number: int) -> bytes:
        return number.to_bytes(8, "big")

    def prepare(self) -> None:
        with self._open() as environment, environment.begin(write=True) as transaction:
            for key, value in self.pairs():
                transaction.put(key, value)

    def open(self) -> Worker:
        environment = self._open()
        begin = environment.begin

        def get(key: bytes) -> bytes:
            with begin() as transaction:
                return transaction.get(key)

        def put(key: bytes, value: bytes) -> None:
            with begin(write=True) as transaction:
                transaction.put(key, value)

        # One transaction for all leaves a long list of free pages, which slows later puts.
        def remove(keys: list[bytes]) -> None:
            for key in keys:
                with begin(write=True) as transaction:
                    transaction.delete(key)

        return self.worker(get, put, remove, environment.close)


class DiskcacheStore(Store):
    """No eviction and no statistics, so that a get only reads."""

    name = "diskcache"
    module = "diskcache"
    install = "pip install diskcache"

    @classmethod
    def version(cls) -> str:
        import diskcache

        return f"diskcache {diskcache.__version__}"

    def _open(self) -> Any:
        import diskcache

        return diskcache.Cache(
            str(self.folder), timeout=_LOCK_S, eviction_policy="none", cull_limit=0,
            size_limit=_MAP_BYTES, sqlite_synchronous=2 if self.durable else 0,
            sqlite_mmap_size=1 << 30, sqlite_cache_size=1 << 14,
        )

    def prepare(self) -> None:
        with self._open() as cache, cache.transact():
            for key, value in self.pairs():
                cache.set(key, value)

    def open(self) -> Worker:
        cache = self._open()

        def get(key: int) -> bytes:
            return cache[key]

        def put(key: int, value: bytes) -> None:
            cache[key] = value

        def remove(keys: list[int]) -> None:
            with cache.transact():
                for key in keys:
                    cache.delete(key)

        return self.worker(get, put, remove, cache.close)


class GdbmStore(Store):
    """Many readers or one writer: the writer has the file locked as long as it has it open."""

    name = "dbm.gnu"
    module = "dbm.gnu"
    install = "apt install python3-gdbm, or build Python with libgdbm-dev"

    @classmethod
    def why_not(cls, operation: str, processes: int) -> str:
        if operation != "get" and processes > 1:
            return "one writer only"
        return ""

    @classmethod
    def version(cls) -> str:
        import _gdbm

        numbers = getattr(_gdbm, "_GDBM_VERSION", ())
        return " ".join(["GNU dbm", ".".join(map(str, numbers))]).strip()

    def key(self, number: int) -> bytes:
        return number.to_bytes(8, "big")

    def _open(self, flag: str) -> Any:
        import dbm.gnu

        return dbm.gnu.open(str(self.folder / "store.gdbm"), flag)

    def prepare(self) -> None:
        with self._open("nf") as store:
            for key, value in self.pairs():
                store[key] = value
            store.sync()

    def open(self) -> Worker:
        opened: list[Any] = []

        # The first operation decides which way the process has the file open.
        def file_for(flag: str) -> Any:
            if not opened:
                opened.append(self._open(flag))
            return opened[0]

        def get(key: bytes) -> bytes:
            return file_for("r")[key]

        def put(key: bytes, value: bytes) -> None:
            file_for("wf")[key] = value

        # The flag "s" alone syncs some puts only.
        def put_and_sync(key: bytes, value: bytes) -> None:
            file = file_for("wf")
            file[key] = value
            file.sync()

        def remove(keys: list[bytes]) -> None:
            file = file_for("wf")
            for key in keys:
                if key in file:
                    del file[key]

        def close() -> None:
            for file in opened:
                file.close()

        return self.worker(get, put_and_sync if self.durable else put, remove, close)


def _batches(pairs: Iterable[tuple[Any, bytes]]) -> Iterator[dict[Any, bytes]]:
    batch: dict[Any, bytes] = {}
    for key, value in pairs:
        batch[key] = value
        if len(batch) == _BATCH:
            yield batch
            batch = {}
    if batch:
        yield batch


CONTESTANTS: list[type[Store]] = [TmhStore, SqliteStore, LmdbStore, DiskcacheStore, GdbmStore]
