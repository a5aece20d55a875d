#!/usr/bin/env python3
"""service.py --server PATH --client PATH [PART...] -- the cache server as a service: time, memory,
clients that are killed, threads that die, its start and its end.

--server     cache_server or cache_server_mutex
--client     cache_client
--through    a command that runs the server, such as "tmh itm --method pages --"
--seconds    of each load (1)
--faults     threads that die in the parts about deaths (100)
--dies       what a fault in a transaction takes with it: server (default), or thread, on a runtime
             where a thread dies alone
PART         parts to run; default: all
"""

import argparse
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from cache_process import HANG_S, Server
from slowdown import Lateness, slowdown  # cache_process knows where it is

# A promise: service goes on within that time after a thread's death.
# Of a thread that dies, on a quiet machine; and how often it, and the threads that take note of
# its end, may each wait for a processor meanwhile.
RECOVERY_MS_MAX, RECOVERY_WAITS_MAX = 100, 20
MONTH_S = 60 * 60 * 24 * 30


class Wrong(Exception):
    """A sentence about what is wrong."""


def expect(holds, sentence):
    if not holds:
        raise Wrong(sentence)


def expect_answer(server, command, expected):
    answer = server.ask(command)
    expect(answer == expected, f"{command[:60]}: {answer[:200]}, not {expected[:200]}")


def wait_until(holds, sentence):
    """Asks again and again; the deadline only tells that something hangs."""
    deadline = time.monotonic() + HANG_S
    while not holds():
        expect(time.monotonic() < deadline, sentence())


