"""Transactions on numpy arrays, structures and dicts in memory that processes share.

A *domain* is a folder; any number of processes open it. A *segment* is a file of it. What lies in
a segment changes in *instances*: all stores of a function that is decorated with
``@domain.atomically`` become visible at once, or not at all, also when its process is killed.

>>> import numpy as np, tmh, tempfile
>>> domain = tmh.open(tempfile.mkdtemp())
>>> accounts = domain.map("bank").array("accounts", (1000,), np.int64)
>>> @domain.atomically
... def transfer(source, target, amount):
...     accounts[source] -= amount
...     accounts[target] += amount
>>> transfer(1, 2, 50)
>>> with domain.query():
...     print(accounts.sum(), accounts[2])
0 50
>>> domain.close()
"""

from __future__ import annotations

import os as _os

from . import _errors, _tmh
from ._array import Array, Struct
from ._domain import Attempts, Domain, Query, irrevocable, on_commit, open, retry
from ._errors import (
    Abort,
    ClosedError,
    Errc,
    Error,
    EscapedArrayError,
    FullError,
    MismatchError,
    NestingError,
    NothingReadError,
    OutsideError,
    QueryWroteError,
    UncommittedError,
)
from ._mapping import Counter, Dict, Queue
from ._segment import Segment

__version__ = "0.1.0"
__all__ = [
    "Abort",
    "Array",
    "Attempts",
    "ClosedError",
    "Counter",
    "Dict",
    "Domain",
    "Errc",
    "Error",
    "EscapedArrayError",
    "FullError",
    "MismatchError",
    "NestingError",
    "NothingReadError",
    "OutsideError",
    "Query",
    "QueryWroteError",
    "Queue",
    "Segment",
    "Struct",
    "UncommittedError",
    "irrevocable",
    "on_commit",
    "open",
    "retry",
]

_os.register_at_fork(before=_tmh.before_fork, after_in_child=_tmh.after_fork_in_child)
