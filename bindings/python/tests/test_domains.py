"""Opening, closing, durability and settings of domains; what is left of 1,000 of them."""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import tmh
from conftest import beside, hung_s, join, wait, wait_for
from tmh import _domain, _tmh


@pytest.mark.quick
def test_the_documentations_example_runs():
    import doctest

    assert doctest.testmod(tmh, raise_on_error=False).failed == 0


@pytest.mark.quick
def test_what_is_committed_is_there_again(folder):
    with tmh.open(folder) as domain:
        cells = domain.map("data.db").array("a", 10, "i8")
        domain.atomically(lambda: cells.__setitem__(3, 7))()
        domain.dict("d")["k"] = "v"
        domain.queue("q").put(1)
        domain.counter("c").add(4)
    with tmh.open(folder) as domain:
        segment = domain.map("data.db")
        with domain.query():
            assert segment.array("a")[3] == 7
        assert domain.dict("d")["k"] == "v"
        assert domain.queue("q").get() == 1
        assert domain.counter("c").value == 4


@pytest.mark.quick
def test_a_closed_domain_says_so_everywhere(folder):
    domain = tmh.open(folder)
    segment = domain.map("data.db", outside="snapshot")
    cells, names = segment.array("a", 4, "i8"), segment.dict("d")
    part = cells[1:]
    struct = segment.struct("s", [("x", "i8")])
    queue, counter = domain.queue("q"), domain.counter("c")
    body = domain.atomically(lambda: None)
    loop, block = domain.attempts(), domain.query()
    domain.close()
    domain.close()
    for use in (
        lambda: cells[0], lambda: part[0], lambda: cells.__setitem__(0, 1), cells.sum,
        lambda: np.asarray(cells), lambda: names["k"], lambda: names.__setitem__("k", 1),
        lambda: len(names), lambda: list(names), lambda: struct.x, lambda: queue.put(1),
        queue.get, lambda: counter.value, counter.add, body, next(loop).__enter__, block.__enter__,
        domain.stats, domain.flush, domain.participants, lambda: domain.map("data.db"),
        lambda: domain.atomically(print), domain.query, domain.attempts, lambda: domain.dict("d"),
        lambda: segment.array("a"), lambda: segment.size, segment.names, lambda: domain.durability,
        lambda: domain.unmap(segment),
    ):
        with pytest.raises(tmh.ClosedError):
            use()
    assert "closed" in repr(domain)
    assert cells.shape == (4,) and "a" in repr(cells)


@pytest.mark.quick
def test_a_folder_opened_twice_is_one_domain(folder):
    first = tmh.open(folder)
    cells = first.map("data.db").array("a", 4, "i8")
    with tmh.open(str(folder) + "/.") as second:
        same = second.map("data.db").array("a")
        second.atomically(lambda: same.__setitem__(0, 5))()
        with first.query():
            assert cells[0] == 5
        with pytest.raises(tmh.Error):
            tmh.open(folder, levels="page")
        with pytest.raises(tmh.MismatchError):
            tmh.open(folder, "strict")
    with first.query():
        assert cells[0] == 5
    with pytest.raises(tmh.ClosedError):
        second.stats()
    first.close()
    with pytest.raises(tmh.ClosedError):
        cells[0]


@pytest.mark.quick
def test_wrong_settings_are_named_with_the_right_ones(folder):
    for settings, word in (
        ({"durability": "always"}, "strict"), ({"levels": "both"}, "hybrid"),
        ({"policies": "conflict=mine"}, "oldest-wins"), ({"policies": "x=y"}, "x"),
        ({"tracking": "magic"}, "signal"), ({"flush_interval_ms": 0}, "above 0"),
        ({"flush_interval_ms": 1 << 32}, "above 0"),
    ):
        with pytest.raises(ValueError, match=word):
            tmh.open(folder, **settings)
    with pytest.raises(TypeError):
        tmh.open(5)
    assert not os.path.exists(folder)


