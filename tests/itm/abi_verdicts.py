#!/usr/bin/env python3
"""abi_verdicts.py --programs PATH --libitm NAME=FILE[:METHOD] ... | --self-test -- every program
for the libitm ABI has the verdict that its source expects, on each given library.

--programs  itm_programs, or another executable with its --list, --expected and --which
--libitm    a library: the name in the table, its file, and ITM_DEFAULT_METHOD; more may be given.
            The program tells from /proc/self/maps whether it runs on that file.
--only      a regular expression for names of programs
--under     a command that runs each program: "tmh rtm-emulate --"
--jobs, --timeout  programs at once (2), seconds for each (slowdown.HANG_S)

A verdict is what a program prints, or "dies of SIGNAL", "dies with CODE", "hangs". KNOWN holds what
GCC 12's library says otherwise, and why. Exit code 1: some verdict is neither expected nor known.
"""

import argparse
import os
import re
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
# pylint: disable=wrong-import-position
from slowdown import HANG_S

GNU = "GNU libitm"
CATCHES_AND_CANCELS = (
    "exception_(caught_then_outer_cancel|destructors_then_cancel|cancel_.*|nested_cancel_.*)"
)
CATCHES = (
    "exception_(caught_.*|rethrown_.*|replaced_.*|while_.*|between_.*)|"
    "restart_(after_a_caught_exception|inside_a_handler)|" + CATCHES_AND_CANCELS
)
EVERY = ("ml_wt", "gl_wt", "serialirr")
BEGIN_CATCH = (
    "_ITM_cxa_begin_catch looks in its tree of allocations for the address of the exception's "
    "header, under which it is not there, and the search in the tree has no end"
)
HINTS = (
    "its serial method, which stands in where a nested cancel is possible, logs neither a load for "
    "a write nor a store after a write"
)
# Methods of GCC's library, programs, their verdicts on it, the reason. Regular expressions.
KNOWN = [
    (("ml_wt", "gl_wt"), CATCHES, "dies of 11", BEGIN_CATCH),
    (("serialirr",), CATCHES_AND_CANCELS, "dies of 11", BEGIN_CATCH),
    (EVERY, "nested_hinted_cancel_restores_the_outer_value", "6", HINTS),
    (EVERY, "nested_hinted_cancel_a_thousand_times_in_one", "1000 1000", HINTS),
    (("serialirr",), "cancel_hinted_every_second_one", "1000", HINTS),
    (("serialirr",), "types_for_a_write_then_after_a_write_cancelled", "6", HINTS),
    (
        ("ml_wt", "gl_wt"),
        "memory_nested_cancel_gives_back_its_own",
        "2 5",
        "it begins the outer transaction again for the nested one's sake and forgets what that had "
        "allocated",
    ),
    (
        EVERY,
        "threads_signals_that_interrupt_waits",
        "dies with 1",
        "it gives up when a signal interrupts its wait on a futex",
    ),
    (
        ("serialirr",),
        "nested_every_third_cancels",
        "dies of 6",
        "the outer transaction runs irrevocably, and a nested one in a function of its own cancels",
    ),
]
PAGES = ("pages", "pages-serializable")
# Our library, by method.
KNOWN_OF_OTHERS = [
    (("pages",), "threads_write_skew", r"\d+ skews", "snapshot isolation allows write skew"),
    (
        ("pages",),
        "privatised_by_a_flag",
        r"\d+ violations",
        "write skew: one reads the flag and stores to the payload, the other stores to the flag",
    ),
    (
        ("pages",),
        "privatised_node_is_left_alone_by_writers",
        r"\d+ violations",
        "write skew, seldom: one reads the pointer and stores to the node, the other stores to the "
        "pointer",
    ),
    (
        PAGES,
        "clone_that_is_missing_goes_irrevocable",
        "7 1",
        "code without barriers calls the function itself, and needs no clone",
    ),
    (
        PAGES,
        "clone_in_a_library_missing_goes_irrevocable",
        "2 1",
        "code without barriers calls the function itself, and needs no clone",
    ),
    (
        PAGES,
        "threads_exit_inside_through_noexcept",
        "0",
        "abort() in a transaction ends its thread alone",
    ),
]


class Library:
    def __init__(self, text, folder):
        name, separator, rest = text.partition("=")
        path, _, method = rest.partition(":")
        if not (name and separator and path):
            sys.exit(f"abi_verdicts.py: {text!r} is not NAME=FILE[:METHOD]")
        if not os.path.isfile(path):
            sys.exit(f"abi_verdicts.py: no library {path}")
        self.name, self.path, self.method = name, os.path.realpath(path), method
        self.version = ""
        directory = os.path.dirname(os.path.abspath(path))
        if os.path.basename(path) != "libitm.so.1":
            directory = tempfile.mkdtemp(dir=folder)
            os.symlink(self.path, os.path.join(directory, "libitm.so.1"))
        self.environment = {**os.environ, "LD_LIBRARY_PATH": directory, "LC_ALL": "C"}
        self.environment.pop("ITM_DEFAULT_METHOD", None)
        if method:
            self.environment["ITM_DEFAULT_METHOD"] = method

    def known(self, program):
        """Pairs (verdict, reason) that this library is known for."""
        gnu = self.version.startswith(GNU)
        return [
            (verdict, reason)
            for methods, programs, verdict, reason in (KNOWN if gnu else KNOWN_OF_OTHERS)
            if (self.method in methods or (gnu and not self.method))
            and re.fullmatch(programs, program)
        ]


def run(command, environment, timeout):
    """The verdict of one program."""
    try:
        answer = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    if answer.returncode < 0:
        return f"dies of {-answer.returncode}"
    if answer.returncode > 0:
        return f"dies with {answer.returncode}"
    return answer.stdout.decode(errors="replace").strip()


