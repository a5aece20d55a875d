"""What the random programs run on: tmh, or a model of it in plain Python and numpy.

Both give a program the same names (`names()`), take what it notes, and say what they hold at its
end. The model runs one body after another, keeps a copy of everything and puts it back where tmh
undoes; docs/python.md is what it knows of tmh.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
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
    if isinstance(value, (tmh.Array, ModelArray)):
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


class ModelRetry(BaseException):
    """retry()."""


class ModelArray(NDArrayOperatorsMixin):
    """As tmh.Array, on memory of the program's own."""

    __hash__ = None

    def __init__(self, world, base):
        self.world, self.base = world, base

    @property
    def shape(self):
        return self.base.shape

    def part(self, view):
        return ModelArray(self.world, view)

    def names_element(self, key):
        """Of one number tmh looks at the index, and the value, before it asks for an instance."""
        indices = key if isinstance(key, tuple) else (key,)
        is_whole = len(indices) == self.base.ndim and all(isinstance(each, int) for each in indices)
        return is_whole and self.base.dtype.names is None

    def __getitem__(self, key):
        if self.names_element(key):
            self.base[key]
        self.world.check_load()
        found = self.base[key]
        if isinstance(found, np.void):
            return self.part(self.base[key, ...])
        if isinstance(found, np.ndarray) and np.may_share_memory(found, self.base):
            is_number = found.ndim == 0 and isinstance(key, str) and found.dtype.names is None
            return found[()] if is_number else self.part(found)
        return found

    def __setitem__(self, key, value):
        if self.names_element(key) and not isinstance(value, (np.ndarray, ModelArray)):
            self.base.copy()[key] = value
        self.world.check_store()
        if isinstance(value, ModelArray) and np.shares_memory(value.base, self.base):
            value = value.base.copy()
        self.base[key] = unwrapped(value)

    def __array__(self, dtype=None, copy=None):
        self.world.check_load()
        return np.array(self.base, dtype=dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        self.world.check_load()
        if out is not None:
            self.world.check_store()
            kwargs["out"] = unwrapped(out)
        found = getattr(ufunc, method)(*unwrapped(inputs), **kwargs)
        return found if out is None else out[0]

    def __len__(self):
        return len(self.base)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __contains__(self, value):
        self.world.check_load()
        return value in self.base

    def __getattr__(self, name):
        member = getattr(self.base, name)
        if not callable(member):
            return self.part(member)

        def method(*args, **kwargs):
            self.world.check_load()
            if name in ("fill", "sort"):
                self.world.check_store()
            found = member(*unwrapped(args), **kwargs)
            shows = isinstance(found, np.ndarray) and np.may_share_memory(found, self.base)
            return self.part(found) if shows else found

        return method


def unwrapped(value):
    if isinstance(value, ModelArray):
        value.world.check_load()
        return value.base
    return tuple(map(unwrapped, value)) if isinstance(value, tuple) else value


class ModelStruct:
    def __init__(self, record):
        object.__setattr__(self, "record", record)

    def __getattr__(self, name):
        return self.record[name]

    def __setattr__(self, name, value):
        self.record[name] = value


def model_key(key):
    if isinstance(key, (str, bytes)):
        return key
    if isinstance(key, (int, np.integer)):
        return int(key)
    raise TypeError("no key")


def order(key):
    return (0 if isinstance(key, int) else 1 if isinstance(key, bytes) else 2), key


NOTHING = object()


class ModelDict:
    def __init__(self, world):
        self.world, self.held = world, {}

    def __getitem__(self, key):
        return self.held[model_key(key)]

    def get(self, key, default=None):
        return self.held.get(model_key(key), default)

    def __contains__(self, key):
        return model_key(key) in self.held

    def __len__(self):
        return len(self.held)

    def __iter__(self):
        return iter(sorted(self.held, key=order))

    def __reversed__(self):
        return iter(sorted(self.held, key=order, reverse=True))

    def items(self):
        return [(key, self.held[key]) for key in self]

    def irange(self, low, high):
        return [key for key in self if order(low) <= order(key) <= order(high)]

    def peekitem(self, last):
        if not self.held:
            raise KeyError
        return self.items()[-1 if last else 0]

    def __setitem__(self, key, value):
        key = model_key(key)
        self.world.check_update()
        self.held[key] = value

    def __delitem__(self, key):
        key = model_key(key)
        self.world.check_update()
        del self.held[key]

    def pop(self, key, default=NOTHING):
        key = model_key(key)
        self.world.check_update()
        return self.held.pop(key) if default is NOTHING else self.held.pop(key, default)

    def setdefault(self, key, default):
        key = model_key(key)
        self.world.check_update()
        return self.held.setdefault(key, default)

    def popitem(self, last):
        self.world.check_update()
        key, value = self.peekitem(last)
        del self.held[key]
        return key, value

    def update(self, more):
        self.world.check_update()
        self.held.update(more)

    def clear(self):
        self.world.check_update()
        self.held.clear()


class ModelQueue:
    def __init__(self, world):
        self.world, self.held = world, []

    def put(self, value):
        self.world.check_update()
        self.held.append(value)

    def get(self, block):
        self.world.check_update()
        if not self.held:
            raise queue.Empty
        return self.held.pop(0)

    def __len__(self):
        return len(self.held)


class ModelCounter:
    def __init__(self, world):
        self.world, self.number = world, 0

    @property
    def value(self):
        return self.number

    @value.setter
    def value(self, number):
        self.world.check_update()
        self.number = number

    def add(self, amount):
        self.world.check_update()
        if not -(2**63) <= self.number + amount < 2**63:
            raise OverflowError
        self.number += amount
        return self.number


class Model(World):
    """What docs/python.md says."""

    def __init__(self, outside):
        super().__init__()
        self.outside = outside
        # Of the outermost instance: None, "update", "query" or "block".
        self.mode = None
        self.actions = []
        self.raws = []
        self.memory = {name: np.zeros(*made) for name, made in ARRAYS.items()}
        self.memory["s"] = np.zeros((), RECORD)
        self.things = {name: ModelArray(self, self.memory[name]) for name in ARRAYS}
        self.things.update(
            s=ModelStruct(ModelArray(self, self.memory["s"])), d=ModelDict(self), e=ModelDict(self),
            q=ModelQueue(self), c=ModelCounter(self),
        )

    def is_outside(self):
        return self.mode is None

    # What an access may raise

    def check_load(self):
        if self.mode is None and self.outside == "error":
            raise tmh.OutsideError("")

    def check_store(self):
        if self.mode is None:
            raise tmh.OutsideError("")
        if self.mode != "update":
            raise tmh.QueryWroteError("")

    def check_update(self):
        """Of what is an instance of its own outside."""
        if self.mode in ("query", "block"):
            raise tmh.NestingError("")

    # Instances

    def saved(self):
        held = {name: memory.copy() for name, memory in self.memory.items()}
        things = self.things
        return held, dict(things["d"].held), dict(things["e"].held), [*things["q"].held], (
            things["c"].number
        )

    def put_back(self, saved):
        held, d, e, q, number = saved
        for name, memory in self.memory.items():
            memory[...] = held[name]
        self.things["d"].held, self.things["e"].held = d, e
        self.things["q"].held, self.things["c"].number = q, number

    @staticmethod
    def freeze(error):
        """Raw arrays that it holds show what the body has seen."""
        if isinstance(error, Boom):
            error.args = tuple(each.copy() if isinstance(each, Raw) else each for each in error.args)
            for each in error.args:
                if isinstance(each, Raw):
                    each.flags.writeable = False

    def instance(self, mode, body):
        if self.mode is not None:
            if mode == "update":
                self.check_update()
            return body()
        while True:
            saved, self.mode, self.actions, self.raws = self.saved(), mode, [], []
            try:
                found = body()
                if self.leaks:
                    raise tmh.EscapedArrayError("")
            except ModelRetry:
                self.put_back(saved)
                continue
            except BaseException as error:
                self.freeze(error)
                self.put_back(saved)
                self.actions = []
                raise
            finally:
                self.mode = None
                for raw in self.raws:
                    raw.flags.writeable = False
                for raw in self.leaks:
                    raw.flags.writeable = False
            for action in self.actions:
                action()
            return found

    def atomically(self, function):
        return self.transaction("update", function)

    def query(self, function):
        return self.transaction("query", function)

    def transaction(self, mode, function):
        body = self.attempt(function)

        def transaction(*args, **kwargs):
            mark = self.here() if self.mode is None else None
            return self.instance(mode, lambda: body(mark, args, kwargs))

        return transaction

    def run(self, function, *args, **kwargs):
        return self.atomically(function)(*args, **kwargs)

    def attempts(self):
        """Its block's content runs once, but for retry()."""
        while True:
            attempt = ModelBlock(self, "update")
            yield attempt
            if not attempt.is_again:
                return

    def querying(self):
        return ModelBlock(self, "block")

    def raw(self, array):
        self.check_load()
        found = array.base.view()
        if self.mode != "update":
            found = found.copy() if self.mode is None else found
            found.flags.writeable = False
        else:
            found.flags.writeable = array.base.flags.writeable
        return Raw.of(self, found)

    def on_commit(self, action):
        if self.mode is None:
            raise tmh.OutsideError("")
        self.actions.append(action)

    def irrevocable(self):
        self.check_store()

    def retry_once(self, tag):
        if tag in self.retried:
            return
        self.retried.add(tag)
        if self.mode is None:
            raise tmh.OutsideError("")
        if self.mode == "block":
            raise tmh.NestingError("")
        raise ModelRetry

    # Others

    def threads(self, *functions):
        for function in functions:
            self.run(function)

    children = threads

    def fork(self, function, argument):
        self.call(lambda: function(argument))

    def die(self, function, argument):
        saved, mark, retried = self.saved(), self.here(), set(self.retried)
        with contextlib.suppress(Boom):
            self.run(lambda: self.dying(function, argument))
        self.put_back(saved)
        self.back(mark)
        self.retried = retried

    def dying(self, function, argument):
        with contextlib.suppress(Exception):
            function(argument)
        raise Boom

    def queued(self):
        return [plain(each) for each in self.things["q"].held]

    def content(self):
        self.mode = "query"
        try:
            return super().content()
        finally:
            self.mode = None


class Raw(np.ndarray):
    """A raw array of the model: its views end with the instance, too."""

    @classmethod
    def of(cls, world, array):
        made = array.view(cls)
        made.world = world
        world.raws.append(made)
        return made

    def __array_finalize__(self, made_from):
        self.world = getattr(made_from, "world", None)
        if self.world is not None:
            self.world.raws.append(self)


class ModelBlock:
    """`with attempt:`, `with domain.query():`."""

    def __init__(self, world, mode):
        self.world, self.mode, self.is_again, self.is_outer = world, mode, False, False

    def __enter__(self):
        world = self.world
        self.is_outer = world.mode is None
        if not self.is_outer:
            if self.mode == "update":
                world.check_update()
            return
        self.saved = world.saved()
        world.mode, world.actions, world.raws = self.mode, [], []

    def __exit__(self, kind, value, traceback):
        world = self.world
        if not self.is_outer:
            return False
        world.mode = None
        actions, world.actions = world.actions, []
        for raw in [*world.raws, *world.leaks]:
            raw.flags.writeable = False
        if kind is ModelRetry:
            world.put_back(self.saved)
            self.is_again = True
            return True
        if kind is not None or world.leaks:
            world.freeze(value)
            world.put_back(self.saved)
            if kind is None:
                raise tmh.EscapedArrayError("")
            return False
        for action in actions:
            action()
        return False
