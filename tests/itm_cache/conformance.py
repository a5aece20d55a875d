#!/usr/bin/env python3
"""conformance.py --server PATH [--memcached PATH] -- the cache server answers as memcached does.

--server     cache_server or cache_server_mutex
--through    a command that runs the server, such as "tmh itm --method pages --"
--memcached  Debian's; default: the one in PATH, if any. It has to give the expected answers, too,
             but for those that are marked as the server's own.
"""

import argparse
import os
import re
import shutil
import struct
import sys

from cache_process import Memcached, Server, request

LONG = b"L" * 251
LARGE = 1 << 20
BAD_FORMAT = b"CLIENT_ERROR bad command line format\r\n"
BAD_CHUNK = b"CLIENT_ERROR bad data chunk\r\n"
TOO_LARGE = b"SERVER_ERROR object too large for cache\r\n"
NO_NUMBER = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
BAD_TIME = b"CLIENT_ERROR invalid exptime argument\r\n"
BAD_DELTA = b"CLIENT_ERROR invalid numeric delta argument\r\n"
BAD_DELETE = b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
ERROR = b"ERROR\r\n"

# Commands and answers; @ is a key of the row's own. `OURS`: memcached differs, see the remark.
OURS = "ours"
TEXT = [
    (b"get @\r\n", b"END\r\n"),
    (b"set @ 5 0 3\r\nabc\r\nget @\r\n", b"STORED\r\nVALUE @ 5 3\r\nabc\r\nEND\r\n"),
    (b"set @ 0 0 0\r\n\r\nget @\r\n", b"STORED\r\nVALUE @ 0 0\r\n\r\nEND\r\n"),
    (b"set @ 0 0 4\r\n\r\n\r\n\r\nget @\r\n", b"STORED\r\nVALUE @ 0 4\r\n\r\n\r\n\r\nEND\r\n"),
    (b"set @ 0 0 1\nx\r\nget @\n", b"STORED\r\nVALUE @ 0 1\r\nx\r\nEND\r\n"),
    (b"set @ 0 0 1 \r\nx\r\nget  @ \r\n", b"STORED\r\nVALUE @ 0 1\r\nx\r\nEND\r\n"),
    (b"set @ 4294967295 0 1\r\nx\r\nget @\r\n",
     b"STORED\r\nVALUE @ 4294967295 1\r\nx\r\nEND\r\n"),
    (b"set @ 0 -1 1\r\nx\r\nget @\r\n", b"STORED\r\nEND\r\n"),
    (b"set @ 0 0 1 noreply\r\nx\r\nget @\r\n", b"VALUE @ 0 1\r\nx\r\nEND\r\n"),
    (b"set @ 0 0 1 bogus\r\nx\r\n", b"STORED\r\n"),
    (
        b"set @ 7 0 1\r\nx\r\nset @2 0 0 2\r\nyy\r\nget @ no@ @2 @\r\n",
        b"STORED\r\nSTORED\r\nVALUE @ 7 1\r\nx\r\nVALUE @2 0 2\r\nyy\r\n"
        b"VALUE @ 7 1\r\nx\r\nEND\r\n",
    ),
    (b"set @ 7 0 1\r\nx\r\ngets @\r\n", b"STORED\r\nVALUE @ 7 1 CAS\r\nx\r\nEND\r\n"),
    (
        b"set @ 7 0 1\r\nx\r\ngat 50 @ no@ @\r\ngats 50 @\r\n",
        b"STORED\r\nVALUE @ 7 1\r\nx\r\nVALUE @ 7 1\r\nx\r\nEND\r\nVALUE @ 7 1 CAS\r\nx\r\nEND\r\n",
    ),
    (b"add @ 0 0 1\r\nx\r\nadd @ 0 0 1\r\ny\r\n", b"STORED\r\nNOT_STORED\r\n"),
    (b"replace @ 0 0 1\r\nx\r\n", b"NOT_STORED\r\n"),
    (b"set @ 0 0 1\r\nx\r\nreplace @ 1 0 1\r\ny\r\nget @\r\n",
     b"STORED\r\nSTORED\r\nVALUE @ 1 1\r\ny\r\nEND\r\n"),
    (b"append @ 0 0 1\r\ny\r\n", b"NOT_STORED\r\n"),
    (
        b"set @ 3 0 1\r\nx\r\nappend @ 9 9 1\r\ny\r\nprepend @ 8 8 2\r\nab\r\nget @\r\n",
        b"STORED\r\nSTORED\r\nSTORED\r\nVALUE @ 3 4\r\nabxy\r\nEND\r\n",
    ),
    (b"cas @ 0 0 1 5\r\nx\r\n", b"NOT_FOUND\r\n"),
    (b"set @ 0 0 1\r\nx\r\ncas @ 0 0 1 0\r\ny\r\n", b"STORED\r\nEXISTS\r\n"),
    (b"cas @ 0 0 1\r\nx\r\n", ERROR + ERROR),
    (b"cas @ 0 0 1 a\r\nx\r\n", BAD_FORMAT + ERROR),
    (b"cas @ 0 0 1 999 noreply\r\nx\r\n", b""),
    (b"delete @\r\n", b"NOT_FOUND\r\n"),
    (b"set @ 0 0 1\r\nx\r\ndelete @ 0\r\nget @\r\n", b"STORED\r\nDELETED\r\nEND\r\n"),
    (b"delete @ 5\r\n", BAD_DELETE),
    (b"set @ 0 0 1\r\nx\r\ndelete @ noreply\r\nget @\r\n", b"STORED\r\nEND\r\n"),
    (b"delete @ 0 noreply\r\n", b""),
    (b"delete\r\n", ERROR),
    (
        b"set @ 0 0 1\r\n1\r\nincr @ 5\r\ndecr @ 10\r\nincr @ 18446744073709551615\r\nincr @ 2\r\n"
        b"get @\r\n",
        b"STORED\r\n6\r\n0\r\n18446744073709551615\r\n1\r\n"
        b"VALUE @ 0 20\r\n1                   \r\nEND\r\n",
    ),
    (
        b"set @ 0 0 2\r\n10\r\ndecr @ 1\r\nget @\r\nincr @ 1\r\nincr @ 100\r\nget @\r\n",
        b"STORED\r\n9\r\nVALUE @ 0 2\r\n9 \r\nEND\r\n10\r\n110\r\nVALUE @ 0 3\r\n110\r\nEND\r\n",
    ),
    (b"set @ 0 0 1\r\na\r\nincr @ 1\r\n", b"STORED\r\n" + NO_NUMBER),
    (b"set @ 0 0 3\r\n12a\r\nincr @ 1\r\n", b"STORED\r\n" + NO_NUMBER),
    (b"set @ 0 0 2\r\n-1\r\nincr @ 1\r\n", b"STORED\r\n" + NO_NUMBER),
    (b"set @ 0 0 0\r\n\r\nincr @ 1\r\n", b"STORED\r\n" + NO_NUMBER),
    (b"set @ 0 0 20\r\n18446744073709551616\r\nincr @ 1\r\n", b"STORED\r\n" + NO_NUMBER),
    (b"set @ 0 0 3\r\n 12\r\nincr @ 1\r\n", b"STORED\r\n13\r\n"),
    (b"set @ 0 0 3\r\n12 \r\nincr @ 1\r\n", b"STORED\r\n13\r\n"),
    (b"incr @ 1\r\n", b"NOT_FOUND\r\n"),
    (b"incr @ a\r\n", BAD_DELTA),
    (b"incr @ -1\r\n", BAD_DELTA),
    (b"incr @\r\n", ERROR),
    (b"incr @ 1 noreply x\r\n", ERROR),
    (b"decr @ 1 noreply\r\n", b""),
    (b"touch @ 5\r\n", b"NOT_FOUND\r\n"),
    (b"set @ 0 0 1\r\nx\r\ntouch @ 50\r\n", b"STORED\r\nTOUCHED\r\n"),
    (b"set @ 0 0 1\r\nx\r\ntouch @ -1\r\nget @\r\n", b"STORED\r\nTOUCHED\r\nEND\r\n"),
    (b"touch @ a\r\n", BAD_TIME),
    (b"touch @\r\n", ERROR),
    (b"gat\r\n", ERROR),
    (b"gat 5\r\n", b"END\r\n"),
    (b"gat a @\r\n", BAD_TIME),
    (b"flush_all a\r\n", BAD_TIME),
    (b"verbosity\r\n", ERROR),
    (b"verbosity 1\r\n", b"OK\r\n"),
    (b"verbosity 0 noreply\r\n", b""),
    (b"verbosity a\r\n", BAD_FORMAT),
    (b"version x\r\n", b"VERSION ANY\r\n"),
    (b"quit\r\n", b"<end>"),
    (b"stats bogus\r\n", ERROR),
    (b"stats reset\r\n", b"RESET\r\n"),
    # Lines that are none.
    (b"get\r\n", ERROR),
    (b"GET @\r\n", ERROR),
    (b"get\t@\r\n", ERROR),
    (b"bogus\r\n", ERROR),
    (b"\r\n", ERROR),
    (b" \r\n", ERROR),
    (b"set @\r\n", ERROR),
    (b"set @ 0 0 1 2 3 4 5 6 7\r\n", ERROR),
    (b"set @ a 0 1\r\n", BAD_FORMAT),
    (b"set @ 0 a 1\r\n", BAD_FORMAT),
    (b"set @ 0 0 a\r\n", BAD_FORMAT),
    (b"set @ 0 0 -1\r\n", BAD_FORMAT),
    (b"set @ -1 0 1\r\nx\r\n", BAD_FORMAT + ERROR),
    # Keys that are too long.
    (b"get @ " + LONG + b"\r\n", BAD_FORMAT),
    (b"gat 1 " + LONG + b"\r\n", BAD_FORMAT),
    (b"set " + LONG + b" 0 0 1\r\nx\r\n", BAD_FORMAT + ERROR),
    (b"set " + LONG + b" 0 0 1 noreply\r\nx\r\n", ERROR),
    (b"incr " + LONG + b" 1\r\n", BAD_FORMAT),
    (b"delete " + LONG + b"\r\n", BAD_FORMAT),
    (b"touch " + LONG + b" 1\r\n", BAD_FORMAT),
    (b"set " + LONG[1:] + b" 0 0 1\r\nx\r\nget " + LONG[1:] + b"\r\n",
     b"STORED\r\nVALUE " + LONG[1:] + b" 0 1\r\nx\r\nEND\r\n"),
    # Values of another length than was said.
    (b"set @ 0 0 3\r\nabcdef\r\n", BAD_CHUNK + ERROR),
    (b"set @ 0 0 3\r\nab\r\nget @\r\n", BAD_CHUNK + ERROR),
    # Values that are too large take the old one with them.
    (b"set @ 0 0 1\r\nx\r\nset @ 0 0 %d\r\n" % LARGE + b"y" * LARGE + b"\r\nget @\r\n",
     b"STORED\r\n" + TOO_LARGE + b"END\r\n"),
    (b"set @ 0 0 2000000 noreply\r\n" + b"y" * 2000000 + b"\r\n", b""),
    (b"set @ 0 0 1000000\r\n" + b"y" * 1000000 + b"\r\nget @\r\n",
     b"STORED\r\nVALUE @ 0 1000000\r\n" + b"y" * 1000000 + b"\r\nEND\r\n"),
    (b"get" + b" @" * 3000 + b"\r\n", b"END\r\n"),
    # memcached ends such a connection without a word, and only when the line comes in parts.
    (b"x" * 3000 + b"\r\n", b"CLIENT_ERROR line too long\r\n<end>", OURS),
    # memcached takes the lower 32 bits.
    (b"set @ 4294967296 0 1\r\n", BAD_FORMAT, OURS),
    # For tests, and not allowed here.
    (b"fault segv @\r\nclock 1\r\n", ERROR + ERROR),
]

