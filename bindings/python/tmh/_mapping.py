"""Dicts, queues and counters in a segment."""

from __future__ import annotations

import operator
import queue
import time
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Iterator, Union

from . import _tmh

if TYPE_CHECKING:
    from ._array import Array
    from ._domain import Segment

Key = Union[int, bytes, str]
# Records that an iteration outside of an instance reads at a time.
_BATCH = 256


class Dict(_tmh.Map):
    """An ordered mapping in a segment: ``int | bytes | str`` to values, in the order of keys.

    Keys of different types do not mix: every ``int`` comes before all ``bytes``, these before all
    ``str``. A call inside an instance is part of it; outside it is an instance of its own. What a
    lookup gives is a copy: change it, and store it again.

    ``len(d)`` walks the tree's leaves: some microseconds per thousand records.
    """

    __slots__ = ("_segment", "_name", "_pickle")

    def __init__(self, segment: Segment, name: str, address: int, pickle: bool) -> None:
        super().__init__(segment.domain._core, segment.name, address, pickle)
        self._segment = segment
        self._name = name
        self._pickle = pickle

    @property
    def name(self) -> str:
        """Name in the segment."""
        return self._name

    def irange(
        self,
        lo: Key | None = None,
        hi: Key | None = None,
        *,
        inclusive: tuple[bool, bool] = (True, True),
        reverse: bool = False,
    ) -> Iterator[Key]:
        """The keys from `lo` to `hi`, in order.

        Parameters
        ----------
        lo, hi : int, bytes or str, optional
            None: from the first, to the last.
        inclusive : pair of bool
            Whether each bound itself is inside.
        reverse : bool
            From the last to the first.

        Notes
        -----
        In an instance it sees the instance's snapshot. Outside it reads some hundred keys at a
        time, each time of the newest snapshot: keys that come or go meanwhile may be seen or not.
        """
        return self._iterate(lo, hi, inclusive, reverse, False)

    def _iterate(
        self, lo: Any, hi: Any, inclusive: tuple[bool, bool], reverse: bool, with_values: bool
    ) -> Iterator[Any]:
        try:
            has_lo, has_hi = map(bool, inclusive)
        except (TypeError, ValueError):
            raise TypeError(f"inclusive={inclusive!r}: a pair of bool") from None
        while True:
            found = self._scan(lo, has_lo, hi, has_hi, _BATCH, reverse, with_values)
            yield from found
            if len(found) < _BATCH:
                return
            newest = found[-1][0] if with_values else found[-1]
            if reverse:
                hi, has_hi = newest, False
            else:
                lo, has_lo = newest, False

    def __iter__(self) -> Iterator[Key]:
        return self.irange()

    def __reversed__(self) -> Iterator[Key]:
        return self.irange(reverse=True)

    def items(self) -> Iterator[tuple[Key, Any]]:
        """Pairs of key and value, in the order of keys; see :meth:`irange` for what it sees."""
        return self._iterate(None, None, (True, True), False, True)

    def values(self) -> Iterator[Any]:
        """Values in the order of keys; see :meth:`irange` for what it sees."""
        return (value for _, value in self.items())

    def keys(self) -> Iterator[Key]:
        """Keys in their order; see :meth:`irange` for what it sees."""
        return self.irange()

    def peekitem(self, last: bool = True) -> tuple[Key, Any]:
        """The item with the greatest key, or with the least.

        Raises
        ------
        KeyError
            The dict is empty.
        """
        found = self._scan(None, True, None, True, 1, bool(last), True)
        if not found:
            raise KeyError(f"dict {self._name!r} is empty")
        return found[0]

    def popitem(self, last: bool = True) -> tuple[Key, Any]:
        """Remove the item with the greatest key, or with the least, and return it.

        Raises
        ------
        KeyError
            The dict is empty.
        """

        def body() -> tuple[Key, Any]:
            key, value = self.peekitem(last)
            del self[key]
            return key, value

        return _tmh.Transaction(self._segment.domain._core, body, False, "", _tmh.Site("popitem"))()

    def update(self, *args: Any, **kwargs: Any) -> None:
        """As ``dict.update()``, as one transaction."""
        items = list(dict(*args, **kwargs).items())

        def body() -> None:
            for key, value in items:
                self[key] = value

        _tmh.Transaction(self._segment.domain._core, body, False, "", _tmh.Site("update"))()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, (dict, MutableMapping)):
            return NotImplemented
        return dict(self.items()) == dict(other.items())

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return _again, (self._segment, "dict", self._name, self._pickle)

    def __repr__(self) -> str:
        return f"<tmh.Dict {self._name!r}>"


