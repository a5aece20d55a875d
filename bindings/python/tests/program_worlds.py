"""What the random programs run on: tmh, or a model of it (program_model.py).

Both give a program the same names (`names()`), take what it notes, and say what they hold at its
end.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

import tmh

RECORD = np.dtype([("x", "i8"), ("y", "f4"), ("z", "i2", (2,))], align=True)
ARRAYS = {
    "a": (16, "i8"), "u": (40, "u1"), "big": (2048, "i8"), "f": (12, "f8"), "m": ((4, 4), "i4"),
    "r": (4, RECORD),
}


class Boom(Exception):
    """What programs raise."""


def plain(value):
    """A value as what can be compared and sent to another process: its type and its content."""
    if isinstance(value, Boom):
        return "Boom", [plain(each) for each in value.args]
    if isinstance(value, BaseException):
        return "raised", type(value).__name__
    if isinstance(value, (np.ndarray, np.generic)) and not isinstance(value, (str, bytes)):
        array = np.asarray(value)
        name = "array" if isinstance(value, np.ndarray) else type(value).__name__
        return name, array.dtype.str, array.shape, repr(array.tolist())
    if isinstance(value, NDArrayOperatorsMixin):  # a part of an array of either world
        return "array", value.shape
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(each) for each in value]
    return type(value).__name__, repr(value)


class World:
    """What both have in common."""

    def __init__(self):
        self.notes = []
        self.leaks = []
        # Of retry_once().
        self.retried = set()

    def note(self, *values):
        self.notes.append([plain(value) for value in values])
        for value in values:
            if isinstance(value, Boom):
                self.store_stale(value.args)

    def here(self):
        return len(self.notes)

    def back(self, mark):
        """An attempt begins again."""
        del self.notes[mark:]
        self.leaks.clear()

    def leak(self, raw):
        self.leaks.append(raw)

    def call(self, function):
        """From outside of every instance: what it returns or raises is noted."""
        try:
            self.note("returns", function())
        except Exception as error:
            self.note(error)
        self.store_stale(self.leaks)
        self.leaks.clear()

    def store_stale(self, raws):
        """What a body has left is not to be stored to."""
        if not self.is_outside():
            return
        for raw in raws:
            if isinstance(raw, np.ndarray):
                try:
                    raw[0] = 77
                    self.notes.append("stored to a raw array that a body has left")
                except ValueError:
                    pass

    def attempt(self, function):
        """A body: the function, with its notes from `mark` on."""

        def body(mark, args, kwargs):
            if mark is not None:
                self.back(mark)
            return function(*args, **kwargs)

        return body

    def names(self):
        return {
            **self.things, "np": np, "Boom": Boom, "note": self.note, "here": self.here,
            "back": self.back, "leak": self.leak, "call": self.call,
            "atomically": self.atomically, "query": self.query, "run": self.run,
            "attempts": self.attempts, "querying": self.querying, "raw": self.raw,
            "on_commit": self.on_commit, "irrevocable": self.irrevocable,
            "retry_once": self.retry_once, "threads": self.threads, "fork": self.fork,
            "children": self.children, "die": self.die,
        }

    def content(self):
        """All that the world holds."""
        held = {name: repr(self.raw(self.things[name]).copy().tolist()) for name in ARRAYS}
        struct = self.things["s"]
        held["s"] = [plain(struct.x), plain(struct.y), plain(struct.z.copy())]
        for name in ("d", "e"):
            held[name] = [(plain(key), plain(value)) for key, value in self.things[name].items()]
        held["c"] = self.things["c"].value
        held["q"] = self.queued()
        return held


class Tmh(World):
    """Things of a segment that programs use one after the other."""

    def __init__(self, domain, outside):
        super().__init__()
        self.domain = domain
        segment = domain.map("programs.db", outside=outside)
        self.things = {name: segment.array(name, *made) for name, made in ARRAYS.items()}
        self.things.update(
            s=segment.struct("s", RECORD), d=segment.dict("d"), e=segment.dict("e"),
            q=segment.queue("q"), c=segment.counter("c"),
        )

    def begin(self):
        """As new, for the next program."""
        World.__init__(self)

        def clear():
            for name in ARRAYS:
                raw = np.asarray(self.things[name])
                raw.view("u1")[...] = 0
                del raw
            np.asarray(self.things["s"].record).reshape(1).view("u1")[...] = 0
            self.things["d"].clear()
            self.things["e"].clear()
            while len(self.things["q"]):
                self.things["q"].get(block=False)
            self.things["c"].value = 0

        self.domain.run(clear)

    def is_outside(self):
        return not tmh._tmh.in_instance(self.domain._core)

    def marked(self, made):
        def transaction(*args, **kwargs):
            return made(self.here() if self.is_outside() else None, args, kwargs)

        return transaction

    def atomically(self, function):
        return self.marked(self.domain.atomically(self.attempt(function)))

    def query(self, function):
        return self.marked(self.domain.query(self.attempt(function)))

    def run(self, function, *args, **kwargs):
        mark = self.here() if self.is_outside() else None
        return self.domain.run(self.attempt(function), mark, args, kwargs)

    def attempts(self):
        return self.domain.attempts()

    def querying(self):
        return self.domain.query()

    def raw(self, array):
        return np.asarray(array)

    def on_commit(self, action):
        tmh.on_commit(action)

    def irrevocable(self):
        tmh.irrevocable()

    def retry_once(self, tag):
        if tag not in self.retried:
            self.retried.add(tag)
            tmh.retry(0.0)

    def threads(self, *functions):
        made = [threading.Thread(target=self.domain.atomically(each)) for each in functions]
        for thread in made:
            thread.start()
        for thread in made:
            thread.join()

    def children(self, *functions):
        pids = [self.start(lambda function=each: self.domain.run(function)) for each in functions]
        for pid in pids:
            self.end(pid)

    def fork(self, function, argument):
        """A child calls it, and sends what it has noted."""
        receiver, sender = os.pipe()

        def child():
            self.notes.clear()
            self.call(lambda: function(argument))
            with open(sender, "wb") as file:
                pickle.dump(self.notes, file)

        pid = self.start(child)
        os.close(sender)
        with open(receiver, "rb") as file:
            data = file.read()
        self.end(pid)
        self.notes += pickle.loads(data)

    def die(self, function, argument):
        """A child dies in the middle of the instance that has called it."""

        def body():
            with contextlib.suppress(Exception):
                function(argument)
            os.kill(os.getpid(), signal.SIGKILL)

        pid = self.start(lambda: self.domain.run(body))
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL

    @staticmethod
    def start(work):
        pid = os.fork()
        if pid == 0:
            try:
                work()
                os._exit(0)
            except BaseException as error:
                os.write(2, f"child: {error!r}\n".encode())
            finally:
                os._exit(70)
        return pid

    @staticmethod
    def end(pid):
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status == 0, f"a child ends with {status}"

    def queued(self):
        taken = []

        def take():
            taken.clear()
            while len(self.things["q"]):
                taken.append(plain(self.things["q"].get(block=False)))

        # Its content is looked at by an instance that is undone.
        def undone():
            take()
            raise Boom

        with contextlib.suppress(Boom):
            self.domain.run(undone)
        return taken

    def content(self):
        queued = self.queued
        kept = queued()
        self.queued = lambda: kept
        try:
            return self.domain.query(super().content)()
        finally:
            del self.queued
