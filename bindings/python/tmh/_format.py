"""Arrays as values of a dict: numpy's dtype and shape as text, and the bytes."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np


def encode(value: Any) -> tuple[bytes, bytes]:
    """The head and the bytes of an array or of a number of numpy.

    Raises
    ------
    TypeError
        The dtype holds objects of Python; a mask would be lost.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array is no value: store its data and its mask")
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise TypeError(f"dtype {array.dtype}: objects of Python cannot lie in shared memory")
    head = (np.lib.format.dtype_to_descr(array.dtype), array.shape, isinstance(value, np.generic))
    return repr(head).encode(), array.tobytes()


def decode(head: bytes, data: bytes) -> Any:
    """The array of a head and its bytes.

    Raises
    ------
    ValueError
        These are no head and bytes of this package.
    """
    try:
        descr, shape, is_number = ast.literal_eval(head.decode())
        dtype = np.lib.format.descr_to_dtype(descr)
        if dtype.hasobject:
            raise ValueError("objects of Python")
        array = np.frombuffer(data, dtype).reshape(shape).copy()
    except (ValueError, TypeError, SyntaxError, KeyError, RecursionError, MemoryError) as error:
        raise ValueError(f"the dict holds an array that cannot be read: {error}") from error
    return array[()] if is_number else array
