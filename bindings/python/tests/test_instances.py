"""Instances: commits, aborts, nesting, attempts, queries, and their misuse."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import threading
import time
import weakref

import numpy as np
import pytest

from conftest import beside, conflict_with, join, started, total, wait_for

import tmh


@pytest.mark.quick
def test_a_decorated_function_keeps_its_name_and_passes_arguments(domain, cells):
    @domain.atomically
    def add(index, *, amount=1):
        """Adds."""
        cells[index] += amount
        return cells[index]

    assert add(3) == 1 and add(3, amount=5) == 6
    assert add.__name__ == "add" and add.__doc__ == "Adds."
    with pytest.raises(TypeError):
        add()


def test_a_method_can_be_a_transaction(domain, cells):
    class Account:
        @domain.atomically
        def add(self, amount):
            cells[self.index] += amount
            return cells[self.index]

    account = Account()
    account.index = 7
    assert account.add(5) == 5 and Account.add(account, 1) == 6


@pytest.mark.quick
def test_decorators_take_durability_and_site(durable):
    cells = durable.map("data.db").array("a", 8, "i8")

    @durable.atomically(durability="buffered", site="quick")
    def add():
        cells[0] += 1

    add()
    with pytest.raises(ValueError, match="strict"):
        durable.atomically(durability="sometimes")(lambda: None)


def test_a_domain_without_durability_refuses_durable_instances(domain, cells):
    for durability in ("buffered", "strict"):
        with pytest.raises(tmh.MismatchError, match="open it as durable"):
            domain.atomically(durability=durability)(lambda: None)
        with pytest.raises(tmh.MismatchError):
            domain.attempts(durability=durability)
    domain.atomically(durability="none")(lambda: cells.__setitem__(0, 1))()
    assert total(domain, cells) == 1


@pytest.mark.parametrize("body", [None, 5, "x"])
def test_a_body_is_a_function(domain, body):
    if body is not None:
        with pytest.raises(TypeError):
            domain.atomically(body)

    async def coroutine():
        pass

    def generator():
        yield

    for wrong in (coroutine, generator):
        with pytest.raises(TypeError, match="no coroutine"):
            domain.atomically(wrong)


@pytest.mark.quick
def test_an_exception_undoes_and_propagates(domain, cells):
    class Mine(Exception):
        pass

    @domain.atomically
    def body():
        cells[0] = 1
        raise Mine("here")

    for _ in range(3):
        with pytest.raises(Mine, match="here"):
            body()
    assert total(domain, cells) == 0


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_exceptions_from_outside_undo_and_propagate(domain, cells, kind):
    @domain.atomically
    def body():
        cells[0] = 1
        raise kind

    with pytest.raises(kind):
        body()
    assert total(domain, cells) == 0


@pytest.mark.quick
def test_an_inner_transaction_is_part_of_the_outer_one(domain, cells):
    @domain.atomically
    def inner(fails):
        cells[1] += 1
        if fails:
            raise ValueError

    @domain.atomically
    def outer(fails):
        cells[0] += 1
        try:
            inner(True)
        except ValueError:
            pass
        for attempt in domain.attempts():
            with attempt:
                cells[2] += 1
        with domain.query():
            assert cells[0] == 1 or cells[0] == 2
        if fails:
            raise KeyError

    outer(False)
    assert total(domain, cells) == 3  # what the inner body did stays
    with pytest.raises(KeyError):
        outer(True)
    assert total(domain, cells) == 3


@pytest.mark.quick
def test_an_update_in_a_query_and_another_domains_instance_are_refused(domain, cells, tmp_path):
    with tmh.open(tmp_path / "other") as other:
        update = domain.atomically(lambda: cells.__setitem__(0, 1))
        with domain.query():
            with pytest.raises(tmh.NestingError):
                update()
            with pytest.raises(tmh.NestingError):
                for attempt in domain.attempts():
                    with attempt:
                        pass
        elsewhere = other.atomically(lambda: None)
        with pytest.raises(tmh.NestingError):
            domain.atomically(elsewhere)()
        with domain.query(), pytest.raises(tmh.NestingError):
            elsewhere()
        elsewhere()
    assert total(domain, cells) == 0


@pytest.mark.quick
def test_attempts_commit_at_the_end_of_their_block(domain, cells):
    for attempt in domain.attempts():
        with attempt:
            cells[0] += 1
            cells[5:10] = 2
    assert total(domain, cells) == 11
    with pytest.raises(ValueError):
        for attempt in domain.attempts():
            with attempt:
                cells[0] = 100
                raise ValueError
    assert total(domain, cells) == 11


def test_attempts_that_are_misused_raise(domain, cells):
    loop = domain.attempts()
    attempt = next(loop)
    with pytest.raises(tmh.Error):
        attempt.__exit__(None, None, None)
    with attempt:
        with pytest.raises(tmh.NestingError):
            attempt.__enter__()
        with pytest.raises(tmh.NestingError):
            next(loop)
    with pytest.raises(StopIteration):
        next(loop)
    with pytest.raises(tmh.NestingError):
        attempt.__enter__()
    with pytest.raises((AttributeError, TypeError)):
        with domain.attempts():
            pass


@pytest.mark.quick
def test_a_conflict_runs_the_body_again(hybrid_cells):
    domain, cells = hybrid_cells
    seen = []

    @domain.atomically
    def body():
        seen.append(int(cells[0]))
        if len(seen) == 1:
            conflict_with(domain, cells)
        cells[1] = cells[0]
        return cells[1]

    assert body() == 1
    assert seen == [0, 1]
    seen.clear()
    for attempt in domain.attempts():
        with attempt:
            seen.append(int(cells[0]))
            if len(seen) == 1:
                conflict_with(domain, cells)
            cells[1] = cells[0]
    assert seen == [1, 2]


def test_a_body_that_swallows_the_abort_does_not_commit(hybrid_cells):
    domain, cells = hybrid_cells
    runs = []

    @domain.atomically
    def body():
        runs.append(int(cells[0]))
        cells[2] += 1
        if len(runs) == 1:
            conflict_with(domain, cells)
            with pytest.raises(tmh.Abort):
                cells[0]  # is newer than the snapshot, and cells[2] was written
                cells[1]
            for _ in range(2):
                try:
                    cells[3]
                except BaseException as error:
                    assert isinstance(error, tmh.Abort)
            try:
                raise ValueError("of an attempt that never happened")
            finally:
                pass

    body()
    assert len(runs) == 2
    with domain.query():
        assert cells[2] == 1


def test_a_body_that_swallows_the_abort_of_retry_does_not_commit(domain, cells):
    runs = []

    @domain.atomically
    def body():
        runs.append(int(cells[0]))
        cells[2] += 1
        if len(runs) == 1:
            try:
                tmh.retry(time.monotonic())
            except tmh.Abort:
                pass
            with pytest.raises(tmh.Abort):
                cells[1]
            with pytest.raises(tmh.Abort):
                cells[1] = 5
            with pytest.raises(tmh.Abort):
                cells.sum()

    body()
    assert len(runs) == 2
    with domain.query():
        assert cells[2] == 1 and cells[1] == 0


def test_what_comes_from_outside_leaves_a_doomed_attempt_too(hybrid_cells):
    domain, cells = hybrid_cells

    @domain.atomically
    def body():
        cells[0]
        cells[2] += 1
        conflict_with(domain, cells)
        try:
            cells[0]
        except tmh.Abort:
            pass
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        body()
    with domain.query():
        assert cells[2] == 0


@pytest.mark.quick
def test_return_from_an_attempt_that_does_not_commit_raises(hybrid_cells):
    domain, cells = hybrid_cells

    def leaves():
        for attempt in domain.attempts():
            with attempt:
                cells[1] = cells[0]
                conflict_with(domain, cells)
                return 5

    with pytest.raises(tmh.UncommittedError, match="return"):
        leaves()
        for _ in range(100):
            pass

    def meets_the_conflict_itself():
        for attempt in domain.attempts():
            with attempt:
                cells[0]
                cells[1] = 9
                conflict_with(domain, cells)
                cells[0]
            break

    def loops_not():
        with next(domain.attempts()):
            cells[0]
            cells[1] = 9
            conflict_with(domain, cells)
            cells[0]

    def lets_the_loop_go():
        loop = domain.attempts()
        attempt = next(loop)
        with attempt:
            del loop
            cells[1] = cells[0]
            conflict_with(domain, cells)

    for uncommitted in (meets_the_conflict_itself, loops_not, lets_the_loop_go):
        with pytest.raises(tmh.UncommittedError):
            uncommitted()
            for _ in range(100):
                pass

    def leaves_in_time():
        for attempt in domain.attempts():
            with attempt:
                cells[1] = 7
                return 5

    assert leaves_in_time() == 5
    with domain.query():
        assert cells[1] == 7


def test_what_ends_a_loop_otherwise_is_no_uncommitted_attempt(hybrid_cells):
    """Another exception says why; another thread has nothing to do with it."""
    domain, cells = hybrid_cells

    def conflicts(attempt):
        with attempt:
            cells[1] = cells[0]
            conflict_with(domain, cells)

    def is_interrupted():
        for attempt in domain.attempts():
            conflicts(attempt)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        is_interrupted()
        for _ in range(100):
            pass
    for _ in range(100):
        pass

    loops = [domain.attempts()]
    join(*started(lambda: conflicts(next(loops[0]))))
    loops.clear()
    for _ in range(100):
        pass
    with domain.query():
        assert cells[1] == 0


@pytest.mark.quick
def test_an_irrevocable_instance_commits(domain, cells):
    @domain.atomically
    def body():
        cells[0] += 1
        tmh.irrevocable()
        cells[1] += 1
        return "sent"

    assert body() == "sent" and total(domain, cells) == 2
    with domain.query(), pytest.raises(tmh.QueryWroteError):
        tmh.irrevocable()


def commit_elsewhere(domain, cells):
    """Another process does what conflict_with() does."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            domain.atomically(lambda: cells.__setitem__(0, cells[0] + 1))()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.quick
