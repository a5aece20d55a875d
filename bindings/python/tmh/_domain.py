"""Domains and instances."""

from __future__ import annotations

import atexit
import datetime
import functools
import inspect
import multiprocessing.util
import numbers
import operator
import os
import sys
import threading
from typing import Any, Callable, TypeVar, overload

from . import _tmh
from ._errors import ClosedError, Errc, Error, MismatchError, NestingError
from ._mapping import Counter, Dict, Queue
from ._segment import SEGMENT_BYTES_MAX, Record, Segment

Body = TypeVar("Body", bound=Callable[..., Any])
Attempts = _tmh.AttemptLoop
Query = _tmh.QueryBlock


def _text(name: str, value: str | None) -> str:
    """The value of a parameter that is a str or None."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"{name}={value!r}: a str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name}={value!r}: no text that UTF-8 can write") from error
    return value


def _whole(name: str, value: int | None) -> int:
    """The value of a parameter that is a whole number or None."""
    if value is None:
        return 0
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name}={value!r}: a whole number, not {type(value).__name__}"
        ) from None


_DEFAULT_SEGMENT = "python.db"
_HISTORY_S_MAX = 1e9


class _Opened:
    """A domain that this process has open."""

    __slots__ = ("core", "handles")

    def __init__(self, core: _tmh.Domain) -> None:
        self.core = core
        self.handles = 0


_opened: dict[str, _Opened] = {}
# Folders whose domain a thread opens or closes, and which; `_changed` guards both.
_changing: dict[str, int] = {}
_changed = threading.Condition()


def _check_body(body: Any) -> None:
    if inspect.iscoroutinefunction(body) or inspect.isgeneratorfunction(body):
        raise TypeError("the body of a transaction is no coroutine and no generator")
    if not callable(body):
        raise TypeError(f"the body of a transaction is a function, not {type(body).__name__}")


def _name_of(body: Any) -> str:
    name = getattr(body, "__qualname__", "python")
    return name if isinstance(name, str) else "python"


def _name_of_moment(name: str) -> str:
    if name is None:
        raise TypeError("the name of a moment is a str, not NoneType")
    return _text("name", name)


def _forget_threads() -> None:
    """In a forked child: no other thread of the parent's is there."""
    global _changed
    _changed = threading.Condition()
    _changing.clear()


os.register_at_fork(after_in_child=_forget_threads)


def _leave_all() -> None:
    """Leave each domain that this process has open: it ends.

    Daemon threads would meet closed domains. With them the process leaves as if it were killed.
    """
    if threading.active_count() == 1:
        for opened in list(_opened.values()):
            opened.core.close_at_exit()


def _leave_at_the_end_of_a_child(_: object) -> None:
    # A child of multiprocessing ends without atexit.
    multiprocessing.util.Finalize(None, _leave_all, exitpriority=-100)


atexit.register(_leave_all)
multiprocessing.util.register_after_fork(_tmh, _leave_at_the_end_of_a_child)


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
    history_s: float = 0.0,
    history_bytes: int = 0,
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
    history_s, history_bytes
        How much of its past the domain holds, for ``query_at()``: seconds, and bytes of memory.
        0 and 0: what is named alone. Not with level 1.

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
    path = os.path.realpath(os.fsdecode(folder))
    _text("folder", path)
    interval_ms = _whole("flush_interval_ms", flush_interval_ms)
    if flush_interval_ms is not None and not 0 < interval_ms < 1 << 32:
        raise ValueError(f"flush_interval_ms={flush_interval_ms}: a number above 0")
    if not isinstance(history_s, numbers.Real):
        raise TypeError(f"history_s={history_s!r}: seconds, not {type(history_s).__name__}")
    history_bytes = _whole("history_bytes", history_bytes)
    if not 0 <= history_s <= _HISTORY_S_MAX:
        raise ValueError(f"history_s={history_s}: from 0 to {_HISTORY_S_MAX:.0f}")
    if not 0 <= history_bytes < 2**63:
        raise ValueError(f"history_bytes={history_bytes}: a number from 0 on")
    settings = _tmh.Settings(
        _text("durability", durability), _text("levels", levels), _text("policies", policies),
        _text("tracking", tracking), _text("name", name), interval_ms, bool(keep_log),
        float(history_s), history_bytes,
    )
    again = functools.partial(
        open, path, durability, levels=levels, policies=policies, tracking=tracking, name=name,
        flush_interval_ms=flush_interval_ms, keep_log=keep_log, history_s=history_s,
        history_bytes=history_bytes,
    )
    with _changed:
        opened = _opened.get(path)
        while path in _changing:
            if _changing[path] == threading.get_ident():
                raise NestingError(
                    f"{path}: a signal handler opens it while the code that it interrupts opens or "
                    "closes it", Errc.NESTED_MISUSE,
                )
            if opened is not None and _tmh.in_instance(opened.core):
                raise ClosedError(f"{path}: another thread closes it", Errc.NOT_INITIALIZED)
            _changed.wait()
            opened = _opened.get(path)
        try:
            _changing[path] = threading.get_ident()
            if opened is None or opened.core.is_closed:
                opened = _Opened(_tmh.Domain(path, settings))
                _opened[path] = opened
            else:
                opened.core.open_again(settings)
            opened.handles += 1
        finally:
            del _changing[path]
    return Domain(opened, path, again)


