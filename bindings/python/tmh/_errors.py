"""The exceptions of the package. The extension raises them by :func:`make`."""

from __future__ import annotations

import enum


class Errc(enum.IntEnum):
    """What the library found wrong. Numbers and names are those of ``tmh/error.hpp``."""

    NOT_INITIALIZED = 1
    ALREADY_INITIALIZED = 2
    BAD_ARGUMENT = 3
    NOT_A_DOMAIN = 4
    SHORT_FILE = 5
    FOREIGN_VERSION = 6
    UNSUPPORTED_FEATURE = 7
    CORRUPT = 8
    PERMISSION = 9
    WRONG_OWNER = 10
    ADDRESS_IN_USE = 11
    MISALIGNED_LENGTH = 12
    MISALIGNED_ADDRESS = 13
    NOT_MAPPED = 14
    SEGMENT_IN_USE = 15
    SEGMENT_OVERLAP = 16
    TOO_MANY_SEGMENTS = 17
    TOO_MANY_PARTICIPANTS = 18
    SEGMENT_FULL = 19
    DISK_FULL = 20
    IO = 21
    END_WITHOUT_BEGIN = 22
    NESTED_MISUSE = 23
    QUERY_WROTE = 24
    DETACHED = 25
    DURABLE_NOT_YET = 26
    BAD_POLICY = 27
    BAD_TRACKING = 28
    BAD_DETECTION = 29
    TRACKING_UNAVAILABLE = 30
    DETECTION_MISMATCH = 31
    INSTANCE_RUNNING = 32
    NOT_A_HEAP = 33
    BAD_FREE = 34
    SEGMENT_MISMATCH = 35
    FILE_SHRUNK = 36
    ROOT_MISMATCH = 37
    OUT_OF_MEMORY = 38
    READ_ONLY = 39
    LOG_DAMAGED = 40
    LOG_MISSING = 41
    LOG_FAILED = 42
    NOT_DURABLE = 43
    DURABILITY_MISMATCH = 44
    BAD_DURABILITY = 45
    DOMAIN_IN_USE = 46
    BAD_LEVELS = 47
    LEVELS_MISMATCH = 48
    NEEDS_PAGES = 49
    RTM_UNAVAILABLE = 50
    NOTHING_READ = 51
    FOREIGN_FILE = 52
    CONTROL_MISSING = 53
    NOT_HELD = 54
    TOO_MANY_MOMENTS = 55
    FILE_REPLACED = 56
    DEADLOCK = 57
    LOCK_TIMEOUT = 58
    LOCK_BUSY = 59
    NOT_LOCKED = 60


class Error(Exception):
    """Base of all exceptions of this package.

    Attributes
    ----------
    code : Errc
        What the library found wrong.
    """

    def __init__(self, message: str, code: int = Errc.BAD_ARGUMENT) -> None:
        super().__init__(message)
        self.code = Errc(code)


class ClosedError(Error):
    """The domain is closed, or the segment is not mapped."""


class OutsideError(Error):
    """An access that needs a running instance of the domain, and none runs in this thread."""


class QueryWroteError(Error):
    """A store inside a query."""


class NothingReadError(Error):
    """``retry()`` in a body that has read nothing: no change could ever end its sleep."""


class NestingError(Error):
    """An update inside a query, or an instance inside another domain's."""


class MismatchError(Error, ValueError):
    """A name exists with another type, dtype or shape, or the domain with another setting."""


class FullError(Error):
    """The segment has reached its largest size, or the disk is full."""


class EscapedArrayError(Error, BufferError):
    """A raw numpy array of shared memory outlives the body that asked for it."""


class UncommittedError(Error):
    """``return`` or ``break`` has left the ``with`` block of an attempt that did not commit."""

    def __init__(
        self,
        message: str = "return or break has left an attempt that did not commit: nothing of it is "
        "stored; leave its block by the end",
        code: int = Errc.NESTED_MISUSE,
    ) -> None:
        super().__init__(message, code)


class Abort(BaseException):
    """Ends an attempt in the middle of its body, which then runs again.

    Not an ``Exception``, so that ``except Exception`` lets it pass. A body that catches it gets it
    again at its next access, and does not commit.
    """


_CLASSES: dict[int, type[Error]] = {
    Errc.NOT_INITIALIZED: ClosedError,
    Errc.NOT_MAPPED: ClosedError,
    Errc.END_WITHOUT_BEGIN: OutsideError,
    Errc.QUERY_WROTE: QueryWroteError,
    Errc.NOTHING_READ: NothingReadError,
    Errc.NESTED_MISUSE: NestingError,
    Errc.SEGMENT_FULL: FullError,
    Errc.DISK_FULL: FullError,
    Errc.ROOT_MISMATCH: MismatchError,
    Errc.SEGMENT_MISMATCH: MismatchError,
    Errc.DURABILITY_MISMATCH: MismatchError,
    Errc.DETECTION_MISMATCH: MismatchError,
    Errc.LEVELS_MISMATCH: MismatchError,
}


def make(code: int, message: str) -> Error:
    """The exception for a code of the library."""
    return _CLASSES.get(code, Error)(message, code)
