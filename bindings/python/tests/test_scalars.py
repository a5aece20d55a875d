"""Elements and values of every type of numpy, compared with numpy itself."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import itertools
import warnings

import numpy as np
import pytest

import tmh

DTYPES = [
    *"?bBhHiIlLefdgFDG", ">i4", ">f8", "S5", "U3", "V4", "M8[s]", "M8[D]", "m8[ms]", "m8",
    np.dtype([("a", "i4"), ("b", "f8")]),
]


class Small(enum.IntEnum):
    ONE = 1


class Indexed:
    def __index__(self):
        return 7


class Floating:
    def __float__(self):
        return 2.5


class Failing:
    def __float__(self):
        raise LookupError("failing")

    __int__ = __index__ = __complex__ = __float__


def numpy_scalars():
    """One and more of each type of numpy."""
    yield from (np.bool_(True), np.bool_(False))
    for code in "bBhHiIlLqQ":
        info = np.iinfo(code)
        yield from (np.dtype(code).type(each) for each in (0, 1, info.min, info.max))
    for code in "efdg":
        yield from (np.dtype(code).type(each) for each in (0, -1.75, "inf", "nan", 300))
    for code in "FDG":
        yield from (np.dtype(code).type(each) for each in (1 - 2j, 3, complex("nan")))
    yield from (np.str_("ab"), np.str_("12"), np.str_(""), np.str_("end\0"), np.str_("\u20ac"))
    yield from (np.bytes_(b"ab"), np.bytes_(b"7"), np.bytes_(b""), np.bytes_(b"end\0"))
    yield from (np.void(b"abcd"), np.void(b"\0\0"), np.void(b""))
    for text in ("2020-02-29", "NaT", "1969-07-20T20:17:40"):
        yield from (np.datetime64(text, unit) for unit in ("D", "s", "ns"))
    yield from (np.datetime64("NaT"), np.datetime64("2020"), np.datetime64(5, ("s", 25)))
    yield from (np.timedelta64(5, unit) for unit in ("D", "ms", "ns", "Y", "generic"))
    yield from (np.timedelta64("NaT", "s"), np.timedelta64(-(2**63) + 1, "us"))
    record = np.dtype([("a", "i4"), ("b", ">f8"), ("c", "U2"), ("d", "i2", (2,))])
    yield np.array((1, 2.5, "x", [3, 4]), record)[()]
    yield np.rec.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")])[0]


SCALARS = list(numpy_scalars())
OTHERS = [
    True, False, 0, 1, -1, 127, 128, 255, 256, -129, 2**31, -(2**63), 2**63, 2**64 - 1, 2**64,
    10**30, 0.0, 1.75, -1.75, 1e300, float("inf"), float("nan"), 1j, complex(1, 0), None, "", "ab",
    "12", "1.5", "2020-01-01", b"", b"ab", b"12", datetime.date(2020, 1, 1),
    datetime.datetime(2020, 1, 1, 2, 3, 4), datetime.timedelta(1, 2), decimal.Decimal("1.5"),
    fractions.Fraction(3, 2), Small.ONE, Indexed(), Floating(), Failing(), object(), [], [1],
    [1, 2], (1,), (1, 2.0), {}, {1}, slice(1), bytearray(b"ab"), int, Ellipsis,
    np.array(5), np.array([5]), np.array([1, 2]), np.array(1.5), np.array("x"), np.array(None),
]


def done(store):
    """What a store does: its exception and its warnings, without addresses and names."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            store()
            raised = None
        except Exception as error:
            raised = (type(error), str(error))
    return raised, [(each.category, str(each.message)) for each in warned]


def told(value):
    """For comparisons: equal types, equal bytes."""
    dtype = getattr(value, "dtype", None)
    # Numbers of 80 bits, and records, have bytes that mean nothing; texts of numpy lose zeros as
    # arrays.
    has_padding = isinstance(value, (np.longdouble, np.clongdouble))
    has_padding |= isinstance(value, np.void) and dtype.names is not None
    if isinstance(value, (str, bytes)):
        return type(value), dtype, list(value)
    return type(value), dtype, str(value) if has_padding else np.asarray(value).tobytes()


