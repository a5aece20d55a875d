"""tmh.Array as numpy's array: what it accepts, gives and refuses, inside and outside instances."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest

import tmh

DTYPES = ["i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "?", "S5", "U3", "M8[s]", ">i4"]


def run(domain, body):
    return domain.atomically(body)()


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_element_is_stored_and_loaded_as_by_numpy(domain, segment, dtype):
    shared = segment.array("a", (3, 4), dtype)
    plain = np.zeros((3, 4), dtype)
    values = {"S": b"abc", "U": "xyz", "M": np.datetime64("2026-01-02"), "b": True}
    value = values.get(plain.dtype.kind, 5)
    plain[1, 2] = value

    def body():
        shared[1, 2] = value
        return shared[1, 2], type(shared[1, 2]), shared[-2, -2]

    loaded, kind, from_behind = run(domain, body)
    assert loaded == plain[1, 2] == from_behind
    assert kind is type(plain[1, 2])
    with domain.query():
        assert (np.asarray(shared) == plain).all()


@pytest.mark.parametrize(
    "index",
    [
        0, -1, slice(1, 3), slice(None, None, -1), (1, slice(None)), (Ellipsis, 2), None,
        (slice(None), None, 1), [0, 2], np.array([1, 1]), (np.array([0, 1]), np.array([2, 3])),
        (2, 3), np.int64(1), (np.uint8(1), -1), (), Ellipsis,
    ],
    ids=str,
)
def test_indexing_is_numpys(domain, segment, index):
    shared = segment.array("a", (3, 4), "i8")
    plain = np.arange(12).reshape(3, 4)
    run(domain, lambda: shared.__setitem__(slice(None), plain))
    with domain.query():
        got = shared[index]
        assert (np.asarray(got) == plain[index]).all()
        assert np.shape(got) == np.shape(plain[index])
        del got
    plain[index] = 7

    def body():
        shared[index] = 7
        return shared.copy()

    assert (run(domain, body) == plain).all()


def test_views_that_a_function_makes_of_several_arrays_are_parts_of_their_own(domain, segment):
    other = domain.map("other.db")
    first, second = segment.array("first", 4, "i8"), other.array("second", (3, 1), "i8")
    with domain.query():
        views = np.broadcast_arrays(first, second)
    assert [view.name for view in views] == ["first", "second"]
    domain.unmap(other)
    with domain.query():
        assert views[0].sum() == 0
        with pytest.raises(tmh.ClosedError):
            views[1].sum()


def test_a_part_whose_elements_are_the_same_memory_is_read_only(domain, segment):
    shared = segment.array("a", 4, "i8")

    def body():
        part = np.broadcast_to(shared, (3, 4))
        for store in (
            lambda: part.__setitem__((0, 0), 1), lambda: part.__setitem__(0, 1),
            lambda: part.fill(1), lambda: np.add(part, 1, out=part),
            lambda: part[0].__setitem__(0, 1), lambda: np.asarray(part).__setitem__(0, 1),
        ):
            with pytest.raises(ValueError, match="read-only|read only"):
                store()
        shared[1] = 5
        return part.sum()

    assert run(domain, body) == 15
    with domain.query():
        assert shared.tolist() == [0, 5, 0, 0]
        assert np.broadcast_to(shared, (3, 4)).sum() == 15


def test_functions_that_return_named_tuples(domain, segment):
    shared = segment.array("m", (3, 3), "f8")
    run(domain, lambda: shared.__setitem__(slice(None), np.diag([3.0, 2.0, 1.0])))
    with domain.query():
        found = np.linalg.svd(shared)
        values = np.linalg.eigh(shared)[0]
        assert sorted(values) == [1, 2, 3]
        assert type(found) is type(np.linalg.svd(np.eye(3)))
        assert found[1].tolist() == [3, 2, 1]


def test_a_mask_selects_and_stores(domain, segment):
    shared = segment.array("a", 10, "f8")
    plain = np.arange(10.0)

    def body():
        shared[:] = plain
        shared[shared > 5] = -1
        return shared[shared < 0].sum()

    assert run(domain, body) == -4


@pytest.mark.quick
def test_a_part_is_the_same_memory(domain, segment):
    shared = segment.array("a", (4, 4), "i4")

    def body():
        part = shared[1:3, ::2]
        assert isinstance(part, tmh.Array)
        part[0, 1] = 3
        part += 10
        shared.T[3, 0] = 8
        shared.reshape(16)[15] = 9
        shared[3][1] += 5
        return shared.copy()

    expected = np.zeros((4, 4), "i4")
    expected[1, 2] = 3
    expected[1:3, ::2] += 10
    expected[0, 3], expected[3, 3], expected[3, 1] = 8, 9, 5
    assert (run(domain, body) == expected).all()


@pytest.mark.quick
def test_arithmetic_and_functions_are_numpys(domain, segment):
    shared = segment.array("a", 6, "f8")
    run(domain, lambda: shared.__setitem__(slice(None), np.arange(6)))
    plain = np.arange(6.0)
    with domain.query():
        assert ((shared + 1) * 2 == (plain + 1) * 2).all()
        assert (2 - shared == 2 - plain).all()
        assert np.add.reduce(shared) == shared.sum() == np.sum(shared) == 15
        assert shared @ shared == plain @ plain
        assert (np.concatenate([shared, plain]) == np.concatenate([plain, plain])).all()
        assert shared.mean() == 2.5 and shared.argmax() == 5 and shared.max() == 5
        assert [float(each) for each in shared] == plain.tolist() == shared.tolist()
        assert 3.0 in shared and 9.0 not in shared
        assert isinstance(shared + 1, np.ndarray) and not isinstance(shared + 1, tmh.Array)
        assert [len(part) for part in np.split(shared, 2)] == [3, 3]

    def body():
        np.add(shared, 1, out=shared)
        np.add.at(shared, [0, 0], 5)
        np.copyto(shared[3:], 0)
        shared[:3].sort()
        shared.put([5], 2)
        np.multiply(shared, 2, out=shared, where=shared > 6)
        return shared.copy()

    plain += 1
    np.add.at(plain, [0, 0], 5)
    plain[3:] = 0
    plain[:3].sort()
    plain[5] = 2
    np.multiply(plain, 2, out=plain, where=plain > 6)
    assert (run(domain, body) == plain).all()


@pytest.mark.quick
def test_an_abort_undoes_all_that_a_body_stored(domain, segment):
    shared = segment.array("a", 4096, "i8")

    def body():
        shared[0] = 1
        shared[1000:2000] = 5
        np.asarray(shared)[3000] = 7
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run(domain, body)
    with domain.query():
        assert shared.sum() == 0


@pytest.mark.quick
def test_outside_of_an_instance_a_load_and_a_store_raise(domain, segment):
    shared = segment.array("a", 4, "i8")
    for load in (
        lambda: shared[0], lambda: shared[1:2] + 1, lambda: np.asarray(shared), shared.sum,
        lambda: list(shared), lambda: np.sum(shared), lambda: bool(shared[:1]),
        lambda: shared[[0, 1]],
    ):
        with pytest.raises(tmh.OutsideError, match="running instance"):
            load()
    for store in (
        lambda: shared.__setitem__(0, 1), lambda: shared.__setitem__(slice(None), 1),
        lambda: shared.fill(3), lambda: np.add(shared, 1, out=shared),
        lambda: np.add.at(shared, 0, 1), lambda: shared[1:].__setitem__(0, 1),
    ):
        with pytest.raises(tmh.OutsideError):
            store()
    with domain.query():
        assert shared.sum() == 0


@pytest.mark.quick
def test_outside_a_snapshot_segment_gives_copies_and_refuses_stores(domain):
    shared = domain.map("other.db", outside="snapshot").array("a", 4, "i8")
    run(domain, lambda: shared.__setitem__(slice(None), [1, 2, 3, 4]))
    assert shared[2] == 3 and shared.sum() == 10 and shared[1:3].tolist() == [2, 3]
    kept = np.asarray(shared)
    run(domain, lambda: shared.__setitem__(0, 100))
    assert kept.tolist() == [1, 2, 3, 4]
    assert shared[0] == 100
    for store in (
        lambda: shared.__setitem__(0, 1), lambda: shared.fill(3),
        lambda: np.add(shared, 1, out=shared),
    ):
        with pytest.raises(tmh.OutsideError):
            store()
    with pytest.raises(ValueError, match="read-only"):
        np.copyto(shared, 0)
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 1


@pytest.mark.quick
def test_a_store_in_a_query_raises(domain, segment):
    shared = segment.array("a", 4, "i8")
    with domain.query():
        with pytest.raises(tmh.QueryWroteError):
            shared[0] = 1
        with pytest.raises(tmh.QueryWroteError):
            shared[1:] = 1
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(shared)[0] = 1
        with pytest.raises(ValueError):
            np.asarray(shared).flags.writeable = True
    with domain.query():
        assert shared.sum() == 0


@pytest.mark.quick
def test_a_raw_array_that_outlives_the_body_undoes_it(domain, segment):
    shared = segment.array("a", 4, "i8")
    kept = []

    def body():
        shared[0] = 1
        kept.append(np.asarray(shared)[1:])

    with pytest.raises(tmh.EscapedArrayError, match="'a'"):
        run(domain, body)
    with domain.query():
        assert shared.sum() == 0
    # Its memory stays while the program holds it.
    with pytest.raises(tmh.EscapedArrayError, match="before close"):
        domain.close()
    kept.clear()
    run(domain, lambda: shared.__setitem__(0, 2))


def test_a_raw_array_that_a_query_keeps_is_an_error(domain, segment):
    shared = segment.array("a", 4, "i8")
    with pytest.raises(tmh.EscapedArrayError):
        with domain.query():
            kept = np.asarray(shared)
    del kept


def test_a_raw_array_in_garbage_that_holds_itself_is_none_that_is_kept(domain, segment):
    shared = segment.array("a", 4, "i8")

    def body():
        holder = [np.asarray(shared)]
        holder.append(holder)
        shared[0] += 1

    for _ in range(5):
        run(domain, body)
    gc.disable()
    try:
        run(domain, body)
    finally:
        gc.enable()
    domain.close()


def test_the_traceback_of_a_failed_body_keeps_no_raw_array(domain, segment):
    shared = segment.array("a", 4, "i8")

    def body():
        raw = np.asarray(shared)
        raw[0] = 1
        raise KeyError("x")

    with pytest.raises(KeyError) as raised:
        run(domain, body)
    assert raised.value.args == ("x",)
    domain.close()  # nothing is held


@pytest.mark.quick
def test_an_array_is_made_once_with_its_shape_and_dtype(domain, segment, folder):
    first = segment.array("a", (2, 3), np.float32)
    assert first.shape == (2, 3) and first.dtype == np.float32 and first.nbytes == 24
    assert segment.array("a").shape == (2, 3)
    with pytest.raises(tmh.MismatchError, match="shape"):
        segment.array("a", (3, 2), np.float32)
    with pytest.raises(tmh.MismatchError, match="dtype"):
        segment.array("a", (2, 3), np.float64)
    with pytest.raises(tmh.MismatchError, match="another kind"):
        segment.dict("a")
    with pytest.raises(KeyError, match="shape and dtype"):
        segment.array("b")
    assert segment.names() == {"a": "array"}


@pytest.mark.parametrize("dtype", ["O", [("x", "O")], "S", "U", "V0", "3i8"])
def test_a_dtype_that_cannot_lie_in_a_segment_is_refused(segment, dtype):
    with pytest.raises(TypeError):
        segment.array("a", 3, dtype)
    assert segment.names() == {}


@pytest.mark.parametrize(
    "shape",
    [
        -1, (2, -3), (1 << 62, 1 << 62), (1 << 50,), (0, 1 << 62), (1,) * 70, (2.5,), "12", [[1]],
    ],
)
def test_a_shape_that_cannot_be_is_refused(segment, shape):
    with pytest.raises((ValueError, TypeError, tmh.Error, OverflowError)):
        segment.array("a", shape, "i8")
    assert segment.names() == {}


@pytest.mark.parametrize("shape", [(), 0, (0, 3), (1,), (2, 3, 4, 5)])
def test_shapes(domain, segment, shape):
    shared = segment.array("a", shape, "i8")
    plain = np.zeros(shape, "i8")
    assert shared.shape == plain.shape and shared.size == plain.size

    def body():
        shared[...] = 3
        return shared.copy()

    assert (run(domain, body) == plain + 3).all()


@pytest.mark.parametrize("index", [4, -5, "x", 1.5, (0, 0), True])
def test_a_wrong_index_is_numpys_error(domain, segment, index):
    shared = segment.array("a", 4, "i8")
    plain = np.zeros(4, "i8")
    try:
        plain[index]
    except Exception as error:
        expected = type(error)
        with domain.query(), pytest.raises(expected):
            shared[index]


@pytest.mark.parametrize("value", ["x", None, [1, 2], 1 << 70, object()])
def test_a_wrong_value_is_an_error_and_changes_nothing(domain, segment, value):
    shared = segment.array("a", 4, "i8")
    with pytest.raises((TypeError, ValueError, OverflowError)):
        run(domain, lambda: shared.__setitem__(0, value))
    with pytest.raises((TypeError, ValueError)):
        run(domain, lambda: shared.__delitem__(0))
    with domain.query():
        assert shared.sum() == 0


@pytest.mark.quick
def test_structured_arrays_and_structs(domain, segment):
    dtype = np.dtype([("x", "i8"), ("y", "f4", (3,)), ("n", "S8")], align=True)
    records = segment.array("records", 5, dtype)
    one = segment.struct("one", dtype)

    def body():
        records[2]["x"] = 7
        records["x"][3] += 1
        records[4] = (1, [2, 2, 2], b"abc")
        one.x += 5
        one.y[1] = 2.5
        one.n = b"hey"
        return records["x"].copy(), records[4]["n"], one.x, one.y.sum(), one.n

    xs, name, x, total, n = run(domain, body)
    assert xs.tolist() == [0, 0, 7, 1, 1] and name == b"abc"
    assert (x, total, n) == (5, 2.5, b"hey")
    assert segment.struct("one").record.dtype == dtype
    with pytest.raises(tmh.MismatchError):
        segment.struct("one", [("x", "i4")])
    with pytest.raises(TypeError):
        segment.struct("two", "i8")
    with pytest.raises(AttributeError):
        one.z
    with pytest.raises(AttributeError):
        one.z = 1
    with pytest.raises(tmh.OutsideError):
        one.x
    with pytest.raises(tmh.OutsideError):
        one.x = 1


def test_numbers_that_numpy_aligns_by_half_of_their_size(domain, segment):
    """A complex number of 8 bytes every 12 bytes: some lie in two cache lines."""
    records = segment.array("records", 64, [("z", "c8"), ("tag", "i4")])

    def body():
        for number in range(64):
            records["z"][number] = number + 1j * number
        return records["z"].copy()

    assert run(domain, body).tolist() == [number + 1j * number for number in range(64)]


def test_indices_and_values_that_end_the_instance(domain, segment):
    """Their classes run code in the midst of an access."""
    shared = segment.array("a", 8, "i8")

    class Ends:
        def __init__(self, attempt):
            self.attempt = attempt

        def __index__(self):
            self.attempt.__exit__(None, None, None)
            return 3

        __int__ = __index__

    for access in (
        lambda ends: shared[ends], lambda ends: shared.__setitem__(ends, 1),
        lambda ends: shared.__setitem__(2, ends),
    ):
        attempt = next(domain.attempts())
        attempt.__enter__()
        with pytest.raises(tmh.OutsideError):
            access(Ends(attempt))
    with domain.query():
        assert shared.sum() == 0


@pytest.mark.parametrize("field", ["record", "_record", "_fields", "__class__"])
def test_a_name_that_a_struct_has_itself_is_none_of_a_field(segment, field):
    with pytest.raises(ValueError, match="no name for a field"):
        segment.struct("s", [("x", "i8"), (field, "i8")])
    assert segment.names() == {}


def test_nested_and_unaligned_structures(domain, segment):
    dtype = np.dtype([("a", [("b", "i4"), ("c", "f8")]), ("d", "u1", (2, 2))])
    one = segment.struct("one", dtype)
    assert one.record.dtype == dtype

    def body():
        one.a["c"] = 1.5
        one.d[1, 1] = 3
        return one.a["c"], one.d.sum()

    assert run(domain, body) == (1.5, 3)


@pytest.mark.quick
def test_copies_are_plain_arrays(domain, segment):
    shared = segment.array("a", 3, "i8")
    with domain.query():
        for made in (shared.copy(), copy.copy(shared), copy.deepcopy(shared), np.array(shared)):
            assert type(made) is np.ndarray
            made[0] = 9
        assert shared[0] == 0
        with pytest.raises(TypeError, match="pickle a.copy"):
            pickle.dumps(shared)
    assert "a" in repr(shared)


@pytest.mark.parametrize("name", ["flags", "data", "ctypes", "flat", "base", "tofile"])
def test_what_would_give_memory_away_is_no_attribute(domain, segment, name):
    shared = segment.array("a", 3, "i8")
    with domain.query(), pytest.raises(AttributeError):
        getattr(shared, name)


def test_a_buffer_of_the_array_is_not_to_be_had(domain, segment):
    shared = segment.array("a", 3, "i8")
    with domain.query(), pytest.raises(TypeError):
        memoryview(shared)


def test_a_large_array_of_zeros_costs_no_log(tmp_path):
    with tmh.open(tmp_path / "d", "buffered", levels="page") as domain:
        domain.map("data.db").array("a", 1 << 20, "i8")
        assert domain.stats()["log_bytes"] < 1 << 20