def test_a_folder_that_is_no_domain_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"hello")
    with pytest.raises(tmh.Error):
        tmh.open(file)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "tmh.control").write_bytes(b"not a control file" * 1000)
    with pytest.raises(tmh.Error) as raised:
        tmh.open(foreign)
    assert raised.value.code in (tmh.Errc.NOT_A_DOMAIN, tmh.Errc.CORRUPT)
    with pytest.raises(tmh.Error):
        tmh.open("/proc/none/of/this")


def test_a_file_that_is_no_segment_is_refused(domain):
    with open(os.path.join(domain.folder, "foreign.db"), "wb") as file:
        file.write(b"x" * 8192)
    with pytest.raises(tmh.Error):
        domain.map("foreign.db")
    for name in ("", "tmh.control", "tmh.x", "a\0b", "..", ".", "../x", "a/b", None, 5, b"x"):
        with pytest.raises((ValueError, TypeError)):
            domain.map(name)
    assert os.listdir(os.path.dirname(domain.folder)) == [os.path.basename(domain.folder)]
    for size in (-1, 1 << 41):
        with pytest.raises(ValueError):
            domain.map("a.db", size)
    with pytest.raises(ValueError, match="snapshot"):
        domain.map("a.db", outside="maybe")


@pytest.mark.quick
def test_a_full_segment_is_an_error_and_undoes_the_body(domain):
    small = domain.map("small.db", 1 << 20, max_size=4 << 20)
    names = small.dict("d")
    with pytest.raises(tmh.FullError):
        for number in range(100):
            names[number] = bytes(200_000)
    count = len(names)
    assert 5 < count < 25
    assert list(names) == list(range(count))
    with pytest.raises(tmh.FullError):
        small.array("large", 1 << 20, "i8")
    assert "large" not in small.names()


def test_a_segment_can_be_unmapped_and_mapped_again(domain):
    segment = domain.map("data.db")
    cells = segment.array("a", 4, "i8")
    domain.atomically(lambda: cells.__setitem__(0, 5))()
    domain.unmap(segment)
    for wrong in (5, None, "data.db"):
        with pytest.raises(TypeError, match="no segment"):
            domain.unmap(wrong)
    with domain.query(), pytest.raises(tmh.ClosedError):
        cells[0]
    with pytest.raises(tmh.ClosedError):
        segment.array("a")
    again = domain.map("data.db").array("a")
    with domain.query():
        assert again[0] == 5 and cells[0] == 5


def test_threads_may_unmap_and_map_while_others_use_the_segment(domain):
    """Every use is right or says that the segment is not mapped."""
    segment = domain.map("data.db")
    cells = segment.array("a", 8, "i8")
    wrong = []

    @domain.atomically
    def body():
        cells[0] += 1
        cells[:3] += 1

    def use():
        again = domain.map("data.db")
        again.array("a").sum
        again.dict("d")["k"] = 1
        body()
        domain.map("data.db", outside="snapshot").array("a")[0]

    def repeat(work):
        for _ in range(300):
            try:
                work()
            except tmh.ClosedError:
                pass
            except BaseException as error:
                wrong.append(error)

    works = (use, use, body, lambda: domain.unmap(segment))
    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    join(*threads)
    assert wrong == []
    domain.map("data.db")
    with domain.query():
        assert cells[0] >= cells[1] == cells[2]


def test_an_open_while_another_thread_closes_gives_an_open_domain(folder, monkeypatch):
    for _ in range(10):
        first = tmh.open(folder)
        first.map("data.db")
        entered, leave = threading.Event(), threading.Event()

        def hold():
            with first.query():
                entered.set()
                wait(leave)

        with beside(hold):
            wait(entered)
            with beside(first.close):
                wait_for(lambda: _domain._changing)
                wait_unchanged = type(_domain._changed).wait

                def wait_and_let_the_query_end(condition=_domain._changed):
                    leave.set()
                    return wait_unchanged(condition)

                monkeypatch.setattr(_domain._changed, "wait", wait_and_let_the_query_end)
                with tmh.open(folder) as second:
                    second.map("data.db").array("a", 4, "i8")
        assert leave.is_set()


