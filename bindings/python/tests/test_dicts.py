"""tmh.Dict: keys, values, order, ranges, and what it refuses; against Python's dict."""

from __future__ import annotations

import builtins
import math
import pickle
import random

import numpy as np
import pytest

import tmh

KEYS = [
    0, 1, -1, 255, 256, -255, -256, 127, 128, 65535, 65536, -65536, (1 << 31), -(1 << 31),
    (1 << 56) - 1, 1 << 56, (1 << 63) - 1, -(1 << 63), 1 << 63, (1 << 64) - 1, 1 << 64,
    -(1 << 64), (1 << 127), -(1 << 127), (1 << 128) - 1, b"", b"\0", b"\0\0", b"a", b"a\0", b"ab",
    b"\xff", b"\xff\xff", b"prefix12", b"prefix123", b"prefix1234", b"x" * 300, "", "\0", "a", "ä",
    "aä", "日本", "z" * 1000,
]
VALUES = [
    None, True, False, 0, -1, (1 << 63) - 1, -(1 << 63), 1 << 63, -(1 << 63) - 1, 1 << 200,
    -(1 << 200), 0.0, -0.0, 1.5, math.inf, b"", b"\0", b"x" * 5000, "", "ä", "text" * 3000,
]


def order(key):
    kinds = {int: 0, bytes: 1, str: 2}
    return kinds[type(key)], key.encode() if isinstance(key, str) else key


@pytest.mark.quick
def test_keys_come_back_in_their_order(domain):
    shared = domain.dict("d")
    mixed = KEYS[:]
    random.Random(7).shuffle(mixed)
    for key in mixed:
        shared[key] = repr(key)
    assert list(shared) == sorted(KEYS, key=order)
    assert list(reversed(shared)) == sorted(KEYS, key=order, reverse=True)
    assert [type(key) for key in shared] == [type(key) for key in sorted(KEYS, key=order)]
    assert len(shared) == len(KEYS)
    for key in KEYS:
        assert shared[key] == repr(key) and key in shared


@pytest.mark.quick
def test_values_come_back_as_they_were(domain):
    shared = domain.dict("d")
    for value in VALUES:
        shared["k"] = value
        back = shared["k"]
        assert back == value and type(back) is type(value)
        assert math.copysign(1, back) == math.copysign(1, value) if value == 0.0 else True
    shared["k"] = math.nan
    assert math.isnan(shared["k"])


