"""What a body that has not committed leaves of its raw arrays: nobody stores through it."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest

import tmh
from conftest import join, started

RECORD = np.dtype([("a", "i8"), ("b", "f8"), ("c", "i4", (3,))], align=True)


class Slots:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Derived(np.ndarray):
    pass


def generator(value):
    yield value


def set_first(array):
    array[(0,) * array.ndim] = 5


def set_record(record):
    record["a"] = 5


def store_by_iterator(iterator):
    for each in iterator:
        each[...] = 5
    raise ValueError("the iterator is closed")


# What a body makes of a raw array of 12 numbers, and a store to it.
VIEWS = {
    "itself": (lambda raw: raw, set_first),
    "slice": (lambda raw: raw[1:3], set_first),
    "backwards": (lambda raw: raw[::-1], set_first),
    "reshape": (lambda raw: raw.reshape(3, 4), set_first),
    "transposed": (lambda raw: raw.reshape(3, 4).T, set_first),
    "view": (lambda raw: raw.view(), set_first),
    "of bytes": (lambda raw: raw.view("u1"), set_first),
    "asarray": (lambda raw: np.asarray(raw[2:]), set_first),
    "matrix": (lambda raw: raw.view(Derived)[1:], set_first),
    "recarray": (lambda raw: raw.view([("a", "i8")]).view(np.recarray), lambda r: set_first(r.a)),
    "record": (lambda raw: raw.view([("a", "i8"), ("b", "i8")])[1], set_record),
    "no dimensions": (lambda raw: raw[3:4].reshape(()), set_first),
    "windows": (
        lambda raw: np.lib.stride_tricks.sliding_window_view(raw, 3, writeable=True), set_first
    ),
    "strided": (lambda raw: np.lib.stride_tricks.as_strided(raw, (2, 2), (8, 8)), set_first),
    "flat": (lambda raw: raw.flat, lambda flat: flat.__setitem__(0, 5)),
    "memoryview": (memoryview, lambda view: view.__setitem__(0, 5)),
    "its slice": (lambda raw: memoryview(raw)[2:], lambda view: view.__setitem__(0, 5)),
    "its cast": (
        lambda raw: memoryview(raw).cast("B"), lambda view: view[1:].__setitem__(0, 5)
    ),
    "frombuffer": (lambda raw: np.frombuffer(memoryview(raw), "i4"), set_first),
    "nditer": (lambda raw: np.nditer(raw, op_flags=["readwrite"]), store_by_iterator),
}
GLOBAL = types.SimpleNamespace()


def in_array_of_objects(value):
    made = np.empty(2, object)
    made[0] = value
    return made


# Where it stays, and how it comes back.
PLACES = {
    "list": (lambda value: [value], lambda kept: kept[0]),
    "tuple": (lambda value: ((value,),), lambda kept: kept[0][0]),
    "dict": (lambda value: {"k": {1: value}}, lambda kept: kept["k"][1]),
    "object": (lambda value: types.SimpleNamespace(value=value), lambda kept: kept.value),
    "slots": (Slots, lambda kept: kept.value),
    "closure": (lambda value: lambda: value, lambda kept: kept()),
    "default": (lambda value: lambda it=value: it, lambda kept: kept()),
    "generator": (generator, next),
    "iterator": (lambda value: iter([value]), next),
    "array of objects": (in_array_of_objects, lambda kept: kept[0]),
    "partial": (lambda value: set_first.__get__(value), lambda kept: kept.__self__),
}


def check(kept, store, read):
    """The store raises, and nothing comes of it."""
    with pytest.raises((ValueError, TypeError)):
        store(kept)
    if isinstance(kept, np.ndarray):
        with pytest.raises(ValueError):
            kept.setflags(write=True)
    assert read() == 0


@pytest.fixture
def domain(domain):
    yield domain
    gc.collect()  # exceptions, and the frames of what has raised them


@pytest.fixture(params=["error", "snapshot"])
def numbers(request, domain):
    return domain.map("raw.db", outside=request.param).array("numbers", 12, "i8")


@pytest.fixture
def read(domain, numbers):
    """Zero: no number has been stored, here or in a later instance."""

    def other():
        numbers[11] = 0
        numbers[5:7] = 0
        return int(np.count_nonzero(numbers))

    return lambda: domain.run(other)


def test_each_view_of_a_failed_body_is_read_only(domain, numbers, read):
    """Also in the hands of garbage collection that is off."""
    for make, store in VIEWS.values():
        kept = []

        def body():
            raw = np.asarray(numbers)
            kept.append(make(raw))
            raise KeyError

        with pytest.raises(KeyError):
            domain.run(body)
        for _ in range(3):  # the second one would be committed by what runs between
            check(kept[0], store, read)
        kept.clear()


def test_each_place_that_holds_a_view_is_found(domain, numbers, read):
    for place, (put, get) in PLACES.items():

        def body():
            GLOBAL.kept = put(np.asarray(numbers)[2:4])
            gc.collect()  # which forgets tuples of arrays
            raise KeyError

        with pytest.raises(KeyError):
            domain.run(body)
        check(get(GLOBAL.kept), set_first, read)
        del GLOBAL.kept


@pytest.mark.quick
def test_an_exception_and_its_traceback_give_read_only_arrays(domain, numbers, read):
    def body():
        raw = np.asarray(numbers)
        raise ValueError(raw, {"k": raw[1:]})

    def query():
        raise ValueError(np.asarray(numbers), {"k": np.asarray(numbers)[1:]})

    for call in (domain.atomically(body), domain.query(query)):
        with pytest.raises(ValueError) as raised:
            call()
        first, second = raised.value.args
        check(first, set_first, read)
        check(second["k"], set_first, read)
        del first, second, raised


def test_variables_of_frames_that_run_are_found(domain, numbers, read):
    """A block of an attempt, whose function goes on."""
    try:
        for attempt in domain.attempts():
            with attempt:
                raw = np.asarray(numbers)
                part = raw[3:5]
                raise KeyError
    except KeyError:
        pass
    check(raw, set_first, read)
    check(part, set_first, read)


def test_a_global_variable_and_a_frozen_object_are_found(domain, numbers, read):
    GLOBAL.frozen = []
    gc.collect()
    gc.freeze()
    try:

        def body():
            global kept_here
            kept_here = np.asarray(numbers)[1:]
            GLOBAL.frozen.append(kept_here[1:])
            raise KeyError

        with pytest.raises(KeyError):
            domain.run(body)
        check(kept_here, set_first, read)
        check(GLOBAL.frozen[0], set_first, read)
    finally:
        gc.unfreeze()
        globals().pop("kept_here", None)
        del GLOBAL.frozen


def ended_by(action):
    def run(domain, numbers, keep):
        def body():
            keep(np.asarray(numbers))
            action(domain)

        with pytest.raises(BaseException) as raised:
            domain.run(body)
        assert isinstance(
            raised.value, (tmh.EscapedArrayError, KeyboardInterrupt, SystemExit, KeyError)
        )

    return run


def raising(error):
    def action(_):
        raise error

    return action


def irrevocable(_):
    tmh.irrevocable()
    raise KeyError


def in_inner_body(domain):
    domain.run(raising(KeyError), domain)


def retried(domain):
    if GLOBAL.tries:
        raise KeyError
    GLOBAL.tries.append(1)
    tmh.retry(0.0)


@pytest.mark.parametrize("end", [
    pytest.param(ended_by(lambda _: None), id="refused"),
    pytest.param(ended_by(raising(KeyboardInterrupt)), id="interrupted"),
    pytest.param(ended_by(raising(SystemExit)), id="exit"),
    pytest.param(ended_by(raising(KeyError)), id="error"),
    pytest.param(ended_by(irrevocable), id="irrevocable"),
    pytest.param(ended_by(in_inner_body), id="inner"),
    pytest.param(ended_by(retried), id="retry"),
])
def test_whatever_ends_a_body_what_it_leaves_is_read_only(domain, numbers, read, end):
    kept = []
    GLOBAL.tries = []
    end(domain, numbers, lambda raw: kept.append([raw, raw[2:], raw.reshape(3, 4)]))
    for each in kept:
        for view in each:
            check(view, set_first, read)


def test_arrays_of_records_and_structs(domain, segment):
    records = segment.array("records", 4, RECORD)
    struct = segment.struct("struct", RECORD)
    kept = []

    def body():
        raw, one = np.asarray(records), np.asarray(struct.record)
        kept.extend([raw[1], raw["a"], raw[2]["c"], one["c"], one[()], raw.view(np.recarray)[0]])
        raise KeyError

    with pytest.raises(KeyError):
        domain.run(body)
    for each in kept:
        with pytest.raises(ValueError):
            each["a" if isinstance(each, np.void) else 0] = 5
    with domain.query():
        assert records["a"].sum() == records["b"].sum() == records["c"].sum() == 0
        assert struct.a == 0 and struct.c.sum() == 0


def test_an_array_that_another_thread_uses_stays_writeable(domain, segment):
    """Of the same memory, in a later instance."""
    numbers = segment.array("numbers", 12, "i8")
    kept = []

    def body():
        kept.append(np.asarray(numbers))
        raise KeyError

    def other():
        kept[0][1:2]  # from the failed body
        raw = np.asarray(numbers)
        held_too = np.asarray(numbers)[1:]
        with pytest.raises(KeyError):
            raise KeyError(raw)
        held_too[0] = 5
        assert raw.flags.writeable and not kept[0].flags.writeable

    with pytest.raises(KeyError):
        domain.run(body)
    join(*started(lambda: domain.run(other)))
    with domain.query():
        assert numbers[1] == 5


def test_what_ctypes_holds_is_told(domain, segment):
    numbers = segment.array("numbers", 12, "i8")
    kept = []

    def body():
        kept.append((ctypes.c_int64 * 4).from_buffer(np.asarray(numbers)))
        raise KeyError

    with pytest.warns(RuntimeWarning, match="holds memory of 'numbers' beyond the end"):
        with pytest.raises(KeyError):
            domain.run(body)


def test_a_body_that_commits_costs_no_walk(domain, numbers):
    """And one whose arrays went with its variables neither: nothing is searched."""

    def body():
        raw = np.asarray(numbers)
        raw[0] += 1
        raise KeyError

    def get_objects():
        raise AssertionError("a walk")

    kept = gc.get_objects
    gc.get_objects = get_objects
    try:
        domain.run(lambda: numbers.fill(0))
        with pytest.raises(KeyError):
            domain.run(body)
    finally:
        gc.get_objects = kept


def test_no_warning_where_all_is_found(domain, numbers):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = []

        def body():
            raw = np.asarray(numbers)
            kept.extend([raw, raw[1:], memoryview(raw), raw.flat, (raw,), iter(raw)])
            raise KeyError

        with pytest.raises(KeyError):
            domain.run(body)


PROGRAM = """
import tempfile
import numpy as np
import tmh