def test_a_query_sees_one_snapshot(domain, cells):

    @domain.query
    def both():
        return int(cells[0]), int(cells[1])

    both()
    with domain.query():
        first = int(cells[0])
        commit_elsewhere(domain, cells)
        assert int(cells[0]) == first and int(cells.sum()) == first
    assert total(domain, cells) == first + 1

    @domain.query
    def wrong():
        cells[0] = 1

    with pytest.raises(tmh.QueryWroteError):
        wrong()


def test_threads_take_turns_at_page_level(domain, cells):
    """Every thread's instance works on raw memory; others wait, and the GIL is free meanwhile."""

    @domain.atomically
    def body():
        raw = np.asarray(cells)
        before = raw[0]
        select.select([], [], [], 0)  # lets the GIL go
        raw[0] = before + 1

    join(*started(*[lambda: [body() for _ in range(20)]] * 4))
    assert total(domain, cells) == 80


@pytest.mark.quick
def test_threads_at_both_levels(domain, cells):
    """Small transfers at cache lines beside sums of everything at pages."""
    errors = []
    stop = threading.Event()

    @domain.atomically
    def transfer(i, j):
        cells[i] -= 1
        cells[j] += 1

    def work(seed):
        try:
            for n in range(300):
                transfer((seed * n) % 1024, (seed + n) % 1024)
        except BaseException as error:
            errors.append(error)

    def watch():
        while not stop.is_set():
            if total(domain, cells) != 0:
                errors.append("sum")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (3, 5, 7)]
    with beside(watch):
        try:
            for thread in threads:
                thread.start()
            join(*threads)
        finally:
            stop.set()
    assert errors == [] and total(domain, cells) == 0