@pytest.mark.parametrize(
    "array",
    [
        np.arange(5), np.zeros((0, 3)), np.array(3.5), np.ones((2, 3), ">f4"),
        np.array([b"ab", b"c"]), np.array(["ä", "bc"]), np.arange(12).reshape(3, 4)[:, ::2],
        np.array([(1, 2.5)], [("x", "i4"), ("y", "f8")]), np.datetime64("2026-01-01", "s"),
        np.float32(2.5), np.int8(-3), np.array([True, False]),
        np.zeros(2, np.dtype([("a", "u1"), ("b", "i8", (2,))], align=True)),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_and_numbers_of_numpy_are_values(domain, array):
    shared = domain.dict("d")
    shared[1] = array
    back = shared[1]
    if isinstance(array, np.integer):
        assert back == int(array)
        return
    assert type(back) is type(array) and back.dtype == array.dtype and back.shape == array.shape
    assert (back == array).all()
    if isinstance(back, np.ndarray):
        assert back.flags.writeable and back.base is None or back.flags.owndata


def test_ranges_have_the_keys_between_their_bounds(domain):
    names = domain.dict("d")
    for key in (1, 2, 3, 5, 6):
        names[key] = key
    for lo in (None, *range(8)):
        for hi in (None, *range(8)):
            for has_lo, has_hi in ((True, True), (False, True), (True, False), (0, 0)):
                expected = [
                    key for key in (1, 2, 3, 5, 6)
                    if (lo is None or key > lo or (has_lo and key == lo))
                    and (hi is None or key < hi or (has_hi and key == hi))
                ]
                inclusive = (has_lo, has_hi)
                assert list(names.irange(lo, hi, inclusive=inclusive)) == expected
                backward = list(names.irange(lo, hi, inclusive=inclusive, reverse=True))
                assert backward == expected[::-1]


def test_a_lookup_in_the_midst_of_a_lookup(domain, monkeypatch):
    """An import hook, or __del__ where the collector runs, is code in the midst of a call."""
    names = domain.dict("d")
    names["array"], names["other"] = np.arange(1000), b"x" * 20_000
    imports = builtins.__import__

    def hook(*arguments):
        assert names["other"] == b"x" * 20_000
        return imports(*arguments)

    monkeypatch.setattr(builtins, "__import__", hook)
    for look in (names.get, names.setdefault, names.pop):
        assert (look("array") == np.arange(1000)).all()


@pytest.mark.parametrize("seed", range(3))
def test_random_operations_against_a_dict(domain, seed):
    shared, plain = domain.dict("d"), {}
    rng = random.Random(seed)

    def key():
        kind = rng.randrange(3)
        number = rng.randrange(200)
        return number - 100 if kind == 0 else b"k%d" % number if kind == 1 else f"k{number}"

    def step():
        what, at = rng.randrange(8), key()
        value = bytes(rng.randrange(300))
        if what < 3:
            shared[at] = plain[at] = value
        elif what == 3:
            assert shared.get(at, 5) == plain.get(at, 5) and (at in shared) == (at in plain)
        elif what == 4:
            assert shared.pop(at, None) == plain.pop(at, None)
        elif what == 5:
            assert shared.setdefault(at, value) == plain.setdefault(at, value)
        elif what == 6 and at in plain:
            del shared[at], plain[at]
        elif what == 7 and plain:
            last = rng.randrange(2) == 1
            wanted = sorted(plain, key=order)[-1 if last else 0]
            assert shared.popitem(last) == (wanted, plain.pop(wanted))

    for _ in range(5):
        for _ in range(100):
            step()
        domain.run(step)
        assert list(shared.items()) == sorted(plain.items(), key=lambda item: order(item[0]))
        lo, hi = sorted([key(), key()], key=order)
        for inclusive in ((a, b) for a in (True, False) for b in (True, False)):
            inside = [
                each for each in sorted(plain, key=order)
                if (order(lo) < order(each) or (inclusive[0] and each == lo))
                and (order(each) < order(hi) or (inclusive[1] and each == hi))
            ]
            assert list(shared.irange(lo, hi, inclusive=inclusive)) == inside
            backward = list(shared.irange(lo, hi, inclusive=inclusive, reverse=True))
            assert backward == inside[::-1]
    assert shared == plain and len(shared) == len(plain)
    shared.clear()
    assert len(shared) == 0 and list(shared) == []


@pytest.mark.quick
def test_an_iteration_goes_through_many_batches(domain):
    shared = domain.dict("d")
    shared.update({number: str(number) for number in range(2000)})
    assert list(shared) == list(range(2000))
    assert list(shared.irange(10, 1500)) == list(range(10, 1501))
    assert list(shared.irange(None, 5, reverse=True)) == [5, 4, 3, 2, 1, 0]
    assert [len(value) for value in shared.values()][:11] == [1] * 10 + [2]
    with domain.query():
        assert sum(shared.keys()) == sum(range(2000))


@pytest.mark.parametrize("key", [1.5, None, (1, 2), [1], np.arange(2), object()])
def test_a_wrong_key_is_a_type_error(domain, key):
    shared = domain.dict("d")
    for use in (
        lambda: shared[key], lambda: shared.__setitem__(key, 1), lambda: shared.__delitem__(key),
        lambda: key in shared, lambda: shared.get(key), lambda: list(shared.irange(key, 5)),
    ):
        if key is None and use.__code__.co_names == ("list",):
            continue
        try:
            use()
        except TypeError:
            continue
        assert key is None, key  # no bound


@pytest.mark.parametrize("key", [1 << 128, -(1 << 128)])
def test_an_int_of_more_than_128_bits_is_no_key(domain, key):
    with pytest.raises(OverflowError):
        domain.dict("d")[key] = 1


def test_a_text_that_is_no_unicode_is_refused(domain):
    shared = domain.dict("d")
    for use in (lambda: shared.get("\ud800"), lambda: shared.__setitem__(1, "\ud800")):
        with pytest.raises(UnicodeEncodeError):
            use()


@pytest.mark.parametrize(
    "value",
    [
        object(), {1: 2}, [1], {3}, print, np.array([object()]), np.ma.array([1, 2], mask=[0, 1]),
    ],
)
def test_a_wrong_value_is_a_type_error(domain, value):
    shared = domain.dict("d")
    with pytest.raises(TypeError):
        shared[1] = value
    assert len(shared) == 0


def test_ints_with_methods_of_their_own_are_ints(domain):
    class Odd(int):
        def to_bytes(self, *_, **__):
            return "x" * 100

        def bit_length(self):
            return 1

        def __abs__(self):
            return 5

    shared = domain.dict("d")
    for number in (5, -5, 1 << 100, -(1 << 100)):
        shared[Odd(number)] = Odd(number)
        assert shared[number] == number
    assert list(shared) == [-(1 << 100), -5, 5, 1 << 100]


@pytest.mark.quick
def test_missing_keys(domain):
    shared = domain.dict("d")
    for use in (
        lambda: shared[1], lambda: shared.__delitem__(1), lambda: shared.pop(1), shared.popitem,
        shared.peekitem,
    ):
        with pytest.raises(KeyError):
            use()
    assert shared.get(1) is None and shared.pop(1, 5) == 5 and 1 not in shared


@pytest.mark.quick
def test_pickle_only_where_it_is_asked_for(domain):
    trusting, wary = domain.dict("d", pickle=True), domain.dict("d")
    trusting["k"] = {"a": [1, 2, {3}]}
    assert trusting["k"] == {"a": [1, 2, {3}]}
    with pytest.raises(TypeError, match="pickle=True"):
        wary["k"]
    trusting["plain"] = 5
    assert wary["plain"] == 5
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        trusting["f"] = lambda: 0


@pytest.mark.quick
def test_calls_in_an_instance_are_part_of_it(domain):
    first, second = domain.dict("first"), domain.dict("second")
    first["k"] = 5

    @domain.atomically
    def move(fails):
        second["k"] = first.pop("k")
        assert "k" not in first and second["k"] == 5
        if fails:
            raise ValueError

    with pytest.raises(ValueError):
        move(True)
    assert first["k"] == 5 and "k" not in second
    move(False)
    assert second["k"] == 5 and "k" not in first
    with domain.query():
        with pytest.raises((tmh.QueryWroteError, tmh.NestingError)):
            first["k"] = 1
        with pytest.raises((tmh.QueryWroteError, tmh.NestingError)):
            del second["k"]
    assert second["k"] == 5


def test_large_values_grow_and_shrink(domain):
    shared = domain.dict("d")
    for size in (0, 1, 100, 4096, 100_000, 3_000_000, 50, 4000):
        shared["k"] = bytes([size % 251]) * size
        assert shared["k"] == bytes([size % 251]) * size
    assert len(shared) == 1


def test_bytes_that_are_none_of_ours_are_an_error(domain):
    from tmh import _tmh

    segment = domain.map("raw.db")
    trusted = segment.dict("d")
    trusted["x"] = b"1234567"
    for bad in (b"", b"?", b"i123", b"d1", b"a", b"a\xff\xff\xff\xff", b"a\x03\0\0\0abc"):
        with pytest.raises(ValueError):
            _tmh.decode_value(bad, False)
    for bad in (b"", b"\x25", b"\x21", b"\x7f"):
        with pytest.raises(ValueError):
            _tmh.decode_key(bad)


def test_no_bytes_at_all_hurt_the_interpreter():
    """Every value is cut, changed and mixed; what comes of it is a value or ValueError."""
    from tmh import _tmh

    rng = random.Random(11)
    with_heads = [b"i" + bytes(8), b"I" + bytes(20), b"d" + bytes(8), b"b", b"s\xff\xfe", b"n"]
    for descr in ("'<i8'", "[('x', '<i4'), ('y', '<f8', (2,))]", "'|O'", "'<U3'", "'<M8[s]'"):
        for shape in ("()", "(2,)", "(1 << 60,)", "(-1,)", "(2, 1 << 40)", "(0,)"):
            head = f"({descr}, {shape}, False)".encode()
            with_heads.append(b"a" + len(head).to_bytes(4, "little") + head + bytes(48))
    for _ in range(20_000):
        one = bytearray(rng.choice(with_heads))
        for _ in range(rng.randrange(4)):
            if one:
                one[rng.randrange(len(one))] = rng.randrange(256)
        one = bytes(one[: rng.randrange(len(one) + 1)]) + bytes(rng.randrange(3))
        for decode in (lambda data: _tmh.decode_value(data, False), _tmh.decode_key):
            try:
                decode(one)
            except (ValueError, TypeError):
                pass


def test_a_record_of_the_catalogue_that_lies_is_an_error(domain):
    segment = domain.map("lies.db")
    segment.array("a", 10, "i8")
    catalogue = segment._catalogue
    good = catalogue["a"]
    address = int(good.split('"address": ')[1].rstrip("}"))
    for bad in (
        b"x", "", "{}", "[]", "5", "null", '{"kind": "array"}',
        good.replace(str(address), "8"), good.replace(str(address), str(address + (1 << 45))),
        good.replace(str(address), str(address + 4)), good.replace("[10]", "[1000000000]"),
        good.replace("[10]", "[-1]"), good.replace("[10]", '"x"'), good.replace("<i8", "|O"),
        good.replace("<i8", "?8"), good.replace("array", "dict"),
    ):
        catalogue["a"] = bad
        with pytest.raises((tmh.Error, ValueError, TypeError, KeyError)):
            segment.array("a")
    for address in (0, 64, 1 << 46):
        catalogue["d"] = f'{{"kind": "dict", "address": {address}}}'
        with pytest.raises(tmh.Error):
            segment.dict("d")


@pytest.mark.quick
def test_names_are_of_one_kind(domain):
    segment = domain.map("names.db")
    segment.dict("d"), segment.queue("q"), segment.counter("c")
    segment.array("a", 3, "i8")
    assert segment.names() == {"a": "array", "c": "counter", "d": "dict", "q": "queue"}
    for wrong in (segment.dict, segment.queue, segment.counter, segment.array):
        kind = wrong.__name__
        for name, have in segment.names().items():
            if have != kind:
                with pytest.raises(tmh.MismatchError):
                    wrong(name)
    for name in ("", 5, None, b"x"):
        with pytest.raises(ValueError):
            segment.dict(name)


@pytest.mark.quick
def test_counters(domain):
    counter = domain.counter("c")
    assert counter.value == 0 and counter.add() == 1 and counter.add(-5) == -4
    counter.value = (1 << 63) - 1
    with pytest.raises(OverflowError):
        counter.add()
    assert counter.value == (1 << 63) - 1
    with pytest.raises(OverflowError):
        counter.value = 1 << 63
    for wrong in (1.5, "5", None):
        with pytest.raises(TypeError):
            counter.add(wrong)
        with pytest.raises(TypeError):
            counter.value = wrong
    counter.value = np.int32(-7)
    assert counter.add(True) == -6 and type(counter.value) is int


@pytest.mark.quick
def test_queues_keep_their_order_and_values(domain):
    queue = domain.queue("q", pickle=True)
    values = [None, 5, "x", b"y", {"a": 1}, 2.5]
    for value in values:
        queue.put(value)
    assert len(queue) == 6
    assert [queue.get() for _ in values] == values
    with pytest.raises(TypeError):
        domain.queue("plain").put(object())
    assert len(domain.queue("plain")) == 0