NO_EXTRAS = NO_KEY = NO_VALUE = b""
PUT = struct.pack(">II", 5, 0)
FLAGS, NO_FLAGS = struct.pack(">I", 5), struct.pack(">I", 0)
NOT_FOUND, EXISTS = b"Not found", b"Data exists for key."
NO_NUMBER_BINARY = b"Non-numeric server-side value for incr or decr"
INVALID = b"Invalid arguments"
CREATES_NONE = 0xFFFFFFFF


def number(value):
    return struct.pack(">Q", value)


def count(delta, initial, until=0):
    return struct.pack(">QQI", delta, initial, until)


def done(opcode, cas=True, extras=b"", key=b"", value=b""):
    return (opcode, 0, extras, key, value, cas)


def refused(opcode, status, text, key=b""):
    return (opcode, status, b"", key, text, False)


def binary_rows(key):
    """Requests and answers; `key` is the row's own."""
    put = request(1, key, PUT, b"abc")
    put_number = request(1, key, PUT, b"10")
    stored = done(1)
    invalid = [
        (1, request(1, key, b"", b"v")),
        (1, request(1, b"", PUT, b"v")),
        (1, request(1, LONG, PUT, b"v")),
        (0, request(0)),
        (0, request(0, LONG)),
        (0, request(0, key, b"1234")),
        (0, request(0, key, b"", b"v")),
        (5, request(5, key, count(1, 1), b"v")),
        (4, request(4, key, b"1234")),
        (7, request(7, key)),
        (8, request(8, key)),
        (0x0A, request(0x0A, key)),
        (0x0B, request(0x0B, key)),
    ]
    rows = [
        (put + request(0, key), [stored, done(0, extras=FLAGS, value=b"abc")]),
        (put + request(0x0C, key), [stored, done(0x0C, extras=FLAGS, key=key, value=b"abc")]),
        (put + request(0x09, key), [stored, done(0x09, extras=FLAGS, value=b"abc")]),
        (put + request(0x0D, key), [stored, done(0x0D, extras=FLAGS, key=key, value=b"abc")]),
        (request(0, key), [refused(0, 1, NOT_FOUND)]),
        (request(0x0C, key), [refused(0x0C, 1, b"", key)]),
        (request(0x09, key) + request(0x0D, key), []),
        (request(2, key, PUT, b"v") + request(2, key, PUT, b"w"),
         [done(2), refused(2, 2, EXISTS)]),
        (request(3, key, PUT, b"v"), [refused(3, 1, NOT_FOUND)]),
        (put + request(3, key, PUT, b"v"), [stored, done(3)]),
        (request(1, key, PUT, b"v", cas=5), [refused(1, 1, NOT_FOUND)]),
        (put + request(1, key, PUT, b"v", cas=1 << 60), [stored, refused(1, 2, EXISTS)]),
        (request(0x0E, key, b"", b"++"), [refused(0x0E, 5, b"Not stored.")]),
        (put + request(0x0E, key, b"", b"++") + request(0x0F, key, b"", b"--") + request(0, key),
         [stored, done(0x0E), done(0x0F), done(0, extras=FLAGS, value=b"--abc++")]),
        (put + request(0x0E, key, b"", b"++", cas=1 << 60), [stored, refused(0x0E, 2, EXISTS)]),
        (request(0x11, key, PUT, b"v") + request(0x12, key, PUT, b"v"),
         [refused(0x12, 2, EXISTS)]),
        (request(0x13, key, PUT, b"v"), [refused(0x13, 1, NOT_FOUND)]),
        (request(0x11, key, PUT, b"v") + request(0x19, key, b"", b"w") +
         request(0x1A, key, b"", b"u") + request(0, key),
         [done(0, extras=FLAGS, value=b"uvw")]),
        (request(4, key), [refused(4, 1, NOT_FOUND)]),
        (put + request(4, key, cas=1 << 60), [stored, refused(4, 2, EXISTS)]),
        (put + request(4, key), [stored, done(4, cas=False)]),
        (put + request(0x14, key) + request(0x14, key), [stored, refused(0x14, 1, NOT_FOUND)]),
        (request(5, key, count(1, 10)) + request(5, key, count(5, 1)),
         [done(5, value=number(10)), done(5, value=number(15))]),
        (put_number + request(6, key, count(100, 1)), [stored, done(6, value=number(0))]),
        (put_number + request(6, key, count(1, 1)) + request(0, key),
         [stored, done(6, value=number(9)), done(0, extras=FLAGS, value=b"9 ")]),
        (request(5, key, count(1, 1, CREATES_NONE)), [refused(5, 1, NOT_FOUND)]),
        (put + request(5, key, count(1, 1)), [stored, refused(5, 6, NO_NUMBER_BINARY)]),
        (put_number + request(5, key, count(1, 1), cas=1 << 60), [stored, refused(5, 2, EXISTS)]),
        (put_number + request(0x15, key, count(1, 1)) + request(0x16, key, count(2, 1)) +
         request(0, key), [stored, done(0, extras=FLAGS, value=b"9 ")]),
        (request(0x1C, key, NO_FLAGS), [refused(0x1C, 1, NOT_FOUND)]),
        (put + request(0x1C, key, NO_FLAGS), [stored, done(0x1C, extras=FLAGS)]),
        (put + request(0x1D, key, NO_FLAGS), [stored, done(0x1D, extras=FLAGS, value=b"abc")]),
        (put + request(0x23, key, NO_FLAGS),
         [stored, done(0x23, extras=FLAGS, key=key, value=b"abc")]),
        (put + request(0x24, key, NO_FLAGS),
         [stored, done(0x24, extras=FLAGS, key=key, value=b"abc")]),
        (request(0x1D, key, NO_FLAGS), [refused(0x1D, 1, NOT_FOUND)]),
        (request(0x23, key, NO_FLAGS), [refused(0x23, 1, b"", key)]),
        (request(0x1E, key, NO_FLAGS) + request(0x24, key, NO_FLAGS), []),
        (request(0x0A), [done(0x0A, cas=False)]),
        (request(7), [done(7, cas=False), "<end>"]),
        (request(0x17), ["<end>"]),
        (request(0x10, b"reset"), [done(0x10, cas=False)]),
        (request(0x10, b"bogus"), [refused(0x10, 1, NOT_FOUND)]),
        (request(0x77), [refused(0x77, 0x81, b"Unknown command")]),
        (request(0x20), [refused(0x20, 0x81, b"Unknown command")]),
        (put + request(1, key, PUT, b"x" * LARGE) + request(0, key),
         [stored, refused(1, 3, b"Too large."), refused(0, 1, NOT_FOUND)]),
        (put + request(0x11, key, PUT, b"x" * (LARGE + 1)) + request(0, key),
         [stored, refused(0x11, 3, b"Too large."), refused(0, 1, NOT_FOUND)]),
        (b"\x79" * 24, None),
        # memcached takes the body for further requests.
        (request(0x77, key, b"", b"vv"), [refused(0x77, 0x81, b"Unknown command")], OURS),
        # memcached says nothing.
        (request(0x1B, b"", NO_FLAGS), [done(0x1B, cas=False)], OURS),
    ]
    return rows + [(sent, [refused(code, 4, INVALID), "<end>"]) for code, sent in invalid]


