"""Domains, segments and instances."""

from __future__ import annotations

import functools
import inspect
import json
import os
import threading
from typing import Any, Callable, TypeVar, overload

import numpy as np
import numpy.typing as npt

from . import _tmh
from ._array import Array, Struct
from ._errors import ClosedError, Errc, Error, FullError, MismatchError
from ._mapping import Counter, Dict, Queue

Body = TypeVar("Body", bound=Callable[..., Any])
# What a segment's catalogue keeps of an object.
Record = dict[str, Any]
Names = dict[str, str]
Attempts = _tmh.AttemptLoop
Query = _tmh.QueryBlock

_DEFAULT_SEGMENT = "python.db"
_SEGMENT_BYTES_MAX = 1 << 40
_open_cores: dict[str, tuple[_tmh.Domain, int]] = {}
_lock = threading.Lock()
os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))


def open(  # noqa: A001
    folder: str | os.PathLike[str],
    durability: str | None = None,
    *,
    levels: str | None = "hybrid",
    policies: str | None = None,
    tracking: str | None = None,
    name: str | None = None,
    flush_interval_ms: int | None = None,
    keep_log: bool = False,
) -> Domain:
    """Open the domain in a folder, or make it.

    Opening a folder again in the same process gives another handle of the same domain; it closes
    when the last handle does.

    Parameters
    ----------
    folder : str or path
        Made when it is missing. All files of the domain lie there.
    durability : {"none", "buffered", "strict"}, optional
        What a commit survives: the death of processes; also a power cut, 100 ms after it; also a
        power cut, when it returns. Fixed by the first open, which takes "none" where nothing is
        said.
    levels : {"hybrid", "page"}, optional
        "hybrid" runs small instances on cache lines and the others on pages; "page" all on pages,
        which is faster for programs that work on whole arrays, and slower where processes change
        the same pages. All processes that have the domain open have the same. None: the domain's,
        else the environment's, else "page".
    policies : str, optional
        As ``TMH_POLICIES``: ``"conflict=oldest-wins,escalation=on-capacity"``. docs/options.md has
        all.
    tracking : str, optional
        How first touches of pages become known; docs/options.md.
    name : str, optional
        What others see of this process in ``participants()``.
    flush_interval_ms : int, optional
        Buffered domains: half the time after which a commit is durable. 50.
    keep_log : bool
        Never recycle files of the redo log.

    Returns
    -------
    Domain

    Raises
    ------
    MismatchError
        The domain has another durability, or is open with other levels.
    Error
        The folder is no domain (``Errc.NOT_A_DOMAIN``), another user's, ...; see ``code``.
    ValueError
        A setting has no such value; the message lists the right ones.
    """
    path = os.path.realpath(os.fspath(folder))
    settings = (
        durability or "", levels or "", policies or "", tracking or "", name or "",
        flush_interval_ms or 0, keep_log,
    )
    with _lock:
        core, handles = _open_cores.get(path, (None, 0))
        if core is None or core.is_closed:
            core, handles = _tmh.Domain(path, *settings), 0
        else:
            core.open_again(*settings)
        _open_cores[path] = (core, handles + 1)
    return Domain(core, path, settings)