@pytest.mark.parametrize("ends", ["unmap", "close"])
def test_a_raw_array_that_escapes_while_another_thread_ends_its_memory(domain, ends):
    segment = domain.map("data.db")
    cells = segment.array("a", 8, "i8")
    kept, entered, leave = [], threading.Event(), threading.Event()

    @domain.atomically
    def body():
        kept.append(np.asarray(cells))
        entered.set()
        wait(leave)

    def work():
        with pytest.raises(tmh.EscapedArrayError):
            body()

    with beside(work):
        wait(entered)
        # It waits for the instance, in nap(), where other threads run.
        with beside(leave.set), pytest.raises(tmh.EscapedArrayError, match=ends):
            domain.unmap(segment) if ends == "unmap" else domain.close()
    assert kept[0][0] == 0  # its memory is there
    kept.clear()
    domain.atomically(lambda: cells.__setitem__(0, 5))()


@pytest.mark.quick
@pytest.mark.parametrize("ends", ["unmap", "close"])
def test_a_handler_does_not_wait_for_the_code_that_it_interrupts(domain, interrupts, ends):
    told = []
    answered = threading.Event()

    def handle():
        try:
            if ends == "unmap":
                domain.map("b.db")
            else:
                tmh.open(domain.folder, levels=None).close()
        except tmh.NestingError as error:
            told.append(str(error))
        finally:
            answered.set()

    interrupts.handle(signal.SIGUSR1, handle)

    def try_once(opened, pause_s):
        segment = opened.map("data.db")
        entered, leave = threading.Event(), threading.Event()
        answered.clear()

        def hold():
            with opened.query():
                entered.set()
                wait(leave)

        def interrupt():
            if interrupts.comes(entered) and not interrupts.stop.wait(pause_s):
                interrupts.send(signal.SIGUSR1)
                answered.wait(min(100 * pause_s, 2))
            leave.set()

        with beside(hold):
            wait(entered)
            interrupts.start(interrupt)
            opened.unmap(segment) if ends == "unmap" else opened.close()

    # When the signal comes before main has begun to unmap, the handler itself waits for the query,
    # which then ends without an answer.
    pause_s, opened = 0.001, domain
    while not told and pause_s < hung_s():
        try_once(opened, pause_s)
        pause_s *= 2
        if ends == "close":
            opened = domain._again()
    opened.close()
    assert told and "signal handler" in told[0]


def test_interrupts_of_map_and_unmap_leave_nothing_locked(domain, interrupts):
    class Interrupt(Exception):
        pass

    came = []

    def interrupt():
        came.append(1)
        raise Interrupt

    interrupts.handle(signal.SIGUSR1, interrupt)
    turn = random.Random(3)
    for _ in range(150):
        go = threading.Event()

        def send(go=go):
            if interrupts.comes(go):
                [turn.random() for _ in range(turn.randrange(3000))]
                interrupts.send(signal.SIGUSR1)

        came.clear()
        sender = interrupts.start(send)
        try:
            go.set()
            with contextlib.suppress(tmh.ClosedError):
                while True:
                    domain.unmap(domain.map("u.db"))
            wait_for(lambda: came)
        except Interrupt:
            pass
        join(sender)
    segment = domain.map("u.db")
    segment.array("a", 4, "i8")
    domain.unmap(segment)


def test_objects_that_were_not_made_raise(domain):
    class Early(tmh.Dict):
        def __init__(self):
            self["k"] = 1

    unmade = tmh.Array.__new__(tmh.Array)
    for use in (
        Early, lambda: unmade[0], lambda: unmade.shape, lambda: unmade.__setitem__(0, 1),
        lambda: len(unmade), lambda: _tmh.Transaction.__new__(_tmh.Transaction)(),
    ):
        with pytest.raises(TypeError):
            use()