def lines_of(programs, option, environment=None):
    return subprocess.run(
        [programs, option], env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def check_that_it_is_loaded(programs, library):
    """The reason why the program does not run on this library, or None."""
    try:
        mapped, library.version = lines_of(programs, "--which", library.environment)[:2]
    except (subprocess.CalledProcessError, ValueError):
        return f"{library.name}: {programs} --which does not run on {library.path}"
    if os.path.realpath(mapped) != library.path:
        return f"{library.name}: {programs} runs on {mapped}, not on {library.path}"
    return None


def judge(library, program, expected, verdict):
    """One of "expected", "known", "differs", and the reason of a known one."""
    if verdict == expected:
        return "expected", ""
    for known, reason in library.known(program):
        if re.fullmatch(known, verdict):
            return "known", reason
    return "differs", ""


def compare(programs, libraries, only, jobs, timeout, under=()):
    """Prints the table and the counts; how many verdicts are neither expected nor known."""
    expected = dict(line.split("\t", 1) for line in lines_of(programs, "--expected"))
    names = [name for name in expected if re.search(only, name)]
    if not names:
        sys.exit(f"abi_verdicts.py: no program of {programs} is named like {only!r}")
    rows, counts, reasons = [], [], []
    differ = 0
    first = {}
    for library in libraries:
        found = {"expected": 0, "known": 0, "differs": 0}
        with ThreadPoolExecutor(jobs) as pool:
            verdicts = list(
                pool.map(
                    lambda name, library=library: run(
                        [*under, programs, name], library.environment, timeout
                    ),
                    names,
                )
            )
        for name, verdict in zip(names, verdicts):
            kind, reason = judge(library, name, expected[name], verdict)
            found[kind] += 1
            if reason and reason not in reasons:
                reasons.append(reason)
            is_first = library is libraries[0]
            if is_first:
                first[name] = verdict
            if kind != "expected":
                note = f"known ({reasons.index(reason) + 1})" if reason else "DIFFERS"
                rows.append((name, library.name, expected[name], verdict, first[name], note))
        differ += found["differs"]
        counts.append(
            f"{library.name}: {len(names)} programs, {found['expected']} as expected, "
            f"{found['known']} known to differ, {found['differs']} differ"
        )
    if rows:
        heads = ("program", "library", "expected", "verdict", libraries[0].name + " says", "note")
        widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
        for row in [heads, *rows]:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
    for number, reason in enumerate(reasons, 1):
        print(f"({number}) {reason}")
    print("\n".join(counts))
    return differ


FAKE = """#!/bin/sh
case "$1" in
--expected) printf 'right\\tyes\\nwrong\\tyes\\ndead\\tdies of 6\\nslow\\tnever\\n' ;;
--which) printf '%s/libitm.so.1\\nOwn library\\n' "$LD_LIBRARY_PATH" ;;
right) echo yes ;;
wrong) echo "${ITM_DEFAULT_METHOD:-no}" ;;
dead) kill -6 $$ ;;
slow) exec sleep 100 ;;
*) exit 2 ;;
esac
"""


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "fake")
        with open(program, "w", encoding="utf-8") as file:
            file.write(FAKE)
        os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
        for name in ("libitm.so.1", "other.so"):
            with open(os.path.join(folder, name), "wb"):
                pass
        plain = Library(f"plain={folder}/libitm.so.1", folder)
        yes = Library(f"yes={folder}/other.so:yes", folder)
        for library in (plain, yes):
            assert check_that_it_is_loaded(program, library) is None
        away = Library(f"away={folder}/other.so", folder)
        away.environment["LD_LIBRARY_PATH"] = folder
        assert "runs on" in check_that_it_is_loaded(program, away)
        quick = ("right|wrong|dead", 2, HANG_S)
        assert compare(program, [plain], *quick) == 1
        assert compare(program, [yes], *quick) == 0
        assert compare(program, [yes, plain], *quick) == 1
        assert compare(program, [plain, plain], *quick) == 2
        assert compare(program, [yes], "slow", 1, 0.2) == 1
        assert run([program, "slow"], None, 0.2) == "hangs"
        assert run([program, "none"], None, HANG_S) == "dies with 2"
        assert run([program, "dead"], None, HANG_S) == "dies of 6"
        gnu = Library(f"gnu={folder}/other.so:ml_wt", folder)
        gnu.version = GNU + " 0.90"
        caught = "exception_caught_inside"
        assert judge(gnu, caught, "12", "dies of 11")[0] == "known"
        assert judge(gnu, caught, "12", "13")[0] == "differs"
        assert judge(gnu, caught, "12", "12")[0] == "expected"
        assert judge(yes, caught, "12", "dies of 11")[0] == "differs"
        gnu.method = "serialirr"
        assert judge(gnu, caught, "12", "dies of 11")[0] == "differs"
    print("self-test passed")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs")
    parser.add_argument("--libitm", action="append", default=[], metavar="NAME=FILE[:METHOD]")
    parser.add_argument("--only", default="")
    parser.add_argument("--under", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=HANG_S)
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if not options.programs or not options.libitm:
        parser.error("--programs and --libitm are needed")
    programs = os.path.abspath(options.programs)
    with tempfile.TemporaryDirectory() as folder:
        libraries = [Library(text, folder) for text in options.libitm]
        problems = [
            problem
            for library in libraries
            if (problem := check_that_it_is_loaded(programs, library))
        ]
        if problems:
            sys.exit("\n".join(problems))
        differ = compare(
            programs, libraries, options.only, options.jobs, options.timeout, options.under.split()
        )
    return sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
