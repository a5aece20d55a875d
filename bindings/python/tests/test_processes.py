"""Several processes: fork, spawn and forkserver, children of a body, and deaths by SIGKILL."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import signal
import sys
import threading
import time

import numpy as np
import pytest

import tmh
from conftest import beside, hung_s, join, started

ROUNDS = 100


def start_child(work):
    """The pid of a forked child that does `work`."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            work()
            status = 0
        except BaseException as error:
            sys.__stderr__.write(f"child: {error!r}\n")
        finally:
            os._exit(status)
    return child


def in_child(work):
    """The exit status of a forked child that does `work`."""
    return os.waitstatus_to_exitcode(os.waitpid(start_child(work), 0)[1])


def add_to(domain, cells, rounds=ROUNDS, first=0):
    @domain.atomically
    def add(index):
        cells[index] += 1

    for number in range(rounds):
        add(first + number % 7)


@pytest.mark.quick
def test_a_forked_child_opens_the_domain_by_itself(domain, cells):
    add_to(domain, cells)
    names = domain.dict("d")
    names["k"] = 1

    def work():
        add_to(domain, cells)
        names["k"] += 1
        assert [each["pid"] for each in domain.participants()].count(os.getpid()) == 1
        with domain.query():
            assert cells.sum() == 2 * ROUNDS

    assert in_child(work) == 0
    with domain.query():
        assert cells.sum() == 2 * ROUNDS
    assert names["k"] == 2
    assert in_child(domain.close) == 0
    add_to(domain, cells)


def test_a_child_of_a_child_and_a_child_that_does_nothing(domain, cells):
    assert in_child(lambda: in_child(lambda: add_to(domain, cells)) and None) == 0
    assert in_child(lambda: None) == 0
    with domain.query():
        assert cells.sum() == ROUNDS


@pytest.mark.quick
def test_a_child_made_in_a_body_is_no_part_of_it(domain, segment, cells):
    # In pages of their own: the child's commits are no conflict for the parent.
    others = segment.array("others", 4096, "i8")
    runs = []

    @domain.atomically
    def body():
        runs.append(1)
        cells[0] += 1
        child = os.fork()
        if child == 0:
            status = 70
            try:
                with pytest.raises(tmh.OutsideError, match="before this process was forked"):
                    cells[0] += 1
                add_to(domain, others, 5, 2048)
                status = 0
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert body() == 0
    with domain.query():
        assert cells.sum() == 1 and others.sum() == 5 * len(runs)


@pytest.mark.quick
def test_a_child_that_leaves_a_body_of_its_parents_is_told(domain, cells):
    parent = os.getpid()

    @domain.atomically
    def body():
        cells[0] += 1
        return os.fork()

    child = -1
    status = 70
    try:
        child = body()
    except tmh.Error as error:
        if os.getpid() == parent:
            raise
        status = 0 if error.code == tmh.Errc.DETACHED else 71
    finally:
        if os.getpid() != parent:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with domain.query():
        assert cells.sum() == 1


@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="a child inherits the allocator's lock of AddressSanitizer from another thread",
)
def test_a_fork_in_the_midst_of_another_threads_instance(domain, cells):
    """The child has the forking thread alone, whatever the other one held."""
    stop = threading.Event()

    @domain.atomically
    def small():
        cells[random.randrange(1024)] += 1

    @domain.atomically
    def large():
        raw = np.asarray(cells)
        raw[::64] += 1
        del raw

    def work():
        while not stop.is_set():
            small()
            large()

    with beside(work, work):
        try:
            for _ in range(25):
                assert in_child(lambda: add_to(domain, cells, 3)) == 0
        finally:
            stop.set()
    with domain.query():
        assert cells.sum() > 75


def worker(domain, segment, cells_name, rounds):
    cells = segment.array(cells_name)
    add_to(domain, cells, rounds)


@pytest.mark.quick
def test_threads_run_while_one_waits_for_another_process(domain, cells):
    """An irrevocable instance elsewhere keeps this one's commit waiting."""
    ready, go = os.pipe(), os.pipe()

    @domain.atomically
    def hold():
        cells[0] += 1
        tmh.irrevocable()
        os.write(ready[1], b"x")
        os.read(go[0], 1)

    child = start_child(hold)
    os.read(ready[0], 1)

    def lets_it_go():
        # Needs the GIL, which the waiting thread must not have.
        for _ in range(10_000):
            pass
        os.write(go[1], b"x")

    add = domain.atomically(lambda: cells.__setitem__(1, cells[1] + 1))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(100)  # it runs where this thread lets the GIL go
    try:
        threads = started(lets_it_go)
        add()
    finally:
        sys.setswitchinterval(interval)
    join(*threads)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for each in (*ready, *go):
        os.close(each)
    with domain.query():
        assert cells.sum() == 2