class Parts:
    """Each method without an underscore is a part."""

    def __init__(self, arguments):
        self._arguments = arguments
        self._program = [*arguments.through.split(), arguments.server]

    def _server(self, *options):
        return Server([*self._program, "--port", "0", "--threads", "2", *options])

    def _client(self, server, *options, seconds=None):
        return [
            self._arguments.client, "--connect", server.place, "--threads", "2",
            "--seconds", str(seconds or self._arguments.seconds), *options,
        ]

    def _load(self, server, *options):
        """What the client says, when nothing was wrong."""
        ran = subprocess.run(self._client(server, *options), capture_output=True, check=False)
        said = ran.stdout.decode() + ran.stderr.decode()
        expect(ran.returncode == 0, f"the client ends with {ran.returncode}: {said}")
        return json.loads(ran.stdout)

    def time(self):
        """Ends of items, and flushes that wait, by a clock that the test moves."""
        with self._server("--allow-faults") as server:
            def passes(seconds):
                expect_answer(server, b"clock %d\r\n" % seconds, b"OK\r\n")

            def is_there(key):
                return server.ask(b"get %s\r\n" % key) != b"END\r\n"

            now = int(server.statistics()["time"])
            # The server's own seconds, which pass besides, are few beside these.
            for key, end in ((b"soon", 10_000), (b"later", 100_000), (b"at", now + 100_000),
                             (b"past", MONTH_S + 1), (b"month", MONTH_S), (b"never", 0)):
                expect_answer(server, b"set %s 0 %d 1\r\nx\r\n" % (key, end), b"STORED\r\n")
            expect(not is_there(b"past"), "a time of 1970 is not in the past")
            passes(5_000)
            expect(is_there(b"soon"), "an item ends too early")
            expect_answer(server, b"touch later 500000\r\n", b"TOUCHED\r\n")
            passes(10_000)
            expect(not is_there(b"soon"), "an item does not end")
            passes(100_000)
            expect(is_there(b"later"), "touch does not prolong an item")
            expect(not is_there(b"at"), "an end since 1970 is not kept")
            expect_answer(server, b"gat 10000 later\r\n", b"VALUE later 0 1\r\nx\r\nEND\r\n")
            passes(20_000)
            expect(not is_there(b"later"), "gat does not give an item a new end")
            expect_answer(server, b"flush_all 5000\r\n", b"OK\r\n")
            expect_answer(server, b"set meanwhile 0 0 1\r\nx\r\n", b"STORED\r\n")
            expect(is_there(b"never") and is_there(b"meanwhile"), "a flush does not wait")
            passes(6_000)
            expect(not is_there(b"never") and not is_there(b"meanwhile"), "a flush does not come")
            expect_answer(server, b"set new 0 0 1\r\nx\r\n", b"STORED\r\n")
            expect(is_there(b"new"), "a flush takes what came after it")
            expect_answer(server, b"flush_all\r\nget new\r\n", b"OK\r\nEND\r\n")

    def cas(self):
        """A mark is taken once; every change makes a new one."""
        with self._server() as server, server.connect() as connection:
            def mark():
                answer = connection.ask(b"gets key\r\n")
                return re.match(rb"VALUE key \d+ \d+ (\d+)\r\n", answer)[1]

            connection.ask(b"set key 0 0 1\r\n1\r\n")
            marks = [mark()]
            for change in (b"incr key 1\r\n", b"append key 0 0 1\r\n0\r\n", b"decr key 1\r\n",
                           b"replace key 0 0 1\r\n5\r\n"):
                connection.ask(change)
                marks.append(mark())
            expect(len(set(marks)) == len(marks), f"marks come again: {marks}")
            with_mark = b"cas key 0 0 1 %s\r\n7\r\n" % marks[-1]
            answers = connection.ask(with_mark + with_mark)
            expect(answers == b"STORED\r\nEXISTS\r\n", f"cas twice: {answers}")

    def memory(self):
        """More than fits: the newest stay, the limit holds, nothing is torn."""
        with self._server("--memory", "2") as server:
            with server.connect() as connection:
                value = b"v" * 10_000
                for key in range(1000):
                    connection.ask(b"set %d 0 0 10000\r\n%s\r\n" % (key, value))
                there = [key for key in range(1000)
                         if connection.ask(b"get %d\r\n" % key) != b"END\r\n"]
            expect(there and there == list(range(there[0], 1000)), f"not the newest: {there}")
            statistics = server.statistics()
            expect(int(statistics["evictions"]) == there[0], f"evictions: {statistics}")
            expect(int(statistics["curr_items"]) == len(there), f"items: {statistics}")
            expect(int(server.statistics(b"slabs")["total_malloced"]) <= 2 << 20, "too much memory")
            said = self._load(server, "--verify", "--keys", "5000", "--value-size", "40",
                              "--value-size-max", "9000", "--get-ratio", "0.5")
            expect(said["evictions"] > 0 and said["misses"] > 0, f"nothing is evicted: {said}")

    def loads(self):
        """Both protocols, one request at a time and many, all sizes of values, nothing lost."""
        with self._server("--memory", "512") as server:
            for protocol in ("text", "binary"):
                common = ("--protocol", protocol, "--get-ratio", "0.6", "--verify")
                self._load(server, *common)
                self._load(server, *common, "--pipeline", "32", "--value-size-max", "3000")
                self._load(server, *common, "--keys", "64", "--value-size-max", "900000")

    def verification(self):
        """The client finds what somebody else tears, loses or sets back."""
        old_value = []

        def set_back(server):
            # Each request makes the next set of that key worthless again.
            if not old_value:
                old_value.append(server.ask(b"get key-3\r\n").split(b"\r\n", 1)[1][:100])
            server.ask(b"set key-3 0 0 100\r\n%s\r\n" % old_value[0])

        for name, ratio, spoil in (
            ("lost", "1", lambda server: server.ask(b"delete key-3\r\n")),
            ("torn", "1", lambda server: server.ask(b"append key-3 0 0 1\r\nx\r\n")),
            ("torn", "1", lambda server: server.ask(b"set key-3 0 0 1\r\nx\r\n")),
            ("outdated", "0.5", set_back),
        ):
            # On a slow machine the client may have ended before anything is spoilt.
            for seconds in (1, 4, 16, 64):
                with self._server() as server:
                    status, said = self._spoilt(server, ratio, spoil, seconds)
                if status == 1:
                    break
                old_value.clear()
            expect(status == 1 and said[name] > 0 and said["check"] != "ok",
                   f"nothing is {name}: {said}")

    def _spoilt(self, server, ratio, spoil, seconds):
        """The exit status of a client beside which that is done all the time, and what it says."""
        client = subprocess.Popen(
            self._client(server, "--verify", "--keys", "16", "--connections", "2", "--get-ratio",
                         ratio, seconds=seconds), stdout=subprocess.PIPE)
        # It has emptied the server and set all keys.
        wait_until(lambda: client.poll() is not None
                   or int(server.statistics()["cmd_get"]) > 100,
                   lambda: "the client does not get on")
        while client.poll() is None:
            spoil(server)
        with client.stdout:
            return client.returncode, json.loads(client.stdout.read())

    def killed_clients(self):
        """Clients that end in the middle of anything: SIGKILL, half commands, resets."""
        with self._server("--memory", "512") as server:
            loads = [
                subprocess.Popen(
                    self._client(server, "--connections", "16", "--pipeline", "16", "--get-ratio",
                                 "0.5", "--value-size", "5000", "--keys", "1000", seconds=1000),
                    stdout=subprocess.DEVNULL)
                for _ in range(3)
            ]
            keys = b"get" + b" large" * 100 + b"\r\n"
            with server.connect() as connection:
                connection.ask(b"set large 0 0 100000\r\n%s\r\n" % (b"v" * 100_000))
            for index in range(200):
                connection = server.connect()
                data = (b"set half 0 0 1000\r\nabc", b"get hal", b"\x80\x01\0", keys)[index % 4]
                connection.send(data)
                (connection.reset if index % 2 else connection.close)()
            # Beyond the keys that each sets first: all are in the midst of their work.
            wait_until(lambda: int(server.statistics()["cmd_set"]) > 4_000,
                       lambda: f"the loads do not get on: {server.statistics()}")
            for load in loads:
                load.send_signal(signal.SIGKILL)
                load.wait()
            self._load(server, "--verify")
            expect_answer(server, b"get half\r\n", b"END\r\n")
            # Its own one is open. Ends of killed ones may be on their way, but all come.
            wait_until(lambda: int(server.statistics()["curr_connections"]) == 1,
                       lambda: f"connections stay open: {server.statistics()}")
            expect(server.end() == 0, "the server does not end with 0")

    def thread_ends(self):
        """A worker's thread ends in a command: the connection goes, all others are served on."""
        with self._server("--allow-faults", "--memory", "512") as server:
            faults = str(self._arguments.faults)
            for protocol in ("text", "binary"):
                said = self._load(server, "--verify", "--protocol", protocol, "--faults", faults,
                                  "--fault-kinds", "thread", "--get-ratio", "0.5")
                expect(said["faults"] == self._arguments.faults, f"faults: {said}")
                expect(said["disconnects"] == 0, f"other connections ended: {said}")
            deaths = int(server.statistics()["thread_deaths"])
            expect(deaths == 2 * self._arguments.faults, f"{deaths} deaths")
            expect(server.end() == 0, "the server does not end with 0")

    def faults(self):
        """A fault in a transaction, of each kind, takes the server with it, or its thread alone."""
        if self._arguments.dies == "thread":
            with self._server("--allow-faults", "--memory", "512") as server:
                with Lateness() as lateness:
                    said = self._load(server, "--verify", "--faults", str(self._arguments.faults))
                expect(said["disconnects"] == 0, f"other connections ended: {said}")
                ms_max = RECOVERY_MS_MAX * slowdown() + RECOVERY_WAITS_MAX * lateness.most_s * 1e3
                expect(said["recovery_ms_max"] <= ms_max,
                       f"slow recovery, more than {ms_max:.0f} ms: {said}")
                print(f"  recovered within {said['recovery_ms_max']} ms, "
                      f"slowest answer {said['latency_us']['max'] / 1e3} ms")
                expect(server.end() == 0, "the server does not end with 0")
            return
        for kind, number in (("segv", signal.SIGSEGV), ("fpe", signal.SIGFPE),
                             ("abort", signal.SIGABRT)):
            with self._server("--allow-faults") as server:
                expect_answer(server, b"set key 0 0 1\r\nx\r\n", b"STORED\r\n")
                answer = server.ask(b"fault %s key\r\n" % kind.encode())
                expect(answer == b"<end>", f"fault {kind}: {answer}")
                status = server.process.wait(HANG_S)
                expect(status == -number, f"fault {kind}: the server ends with {status}")

    def many_clients(self):
        """More clients than files: some are refused, none of the others waits for that."""
        def few_files():
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

        command = [*self._program, "--port", "0", "--threads", "2"]
        with Server(command, before=few_files) as server:
            clients = [server.connect() for _ in range(100)]
            answers = [client.ask(b"") for client in clients]
            served = answers.count(b"")
            expect(10 < served < 40, f"{served} clients of 100 are served")
            expect(answers.count(b"<end>") == 100 - served, f"{answers}")
            for client in clients:
                client.close()
            # The closed ones' files are free when the workers have heard of it.
            wait_until(lambda: server.ask(b"get key\r\n") == b"END\r\n",
                       lambda: "clients are refused for good")
            expect(server.end() == 0, "the server does not end with 0")

    def start_and_end(self):
        """Sockets with a path, refused options, a taken port, SIGTERM while clients wait."""
        program = self._program
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")
            for _ in range(2):  # the second finds what the killed first one left
                with Server([*program, "--unix", path, "--threads", "1"]) as server:
                    with socket.socket(socket.AF_UNIX) as client:
                        client.connect(path)
                        client.sendall(b"set key 0 0 1\r\nx\r\n")
                        answer = client.recv(100)
                        expect(answer == b"STORED\r\n", f"on a path: {answer}")
            with Server([*program, "--unix", path, "--threads", "1"]) as server:
                expect(server.end() == 0, "the server does not end with 0")
                expect(not os.path.exists(path), "the path is still there")
            with self._server() as server:
                idle = [server.connect() for _ in range(10)]
                ran = subprocess.run([*program, "--port", str(server.port)], capture_output=True,
                                     check=False)
                expect(ran.returncode == 2 and b"cannot listen" in ran.stderr, f"{ran}")
                expect(server.end() == 0, "the server does not end with 0")
                for client in idle:
                    expect(not client.receive(), "a client's connection is not closed")
                    client.close()
        wrong = (["--threads", "0"], ["--memory", "0"], ["--listen", "nowhere"], ["--bogus"],
                 ["--unix", "x" * 200], ["--port", "65536"], ["more"])
        for options in wrong:
            ran = subprocess.run([*program, *options], capture_output=True, check=False,
                                 timeout=HANG_S)
            expect(ran.returncode == 2 and ran.stderr, f"{options}: {ran}")
        wrong = ([], ["--connect", "nowhere"], ["--connect", "a:1", "--threads", "0"],
                 ["--connect", "a:1", "--verify", "--value-size", "8"],
                 ["--connect", "a:1", "--keys", "2"], ["--connect", "a:1", "--get-ratio", "2"])
        for options in wrong:
            ran = subprocess.run([self._arguments.client, *options], capture_output=True,
                                 check=False, timeout=HANG_S)
            expect(ran.returncode == 2 and ran.stderr, f"{options}: {ran}")

    def memcslap(self):
        """The load of libmemcached-tools, where it is installed."""
        program = shutil.which("memcslap")
        if program is None:
            print("  no memcslap here")
            return
        with self._server() as server:
            for more in ((), ("--binary",)):
                for test in ("get", "set", "mget"):
                    command = [program, f"--servers={server.place}", f"--test={test}",
                               "--concurrency=2", "--execute-number=300", *more]
                    ran = subprocess.run(command, capture_output=True, check=False,
                                         timeout=HANG_S)
                    expect(ran.returncode == 0, f"{command}: {ran}")
            expect(int(server.statistics()["get_misses"]) == 0, "a get misses")


def main():
    names = [name for name in vars(Parts) if not name.startswith("_")]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--client", required=True)
    parser.add_argument("--through", default="")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--dies", choices=("server", "thread"), default="server")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(names))
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(names)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; parts are {', '.join(names)}")
    # A sanitized server has to die of its faults as any other.
    for options in ("ASAN_OPTIONS", "TSAN_OPTIONS"):
        given = os.environ.get(options, "")
        os.environ[options] = f"{given}:handle_segv=0:handle_sigfpe=0:handle_abort=0"
    wrong = 0
    for name in arguments.parts or names:
        try:
            getattr(Parts(arguments), name)()
            print(f"{name}: ok", flush=True)
        except Wrong as problem:
            wrong += 1
            print(f"{name}: {problem}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