def test_a_thread_may_end_inside_an_attempt(domain, cells):
    def work():
        loop = domain.attempts()
        next(loop).__enter__()
        cells[0] = 5

    join(*started(work))
    gc.collect()
    domain.atomically(lambda: cells.__setitem__(1, 1))()
    assert total(domain, cells) == 1


def test_a_loop_whose_attempts_are_not_entered_ends(domain, cells):
    with pytest.raises(tmh.NestingError, match="not entered"):
        for _ in domain.attempts():
            pass


def test_an_attempt_that_is_dropped_inside_its_block_is_undone(domain, cells):
    def drop(opened):
        block = next(domain.attempts()) if opened == "attempt" else domain.query()
        block.__enter__()
        if opened == "attempt":
            cells[0] = 5
        else:
            assert cells.sum() == 0

    for opened in ("attempt", "query"):
        drop(opened)
        gc.collect()
        with pytest.raises(tmh.OutsideError):
            cells[0]
        assert total(domain, cells) == 0


def test_a_block_is_left_in_its_thread_and_in_its_instance(domain, cells):
    loop = domain.attempts()
    attempt = next(loop)
    attempt.__enter__()
    cells[0] = 1
    caught = []

    def leave():
        try:
            attempt.__exit__(None, None, None)
        except tmh.NestingError as error:
            caught.append(error)

    join(*started(leave))
    assert len(caught) == 1
    attempt.__exit__(None, None, None)
    assert total(domain, cells) == 1

    inner, query = next(domain.attempts()), domain.query()
    with pytest.raises(tmh.NestingError, match="still open"):
        with next(domain.attempts()):
            cells[0] = 2
            inner.__enter__()
    with pytest.raises(tmh.NestingError):
        inner.__exit__(None, None, None)
    with pytest.raises(tmh.NestingError, match="still open"):
        with next(domain.attempts()):
            query.__enter__()
    with pytest.raises(tmh.NestingError):
        query.__exit__(None, None, None)
    assert total(domain, cells) == 1