def normal(answer):
    answer = re.sub(rb"(VALUE \S+ \d+ \d+) \d+\r\n", rb"\1 CAS\r\n", answer)
    return re.sub(rb"VERSION [^\r\n]*", b"VERSION ANY", answer)


def check_text(server, is_ours):
    """Sentences about what is wrong."""
    problems = []
    for index, (commands, expected, *ours) in enumerate(TEXT):
        if ours and not is_ours:
            continue
        key = b"text%d-%d" % (index, os.getpid())
        with server.connect() as connection:
            answer = normal(connection.ask(commands.replace(b"@", key)))
        if answer != expected.replace(b"@", key):
            problems.append(f"{commands[:80]}: {answer[:200]}, not {expected[:200]}")
    return problems


def check_binary(server, is_ours):
    problems = []
    for index in range(len(binary_rows(b"key"))):
        key = b"binary%d-%d" % (index, os.getpid())
        sent, expected, *ours = binary_rows(key)[index]
        if ours and not is_ours:
            continue
        if expected is None:
            # A first byte that is not the protocol's: the text protocol's answers, or the end.
            with server.connect() as connection:
                answers = connection.ask_binary(request(0x0A) + sent)
            expected = [done(0x0A, cas=False), "<end>"]
        else:
            with server.connect() as connection:
                answers = connection.ask_binary(sent)
        if answers != expected:
            problems.append(f"{sent[:60]}: {str(answers)[:300]}, not {str(expected)[:300]}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--through", default="")
    parser.add_argument("--memcached", default=shutil.which("memcached"))
    arguments = parser.parse_args()
    problems = []
    command = [*arguments.through.split(), arguments.server, "--port", "0", "--threads", "2"]
    with Server(command) as server:
        for check in (check_text, check_binary):
            problems += [f"the server: {problem}" for problem in check(server, True)]
        if server.end() != 0:
            problems.append("the server does not end with 0")
    if arguments.memcached:
        with Memcached(arguments.memcached) as memcached:
            for check in (check_text, check_binary):
                problems += [f"memcached: {problem}" for problem in check(memcached, False)]
    for problem in problems:
        print(problem)
    rows = len(TEXT) + len(binary_rows(b"key"))
    beside = "with memcached beside it" if arguments.memcached else "no memcached here to compare"
    print(f"{rows} rows, {beside}, {len(problems)} wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