class Domain:
    """A folder that processes share: what has one order of instances. Made by :func:`open`.

    Use it in a ``with`` statement, or call :meth:`close`.
    """

    def __init__(self, opened: _Opened, path: str, again: Callable[[], Domain]) -> None:
        self._opened_if_open: _Opened | None = opened
        self._path = path
        # Opens it in another process.
        self._again = again
        self._attempts_site = _tmh.Site("attempts")
        # Names of functions that run() has called.
        self._sites_of_run: dict[str, _tmh.Site] = {}

    @property
    def _opened(self) -> _Opened:
        if self._opened_if_open is None:
            raise ClosedError(
                f"{self._path}: this handle is closed; open the domain again", Errc.NOT_INITIALIZED
            )
        return self._opened_if_open

    @property
    def _core(self) -> _tmh.Domain:
        return self._opened.core

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
        opened, closes = self._opened_if_open, False
        if opened is None:
            return
        try:
            with _changed:
                if self._opened_if_open is None:
                    return
                self._opened_if_open = None
                opened.handles -= 1
                if opened.handles > 0:
                    return
                closes = True
                _changing[self._path] = threading.get_ident()
            opened.core.close()
        except BaseException:
            if closes:
                opened.handles += 1
                self._opened_if_open = opened
            raise
        finally:
            if closes:
                with _changed:
                    _changing.pop(self._path, None)
                    if opened.handles == 0:
                        _opened.pop(self._path, None)
                    _changed.notify_all()

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
        is_name = isinstance(name, str) and name not in ("", ".", "..")
        is_name = is_name and name.isprintable() and "/" not in name
        if not is_name or name.startswith("tmh."):
            raise ValueError(
                f"segment name {name!r}: the name of a file in the domain's folder that does not "
                "begin with 'tmh.'"
            )
        page = 4096
        sizes = _whole("size", size), _whole("max_size", max_size)
        if min(sizes) < 0:
            raise ValueError(f"size={size}, max_size={max_size}: bytes, not negative")
        rounded = [-(-each // page) * page for each in sizes]
        if max(rounded) > SEGMENT_BYTES_MAX:
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
        if not isinstance(segment, Segment):
            raise TypeError(f"{segment!r} is no segment")
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

        This calls nothing: :meth:`run` does. A function that is dropped without a call gives a
        ``RuntimeWarning``, unless a module or a class has it.

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

    def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function at once, as a transaction: ``domain.run(move, 1, to=2)``.

        As ``domain.atomically(function)(*args, **kwargs)``. All arguments behind the function are
        the function's; for a durability or a site of its own call :meth:`atomically`.

        Returns
        -------
        What the function returns.
        """
        _check_body(function)
        name = _name_of(function)
        site = self._sites_of_run.get(name)
        if site is None:
            site = self._sites_of_run.setdefault(name, _tmh.Site(name))
        return _tmh.Transaction(self._core, function, False, "", site)(*args, **kwargs)

    def query(self, body: Body | None = None) -> Any:
        """Read one snapshot: ``with domain.query():``, or a decorator for functions that read.

        The block reads one snapshot, however long it takes, and never aborts. A decorated function
        does, too; small ones run at cache-line level, where they may run several times. Inside an
        update either is a part of that: it sees the update's stores, and its own are the update's.

        Raises
        ------
        QueryWroteError
            The query has stored into a segment. Nothing of it is kept.
        """
        if body is None:
            return _tmh.QueryBlock(self._core)
        return self._transaction(body, True, None, None)

    def query_at(self, moment: int | str | datetime.datetime) -> Any:
        """Read the domain as it was: ``with domain.query_at("before-import"):``.

        Parameters
        ----------
        moment : int, str or datetime.datetime
            A commit's clock, as ``keep()`` returns it; the name of a moment; or a time. A time
            without a zone is local.

        Raises
        ------
        Error
            ``NOT_HELD``: the domain does not hold that moment. ``LEVELS_MISMATCH``: it has level 1.
        NestingError
            Inside an instance.
        """
        if isinstance(moment, str):
            return _tmh.QueryBlock(self._core, "name", 0, _text("moment", moment))
        if isinstance(moment, datetime.datetime):
            ns = round(moment.timestamp() * 1_000_000) * 1000
            return _tmh.QueryBlock(self._core, "time", max(ns, 0), "")
        try:
            clock = operator.index(moment)
        except TypeError:
            raise TypeError(
                f"{moment!r}: a moment is a commit's clock, a name or a datetime, not "
                f"{type(moment).__name__}"
            ) from None
        if not 0 <= clock < 2**64:
            raise ValueError(f"clock {clock}: from 0 to 2**64 - 1")
        return _tmh.QueryBlock(self._core, "clock", clock, "")

    def keep(self, name: str) -> int:
        """Hold the present under a name until ``forget()``; its clock.

        A durable domain remembers the name when all have closed it.

        Raises
        ------
        Error
            ``BAD_ARGUMENT``: not 1 to 47 bytes, or there is such a name. ``TOO_MANY_MOMENTS``.
        """
        return self._core.keep(_name_of_moment(name))

    def forget(self, name: str) -> None:
        """Hold the moment with this name no longer."""
        self._core.forget(_name_of_moment(name))

    def past(self) -> Record:
        """What is held of the past: ``oldest`` and ``now`` as clocks, ``bytes``, ``moments``.

        Each of ``moments`` is a dict with its ``name``, ``clock``, ``time`` and ``is_held``.
        """
        past = self._core.past()
        for each in past["moments"]:
            each["name"] = each["name"].decode(errors="backslashreplace")
            seconds = each.pop("time_ns") / 1e9
            each["time"] = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
        return past

    def _transaction(
        self, body: Any, is_query: bool, durability: str | None, site: str | None
    ) -> Any:
        _check_body(body)
        self._check_durability(durability)
        name = _name_of(body)
        in_counters = _tmh.Site(_text("site", site) or name)
        made = _tmh.Transaction(self._core, body, is_query, durability or "", in_counters)
        functools.update_wrapper(made, body)
        made._watch(sys._getframe(2), getattr(made, "__qualname__", type(body).__qualname__))
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
        self._check_durability(durability)
        return _tmh.AttemptLoop(self._core, durability or "", self._attempts_site)

    def _check_durability(self, durability: str | None) -> None:
        _text("durability", durability)
        if durability not in (None, "none") and self.durability == "none":
            raise MismatchError(
                f"durability={durability!r}: the domain has none; open it as durable"
            )

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
        self._core.backup(_text("path", os.fsdecode(path)))

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
        return self._again, ()

    def __repr__(self) -> str:
        state = "closed" if self._opened_if_open is None else "open"
        return f"<tmh.Domain {self._path!r} {state}>"


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
    if until is not None and not isinstance(until, numbers.Real):
        raise TypeError(f"until={until!r}: of time.monotonic(), not {type(until).__name__}")
    _tmh.retry(-1.0 if until is None else max(0.0, float(until)))


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
