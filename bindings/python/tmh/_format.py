"""Arrays and scalars of numpy as values of a dict: dtype, shape and kind as text, and the bytes."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

# What an array's head has at the end, and a scalar's.
_ARRAY, _SCALAR, _RECORD, _TEXT, _BYTES = False, True, "record", "text", "bytes"


def encode(value: Any) -> tuple[bytes, bytes]:
    """The head and the bytes of an array or of a scalar of numpy.

    Raises
    ------
    TypeError
        The dtype holds objects of Python; a mask would be lost.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array is no value: store its data and its mask")
    # An array would lose zeros at their ends.
    if isinstance(value, np.str_):
        # str(value) would lose them, too.
        return repr(("|V1", (), _TEXT)).encode(), str.__str__(value).encode()
    if isinstance(value, np.bytes_):
        return repr(("|V1", (), _BYTES)).encode(), bytes(value)
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise TypeError(f"dtype {array.dtype}: objects of Python cannot lie in shared memory")
    kind: bool | str = isinstance(value, np.generic)
    descr = np.lib.format.dtype_to_descr(array.dtype)
    if isinstance(value, np.record):
        kind = _RECORD
    return repr((descr, array.shape, kind)).encode(), array.tobytes()


def decode(head: bytes, data: bytes) -> Any:
    """The array or the scalar of a head and its bytes.

    Raises
    ------
    ValueError
        These are no head and bytes of this package.
    """
    try:
        descr, shape, kind = ast.literal_eval(head.decode())
        if kind == _TEXT:
            return np.str_(data.decode())
        if kind == _BYTES:
            return np.bytes_(data)
        dtype = np.lib.format.descr_to_dtype(descr)
        if kind == _RECORD:
            dtype = np.dtype((np.record, dtype))
        if dtype.hasobject:
            raise ValueError("objects of Python")
        # numpy makes none of no bytes from a buffer.
        is_empty = dtype.itemsize == 0
        array = np.zeros(shape, dtype) if is_empty else np.frombuffer(data, dtype).reshape(shape)
        array = array.copy()
    except (ValueError, TypeError, SyntaxError, KeyError, RecursionError, MemoryError) as error:
        raise ValueError(f"the dict holds an array that cannot be read: {error}") from error
    return array if kind == _ARRAY else array[()]
