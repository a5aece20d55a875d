#!/usr/bin/env python3
"""protocol.py <root> | --self-test | --one "<configuration>" <root> -- spin checks
hierarchy/exchange/protocol.pml.

<root>       every configuration below is searched exhaustively, without an error; TMH_LONG=1: the
             large ones too
--self-test  every fault that the model can plant (PLANT=n; PROTOCOL.md lists them) is found
--one        one configuration, and the steps of the error that it has, if any

A configuration: up to four processes, then options. "1 r01 w1 d a2": an instance of level 1 that
reads lines 0 and 1 and writes line 1, from the last line to the first (d), after process 2 has
ended (a2). "h" for the level: RTM. Options are the model's macros. "cycles" searches for
non-progress cycles instead of wrong states: the model says nowhere that it progresses, so no cycle
means that every run ends. "bits": bit state hashing, not exhaustive. Without spin or a C compiler
the test is skipped.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import source_tree

SKIPPED = 77
CHECKS = [
    ("mix", "1 r01 w01, 2 r01 w01 d, 2 r01"),
    ("anti-dependency", "1 r0 w1, 1 r1 w0, 2 r01"),
    ("reader and writer", "1 r0 w1, 2 r0 w0, 2 r01"),
    ("idle residents", "1 w1, 2 w0, 2 r01 d | up0=8 up1=4"),
    ("page in between", "1 w01, 2 r01, 2 w0 | up0=4"),
    ("private page", "1 w1 a2, 2 w0, 2 r01"),
    ("kept snapshot", "1 w01, 1 r01 a1, 2 r01"),
    ("kept snapshot, pages", "1 r01 d, 2 w0, 2 w1 a2"),
    ("gives way", "1 r01 w01, 2 r01 w1 d, 2 r01 | yield tries=0"),
    ("gives way, death", "1 r01 w01, 2 r01 w01 d | yield deaths=1"),
    ("gives way, answered", "1 r01 w01, 2 r01 w01 d | yield deaths=1 cycles"),
    ("gives way, escalates", "1 w01, 2 r01 w1 d | yield escalate=1 cycles"),
    ("ring reuse", "1 w0, 1 r0 w1 a1, 2 r012 d | nl=3 reuse"),
    ("two lines a page", "1 r02 w1, 2 r01 w2 d | nl=3"),
    ("hardware and pages", "h r01 w01, 2 r01 w1, 2 r01 | h0=1 h1=1"),
    ("hardware and lines", "h r01 w1, 1 r01 w0 | h0=1 h1=1"),
    ("hardware beside commits", "h w0 a2, 2 w1, 2 r01 d | h0=1"),
    ("hardware finds pages", "h r0 w0, h r0 w0, 2 r0 | up0=8"),
    ("hardware, death", "h r01 w01, 2 r01 w01 d | h0=1 deaths=1"),
    ("hardware, answered", "h r0 w01, 1 r01 w0 d | h0=1 deaths=1 cycles"),
    ("death", "1 w01, 2 r0, 1 r0 | deaths=1"),
    ("two deaths", "1 r01 w01, 2 r01 w01 d | deaths=2"),
    ("answered", "1 r01 w01, 2 r01 w01 d | deaths=2 cycles"),
    ("answered, escalates", "1 r01 w01, 2 r01 w01 d | deaths=1 escalate=1 cycles"),
]
LONG = [
    ("death, one that writes", "1 w01, 2 r0 w1, 1 r0 | deaths=1"),
    ("hardware, answered, both write all", "h r01 w01, 1 r01 w01 d | h0=1 h1=1 deaths=1 cycles"),
    ("gives way, death, escalates", "1 r01 w01, 2 r01 w01 d | yield deaths=1 escalate=1 cycles"),
    ("four, of which two follow", "2 w0, 2 r01 a1, 2 w0 a1, 1 r0 w1 | tries=0"),
    ("more tries", "1 r01 w01, 2 r01 w01 d, 2 r01 w1 | tries=2"),
    ("two lines a page, three", "1 r02 w1, 2 r01 w2 d, 2 r012 | nl=3"),
    ("two lines a page, more written", "1 r01 w12, 2 r12 w0 d, 1 r02 w01 | nl=3"),
    ("ring reuse, four", "1 w0, 1 r0 w1, 2 w2 a12, 2 r012 d | nl=3 reuse tries=0"),
    ("hardware, lines and pages", "h r01 w1, 1 r01 w0, 2 r01 d | h0=1 h1=1"),
    ("hardware finds two pages", "h r01 w0, h r01 w1, 2 r01 d | up0=8"),
    ("death, page in between", "1 w01, 2 r01, 2 w0 | up0=4 deaths=1"),
    ("death, reader and writer", "1 r0 w1, 2 r01 w0, 2 r01 | deaths=1"),
    ("death, crossing writers", "1 r01 w01, 1 r01 w01 d, 2 r01 | deaths=1"),
    ("answered, crossing writers", "1 r01 w01, 1 r01 w01 d, 2 r01 | cycles"),
    ("escalating (bit states)", "1 r0 w1, 1 r1 w0, 2 r01 w0 | tries=0 escalate=1 bits"),
]
# The fault's number, and a configuration that must show it.
FAULTS = [
    (1, "release does not look at pins", "1 w01, 2 r01, 2 w0 | up0=4"),
    (2, "recall does not wait for locked lines", "1 r01 w01, 2 r01 w01 d"),
    (3, "stamp after validation", "2 w0, 2 r01 a1, 2 w0 a1, 1 r0 w1 | tries=0"),
    (4, "no undo words", "1 w1 a2, 2 w0, 2 r01"),
    (5, "unlock before write-back", "1 w01, 2 r01, 2 w0 | up0=4"),
    (6, "release looks before it tells", "1 w01, 2 r01, 2 w0 | up0=4"),
    (7, "recall leaves the line clock alone", "2 w0, 2 r01 a1, 2 w0 a1, 1 r0 w1 | tries=0"),
    (8, "release opens lines before the page word says L", "1 r01 w01, 2 r01 w01 d | up0=4"),
    (9, "recall reads versions before it marks", "1 w1, 2 w0, 2 r01 d | up0=8 up1=4"),
    (10, "extending does not follow the commit log", "1 w1, 2 w0, 2 r01 d | up0=8 up1=4"),
    (11, "recovery undoes a COMMITTED context", "1 r01 w01, 2 r01 w01 d | deaths=1"),
    (12, "nobody ends a dead mover's move", "1 r01 w01, 2 r01 w01 d | deaths=1 cycles"),
    (
        13,
        "a new line pin is none before it is stored",
        "1 w0, 1 r0 w1, 2 w2 a12, 2 r012 d | nl=3 reuse tries=0",
    ),
    (14, "RTM does not look at pins", "h w0 a2, 2 w1, 2 r01 d | h0=1"),
    (15, "a page leaves H for level 2 without the epoch", "h r0 w0, 2 r0 w0 | h0=1"),
    (16, "a page leaves H for level 1 without the epoch", "h r0 w0, 1 r0 w0 | h0=1"),
    (17, "pages are opened by their words, not by the moves", "h r0 w0, 2 r0 w0 | h0=1"),
    (18, "a page goes to H while a resident runs", "h r0 w0, 2 r01 w0 d, h r0 w0 | up0=8"),
    (19, "extending compares with the new snapshot", "1 r01, 1 w01"),
    (20, "giving way trusts a line that it has copied", "1 w01, 2 r01 w1 | yield"),
]


def parse(text):
    """Configuration -> (macros of the model, words that are this script's)."""
    processes, _, options = text.partition("|")
    processes = [words.split() for words in processes.split(",")]
    processes += [["0"]] * (3 - len(processes))
    macros = {"PROCESSES": str(len(processes)), "ESCALATE": "0"}
    for number, words in enumerate(processes, 1):
        sets = {word[0]: sum(1 << int(digit) for digit in word[1:]) for word in words[1:]}
        macros[f"LEVEL{number}"] = "3" if words[0] == "h" else words[0]
        if words[0] == "h":
            macros["HARDWARE"] = "1"
        macros.update(
            {f"{name}{number}": str(sets.get(name[0].lower(), 0)) for name in ("R", "W", "AFTER")}
        )
        macros[f"DOWN{number}"] = "1" if "d" in words else "0"
    own = set()
    for word in options.split():
        name, _, value = word.partition("=")
        if name in ("cycles", "bits"):
            own.add(name)
        else:
            macros[name.upper()] = value or "1"
    return macros, own


def search(root, text, plant=0, show=False):
    macros, own = parse(text)
    macros["PLANT"] = str(plant)
    return search_model(os.path.join(root, "hierarchy/exchange/protocol.pml"), macros, own, show)


def search_model(model, macros, own, show=False):
    """Returns (verdict: the first error or None, states, depth, seconds, steps of the error: what
    the model prints, or, if "steps" is in `own`, all of them). "large": a compiler needs minutes to
    optimise the model."""
    model = os.path.abspath(model)
    with tempfile.TemporaryDirectory() as folder:

        def run(*command, limit=None):
            return subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=limit
            )

        answer = run("spin", "-a", *[f"-D{name}={value}" for name, value in macros.items()], model)
        if not os.path.isfile(os.path.join(folder, "pan.c")) or "Error" in answer.stdout:
            return "spin: " + answer.stdout + answer.stderr, 0, 0, 0.0, ""
        large = bool(os.environ.get("TMH_LONG"))
        flags = [
            "-O2" if large and "large" not in own else "-O0",
            "-w",
            "-DVECTORSZ=512",
            f"-DMEMLIM={6000 if large else 1500}",
        ]
        flags += ["-DNP"] if "cycles" in own else ["-DSAFETY", "-DNOFAIR"]
        flags += ["-DBITSTATE"] if "bits" in own else ["-DCOLLAPSE"]
        answer = run("cc", *flags, "-o", "pan", "pan.c")
        if answer.returncode != 0:
            return "cc: " + answer.stderr, 0, 0, 0.0, ""
        start = time.monotonic()
        arguments = (
            ["-n", "-m600000"]
            + (["-l"] if "cycles" in own else [])
            + (["-w33"] if "bits" in own else [])
        )
        out = run("./pan", *arguments).stdout
        seconds = time.monotonic() - start
        summary = re.search(r"depth reached (\d+), errors: (\d+)", out)
        states = re.search(r"([\d.e+]+) states, stored", out)
        error = re.search(r"^pan:1: (.*?) \(at depth", out, re.MULTILINE)
        if not summary or not states:
            return "pan: " + out[-500:], 0, 0, seconds, ""
        verdict = error[1] if error else f"{summary[2]} errors" if summary[2] != "0" else None
        if verdict is None and ("Search not completed" in out or "max search depth" in out):
            verdict = "the search was not completed"
        trail = os.path.basename(model) + ".trail"
        show_all = [] if "steps" in own else ["-n"]
        steps = run("./pan", "-r", trail, *show_all).stdout if show and error else ""
        return verdict, int(float(states[1])), int(summary[1]), seconds, steps