@pytest.mark.parametrize("work", ["q.get()", "body()", "names.get(1)"])
def test_the_interpreter_ends_while_daemon_threads_work(tmp_path, work):
    program = (
        "import tmh, sys, threading\n"
        "domain = tmh.open(sys.argv[1])\n"
        "cells = domain.map('a.db').array('a', 100, 'i8')\n"
        "q, names = domain.queue('q'), domain.dict('d')\n"
        "@domain.atomically\n"
        "def body():\n"
        "    cells[0] += 1\n"
        "    cells[:10] += 1\n"
        "working = threading.Barrier(5)\n"
        f"def work():\n    working.wait()\n    while True: {work}\n"
        "for _ in range(4): threading.Thread(target=work, daemon=True).start()\n"
        "working.wait()\n"
        "for _ in range(100): body()\n"
    )
    for _ in range(3):
        run = subprocess.run(
            [sys.executable, "-X", "dev", "-c", program, str(tmp_path / "d")],
            capture_output=True, text=True, timeout=hung_s(), check=False,
        )
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.quick
def test_durable_domains_flush_and_back_up(durable, tmp_path):
    assert durable.durability == "strict"
    names = durable.dict("d")
    names["k"] = "v"
    durable.flush()
    durable.checkpoint()
    durable.backup(tmp_path / "copy")
    names["k"] = "later"
    stats = durable.stats()
    assert stats["log_commits"] > 0 and stats["log_bytes"] > 0 and stats["checkpoints"] > 0
    with pytest.raises(tmh.Error):
        durable.backup(tmp_path / "copy")
    with tmh.open(tmp_path / "copy") as copy:
        with pytest.raises(tmh.Error, match="one domain at a time"):
            copy.map("python.db")
    durable.close()
    with tmh.open(tmp_path / "copy") as copy:
        assert copy.dict("d")["k"] == "v" and copy.durability == "strict"
        assert copy.recovery()["ran"]


def past_time(domain):
    """The time of the last named moment."""
    return domain.past()["moments"][-1]["time"]


@pytest.mark.quick
def test_the_past_is_read_by_name_clock_and_time(tmp_path):
    settings = {"levels": "page", "history_s": hung_s(), "history_bytes": 1 << 20}
    with tmh.open(tmp_path / "d", **settings) as domain:
        cells = domain.map("data.db").array("a", 4, "i8")
        add = domain.atomically(lambda: cells.__setitem__(0, cells[0] + 1))
        clocks = []
        for i in range(5):
            add()
            clocks.append(domain.keep(f"at-{i}"))
        add()
        for i, clock in enumerate(clocks):
            for moment in (clock, f"at-{i}"):
                with domain.query_at(moment):
                    assert cells[0] == i + 1
        with domain.query_at(past_time(domain)):  # times are noted each 10 ms
            assert cells[0] <= 5
        past = domain.past()
        assert [each["name"] for each in past["moments"]] == [f"at-{i}" for i in range(5)]
        assert [each["clock"] for each in past["moments"]] == clocks
        assert past["now"] > clocks[-1] and past["bytes"] > 0
        domain.forget("at-0")
        hour = datetime.timedelta(hours=1)
        now = datetime.datetime.now()
        for wrong in ("at-0", past["now"] + 1, "", now - hour, now + hour):
            with pytest.raises(tmh.Error) as error, domain.query_at(wrong):
                pass
            assert error.value.code == tmh.Errc.NOT_HELD
        with pytest.raises(TypeError):
            domain.query_at(1.5)
        with pytest.raises(ValueError), domain.query_at(-1):
            pass
        with domain.query(), pytest.raises(tmh.NestingError), domain.query_at("at-1"):
            pass
        for name in ("", "x" * 48, "at-1"):
            with pytest.raises(tmh.Error):
                domain.keep(name)
        with domain.query_at("at-1"), pytest.raises(tmh.Error):
            domain.keep("inside")
    with tmh.open(tmp_path / "hybrid", levels="hybrid") as domain:
        with pytest.raises(tmh.Error), domain.query_at(1):
            pass
    for wrong in ({"history_s": -1}, {"history_bytes": -1}, {"history_s": float("nan")}):
        with pytest.raises(ValueError):
            tmh.open(tmp_path / "wrong", **wrong)


