"""A cache server, or Debian's memcached, as a child process; connections to it."""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
# pylint: disable=wrong-import-position
from slowdown import HANG_S

HEADER = struct.Struct(">BBHBBHIIQ")
SENTINEL = 0x5E5E5E5E
NOOP = 0x0A


class Server:
    """Starts it; kills it at the end of a `with`."""

    def __init__(self, command, before=None):
        # ThreadSanitizer's first report ends it: at the end it is killed, and has no status.
        options = os.environ.get("TSAN_OPTIONS", "") + ":halt_on_error=1"
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, preexec_fn=before,
            env={**os.environ, "TSAN_OPTIONS": options}
        )
        line = self.process.stdout.readline().decode()
        found = re.fullmatch(r"listening on (.*):(\d+)\n", line)
        self.host, self.port = (found[1].strip("[]"), int(found[2])) if found else (line, 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    @property
    def place(self):
        return f"{self.host}:{self.port}"

    def connect(self):
        return Connection(socket.create_connection((self.host, self.port), HANG_S))

    def ask(self, command):
        """A text command on a connection of its own."""
        with self.connect() as connection:
            return connection.ask(command)

    def statistics(self, what=b""):
        lines = self.ask(b"stats " + what + b"\r\n").decode().splitlines()
        return {line.split()[1]: line.split()[2] for line in lines if line.startswith("STAT ")}

    def end(self):
        """Its exit status after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HANG_S)


class Memcached(Server):
    """On a port that was free a moment before: memcached does not print one."""

    def __init__(self, path):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.host, self.port = free.getsockname()
        command = [path, "-l", self.host, "-p", str(self.port), "-U", "0", "-t", "2"]
        if os.geteuid() == 0:
            command += ["-u", "nobody"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        deadline = time.monotonic() + HANG_S
        while True:
            try:
                self.connect().close()
                return
            except ConnectionRefusedError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise


class Connection:
    def __init__(self, connected):
        self.socket = connected
        self.bytes = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Ends it as a killed client's kernel does that has bytes left to read."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        """More bytes; False at the end of the connection."""
        try:
            more = self.socket.recv(1 << 16)
        except ConnectionError:
            more = b""
        self.bytes += more
        return more != b""

    def ask(self, command):
        """The answers to text commands: those before the answer to a `version` behind them."""
        try:
            self.send(command + b"version\r\n")
        except ConnectionError:
            pass
        while not re.search(rb"VERSION [^\r\n]*\r\n\Z", self.bytes):
            if not self.receive():
                answer, self.bytes = self.bytes + b"<end>", b""
                return answer
        answer, self.bytes = self.bytes, b""
        return answer[: answer.rindex(b"VERSION ")]

    def ask_binary(self, requests):
        """Answers as tuples (opcode, status, extras, key, value, whether cas is set); those before
        the answer to a noop behind the requests, or the end of the connection."""
        self.send(requests + request(NOOP, opaque=SENTINEL))
        answers = []
        while True:
            while len(self.bytes) < 24 or len(self.bytes) < 24 + HEADER.unpack(self.bytes[:24])[6]:
                if not self.receive():
                    return answers + ["<end>"]
            _, opcode, keys, extras, _, status, count, opaque, cas = HEADER.unpack(self.bytes[:24])
            body, self.bytes = self.bytes[24 : 24 + count], self.bytes[24 + count :]
            if opaque == SENTINEL:
                return answers
            split = extras + keys
            answers.append(
                (opcode, status, body[:extras], body[extras:split], body[split:], cas != 0)
            )


def request(opcode, key=b"", extras=b"", value=b"", cas=0, opaque=7):
    count = len(extras) + len(key) + len(value)
    head = HEADER.pack(0x80, opcode, len(key), len(extras), 0, 0, count, opaque, cas)
    return head + extras + key + value