class Domain:
    """A folder that processes share: what has one order of instances. Made by :func:`open`.

    Use it in a ``with`` statement, or call :meth:`close`.
    """

    def __init__(self, core: _tmh.Domain, path: str, settings: tuple) -> None:
        self._core_if_open: _tmh.Domain | None = core
        self._path = path
        self._settings = settings
        self._attempts_site = _tmh.Site("attempts")

    @property
    def _core(self) -> _tmh.Domain:
        if self._core_if_open is None:
            raise ClosedError(
                f"{self._path}: this handle is closed; open the domain again", Errc.NOT_INITIALIZED
            )
        return self._core_if_open

    @property
    def folder(self) -> str:
        """Absolute path of the domain's folder."""
        return self._path

    @property
    def durability(self) -> str:
        """"none", "buffered" or "strict"."""
        return self._core.durability()

    def close(self) -> None:
        """Leave the domain, unless another handle of this process has it open.

        Waits until no thread of this process runs an instance. Closing twice is allowed.

        Raises
        ------
        Error
            This thread runs an instance (``Errc.INSTANCE_RUNNING``).
        EscapedArrayError
            The program still holds a raw numpy array.
        """
        core = self._core_if_open
        if core is None:
            return
        with _lock:
            _, handles = _open_cores.get(self._path, (core, 1))
            if handles > 1:
                _open_cores[self._path] = (core, handles - 1)
                self._core_if_open = None
                return
        core.close()
        self._core_if_open = None
        with _lock:
            if _open_cores.get(self._path, (None, 0))[0] is core:
                del _open_cores[self._path]

    def __enter__(self) -> Domain:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def map(
        self,
        name: str,
        size: int | None = None,
        *,
        max_size: int | None = None,
        outside: str = "error",
    ) -> Segment:
        """Map a segment: a file of the domain's folder with a heap.

        Parameters
        ----------
        name : str
            The file's name. Names that begin with ``tmh.`` are the library's.
        size : int, optional
            Bytes at first; it grows as it is used.
        max_size : int, optional
            Address space for growth, in bytes; 64 GiB, at most 1 TiB.
        outside : {"error", "snapshot"}
            What reading an array outside of an instance does: raise ``OutsideError``, or read the
            newest snapshot.

        Returns
        -------
        Segment

        Raises
        ------
        Error
            The process has segments of another domain mapped (``Errc.ADDRESS_IN_USE``): the
            segments of every domain lie at the same addresses.
        NestingError
            In a query: map before it.
        """
        if outside not in ("error", "snapshot"):
            raise ValueError(f"outside={outside!r}: 'error' or 'snapshot'")
        if not isinstance(name, str) or not name or name.startswith("tmh.") or "\0" in name:
            raise ValueError(f"segment name {name!r}: a file name that does not begin with 'tmh.'")
        page = 4096
        if min(size or 0, max_size or 0) < 0:
            raise ValueError(f"size={size}, max_size={max_size}: bytes, not negative")
        rounded = [-(-each // page) * page if each else 0 for each in (size or 0, max_size or 0)]
        if max(rounded) > _SEGMENT_BYTES_MAX:
            raise ValueError(f"size={size}, max_size={max_size}: bytes, at most 1 TiB")
        try:
            self._core.map(name, *rounded)
        except Error as error:
            if error.code != Errc.ADDRESS_IN_USE:
                raise
            raise Error(
                f"{name}: the segments of every domain lie at the same addresses, so a process "
                "maps those of one domain at a time: close the other domain first", error.code
            ) from error
        return Segment(self, name, outside == "snapshot")

    def unmap(self, segment: Segment) -> None:
        """Unmap a segment in this process. Its arrays raise ``ClosedError`` from then on."""
        self._core.unmap(segment.name)

    @overload
    def atomically(self, body: Body) -> Body: ...
    @overload
    def atomically(
        self, *, durability: str | None = None, site: str | None = None
    ) -> Callable[[Body], Body]: ...

    def atomically(
        self,
        body: Any = None,
        *,
        durability: str | None = None,
        site: str | None = None,
    ) -> Any:
        """Make a function whose calls are transactions: a decorator.

        A call runs the body until it commits, and returns what it returns. What the body stores
        into segments becomes visible all at once. A body may run several times, so it should do
        nothing else that counts twice; see :func:`on_commit`. An exception undoes all stores and
        propagates. Inside another instance of the domain the body is a part of that.

        Parameters
        ----------
        body : function
            No coroutine and no generator.
        durability : {"strict", "buffered"}, optional
            When a call returns, where that is not as the domain says.
        site : str, optional
            Name under which its instances are counted. The function's.

        Returns
        -------
        function

        Examples
        --------
        >>> @domain.atomically                   # doctest: +SKIP
        ... def deposit(amount):
        ...     account.balance += amount
        """
        if body is None:
            return functools.partial(self.atomically, durability=durability, site=site)
        return self._transaction(body, False, durability, site)

    def query(self, body: Body | None = None) -> Any:
        """Read one snapshot: ``with domain.query():``, or a decorator for functions that read.

        The block reads one snapshot, however long it takes, and never aborts. A decorated function
        does, too; small ones run at cache-line level, where they may run several times.

        Raises
        ------
        QueryWroteError
            The query has stored into a segment. Nothing of it is kept.
        """
        if body is None:
            return _tmh.QueryBlock(self._core)
        return self._transaction(body, True, None, None)

    def _transaction(
        self, body: Any, is_query: bool, durability: str | None, site: str | None
    ) -> Any:
        if inspect.iscoroutinefunction(body) or inspect.isgeneratorfunction(body):
            raise TypeError("the body of a transaction is no coroutine and no generator")
        name = site or str(getattr(body, "__qualname__", "python"))
        made = _tmh.Transaction(self._core, body, is_query, durability or "", name)
        functools.update_wrapper(made, body)
        return made

    def attempts(self, *, durability: str | None = None) -> Attempts:
        """Attempts of one transaction, for code that wants no function.

        The ``with`` block is the body. Leave it by its end or by an exception: ``return`` and
        ``break`` would leave before it is known whether it has committed, and raise
        ``UncommittedError`` if it has not.

        Examples
        --------
        >>> for attempt in domain.attempts():    # doctest: +SKIP
        ...     with attempt:
        ...         cells[1] += 1
        """
        return _tmh.AttemptLoop(self._core, durability or "", self._attempts_site)

    @functools.cached_property
    def _default_segment(self) -> Segment:
        return self.map(_DEFAULT_SEGMENT)

    def dict(self, name: str, *, pickle: bool = False) -> Dict:
        """The ordered dict of this name, in the domain's own segment; see :meth:`Segment.dict`."""
        return self._default_segment.dict(name, pickle=pickle)

    def queue(self, name: str, *, pickle: bool = False) -> Queue:
        """The queue of this name, in the domain's own segment; see :meth:`Segment.queue`."""
        return self._default_segment.queue(name, pickle=pickle)

    def counter(self, name: str) -> Counter:
        """The counter of this name, in the domain's own segment; see :meth:`Segment.counter`."""
        return self._default_segment.counter(name)

    def flush(self) -> None:
        """Return when all that any process has committed is durable. Durable domains only."""
        self._core.flush()

    def checkpoint(self) -> None:
        """Bring the data files up to the log, so that recovery starts here. Durable domains."""
        self._core.checkpoint()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a consistent copy of the whole domain into a new folder. Durable domains."""
        self._core.backup(os.fspath(path))

    def stats(self) -> Record:
        """Counters of the whole domain since the first of its present participants came.

        ``aborts`` and ``line_aborts`` are dicts by cause; sizes are in bytes.
        """
        return self._core.stats()

    def participants(self) -> list[Record]:
        """The processes that have the domain open, each a dict with its ``pid`` and counters."""
        return self._core.participants()

    def recovery(self) -> Record:
        """What this process's open had to recover; ``ran`` is False when others had it open."""
        return self._core.recovery()

    def __reduce__(self) -> Any:
        return _reopened, (self._path, self._settings)

    def __repr__(self) -> str:
        state = "closed" if self._core_if_open is None else "open"
        return f"<tmh.Domain {self._path!r} {state}>"


def _reopened(path: str, settings: tuple) -> Domain:
    durability, levels, policies, tracking, name, flush_interval_ms, keep_log = settings
    return open(
        path, durability, levels=levels, policies=policies, tracking=tracking, name=name,
        flush_interval_ms=flush_interval_ms, keep_log=keep_log,
    )


def _remapped(domain: Domain, name: str, outside: str) -> Segment:
    return domain.map(name, outside=outside)


class Segment:
    """A file of a domain with named objects in it. Made by :meth:`Domain.map`."""

    def __init__(self, domain: Domain, name: str, reads_outside: bool) -> None:
        self._domain = domain
        self._name = name
        self._reads_outside = reads_outside
        self._catalogue = _tmh.Map(domain._core, name, None, False)

    @property
    def name(self) -> str:
        """The file's name in the domain's folder."""
        return self._name

    @property
    def domain(self) -> Domain:
        return self._domain

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._domain._core.size_bytes(self._name)

    def names(self) -> Names:
        """Names of the objects in the segment, with what each is."""
        found = self._catalogue.scan(None, True, None, True, 0, False, True)
        return {name: json.loads(record)["kind"] for name, record in found}

    def array(self, name: str, shape: Any = None, dtype: npt.DTypeLike | None = None) -> Array:
        """The array of this name; made of zeros by the first process that asks for it.

        Parameters
        ----------
        name : str
            Name in the segment.
        shape : int or tuple of int, optional
            None: as it was made.
        dtype : dtype, optional
            Any but objects of Python. None: as it was made.

        Returns
        -------
        Array

        Raises
        ------
        MismatchError
            It exists with another shape or dtype, or the name is another kind of object.
        KeyError
            It does not exist, and shape or dtype is missing.
        TypeError
            The dtype holds objects of Python.
        """
        wanted_dtype = None if dtype is None else _checked_dtype(dtype)
        wanted_shape = None if shape is None else _checked_shape(shape)

        def make() -> Record:
            if wanted_dtype is None or wanted_shape is None:
                raise KeyError(f"{name!r}: no such array; give shape and dtype to make it")
            count = 1
            for length in wanted_shape:
                count *= length
            return self._make_memory("array", wanted_dtype, wanted_shape, count)

        record = self._named(name, "array", make)
        have_dtype = _dtype_of(record["dtype"])
        have_shape = tuple(record["shape"])
        if wanted_dtype is not None and wanted_dtype != have_dtype:
            raise MismatchError(f"array {name!r} has dtype {have_dtype}, not {wanted_dtype}")
        if wanted_shape is not None and wanted_shape != have_shape:
            raise MismatchError(f"array {name!r} has shape {have_shape}, not {wanted_shape}")
        return self._array_at(name, record["address"], have_dtype, have_shape)

    def struct(self, name: str, dtype: npt.DTypeLike | None = None) -> Struct:
        """The structure of this name: one record of a structured dtype, zeros at first.

        Give ``align=True`` to the dtype: its fields of 1, 2, 4 and 8 bytes then run at cache-line
        level.

        Raises
        ------
        MismatchError, KeyError, TypeError
            As :meth:`array`.
        """
        wanted = None if dtype is None else _checked_dtype(dtype)
        if wanted is not None and wanted.names is None:
            raise TypeError(f"struct {name!r}: a structured dtype, not {wanted}")

        def make() -> Record:
            if wanted is None:
                raise KeyError(f"{name!r}: no such structure; give its dtype to make it")
            return self._make_memory("struct", wanted, (), 1)

        record = self._named(name, "struct", make)
        have = _dtype_of(record["dtype"])
        if wanted is not None and wanted != have:
            raise MismatchError(f"struct {name!r} has dtype {have}, not {wanted}")
        return Struct(self._array_at(name, record["address"], have, ()))

    def dict(self, name: str, *, pickle: bool = False) -> Dict:
        """The ordered dict of this name, empty at first.

        Keys are ``int``, ``bytes`` or ``str``, in this order. Values are ``None``, ``bool``,
        ``int``, ``float``, ``bytes``, ``str`` or numpy arrays; what a lookup gives is a copy.

        Parameters
        ----------
        name : str
            Name in the segment.
        pickle : bool
            Store values of other types by ``pickle``. Then whoever can write the domain's files
            can run code in this process.
        """
        record = self._named(name, "dict", self._make_tree)
        return Dict(self, name, record["address"], pickle)

    def queue(self, name: str, *, pickle: bool = False) -> Queue:
        """The first-in-first-out queue of this name, empty at first. Values as in a dict."""

        def make() -> Record:
            record = self._make_tree("queue")
            ends = self._make_memory("ends", np.dtype(np.int64), (16,), 16)
            return {**record, "ends": ends["address"]}

        record = self._named(name, "queue", make)
        ends = self._array_at(name, record["ends"], np.dtype(np.int64), (16,))
        return Queue(self, name, record["address"], ends, pickle)

    def counter(self, name: str) -> Counter:
        """The counter of this name, a signed number of 64 bits, 0 at first."""

        def make() -> Record:
            return self._make_memory("counter", np.dtype(np.int64), (1,), 1)

        record = self._named(name, "counter", make)
        cell = self._array_at(name, record["address"], np.dtype(np.int64), (1,), True)
        return Counter(self, name, cell)

    def _array_at(
        self,
        name: str,
        address: int,
        dtype: np.dtype,
        shape: tuple[int, ...],
        reads_outside: bool | None = None,
    ) -> Array:
        if reads_outside is None:
            reads_outside = self._reads_outside
        core = self._domain._core
        return _tmh.make_array(core, self._name, name, reads_outside, address, dtype, shape)

    def _make_tree(self, kind: str = "dict") -> Record:
        return {"kind": kind, "address": _tmh.make_map(self._domain._core, self._name)}

    def _make_memory(
        self, kind: str, dtype: np.dtype, shape: tuple[int, ...], count: int
    ) -> Record:
        core = self._domain._core
        size = max(1, count * dtype.itemsize)
        if size > _SEGMENT_BYTES_MAX:
            raise FullError(f"{size} bytes: a segment has at most 1 TiB", Errc.SEGMENT_FULL)
        address = core.allocate(self._name, size)
        core.clear_memory(address, size)
        descr = np.lib.format.dtype_to_descr(dtype)
        return {"kind": kind, "dtype": descr, "shape": list(shape), "address": address}

    def _named(self, name: str, kind: str, make: Callable[[], Record]) -> Record:
        if not isinstance(name, str) or not name:
            raise ValueError(f"{name!r}: the name of an object is a str that is not empty")
        found = self._catalogue.get(name)
        if found is None:
            found = self._make_named(name, make)
        try:
            record = json.loads(found)
            have = record["kind"]
        except (ValueError, TypeError, KeyError) as error:
            raise Error(f"the record of {name!r} cannot be read", Errc.CORRUPT) from error
        if have != kind:
            raise MismatchError(f"{name!r} is the name of another kind of object: {have}")
        return record

    def _make_named(self, name: str, make: Callable[[], Record]) -> str:
        def body() -> str:
            found = self._catalogue.get(name)
            if found is None:
                found = json.dumps(make())
                self._catalogue[name] = found
            return found

        return _tmh.Transaction(self._domain._core, body, False, "", "python.make")()

    def __reduce__(self) -> Any:
        outside = "snapshot" if self._reads_outside else "error"
        return _remapped, (self._domain, self._name, outside)

    def __repr__(self) -> str:
        return f"<tmh.Segment {self._name!r} of {self._domain.folder!r}>"


def _checked_dtype(dtype: npt.DTypeLike) -> np.dtype:
    made = np.dtype(dtype)
    if made.hasobject:
        raise TypeError(f"dtype {made}: objects of Python cannot lie in shared memory")
    if made.itemsize == 0:
        raise TypeError(f"dtype {made}: give its length, such as 'S16'")
    return made


def _checked_shape(shape: Any) -> tuple[int, ...]:
    lengths = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    checked = tuple(int(length) for length in lengths)
    if any(length < 0 for length in checked):
        raise ValueError(f"shape {checked}: a length is not negative")
    return checked


def _dtype_of(descr: Any) -> np.dtype:
    def tuples(value: Any) -> Any:
        """JSON has lists only: a list of fields stays one, a field and a shape are tuples."""
        if not isinstance(value, list):
            return value
        if value and all(isinstance(each, list) for each in value):
            return [tuple(tuples_in_field(each)) for each in value]
        return tuple(value)

    def tuples_in_field(field: list) -> list:
        return [
            tuple(each) if isinstance(each, list) and number != 1 else tuples(each)
            for number, each in enumerate(field)
        ]

    return np.lib.format.descr_to_dtype(tuples(descr))


def retry(until: float | None = None) -> None:
    """In a body: undo it, sleep until something that it has read has changed, and run it again.

    Any process may make the change. The body also runs again four times per second, so that
    Ctrl-C is noticed.

    Parameters
    ----------
    until : float, optional
        Of ``time.monotonic()``: the body also runs again then. So the body looks at the clock
        before it retries, and says itself what comes of a wait that was in vain.

    Raises
    ------
    NothingReadError
        The body has read nothing.
    OutsideError
        No instance is running.
    """
    _tmh.retry(-1.0 if until is None else max(0.0, until))


def on_commit(action: Callable[[], Any]) -> None:
    """In a body: call `action` when the outermost instance has committed, outside of it.

    What it raises goes to ``sys.unraisablehook``: the instance has committed all the same.
    """
    _tmh.on_commit(action)


def irrevocable() -> None:
    """In a body: from here on the instance cannot abort, so it may print, send, start a motor.

    Until it has ended no other instance of the domain commits at page level. An exception still
    undoes it; ``retry()`` is refused.
    """
    _tmh.irrevocable()