@pytest.mark.quick
def test_counters_and_participants_are_told(domain):
    cells = domain.map("data.db").array("a", 4, "i8")
    before = domain.stats()
    for _ in range(5):
        domain.atomically(lambda: cells.__setitem__(0, cells[0] + 1))()
    after = domain.stats()
    commits = sum(after[key] - before[key] for key in ("commits", "line_commits"))
    assert commits == 5
    assert set(after["aborts"]) == set(after["line_aborts"]) >= {"validation", "user", "died"}
    participants = domain.participants()
    assert [each["pid"] for each in participants] == [os.getpid()]


@pytest.mark.quick
def test_codes_are_those_of_the_header():
    root = pathlib.Path(__file__).resolve().parents[3]
    header = (root / "include/tmh/error.hpp").read_text()
    codes = dict(re.findall(r"^  k(\w+) = (\d+),", header, re.MULTILINE))
    names = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper(): int(n) for name, n in codes.items()}
    names.pop("OK")
    names["NOT_A_HEAP"] = names.pop("NOT_AHEAP", names.get("NOT_A_HEAP"))
    names["NOT_A_DOMAIN"] = names.pop("NOT_ADOMAIN", names.get("NOT_A_DOMAIN"))
    assert {each.name: each.value for each in tmh.Errc} == names


def resources():
    descriptors = len(os.listdir("/proc/self/fd"))
    mappings = pathlib.Path("/proc/self/maps").read_text().count("\n")
    resident = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1])
    return descriptors, mappings, resident


def test_a_thousand_opens_and_closes_leave_nothing(tmp_path):
    def once(number):
        with tmh.open(tmp_path / f"d{number % 5}") as domain:
            cells = domain.map("data.db").array("a", 100, "i8")
            names = domain.dict("d")

            @domain.atomically
            def body():
                cells[number % 100] += 1
                np.asarray(cells)[3] += 1
                names[number % 50] = b"x" * 200

            body()

    for number in range(50):
        once(number)
    gc.collect()
    before = resources()
    for number in range(1000):
        once(number)
    gc.collect()
    descriptors, mappings, resident = resources()
    assert descriptors <= before[0]
    assert mappings <= before[1] + 10
    assert resident <= before[2] + 8 * 1024  # KiB; one domain leaked each time would be 100 MiB


@pytest.mark.quick
def test_the_interpreter_ends_quietly_with_a_domain_open(tmp_path):
    program = (
        "import tmh, numpy, sys\n"
        "domain = tmh.open(sys.argv[1])\n"
        "cells = domain.map('a.db').array('a', 4, 'i8')\n"
        "add = domain.atomically(lambda: cells.__setitem__(0, 5))\n"
        "add()\n"
        "names = domain.dict('d'); names['k'] = 1\n"
        "loop = domain.attempts(); attempt = next(loop); attempt.__enter__()\n"
        "cells[1] = 3\n"
    )
    run = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program, str(tmp_path / "d")],
        capture_output=True, text=True, timeout=hung_s(), check=False,
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    with tmh.open(tmp_path / "d") as domain:
        segment = domain.map("a.db")
        with domain.query():
            with pytest.raises(tmh.NestingError):
                domain.map("other.db")
            assert segment.array("a").tolist() == [5, 0, 0, 0]