@pytest.mark.parametrize(
    "method",
    [*(pytest.param(each, marks=pytest.mark.quick) for each in ("fork", "spawn")), "forkserver"],
)
def test_domains_and_segments_are_passed_to_processes(domain, segment, cells, method):
    context = multiprocessing.get_context(method)
    processes = [
        context.Process(target=worker, args=(domain, segment, "cells", ROUNDS)) for _ in range(3)
    ]
    for process in processes:
        process.start()
    join(*processes)
    assert [process.exitcode for process in processes] == [0] * len(processes)
    with domain.query():
        assert cells.sum() == 3 * ROUNDS


def taker(work, done):
    while True:
        value = work.get(timeout=hung_s())
        if value is None:
            return
        done[value] = os.getpid()


@pytest.mark.quick
def test_queues_dicts_and_counters_are_passed_to_processes(domain):
    work, done, counter = domain.queue("work"), domain.dict("done"), domain.counter("c")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=taker, args=(work, done)) for _ in range(2)]
    for process in processes:
        process.start()
    for number in range(50):
        work.put(number)
        counter.add()
    for _ in processes:
        work.put(None)
    join(*processes)
    assert [process.exitcode for process in processes] == [0] * len(processes)
    assert list(done) == list(range(50)) and counter.value == 50


def test_a_function_of_a_module_is_pickled_by_name(domain, cells):
    import pickle

    global module_transaction
    module_transaction = domain.atomically(_plain)
    assert pickle.loads(pickle.dumps(module_transaction)) is module_transaction
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(domain.atomically(lambda: None))


def _plain():
    return 5


_plain.__qualname__ = "module_transaction"


@pytest.mark.parametrize("seed", range(4))
def test_kills_at_random_lose_and_double_nothing(domain, segment, cells, seed):
    """Each worker counts what it has committed in the instance that commits it."""
    counts = segment.array("counts", (64, 8), "i8")
    names = segment.dict("d")
    rng = random.Random(seed)

    @domain.atomically
    def step(slot, number):
        cells[number % 1024] += 1
        counts[slot, 0] += 1
        if number % 5 == 0:
            np.asarray(cells)[512:520] += 1
            counts[slot, 1] += 8
        if number % 3 == 0:
            names[number % 200] = b"x" * (number % 300)

    def work(slot, works):
        for number in itertools.count(slot):
            step(slot, number)
            if number == slot:
                os.write(works, b"x")

    for slot in range(15):
        reader, writer = os.pipe()
        child = start_child(lambda: work(slot, writer))
        os.close(writer)
        if slot == 0:  # the others may die before their first instance, too
            assert os.read(reader, 1) == b"x", "the child has ended by itself"
        time.sleep(rng.uniform(0.005, 0.06))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        os.close(reader)
    with domain.query():
        assert cells.sum() == counts[:, 0].sum() + counts[:, 1].sum() > 0
        for key, value in names.items():
            assert set(value) <= {ord("x")}
    step(63, 0)


@pytest.mark.quick
def test_a_durable_domain_survives_the_death_of_all(tmp_path):
    """What was acknowledged before the kill is there, and nothing of a half instance."""
    for turn in range(3):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with tmh.open(tmp_path / "d", "strict") as domain:
                    names = domain.dict("d")
                    total = domain.counter("total")

                    @domain.atomically
                    def put(key):
                        names[key] = key
                        total.add(1)

                    number = 0
                    while True:
                        put(turn * 1_000_000 + number)
                        os.write(writer, b"%d\n" % (turn * 1_000_000 + number))
                        number += 1
            finally:
                os._exit(70)
        os.close(writer)
        acknowledged = b""
        while acknowledged.count(b"\n") < 1 + 50 * turn:
            acknowledged += os.read(reader, 4096)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while part := os.read(reader, 65536):
            acknowledged += part
        os.close(reader)
        with tmh.open(tmp_path / "d") as domain:
            assert domain.recovery()["ran"] and not domain.recovery()["was_clean"]
            names = domain.dict("d")
            for line in acknowledged.splitlines():
                assert names[int(line)] == int(line)
            assert len(names) == domain.counter("total").value