def test_where_bodies_may_not_leave_lines_they_wait_for_other_threads(folder):
    """An access at lines waits for this thread's query, which goes on meanwhile."""
    with tmh.open(folder) as domain:
        domain.map("data.db").array("cells", 1024, "i8")
    with tmh.open(folder, policies="escalation=never") as domain:
        cells = domain.map("data.db").array("cells")
        add = domain.atomically(lambda: cells.__setitem__(0, cells[0] + 1))
        add()
        with domain.query():
            before = cells.sum()
            begins = domain.stats()["line_begins"]
            threads = started(add)
            wait_for(lambda: domain.stats()["line_begins"] > begins)
            assert cells.sum() == before == 1
        join(*threads)
        assert total(domain, cells) == 2
        with pytest.raises(tmh.Error) as raised:
            domain.atomically(cells.sum)()
        assert raised.value.code == tmh.Errc.NEEDS_PAGES


def test_a_coroutine_that_waits_inside_an_attempt_holds_it(hybrid_cells):
    """No await in a body: what other coroutines of the thread do is part of it."""
    domain, cells = hybrid_cells

    async def main():
        for attempt in domain.attempts():
            with attempt:
                cells[0] = 1
        return total(domain, cells)

    assert asyncio.run(main()) == 1


def test_transactions_and_what_they_hold_are_collected(domain, cells):
    class Big:
        pass

    big = Big()
    seen = weakref.ref(big)

    def body():
        return big, made

    made = domain.atomically(body)
    del big, body
    with pytest.warns(RuntimeWarning, match="was never called"):
        del made
        gc.collect()
    assert seen() is None


def test_os_level_misuse_is_named(domain, cells):
    body = domain.atomically(lambda: domain.close())
    with pytest.raises(tmh.Error) as raised:
        body()
    assert raised.value.code == tmh.Errc.INSTANCE_RUNNING
    for call in (domain.flush, domain.checkpoint):
        with pytest.raises(tmh.Error) as raised:
            call()
        assert raised.value.code == tmh.Errc.NOT_DURABLE
    with pytest.raises(tmh.Error):
        domain.backup(os.path.join(domain.folder, "inside"))
