#!/usr/bin/env python3
"""printers.py <root> --cxx C++ --library libtmh.a [--flags ...] -- the pretty printers of
tools/gdb/tmh.py on a running program.

Builds program.cpp with debug information, runs it under gdb --batch, and looks for what the
printers must say in two instances. Without gdb, or where nothing may be traced, the test is
skipped.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "support"))
# pylint: disable=wrong-import-position
from slowdown import HANG_S

SKIPPED = 77
# Expression, in the named frame -> what it must print.
AT_LINES = [
    ("thread", r"update in context \d+, attempt 0, snapshot \d+, 1 lines read, 1 written"),
    (
        "$tmh_line_context(thread.context_)",
        r"(IDLE|COMMITTED), instance \d+, age \d+, stamp \d+, \d+ lines written",
    ),
]
AT_PAGES = [
    (
        "engine",
        (
            r"update \d+ at snapshot (\d+) = \{read or kept = \d+ \[.*0:\d+.*\], own copies = \d+"
            r" \[.*\]\}"
        ),
    ),
    (
        "engine.ours_.tree",
        (
            r"clock \d+, versions by participant = \{participant 0, slot \d+ = page 0:\d+, commit"
            r" \d+, \d+ lines, of participant 0, "
        ),
    ),
    ("version", r"page 0:\d+, commit \d+, \d+ lines, of participant 0, older \d+, newer 0"),
    ("page", r"page 0:\d+"),
    ("*cell", r"\{value = 3\}"),
    ("meta", r"last commit \d+, newest version in slot \d+"),
    ("self", r"pid \d+ \".*\", update \d+ at snapshot \d+"),
    ("memory.participants_[1]", r"pid \d+ \".*\", query \d+ at snapshot \d+"),
    ("record", r"at level 2, residents by slot modulo 64: \{0, 2\}"),
    ("$tmh_line_word(0x8000000000000003)", r"W: locked by context 3"),
    ("$tmh_line_word(7)", r"unlocked, version 7"),
]


def skip(reason):
    print("SKIPPED: " + reason)
    sys.exit(SKIPPED)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--library", required=True)
    arguments = parser.parse_args()
    gdb = shutil.which("gdb")
    if gdb is None:
        skip("gdb is not installed")
    with tempfile.TemporaryDirectory(prefix="tmh-gdb-") as work:
        program = os.path.join(work, "program")
        subprocess.run(
            [
                arguments.cxx,
                "-std=c++20",
                "-g",
                # Classes with virtual functions, too, whose own files are compiled without -g.
                "-fstandalone-debug" if "clang" in arguments.cxx else "-femit-class-debug-always",
                "-O0",
                "-I" + arguments.root,
                "-I" + os.path.join(arguments.root, "include"),
                os.path.join(HERE, "program.cpp"),
                arguments.library,
                "-pthread",
                "-o",
                program,
            ],
            check=True,
        )
        command = [
            gdb,
            "-nx",
            "-batch",
            "-ex",
            "set width 0",
            "-ex",
            "set pagination off",
            "-ex",
            "set confirm off",
            # Page faults are how level 2 sees first touches; the program's handler is to
            # have them.
            "-ex",
            "handle SIGSEGV nostop noprint pass",
            "-ex",
            "source " + os.path.join(arguments.root, "tools", "gdb", "tmh.py"),
            "-ex",
            "break stop_at_lines",
            "-ex",
            "break stop_at_pages",
            "-ex",
            "run",
        ]
        for number, (expression, _) in enumerate(AT_LINES):
            command += [
                "-ex",
                f"echo lines.{number}: ",
                "-ex",
                "output " + expression,
                "-ex",
                "echo \\n",
            ]
        command += ["-ex", "continue", "-ex", "up"]
        for number, (expression, _) in enumerate(AT_PAGES):
            command += [
                "-ex",
                f"echo pages.{number}: ",
                "-ex",
                "output " + expression,
                "-ex",
                "echo \\n",
            ]
        command += ["-ex", "continue", "--args", program, os.path.join(work, "domain")]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=2 * HANG_S
        )
    said = answer.stdout + answer.stderr
    if re.search(r"ptrace: Operation not permitted|Could not trace the inferior", said):
        skip("this sandbox permits no tracing")
    problems = []
    for place, expected in (("lines", AT_LINES), ("pages", AT_PAGES)):
        for number, (expression, pattern) in enumerate(expected):
            found = re.search(rf"^{place}\.{number}: ?(.*)$", answer.stdout, re.MULTILINE)
            if found is None or not re.match('"?' + pattern, found.group(1)):
                problems.append(
                    f"{expression}: {found.group(1) if found else 'nothing'}, not {pattern}"
                )
    if "exited normally" not in said:
        problems.append("the program did not end well")
    if problems:
        print(said)
    print("\n".join(problems) or "printers: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
