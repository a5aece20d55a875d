"""Wrong arguments: whatever is called with whatever, no words of the binding library come out."""

from __future__ import annotations

import datetime
import inspect
import itertools
import queue
import re

import numpy as np
import pytest

import tmh

WRONG = [
    None, True, 5, -1, 2**200, 1.5, float("nan"), 1j, "x", "\ud800", "", b"x", b"\xff",
    bytearray(b"x"), (), (1, 2), [], [1], {}, {1}, object(), object, len, np.int64(5),
    np.float32(1), np.arange(3), np.datetime64("2020-01-01"), np.timedelta64(5),
    datetime.date(2020, 1, 1), Ellipsis, slice(1), KeyError, iter([]),
]
BINDING = re.compile(
    r"incompatible function arguments|nanobind|nb_|std::|invocation types|_tmh\."
    r"|TypeError: __init__|no constructor defined|supported:", re.IGNORECASE
)
# What would end the test, or wait.
LEFT_OUT = {
    "close", "close_at_exit", "__class__", "__init_subclass__", "__subclasshook__", "__del__",
    "__getattribute__", "__reduce_ex__", "__setattr__", "__delattr__", "__new__", "__sizeof__",
    "__dir__", "__format__", "__getstate__", "__setstate__", "__exit__", "unmap", "checkpoint",
    "get", "backup", "keep", "map",
}


def check_words(call, *args, **kwargs):
    """The call may do what it wants, but for its words."""
    try:
        found = call(*args, **kwargs)
        if inspect.isgenerator(found) or isinstance(found, tmh.Attempts):
            for _ in itertools.islice(found, 2):
                pass
    except (Exception, tmh.Abort) as error:
        text = f"{type(error).__name__}: {error}"
        assert not BINDING.search(text), f"{call!r}{args!r}{kwargs!r}: {text}"
        assert str(error) or isinstance(error, (queue.Empty, StopIteration, AssertionError))


def methods_of(thing):
    for name in dir(type(thing)):
        is_public = not name.startswith("_") or (name.startswith("__") and name.endswith("__"))
        if is_public and name not in LEFT_OUT and callable(getattr(thing, name, None)):
            yield getattr(thing, name)


@pytest.fixture
def things(domain, segment):
    """One of each class that a program meets."""
    struct = np.dtype([("a", "i8"), ("b", "f4")], align=True)
    made = [
        segment, segment.dict("d"), segment.queue("q"), segment.counter("c"),
        segment.array("a", 4, "i8"), segment.struct("s", struct), domain,
    ]
    made[1]["k"] = 1
    return made


@pytest.mark.filterwarnings("ignore")
def test_each_method_with_any_argument(domain, things):
    """Alone, in an instance and in a query; with no, one, two and many arguments."""

    def all_calls():
        for thing in things:
            for method in methods_of(thing):
                check_words(method)
                for wrong in WRONG:
                    check_words(method, wrong)
                check_words(method, "k", None, 5, 6, 7, 8, 9, 10, 11)
                check_words(method, unknown=1)

    all_calls()
    for around in (domain.atomically, domain.query):
        with pytest.raises(KeyError):
            around(failing_after(all_calls))()


def failing_after(calls):
    def body():
        calls()
        raise KeyError

    return body


def test_pairs_of_arguments_to_dicts(segment):
    shared = segment.dict("d")
    for first, second in itertools.product(WRONG, WRONG):
        for method in (shared.get, shared.pop, shared.setdefault, shared.__setitem__):
            check_words(method, first, second)
        check_words(shared.irange, first, second)
        check_words(shared.irange, "a", first, inclusive=second)


@pytest.mark.quick
def test_a_missing_key_of_the_wrong_type_has_its_own_sentence(segment):
    shared = segment.dict("d")
    for call in (shared.get, shared.pop, shared.setdefault, shared.__getitem__):
        with pytest.raises(TypeError) as raised:
            call(None)
        assert str(raised.value) == "a key is an int, bytes or a str, not NoneType"
    for call in (shared.get, shared.pop, shared.setdefault):
        with pytest.raises(TypeError, match=r"^\w+\(key.* does not take \(\)$"):
            call()
        with pytest.raises(TypeError, match=r"does not take \(int, str, keyword=NoneType\)"):
            call(1, "x", keyword=None)
    with pytest.raises(TypeError, match="a pair of bool"):
        next(shared.irange(inclusive=5))


@pytest.mark.quick
def test_open_and_map_say_which_parameter_is_wrong(domain, folder):
    for name in ("durability", "levels", "policies", "tracking", "name"):
        with pytest.raises(TypeError, match=f"{name}=5: a str, not int"):
            tmh.open(folder, **{name: 5})
    for name in ("flush_interval_ms", "history_bytes"):
        with pytest.raises(TypeError, match=f"{name}='x': a whole number, not str"):
            tmh.open(folder, **{name: "x"})
    with pytest.raises(TypeError, match="history_s='x': seconds, not str"):
        tmh.open(folder, history_s="x")
    with pytest.raises(ValueError, match="UTF-8"):
        tmh.open(folder / "\udcff")
    for name in ("size", "max_size"):
        with pytest.raises(TypeError, match=f"{name}=1.5: a whole number, not float"):
            domain.map("x", **{name: 1.5})
    for call in (domain.keep, domain.forget):
        for wrong in (None, 5):
            with pytest.raises(TypeError, match="a str, not"):
                call(wrong)
    with pytest.raises(TypeError, match="site=5: a str, not int"):
        domain.atomically(print, site=5)
    for call in (domain.attempts, lambda **more: domain.atomically(print, **more)):
        with pytest.raises(TypeError, match="durability=5: a str, not int"):
            call(durability=5)
    with pytest.raises(TypeError, match="a moment is a commit's clock, a name or a datetime, not"):
        domain.query_at(1.5)


@pytest.mark.filterwarnings("ignore")
def test_parameters_of_functions_of_the_package(tmp_path):
    for wrong in WRONG:
        for name in inspect.signature(tmh.open).parameters:
            if name != "folder" and not isinstance(wrong, (bool, type(None))):
                check_words(tmh.open, tmp_path / "opened", **{name: wrong})
        for call in (tmh.retry, tmh.on_commit, tmh.irrevocable):
            check_words(call, wrong)
        if not isinstance(wrong, (str, bytes, int)):
            check_words(tmh.open, wrong)


def test_what_the_package_makes_is_not_made_by_hand():
    for kind in (tmh.Array, tmh.Attempts, tmh.Query):
        for arguments in ((), (1,), (None, 1, 2)):
            with pytest.raises(TypeError) as raised:
                kind(*arguments)
            text = str(raised.value)
            assert not BINDING.search(text), text
            assert re.search(r"segment\.array|domain\.attempts\(\)|domain\.query\(\)", text)


def test_a_date_of_numpy_in_an_array_of_floats_does_what_numpy_says(domain, segment):
    shared = segment.array("f", 2, "f8")
    plain = np.zeros(2)
    day = np.datetime64("2020-01-01")

    def told(array):
        try:
            array[0] = day
        except Exception as error:
            return str(error)
        return array[0]

    assert domain.run(told, shared) == told(plain)
    assert "datetime.date" not in str(domain.run(told, shared))