@pytest.mark.quick
def test_each_store_of_an_element_does_what_numpy_does(domain, segment):
    """Every dtype, each scalar: the same bytes, the same exception, the same warnings."""
    places = []
    for number, dtype in enumerate(map(np.dtype, DTYPES)):
        size = dtype.itemsize
        first = bytes(size) if dtype.kind == "U" else bytes(range(33, 33 + size))
        plain = np.frombuffer(first * 4, dtype).copy()
        shared = segment.array(f"a{number}", 4, dtype)
        places.append((plain, shared, plain.copy()))

    def body():
        for (plain, shared, initial), value in itertools.product(places, SCALARS + OTHERS):
            plain[1] = shared[1] = initial[1]
            wanted = done(lambda: plain.__setitem__(1, value))
            found = done(lambda: shared.__setitem__(1, value))
            what = f"{shared.dtype}: {value!r}"
            assert found == wanted, what
            number = shared[1]
            if isinstance(number, tmh.Array):  # a record
                number = number.copy()[()]
            assert told(number) == told(plain[1]), what

    with np.errstate(all="warn"):
        domain.run(body)


def test_fields_of_a_struct_take_what_numpy_takes(domain, segment):
    fields = [*((f"f{code}", code) for code in "?bBhHiIlLefdFD"), ("t", "m8[s]")]
    dtype = np.dtype(fields, align=True)
    plain = np.zeros((), dtype)
    shared = segment.struct("s", dtype)

    def body():
        for field, value in itertools.product(dtype.names, SCALARS + OTHERS):
            wanted = done(lambda: plain.__setitem__(field, value))
            assert done(lambda: setattr(shared, field, value)) == wanted, (field, value)
            assert told(getattr(shared, field)) == told(plain[field][()]), (field, value)

    with np.errstate(all="warn"):
        domain.run(body)


@pytest.mark.quick
def test_each_scalar_of_numpy_is_a_value_and_keeps_its_type(domain, segment):
    shared = segment.dict("d")
    queue = segment.queue("q")
    for number, value in enumerate(SCALARS):
        shared[number] = value
        queue.put(value)
    for number, value in enumerate(SCALARS):
        for found in (shared[number], queue.get(), shared.pop(number)):
            assert told(found) == told(value), repr(value)
            assert str(found) == str(value)


def test_an_array_of_each_dtype_is_a_value(segment):
    shared = segment.dict("d")
    for dtype in [*DTYPES, "V0", "S0"]:
        for shape in ((), (3,), (2, 0), (2, 3)):
            value = np.zeros(shape, dtype)
            shared["k"] = value
            found = shared["k"]
            assert told(found) == told(value) and found.shape == value.shape
            found[...] = found  # its own, to change


def test_numbers_of_python_stay_numbers_of_python(segment):
    shared = segment.dict("d")
    for value in (True, 5, -(2**200), 1.5, "x", b"x", None):
        shared["k"] = value
        assert type(shared["k"]) is type(value) and shared["k"] == value


@pytest.mark.parametrize("value", [object(), {1: 2}, [1], np.array([None]), np.ma.array([1])])
def test_what_is_no_value_is_refused(segment, value):
    with pytest.raises(TypeError):
        segment.dict("d")["k"] = value


@pytest.mark.parametrize("key", [np.timedelta64(5), np.float64(1), np.bool_(True), 1.5, None, ()])
def test_what_is_no_key_is_refused_by_its_type(segment, key):
    shared = segment.dict("d")
    for call in (
        lambda: shared[key], lambda: shared.get(key), lambda: key in shared,
        lambda: shared.pop(key, 1), lambda: shared.setdefault(key, 1),
        lambda: shared.__setitem__(key, 1), lambda: shared.__delitem__(key),
    ):
        name = type(key).__name__
        with pytest.raises(TypeError, match=f"a key is an int, bytes or a str, not .*{name}"):
            call()


def test_numbers_of_numpy_are_keys_as_numbers_of_python(segment):
    shared = segment.dict("d")
    shared[np.uint8(5)] = 1
    shared[np.int64(-5)] = 2
    shared[np.str_("x")] = 3
    assert list(shared.items()) == [(-5, 2), (5, 1), ("x", 3)]
    assert all(type(key) in (int, str) for key in shared)