def table(rows):
    for row in rows:
        print(f"{row[0]:52s} {row[1]:>11s} {row[2]:>6s} {row[3]:>7s}  {row[4]}", flush=True)


def check(root, checks, long, search_one, script):
    """No configuration may have an error."""
    problems = 0
    table([("configuration", "states", "depth", "seconds", "errors")])
    with ThreadPoolExecutor(os.cpu_count() if not os.environ.get("TMH_LONG") else 1) as pool:
        chosen = checks + (long if os.environ.get("TMH_LONG") else [])
        results = pool.map(lambda one: search_one(root, one[1]), chosen)
        for (name, text), result in zip(chosen, results):
            verdict, states, depth, seconds, _ = result
            table([(name, f"{states:,}", str(depth), f"{seconds:.1f}", verdict or "0")])
            if verdict:
                problems += 1
                print(f"  to see its steps: tests/house/{script} --one \"{text}\" {root}")
    if long and not os.environ.get("TMH_LONG"):
        print(f"{len(long)} larger configurations only with TMH_LONG=1 (./check --long)")
    return problems


def name_of(verdict):
    if "up[" in verdict:
        return "S1 to S4"
    return "not serializable" if "e[" in verdict else verdict


def self_test(root, faults, search_one, name_of):
    """Every planted fault must be found."""
    problems = 0
    table([("planted fault", "states", "depth", "seconds", "found as")])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (number, name, _), result in zip(
            faults, pool.map(lambda one: search_one(root, one[2], one[0]), faults)
        ):
            verdict, states, depth, seconds, _ = result
            found = "" if verdict is None else name_of(verdict)
            table([(
                f"{number:2d} {name}",
                f"{states:,}",
                str(depth),
                f"{seconds:.1f}",
                found or "NOT FOUND",
            )])
            problems += not found or found.startswith(("spin:", "cc:", "pan:", "the search"))
    return problems


def run_tests(checks, long, faults, search_one, name_of, script):
    own_root = source_tree.OWN_ROOT
    missing = [tool for tool in ("spin", "cc") if shutil.which(tool) is None]
    if missing:
        print("SKIPPED: not installed: " + " and ".join(missing))
        return SKIPPED
    if sys.argv[1:2] == ["--self-test"]:
        return 1 if self_test(own_root, faults, search_one, name_of) else 0
    if sys.argv[1:2] == ["--one"]:
        text, _, plant = sys.argv[2].partition(" plant=")
        verdict, states, depth, _, steps = search_one(
            sys.argv[3] if len(sys.argv) > 3 else own_root, text, int(plant or 0), True
        )
        print(f"{steps}\n{states:,} states, depth {depth}, errors: {verdict or 0}")
        return 1 if verdict else 0
    root = sys.argv[1] if len(sys.argv) > 1 else own_root
    return 1 if check(root, checks, long, search_one, script) else 0


def main():
    return run_tests(CHECKS, LONG, FAULTS, search, name_of, "protocol.py")


if __name__ == "__main__":
    sys.exit(main())