domain = tmh.open(tempfile.mkdtemp(), levels={levels!r})
cells = domain.map("s", outside="snapshot").array("cells", 1000, np.int64)

@domain.atomically
def body():
    raise ValueError(np.asarray(cells))

try:
    body()
except ValueError as error:
    raw = error.args[0]
    assert not raw.flags.writeable
    for number in (1, 2, 3):
        try:
            raw[0] = number
        except ValueError:
            pass
        domain.run(lambda: cells.__setitem__(slice(1, 3), 5))
        assert cells[0] == 0
"""


@pytest.mark.parametrize("levels", ["page", "hybrid"])
def test_at_the_level_of_a_module(levels, tmp_path):
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(levels=levels)], cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )
    assert found.returncode == 0 and found.stderr == ""


@pytest.mark.quick
def test_what_is_left_shows_what_the_body_has_seen(domain, numbers):
    """Whoever changes the memory afterwards, at either level; no load ends the process."""
    kept = {}

    def body():
        raw = np.asarray(numbers)
        raw[:] = range(12)
        kept["part"], kept["base"] = raw[2:9:3], raw.reshape(3, 4)[::-1].T
        kept["flat"], kept["bytes"] = raw.flat, memoryview(raw)[4:6]
        next(kept["flat"])
        raise KeyError(raw[5:7])

    with pytest.raises(KeyError) as raised:
        domain.run(body)
    for number in range(20):
        domain.run(numbers.__setitem__, 3, number)
        domain.run(numbers.fill, number)
        assert kept["part"].tolist() == [2, 5, 8]
        assert kept["base"].tolist() == np.arange(12).reshape(3, 4)[::-1].T.tolist()
        assert kept["bytes"].tolist() == [4, 5]
        assert raised.value.args[0].tolist() == [5, 6]
    assert list(kept["flat"]) == list(range(1, 12))
    with pytest.raises(tmh.EscapedArrayError):
        with domain.query():
            read = np.asarray(numbers)[2:4]
    domain.run(numbers.fill, 0)
    assert read.tolist() == [19, 19]


def test_large_arrays_are_copied_where_they_are_held(domain, segment):
    numbers = segment.array("large", 1 << 24, "i1")
    kept = []

    def body():
        raw = np.asarray(numbers)
        raw[1 << 23] = 7
        kept.append(raw[1 << 23:][:4])
        raise KeyError

    with pytest.raises(KeyError):
        domain.run(body)
    assert kept[0].tolist() == [7, 0, 0, 0] and not kept[0].flags.writeable
