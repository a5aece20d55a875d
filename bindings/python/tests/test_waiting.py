"""Waiting: retry() and the get() of queues, what wakes them and what ends them."""

from __future__ import annotations

import queue
import signal
import threading
import time

import pytest
from conftest import beside, hung_s, join, started, total, wait_for

import tmh


@pytest.mark.quick
def test_retry_sleeps_until_another_thread_changes_what_it_read(domain, cells):
    got = []

    @domain.atomically
    def take():
        if cells[0] == 0:
            tmh.retry()
        cells[0] -= 1
        return int(cells[1])

    @domain.atomically
    def give():
        cells[0] = 1
        cells[1] = 42

    with beside(lambda: got.append(take())):
        wait_for(lambda: domain.stats()["retry_sleeps"] > 0)
        give()
    assert got == [42]


@pytest.mark.quick
def test_retry_with_nothing_read_and_outside_raises(domain, cells):
    with pytest.raises(tmh.OutsideError):
        tmh.retry()
    with pytest.raises(tmh.NothingReadError):
        domain.atomically(tmh.retry)()
    with pytest.raises(tmh.OutsideError):
        tmh.on_commit(print)
    with pytest.raises(tmh.OutsideError):
        tmh.irrevocable()


@pytest.mark.quick
def test_a_query_block_cannot_run_again(domain, cells):
    nested = domain.query(lambda: tmh.retry() if cells[0] == 0 else None)
    for retry in (tmh.retry, nested):
        with pytest.raises(tmh.NestingError, match="cannot run again"):
            with domain.query():
                cells[0]
                retry()
    assert total(domain, cells) == 0


@pytest.mark.quick
def test_retry_until_a_time_runs_the_body_once_more(domain, cells):
    @domain.atomically
    def body(until):
        if cells[0] == 0:
            if time.monotonic() >= until:
                return "late"
            tmh.retry(until)
        return "changed"

    assert body(time.monotonic() + 0.05) == "late"
    assert body(-5.0) == "late"


@pytest.mark.parametrize("until", [float("inf"), threading.TIMEOUT_MAX, 1e300])
def test_retry_until_a_far_time_wakes_by_a_change(domain, cells, until):
    @domain.atomically
    def body():
        if cells[0] == 0:
            tmh.retry(until)
        return int(cells[0])

    def give():
        wait_for(lambda: domain.stats()["retry_sleeps"] > 0)
        domain.atomically(lambda: cells.__setitem__(0, 7))()

    began = time.monotonic()
    with beside(give):
        assert body() == 7
    # It sleeps, 0.25 s each time: it does not run again and again.
    assert domain.stats()["retry_sleeps"] < 100 + 4 * (time.monotonic() - began)


@pytest.mark.quick
def test_ctrl_c_ends_a_sleep_in_retry(domain, cells, interrupts):
    @domain.atomically
    def body():
        cells[1] = 1
        if cells[0] == 0:
            tmh.retry()

    def press():
        raise KeyboardInterrupt

    # Also where SIGINT is ignored, as by a shell's job in the background.
    interrupts.handle(signal.SIGINT, press)

    def interrupt():
        wait_for(lambda: interrupts.stop.is_set() or domain.stats()["retry_sleeps"] > 0)
        interrupts.send(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        interrupts.start(interrupt)
        body()
    assert total(domain, cells) == 0


@pytest.mark.quick
def test_a_queue_hands_each_value_to_one_thread(domain, segment):
    work = segment.queue("q")
    got = []

    def take():
        while True:
            value = work.get(timeout=hung_s())
            if value is None:
                return
            got.append(value)

    threads = started(take, take, take)
    for number in range(60):
        work.put(number)
    for _ in threads:
        work.put(None)
    join(*threads)
    assert sorted(got) == list(range(60))
    with pytest.raises(queue.Empty):
        work.get(block=False)
    began = time.monotonic()
    with pytest.raises(queue.Empty):
        work.get(timeout=0.05)
    assert time.monotonic() - began >= 0.05


@pytest.mark.quick
def test_a_queues_get_is_undone_with_its_instance(domain, segment):
    work = segment.queue("q")
    work.put("job")

    @domain.atomically
    def fail():
        assert work.get() == "job"
        raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert len(work) == 1 and not work.empty() and work.get() == "job"
