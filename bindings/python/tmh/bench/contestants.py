"""What a contestant is: one way to do the operations that a workload asks for."""

from __future__ import annotations

import importlib
from multiprocessing.context import ForkContext
from pathlib import Path
from typing import Any, Callable, ClassVar, NamedTuple

Operation = Callable[..., Any]


class Worker(NamedTuple):
    """What one process works with.

    Attributes
    ----------
    operations : dict of str to function
        By the name of what is measured: ``"transfer"``, ``"get"``, ``"put"``, ``"insert"``.
    close : function
        Called after the last operation.
    remove : function of a list of keys, optional
        Undoes inserts, in one transaction or many.
    """

    operations: dict[str, Operation]
    close: Callable[[], Any]
    remove: Callable[[list], Any] = lambda keys: None


class Contestant:
    """One way to do a workload. Its files lie in a folder of its own.

    The main process makes the object and forks the others. It never opens the files itself, so a
    worker inherits no connection and no mapping.

    Parameters
    ----------
    folder : path
        Exists and is empty.
    context : context of multiprocessing
        Makes locks and servers.
    """

    # On the command line, and in the tables where it has no other label.
    name: ClassVar[str]
    label: ClassVar[str] = ""
    # Module that must be there, and how a user gets it.
    module: ClassVar[str] = "tmh"
    install: ClassVar[str] = ""

    def __init__(self, folder: Path, context: ForkContext) -> None:
        self.folder = folder
        self.context = context

    @classmethod
    def shown(cls) -> str:
        """Its name for readers."""
        return cls.label or cls.name

    @classmethod
    def is_installed(cls) -> bool:
        try:
            importlib.import_module(cls.module)
        except ImportError:
            return False
        return True

    @classmethod
    def why_not(cls, operation: str, processes: int) -> str:
        """Why the contestant cannot do this with so many processes; empty when it can."""
        return ""

    @classmethod
    def version(cls) -> str:
        """Name and version of the software behind the contestant; empty when that is Python."""
        return ""

    def prepare(self) -> None:
        """Make the data. Runs once, in a process of its own."""
        raise NotImplementedError

    def open(self) -> Worker:
        """Open the data in a worker."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise ``WrongResult`` when the data are wrong. In a process of its own after each run."""
        raise NotImplementedError

    def stop(self) -> None:
        """End what the main process holds: a server, a name in shared memory."""


class WrongResult(Exception):
    """A contestant has lost or invented something."""
