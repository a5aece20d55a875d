"""Segments: files of a domain with named objects in them."""

from __future__ import annotations

import json
import math
import operator
from typing import TYPE_CHECKING, Any, Callable

import numpy as np
import numpy.typing as npt

from . import _tmh
from ._array import Array, Struct
from ._errors import Errc, Error, FullError, MismatchError
from ._mapping import Counter, Dict, Queue

if TYPE_CHECKING:
    from ._domain import Domain

# What a segment's catalogue keeps of an object.
Record = dict[str, Any]
Names = dict[str, str]
SEGMENT_BYTES_MAX = 1 << 40
# What every numpy takes.
_DIMENSIONS_MAX = 32


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
        found = self._catalogue._scan(None, True, None, True, 0, False, True)
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
            count = math.prod(wanted_shape)
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
        for field in (wanted.names or ()) if wanted is not None else ():
            if hasattr(Struct, field):
                raise ValueError(f"struct {name!r}: {field!r} is no name for a field of a Struct")

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
        ``int``, ``float``, ``bytes``, ``str`` or numpy arrays and scalars; what a lookup gives is a
        copy.

        Parameters
        ----------
        name : str
            Name in the segment.
        pickle : bool
            Store values of other types by ``pickle``. Then whoever can write the domain's files
            can run code in this process.
        """
        record = self._named(name, "dict", self._make_tree)
        return Dict(self, name, record["address"], bool(pickle))

    def queue(self, name: str, *, pickle: bool = False) -> Queue:
        """The first-in-first-out queue of this name, empty at first. Values as in a dict."""

        def make() -> Record:
            record = self._make_tree("queue")
            ends = self._make_memory("ends", np.dtype(np.int64), (16,), 16)
            return {**record, "ends": ends["address"]}

        record = self._named(name, "queue", make)
        ends = self._array_at(name, record["ends"], np.dtype(np.int64), (16,))
        return Queue(self, name, record["address"], ends, bool(pickle))

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
        if size > SEGMENT_BYTES_MAX:
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

        return _tmh.Transaction(self._domain._core, body, False, "", _tmh.Site("python.make"))()

    def __reduce__(self) -> Any:
        outside = "snapshot" if self._reads_outside else "error"
        return _remapped, (self._domain, self._name, outside)

    def __repr__(self) -> str:
        return f"<tmh.Segment {self._name!r} of {self._domain.folder!r}>"


def _checked_dtype(dtype: npt.DTypeLike) -> np.dtype:
    made = np.dtype(dtype)
    if made.hasobject:
        raise TypeError(f"dtype {made}: objects of Python cannot lie in shared memory")
    if made.subdtype is not None:
        raise TypeError(f"dtype {made}: it has a shape of its own; give that to the array")
    if made.itemsize == 0:
        raise TypeError(f"dtype {made}: give its length, such as 'S16'")
    return made


def _checked_shape(shape: Any) -> tuple[int, ...]:
    try:
        checked: tuple[int, ...] = (operator.index(shape),)
    except TypeError:
        checked = tuple(operator.index(length) for length in shape)
    if any(length < 0 for length in checked):
        raise ValueError(f"shape {checked}: a length is not negative")
    if len(checked) > _DIMENSIONS_MAX:
        raise ValueError(f"shape {checked}: at most {_DIMENSIONS_MAX} dimensions")
    # As numpy, which leaves out lengths of 0.
    if math.prod(max(1, length) for length in checked) > SEGMENT_BYTES_MAX:
        raise ValueError(f"shape {checked}: more than a segment can hold")
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