MutableMapping.register(Dict)


class Queue:
    """A first-in-first-out queue in a segment, for any number of processes.

    A call inside an instance is part of it: what ``get()`` has taken is there again when the
    instance, or its process, dies. Outside it is an instance of its own.
    """

    # Numbers of the first and the behind-the-last entry, on a line each.
    _HEAD, _TAIL = 0, 8

    def __init__(
        self, segment: Segment, name: str, address: int, ends: Array, pickle: bool
    ) -> None:
        core = segment.domain._core
        self._segment = segment
        self._name = name
        self._pickle = pickle
        self._ends = ends
        self._entries = _tmh.Map(core, segment.name, address, pickle)
        self._put = _tmh.Transaction(core, self._put_body, False, "", _tmh.Site(f"{name}.put"))
        self._get = _tmh.Transaction(core, self._get_body, False, "", _tmh.Site(f"{name}.get"))
        self._size = _tmh.Transaction(core, self._size_body, True, "", _tmh.Site(f"{name}.len"))

    @property
    def name(self) -> str:
        """Name in the segment."""
        return self._name

    def put(self, value: Any) -> None:
        """Append a value. A process that sleeps in ``get()`` wakes."""
        self._put(value)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the first value; sleep while there is none, until any process puts one.

        Parameters
        ----------
        block : bool
            False: raise at once where there is none.
        timeout : float, optional
            Seconds after which a sleep ends.

        Raises
        ------
        queue.Empty
            There is none.
        """
        if not block:
            return self._get(0.0)
        return self._get(None if timeout is None else time.monotonic() + max(0.0, float(timeout)))

    def _put_body(self, value: Any) -> None:
        ends = self._ends
        tail = int(ends[self._TAIL])
        self._entries[tail] = value
        ends[self._TAIL] = tail + 1

    def _get_body(self, until: float | None) -> Any:
        ends = self._ends
        head = int(ends[self._HEAD])
        if head == ends[self._TAIL]:
            if until is not None and time.monotonic() >= until:
                raise queue.Empty
            _tmh.retry(-1.0 if until is None else until)
        ends[self._HEAD] = head + 1
        return self._entries.pop(head)

    def _size_body(self) -> int:
        return int(self._ends[self._TAIL] - self._ends[self._HEAD])

    def __len__(self) -> int:
        return self._size()

    def empty(self) -> bool:
        """Is there no value at this moment?"""
        return len(self) == 0

    def __reduce__(self) -> Any:
        return _again, (self._segment, "queue", self._name, self._pickle)

    def __repr__(self) -> str:
        return f"<tmh.Queue {self._name!r}>"


class Counter:
    """A signed number of 64 bits in a segment."""

    def __init__(self, segment: Segment, name: str, cell: Array) -> None:
        self._segment = segment
        self._name = name
        self._cell = cell
        site = _tmh.Site(name)
        self._add = _tmh.Transaction(segment.domain._core, self._add_body, False, "", site)

    @property
    def name(self) -> str:
        """Name in the segment."""
        return self._name

    @property
    def value(self) -> int:
        """The number: in an instance of its snapshot, else the newest."""
        return int(self._cell[0])

    @value.setter
    def value(self, number: int) -> None:
        self._add(number, True)

    def add(self, amount: int = 1) -> int:
        """Add to the number and return it; part of the running instance, or one of its own.

        Raises
        ------
        OverflowError
            It would need more than 64 bits. The number stays.
        """
        return self._add(amount, False)

    def _add_body(self, amount: int, is_set: bool) -> int:
        amount = operator.index(amount)
        number = amount if is_set else int(self._cell[0]) + amount
        self._cell[0] = number
        return number

    def __reduce__(self) -> Any:
        return _again, (self._segment, "counter", self._name, None)

    def __repr__(self) -> str:
        return f"<tmh.Counter {self._name!r}>"


def _again(segment: Segment, kind: str, name: str, pickle: bool | None) -> Any:
    if kind == "counter":
        return segment.counter(name)
    return getattr(segment, kind)(name, pickle=pickle)
