"""Arrays and structures in a segment."""

from __future__ import annotations

from typing import Any, Iterable, Iterator

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from . import _tmh

# Methods of numpy.ndarray that store into it.
_IN_PLACE = frozenset({"fill", "itemset", "partition", "put", "sort"})
# What would give raw memory away without a body that ends.
_REFUSED = frozenset(
    {"base", "byteswap", "ctypes", "data", "dump", "flags", "flat", "resize", "setfield",
     "setflags", "tofile"}
)


class Array(_tmh.Array, NDArrayOperatorsMixin):
    """A numpy array in a segment: every process sees the same one.

    Indexing, slicing, arithmetic, numpy's functions and the methods of ``numpy.ndarray`` work as
    they do there. Single numbers (``a[3]``, ``a[1, 2] += x``) run at cache-line level; everything
    else sends the running instance to page level, where any code may load and store.

    A slice, a field or a transposition is another ``Array`` on the same memory.
    ``numpy.asarray(a)`` in an instance is a raw array, for code that wants one: the body must not
    keep it beyond its end (``EscapedArrayError``, and nothing is committed). In a query it is
    read-only. What a body that has failed leaves of it, views too, is a read-only copy.

    Outside of an instance a store raises ``OutsideError``. A load does, too, unless the segment is
    mapped with ``outside="snapshot"``: then it is a query of its own and gives a read-only copy.

    Attributes
    ----------
    name : str
        Name in the segment.
    shape, dtype, ndim, size, nbytes, itemsize, strides
        As of ``numpy.ndarray``; bytes for the last three.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 1000.0

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("an array is made by segment.array(name, shape, dtype)")

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        raw = self._raw(False)
        if copy or (dtype is not None and np.dtype(dtype) != raw.dtype):
            if copy is False:
                raise ValueError("another dtype takes a copy")
            return np.array(raw, dtype=dtype)
        return raw.view()  # whose shape the caller may set

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        stores = method == "at"
        raws = [
            each._raw(stores and not number) if isinstance(each, Array) else each
            for number, each in enumerate(inputs)
        ]
        if "where" in kwargs:
            kwargs["where"] = _unwrapped(kwargs["where"])
        if out is None:
            return getattr(ufunc, method)(*raws, **kwargs)
        kwargs["out"] = tuple(
            each._raw(True) if isinstance(each, Array) else each for each in out
        )
        results = getattr(ufunc, method)(*raws, **kwargs)
        if len(out) == 1:
            return results if out[0] is None else out[0]
        return tuple(new if old is None else old for old, new in zip(out, results))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        out = kwargs.get("out")
        outs = out if isinstance(out, tuple) else (out,)
        for each in outs:
            if isinstance(each, Array):
                each._raw(True)
        result = func(*_unwrapped(args), **_unwrapped(kwargs))
        if out is not None:
            return out
        return self._wrapped(result)

    def __getattr__(self, name: str) -> Any:
        member = getattr(np.ndarray, name, None)
        if member is None or name.startswith("_"):
            raise AttributeError(f"tmh.Array has no attribute {name!r}")
        if name in _REFUSED:
            raise AttributeError(f"use numpy.asarray(a).{name} in an instance, or a.copy()")
        if not callable(member):
            # A part: no memory is touched.
            return self._wrapped(member.__get__(self._geometry()))

        def method(*args: Any, **kwargs: Any) -> Any:
            raw = self._raw(name in _IN_PLACE)
            return self._wrapped(member(raw, *_unwrapped(args), **_unwrapped(kwargs)))

        method.__name__ = name
        method.__doc__ = member.__doc__
        return method

    def _wrapped(self, result: Any) -> Any:
        if isinstance(result, np.ndarray):
            part = _tmh.part_shown_by(result)
            return result if part is None else part
        if isinstance(result, (list, tuple)) and any(
            isinstance(each, np.ndarray) for each in result
        ):
            return _like(result, (self._wrapped(each) for each in result))
        return result

    def __iter__(self) -> Iterator[Any]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: object) -> bool:
        return bool((self._raw(False) == _unwrapped(value)).any())

    def __bool__(self) -> bool:
        return bool(self._raw(False))

    def __int__(self) -> int:
        return int(self._raw(False))

    def __float__(self) -> float:
        return float(self._raw(False))

    def __complex__(self) -> complex:
        return complex(self._raw(False))

    def __index__(self) -> int:
        return self._raw(False).__index__()

    def __copy__(self) -> np.ndarray:
        return np.array(self._raw(False))

    def __deepcopy__(self, memo: dict) -> np.ndarray:
        return np.array(self._raw(False))

    def __reduce__(self) -> Any:
        raise TypeError(
            f"array {self.name!r} lies in a segment: pickle a.copy(), or pass the segment and call "
            "segment.array() there"
        )

    def __repr__(self) -> str:
        return f"<tmh.Array {self.name!r} {self.dtype} {self.shape}>"


def _like(one: list | tuple, items: Iterable[Any]) -> Any:
    """A list or tuple of the type of `one`, which may have names."""
    make = getattr(type(one), "_make", type(one))
    return make(items)


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Array):
        return value._raw(False)
    if isinstance(value, (list, tuple)):
        return _like(value, (_unwrapped(each) for each in value))
    if isinstance(value, dict):
        return {key: _unwrapped(each) for key, each in value.items()}
    return value


_tmh.set_array_class(Array)


class Struct:
    """A structure in a segment: one record of a structured dtype, with its fields as attributes.

    A field that is a number, a string or bytes is loaded and stored by value; a field with a shape
    of its own is an :class:`Array`.
    """

    __slots__ = ("_record", "_fields")

    def __init__(self, record: Array) -> None:
        object.__setattr__(self, "_record", record)
        object.__setattr__(self, "_fields", frozenset(record.dtype.names or ()))

    @property
    def record(self) -> Array:
        """The whole record, an array of no dimensions."""
        return self._record

    def __getattr__(self, name: str) -> Any:
        if name not in self._fields:
            raise AttributeError(f"{self._record.name!r} has no field {name!r}")
        return self._record[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._fields:
            raise AttributeError(f"{self._record.name!r} has no field {name!r}")
        self._record[name] = value

    def __dir__(self) -> list[str]:
        return sorted(self._fields)

    def __reduce__(self) -> Any:
        return self._record.__reduce__()

    def __repr__(self) -> str:
        return f"<tmh.Struct {self._record.name!r} {self._record.dtype}>"
