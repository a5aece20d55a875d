"""A model of tmh in plain Python and numpy, for the random programs.

It runs one body after another, keeps a copy of everything and puts it back where tmh undoes.
docs/python.md is what it knows of tmh.
"""

from __future__ import annotations

import contextlib
import queue

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

import tmh
from program_worlds import ARRAYS, RECORD, Boom, World, plain


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

    def looked_at(self):
        self.world.check_pending()
        return self.held

    def __getitem__(self, key):
        key = model_key(key)
        return self.looked_at()[key]

    def get(self, key, default=None):
        key = model_key(key)
        return self.looked_at().get(key, default)

    def __contains__(self, key):
        key = model_key(key)
        return key in self.looked_at()

    def __len__(self):
        return len(self.looked_at())

    def __iter__(self):
        return iter(sorted(self.looked_at(), key=order))

    def __reversed__(self):
        return iter(sorted(self.looked_at(), key=order, reverse=True))

    def items(self):
        return [(key, self.held[key]) for key in self]

    def irange(self, low, high):
        return [key for key in self if order(low) <= order(key) <= order(high)]

    def peekitem(self, last):
        if not self.looked_at():
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
        self.world.check_pending()
        return len(self.held)


class ModelCounter:
    def __init__(self, world):
        self.world, self.number = world, 0

    @property
    def value(self):
        self.world.check_pending()
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
        self.is_pending = False
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

    def check_pending(self):
        """What has called retry() gets it again at each access, until it ends."""
        if self.is_pending:
            raise ModelRetry

    def check_load(self):
        if self.mode is None and self.outside == "error":
            raise tmh.OutsideError("")
        self.check_pending()

    def check_store(self):
        if self.mode is None:
            raise tmh.OutsideError("")
        if self.mode != "update":
            raise tmh.QueryWroteError("")
        self.check_pending()

    def check_update(self):
        """Of what is an instance of its own outside."""
        if self.mode in ("query", "block"):
            raise tmh.NestingError("")
        self.check_pending()

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
            error.args = tuple(
                each.copy() if isinstance(each, Raw) else each for each in error.args
            )
            for each in error.args:
                if isinstance(each, Raw):
                    each.flags.writeable = False

    def instance(self, mode, body):
        if self.mode is not None:
            if mode == "update":
                self.check_update()
            self.check_pending()
            return body()
        while True:
            saved = self.saved()
            self.mode, self.actions, self.raws, self.leaks = mode, [], [], []
            try:
                found = body()
                self.check_pending()
                if self.leaks:
                    raise tmh.EscapedArrayError("")
            except BaseException as error:
                self.put_back_after(error, saved)
                if not self.is_pending:
                    raise
                continue
            finally:
                self.mode, self.is_pending = None, False
                for raw in self.raws:
                    raw.flags.writeable = False
                for raw in self.leaks:
                    raw.flags.writeable = False
            for action in self.actions:
                action()
            return found

    def put_back_after(self, error, saved):
        self.freeze(error)
        self.put_back(saved)
        self.actions = []

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
        self.is_pending = True
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
            world.check_pending()
            return
        self.saved = world.saved()
        world.mode, world.actions, world.raws, world.leaks = self.mode, [], [], []

    def __exit__(self, kind, value, traceback):
        world = self.world
        if not self.is_outer:
            return False
        world.mode = None
        actions, world.actions = world.actions, []
        for raw in [*world.raws, *world.leaks]:
            raw.flags.writeable = False
        if world.is_pending:
            world.is_pending = False
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
