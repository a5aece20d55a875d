#!/usr/bin/env python3
"""protocol.py [<root>] | --quick | --list | --part <name> | --self-test | --one "<configuration>"
| --logic -- spin checks hierarchy/exchange/protocol.pml.

<root>       every configuration below is searched exhaustively, without an error; TMH_LONG=1: the
             large ones too
--self-test  every fault that the model can plant (PLANT=n; PROTOCOL.md lists them) is found
--list       the names of the parts of these two, about PART_SECONDS each; --part <name> searches
             one. Each configuration and each fault is in one part. TMH_LONG=1: the large
             configurations are spread over the parts with checks
--quick      what the tables below mark as QUICK
--one        one configuration, and the steps of the error that it has, if any; " plant=<n>" behind
             it plants a fault
--logic      what this script does with answers of spin's, a compiler's and a search's

<root> may stand behind all of these: another tree than this script's. A part, and --quick, searches
on one processor; the two whole searches use all of them. A search ends when it has seen every
state, or, as a failure, when it needs more memory than MEMLIM: no time limit says how it ends. The
columns "MiB" and "seconds" are the largest process and the processor time, compilation included;
seconds in the tables below are such seconds, and parts are made of them.

A configuration: up to four processes, then options. "1 r01 w1 d a2": an instance of level 1 that
reads lines 0 and 1 and writes line 1, from the last line to the first (d), after process 2 has
ended (a2). "h" for the level: RTM; "x": RTM beside software lines. Options are the model's macros.
"cycles" searches for non-progress cycles instead of wrong states: the model says nowhere that it
progresses, so no cycle means that every run ends. "bits": bit state hashing, not exhaustive.
Without spin or a C compiler
the test is skipped.
"""

import contextlib
import io
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import source_tree

SKIPPED = 77
PART_SECONDS = 30
QUICK = "quick"
# Name, configuration, seconds; the quick mode searches what is marked.
CHECKS = [
    ("mix", "1 r01 w01, 2 r01 w01 d, 2 r01", 4.8),
    ("anti-dependency", "1 r0 w1, 1 r1 w0, 2 r01", 4.0),
    ("reader and writer", "1 r0 w1, 2 r0 w0, 2 r01", 2.8),
    ("idle residents", "1 w1, 2 w0, 2 r01 d | up0=8 up1=4", 2.3),
    ("page in between", "1 w01, 2 r01, 2 w0 | up0=4", 3.0),
    ("private page", "1 w1 a2, 2 w0, 2 r01", 1.2),
    ("kept snapshot", "1 w01, 1 r01 a1, 2 r01", 1.4),
    ("kept snapshot, pages", "1 r01 d, 2 w0, 2 w1 a2", 1.3),
    ("gives way", "1 r01 w01, 2 r01 w1 d, 2 r01 | yield tries=0", 11.0),
    ("gives way, death", "1 r01 w01, 2 r01 w01 d | yield deaths=1", 2.5),
    ("gives way, answered", "1 r01 w01, 2 r01 w01 d | yield deaths=1 cycles", 2.7, QUICK),
    ("gives way, escalates", "1 w01, 2 r01 w1 d | yield escalate=1 cycles", 3.3),
    ("copies", "1 r01 w01, 2 w01 d, 2 r01 | yield tries=0", 10.5),
    ("copies of a page in between", "1 w01, 2 r01, 2 w0 | up0=4 yield tries=0", 3.0),
    ("copies, death", "1 w01, 2 r0 w0, 2 r01 | yield deaths=1 tries=0", 13.5),
    ("ring reuse", "1 w0, 1 r0 w1 a1, 2 r012 d | nl=3 reuse", 1.6),
    ("two lines a page", "1 r02 w1, 2 r01 w2 d | nl=3", 1.5),
    ("hardware and pages", "h r01 w01, 2 r01 w1, 2 r01 | h0=1 h1=1", 1.9),
    ("hardware and lines", "h r01 w1, 1 r01 w0 | h0=1 h1=1", 1.6),
    ("hardware beside commits", "h w0 a2, 2 w1, 2 r01 d | h0=1", 1.4, QUICK),
    ("hardware finds pages", "h r0 w0, h r0 w0, 2 r0 | up0=8", 1.8),
    ("lines in RTM beside software", "x r01 w01, 1 r01 w01 d, 2 r01", 6.8),
    ("lines in RTM beside level 2", "x r0 w1, 2 r01 w0, 2 r01", 4.8),
    ("lines in RTM, two", "x r01 w1, x r01 w0, 2 r01", 3.0),
    ("lines in RTM, death", "x w01, 2 r01 w01 d | deaths=1", 4.6),
    ("lines in RTM, answered", "x r01 w1, 1 r01 w0 d | deaths=1 cycles", 3.5),
    ("hardware, death", "h r01 w01, 2 r01 w01 d | h0=1 deaths=1", 2.8),
    ("hardware, answered", "h r0 w01, 1 r01 w0 d | h0=1 deaths=1 cycles", 7.2),
    ("death", "1 w01, 2 r0, 1 r0 | deaths=1", 3.7),
    ("two deaths", "1 r01 w01, 2 r01 w01 d | deaths=2", 2.2),
    ("answered", "1 r01 w01, 2 r01 w01 d | deaths=2 cycles", 2.8),
    ("answered, escalates", "1 r01 w01, 2 r01 w01 d | deaths=1 escalate=1 cycles", 8.6),
]
LONG = [
    ("death, one that writes", "1 w01, 2 r0 w1, 1 r0 | deaths=1"),
    ("hardware, answered, both write all", "h r01 w01, 1 r01 w01 d | h0=1 h1=1 deaths=1 cycles"),
    ("gives way, death, escalates", "1 r01 w01, 2 r01 w01 d | yield deaths=1 escalate=1 cycles"),
    ("four, of which two follow", "2 w0, 2 r01 a1, 2 w0 a1, 1 r0 w1 | tries=0"),
    ("copies, ring by ring", "1 w1, 1 w1, 1 w0, 2 r01 | nl=3 yield tries=0"),
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
    ("lines in RTM, escalates", "x r01 w01, 2 r01 w1 d, 2 r01 | escalate=1"),
    ("escalating (bit states)", "1 r0 w1, 1 r1 w0, 2 r01 w0 | tries=0 escalate=1 bits"),
]
# The fault's number, what it is, a configuration that must show it, seconds.
FAULTS = [
    (1, "release does not look at pins", "1 w01, 2 r01, 2 w0 | up0=4", 1.2),
    (2, "recall does not wait for locked lines", "1 r01 w01, 2 r01 w01 d", 1.0),
    (3, "stamp after validation", "2 w0, 2 r01 a1, 2 w0 a1, 1 r0 w1 | tries=0", 1.3),
    (4, "no undo words", "1 w1 a2, 2 w0, 2 r01", 1.1, QUICK),
    (5, "unlock before write-back", "1 w01, 2 r01, 2 w0 | up0=4", 1.1),
    (6, "release looks before it tells", "1 w01, 2 r01, 2 w0 | up0=4", 1.3),
    (7, "recall leaves the line clock alone", "2 w0, 2 r01 a1, 2 w0 a1, 1 r0 w1 | tries=0", 1.0),
    (
        8,
        "release opens lines before the page word says L",
        "1 r01 w01, 2 r01 w01 d | up0=4",
        1.0,
        QUICK,
    ),
    (9, "recall reads versions before it marks", "1 w1, 2 w0, 2 r01 d | up0=8 up1=4", 1.1),
    (
        10,
        "extending does not follow the commit log",
        "1 w1, 2 w0, 2 r01 d | up0=8 up1=4",
        1.0,
        QUICK,
    ),
    (11, "recovery undoes a COMMITTED context", "1 r01 w01, 2 r01 w01 d | deaths=1", 1.8),
    (12, "nobody ends a dead mover's move", "1 r01 w01, 2 r01 w01 d | deaths=1 cycles", 1.9),
    (
        13,
        "a new line pin is none before it is stored",
        "1 w0, 1 r0 w1, 2 w2 a12, 2 r012 d | nl=3 reuse tries=0",
        2.5,
    ),
    (14, "RTM does not look at pins", "h w0 a2, 2 w1, 2 r01 d | h0=1", 1.6),
    (15, "a page leaves H for level 2 without the epoch", "h r0 w0, 2 r0 w0 | h0=1", 1.6),
    (16, "a page leaves H for level 1 without the epoch", "h r0 w0, 1 r0 w0 | h0=1", 1.5),
    (17, "pages are opened by their words, not by the moves", "h r0 w0, 2 r0 w0 | h0=1", 1.5),
    (18, "a page goes to H while a resident runs", "h r0 w0, 2 r01 w0 d, h r0 w0 | up0=8", 1.4),
    (19, "extending compares with the new snapshot", "1 r01, 1 w01", 1.3),
    (20, "giving way trusts a line that it has copied", "1 w01, 2 r01 w1 | yield", 1.4),
    (21, "a query that has copied moves its snapshot on", "1 w01, 2 r01 | yield", 1.4),
    (22, "a copy undoes more than it has", "1 w1, 1 w1, 1 w0, 2 r01 | nl=3 yield tries=0", 37.0),
    (23, "RTM does not look at words that it stores to", "x w01, 2 r01 w01 d", 2.6),
    (24, "RTM looks at pins before it begins", "x w1, 2 r1 w0, 2 r01, 1 r1 a2 | tries=0 up0=4",
     29.7),
    (25, "RTM draws its stamp before it begins", "x w01, 1 r01 d", 2.8),
]


def parse(text):
    """Configuration -> (macros of the model, words that are this script's)."""
    processes, _, options = text.partition("|")
    processes = [words.split() for words in processes.split(",")]
    processes += [["0"]] * (3 - len(processes))
    macros = {"PROCESSES": str(len(processes)), "ESCALATE": "0"}
    for number, words in enumerate(processes, 1):
        sets = {word[0]: sum(1 << int(digit) for digit in word[1:]) for word in words[1:]}
        in_rtm = {"h": ("3", "HARDWARE"), "x": ("4", "RTM_LINES")}
        macros[f"LEVEL{number}"], needs = in_rtm.get(words[0], (words[0], None))
        if needs:
            macros[needs] = "1"
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

class Row(NamedTuple):
    model: str
    plant: int
    name: str
    text: str
    seconds: float = 0
    mark: str = ""


class Answer(NamedTuple):
    """What a search has found: the first error or None; the steps of the error are what the model
    prints, or, if "steps" is asked for, all of them."""

    verdict: str | None
    states: int = 0
    depth: int = 0
    mib: int = 0
    seconds: float = 0
    steps: str = ""


class Model:
    """Its configurations, the large ones, and its faults; `kinds`: properties of which the quick
    configurations have to meet each; `quick_min`: at least so many of them, and faults."""

    def __init__(self, name, checks, faults, long=(), kinds=(), quick_min=(2, 3)):
        self.name = name
        self.checks = [Row(name, 0, *row) for row in checks]
        self.faults = [Row(name, *row) for row in faults]
        self.long = [Row(name, 0, *row) for row in long]
        self.kinds = kinds
        self.quick_min = quick_min

    def quick(self):
        return [row for row in self.checks + self.faults if row.mark == QUICK]


class Part(NamedTuple):
    name: str
    rows: list
    long: list


def parts_of_rows(name, rows, long=()):
    """The longest first, each to the part that has least: parts of about the same cost. Costs of
    `long` are not known: they go round."""
    count = max(1, math.ceil(sum(row.seconds for row in rows) / PART_SECONDS))
    parts = [Part(f"{name}.{i}", [], list(long[i - 1 :: count])) for i in range(1, count + 1)]
    for row in sorted(rows, key=lambda row: -row.seconds):
        least = min(parts, key=lambda part: sum(row.seconds for row in part.rows))
        least.rows.append(row)
    return parts


def parts_of(models):
    parts = []
    for model in models:
        parts += parts_of_rows(f"{model.name}.checks", model.checks, model.long)
        parts += parts_of_rows(f"{model.name}.faults", model.faults)
    return parts


KINDS = {
    "safety": lambda text: "cycles" not in text,
    "waiters go on": lambda text: "cycles" in text,
    "deaths": lambda text: "deaths=" in text,
    "hardware": lambda text: re.search(r"\b(h|hardware|closes)\b", text) is not None,
}


def wrong_in_tables(models, parts):
    """Sentences about rows that are in no part or in two, and about what the quick set lacks."""
    wrong = []
    for model in models:
        for row in model.checks + model.faults + model.long:
            times = sum(one is row for part in parts for one in part.rows + part.long)
            if times != 1:
                wrong.append(f"{model.name}, {row.name}: in {times} parts instead of 1")
        for row in model.checks + model.faults:
            if row.seconds <= 0 or row.mark not in ("", QUICK):
                wrong.append(f"{model.name}, {row.name}: seconds above 0, then QUICK or nothing")
        checks = [row for row in model.quick() if not row.plant]
        faults = [row for row in model.quick() if row.plant]
        if len(checks) < model.quick_min[0] or len(faults) < model.quick_min[1]:
            wrong.append(
                f"{model.name}: {model.quick_min[0]} configurations and {model.quick_min[1]} faults"
                f" have to be QUICK, {len(checks)} and {len(faults)} are"
            )
        for kind in model.kinds:
            if not any(KINDS[kind](row.text) for row in checks):
                wrong.append(f"{model.name}: no configuration with {kind} is QUICK")
    return wrong


def run(folder, *command):
    """(exit status, what it said, MiB, seconds of processor time)"""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        seconds = used.ru_utime + used.ru_stime
        return process.returncode, said.read(), used.ru_maxrss // 1024, seconds


def is_long():
    return bool(os.environ.get("TMH_LONG"))


def answer_of(status, out):
    """What a verifier says."""
    summary = re.search(r"depth reached (\d+), errors: (\d+)", out)
    states = re.search(r"([\d.e+]+) states, stored", out)
    error = re.search(r"^pan:1: (.*?) \(at depth", out, re.MULTILINE)
    if not summary or not states:
        return Answer(f"pan: status {status}: {out[-500:]}")
    verdict = error[1] if error else f"{summary[2]} errors" if summary[2] != "0" else None
    if verdict is None and ("Search not completed" in out or "max search depth" in out):
        verdict = "the search was not completed"
    return Answer(verdict, int(float(states[1])), int(summary[1]))


def options_of(text):
    """(macros, words that are search_model()'s)."""
    macros, own = {}, {"steps", "large"}
    for word in text.split():
        name, _, value = word.partition("=")
        if name == "cycles":
            own.add(name)
        else:
            macros[name.upper()] = value or "1"
    return macros, own


def search_model(model, macros, own, show=False):
    """`own`: "cycles" and "bits" as above; "steps": see Answer; "large": a compiler needs minutes
    to optimise the model."""
    model = os.path.abspath(model)
    with tempfile.TemporaryDirectory() as folder:
        definitions = [f"-D{name}={value}" for name, value in macros.items()]
        status, said, _, seconds = run(folder, "spin", "-a", *definitions, model)
        if status != 0 or not os.path.isfile(os.path.join(folder, "pan.c")) or "Error" in said:
            return Answer(f"spin: status {status}: {said}")
        flags = [
            "-O2" if is_long() and "large" not in own else "-O0",
            "-w",
            "-DVECTORSZ=512",
            f"-DMEMLIM={6000 if is_long() else 1500}",
        ]
        flags += ["-DNP"] if "cycles" in own else ["-DSAFETY", "-DNOFAIR"]
        flags += ["-DBITSTATE"] if "bits" in own else ["-DCOLLAPSE"]
        status, said, mib, more = run(folder, "cc", *flags, "-o", "pan", "pan.c")
        seconds += more
        if status != 0:
            return Answer(f"cc: status {status}: {said}", 0, 0, mib, seconds)
        # A small table and a short stack: touching 160 MB costs more than most searches.
        size = "-w33" if "bits" in own else "-w26" if is_long() else "-w22"
        arguments = ["-n", "-m600000" if is_long() else "-m100000", size]
        arguments += ["-l"] if "cycles" in own else []
        status, out, most, more = run(folder, "./pan", *arguments)
        answer = answer_of(status, out)
        steps = ""
        if show and answer.verdict:
            trail = os.path.basename(model) + ".trail"
            steps = run(folder, "./pan", "-r", trail, *([] if "steps" in own else ["-n"]))[1]
        return answer._replace(mib=max(mib, most), seconds=seconds + more, steps=steps)


def print_row(name, states, depth, mib, seconds, verdict):
    print(f"{name:72s} {states:>11s} {depth:>6s} {mib:>5s} {seconds:>7s}  {verdict}", flush=True)


def name_of(verdict):
    if "up[" in verdict:
        return "S1 to S4"
    return "not serializable" if "e[" in verdict else verdict


def is_found(verdict):
    """Is it an error of the model?"""
    return verdict is not None and not verdict.startswith(("spin:", "cc:", "pan:", "the search"))


class Script:
    """What a script of searches does; `search`: (root, configuration, fault, show) -> Answer."""

    def __init__(self, name, models, search, name_of):
        self.name = name
        self.models = models
        self.search = search
        self.name_of = name_of

    def run_rows(self, root, rows, workers=1):
        """A configuration has no error, and a planted fault has one. Returns the number of those
        of which this is not true."""
        problems = 0
        print_row("configuration or fault", "states", "depth", "MiB", "seconds", "found")
        with ThreadPoolExecutor(workers) as pool:
            answers = pool.map(lambda row: self.search(root, row.text, row.plant), rows)
            for row, answer in zip(rows, answers):
                verdict = answer.verdict
                is_wrong = not is_found(verdict) if row.plant else verdict is not None
                said = self.name_of(verdict) if is_found(verdict) and row.plant else verdict
                print_row(
                    f"{row.model}: " + (f"fault {row.plant}: " if row.plant else "") + row.name,
                    f"{answer.states:,}",
                    str(answer.depth),
                    str(answer.mib),
                    f"{answer.seconds:.1f}",
                    said or ("NOT FOUND" if row.plant else "-"),
                )
                if is_wrong:
                    problems += 1
                    plant = f" plant={row.plant}" if row.plant else ""
                    print(f'  to see it: tests/house/{self.name} --one "{row.text}{plant}" {root}')
        return problems

    def check(self, root):
        long = [row for model in self.models for row in model.long]
        rows = [row for model in self.models for row in model.checks]
        # A large one may need all memory that there is.
        workers = 1 if is_long() else os.cpu_count()
        problems = self.run_rows(root, rows + (long if is_long() else []), workers)
        self.say_what_is_long(long)
        return problems

    def say_what_is_long(self, long):
        if long and not is_long():
            print(f"{len(long)} larger configurations only with TMH_LONG=1 (./check --long)")

    def self_test(self, root):
        faults = [row for model in self.models for row in model.faults]
        return self.run_rows(root, faults, os.cpu_count())

    def part(self, root, name):
        parts = {part.name: part for part in parts_of(self.models)}
        if name not in parts:
            print(f"There is no part {name}; --list names those that are.")
            return 1
        problems = self.run_rows(root, parts[name].rows + (parts[name].long if is_long() else []))
        self.say_what_is_long(parts[name].long)
        return problems

    def list_parts(self):
        """The names are for a build system to read: what is wrong goes to stderr."""
        parts = parts_of(self.models)
        wrong = wrong_in_tables(self.models, parts)
        for sentence in wrong:
            print(f"{self.name}: {sentence}", file=sys.stderr)
        for part in parts:
            print(part.name)
        return len(wrong)

    def quick(self, root):
        wrong = wrong_in_tables(self.models, parts_of(self.models))
        for sentence in wrong:
            print(sentence)
        problems = self.run_rows(root, [row for model in self.models for row in model.quick()])
        counts = [
            f"{sum(row.mark != QUICK for row in rows)} of {len(rows)} {kind}"
            for kind, rows in (
                ("configurations", [row for model in self.models for row in model.checks]),
                ("faults", [row for model in self.models for row in model.faults]),
            )
        ]
        long = sum(len(model.long) for model in self.models)
        print(
            f"Left to the whole search (./check --full): {counts[0]}, {counts[1]};"
            f" to ./check --long: {long} larger configurations"
        )
        return len(wrong) + problems

    def one(self, root, text):
        text, _, plant = text.partition(" plant=")
        answer = self.search(root, text, int(plant or 0), True)
        print(answer.steps)
        print(
            f"{answer.states:,} states, depth {answer.depth}, {answer.mib} MiB,"
            f" {answer.seconds:.1f} s, errors: {answer.verdict or 0}"
        )
        return answer.verdict is not None

    def main(self, arguments):
        mode = arguments[0] if arguments and arguments[0].startswith("--") else None
        values = list(arguments[1:] if mode else arguments)
        value = values.pop(0) if mode in ("--one", "--part") and values else None
        root = values[0] if values else source_tree.OWN_ROOT
        if mode == "--list":
            return 1 if self.list_parts() else 0
        if mode == "--logic":
            return 1 if test_logic() else 0
        missing = [tool for tool in ("spin", "cc") if shutil.which(tool) is None]
        if missing:
            print("SKIPPED: not installed: " + " and ".join(missing))
            return SKIPPED
        if mode in ("--one", "--part") and value is not None:
            problems = (self.one if mode == "--one" else self.part)(root, value)
        elif mode in (None, "--quick", "--self-test"):
            problems = {None: self.check, "--quick": self.quick, "--self-test": self.self_test}[
                mode
            ](root)
        else:
            print(f"{self.name}: {' '.join(arguments)}: see the top of this script")
            return 2
        return 1 if problems else 0


def planted_tables():
    """[(what is wrong, what is to be said about it, models, parts)]"""
    checks = [("a", "1 r0", 20, QUICK), ("b", "h r0 | deaths=1 cycles", 20, QUICK), ("c", "2", 20)]
    faults = [(n, f"f{n}", "1 r0", 10, QUICK if n < 4 else "") for n in range(1, 6)]
    good = Model("m", checks, faults, [("l", "1 w0")], KINDS)
    parts = parts_of([good])

    def quick_but(place):
        return [row[:3] if i == place else row for i, row in enumerate(checks)]

    few = [row if row[0] > 1 else row[:4] for row in faults]
    dear = [row[:2] + (0,) + row[3:] for row in checks]
    lost = [part._replace(rows=part.rows[1:]) for part in parts]
    no_long = [part._replace(long=[]) for part in parts]
    plain = [("a", "1 r0", 9, QUICK), ("b", "1 r1", 9, QUICK)]
    made = [
        ("nothing", None, [good], parts),
        ("rows in no part", "in 0 parts", [good], lost),
        ("large rows in no part", "m, l: in 0 parts", [good], no_long),
        ("a part twice", "in 2 parts", [good], parts + parts[:1]),
    ]
    for what, said, model in (
        ("one quick configuration", "1 and 3 are", Model("m", quick_but(0), faults)),
        ("two quick faults", "2 and 2 are", Model("m", checks, few)),
        ("rows without costs", "a: seconds above 0", Model("m", dear, faults)),
        ("a mark that is none", "d: seconds", Model("m", [*checks, ("d", "2", 1, "q")], faults)),
        ("no cycles", "with waiters go on", Model("m", plain, faults, kinds=KINDS)),
        ("no deaths", "with deaths", Model("m", plain, faults, kinds=KINDS)),
        ("no hardware", "with hardware", Model("m", plain, faults, kinds=KINDS)),
    ):
        made.append((what, said, [model], parts_of([model])))
    return made


PAN = """{0}
State-vector 208 byte, depth reached 439, errors: {1}
   715076 states, stored
"""


def test_logic():
    """Answers that are planted, and tables: each is to be noticed. No search runs."""
    failures = []

    def expect(what, is_so):
        print(f"{'ok' if is_so else 'NOT NOTICED'}: {what}")
        if not is_so:
            failures.append(what)

    for what, said, models, parts in planted_tables():
        wrong = wrong_in_tables(models, parts)
        is_noticed = not wrong if said is None else any(said in sentence for sentence in wrong)
        expect(f"tables: {what} is wrong", is_noticed)

    # What a verifier says.
    cut_off = "the search was not completed"
    for what, out, verdict in (
        ("no error", PAN.format("", 0), None),
        ("an error", PAN.format("pan:1: deadlock (at depth 9)", 1), "deadlock"),
        ("an error without a sentence", PAN.format("", 2), "2 errors"),
        ("no memory", PAN.format("Warning: Search not completed", 0), cut_off),
        ("no stack", PAN.format("error: max search depth too small", 0), cut_off),
        ("killed", "State-vector 208 byte", "pan: status 0: State-vector 208 byte"),
    ):
        expect(f"a search: {what}", answer_of(0, out).verdict == verdict)

    # What the modes make of answers.
    error, clean = Answer("assertion violated x"), Answer(None)

    def status_of(arguments, of_checks, of_faults, broken="nothing"):
        [models] = [one[2] for one in planted_tables() if one[0] == broken]
        script = Script(
            "x.py", models, lambda root, text, plant: of_faults if plant else of_checks, name_of
        )
        mode, *values = arguments
        with contextlib.redirect_stdout(io.StringIO()):
            return bool(getattr(script, mode)("root", *values))

    for mode in (["quick"], ["check"], ["part", "m.checks.1"], ["part", "m.checks.2"]):
        expect(f"{mode[-1]}: all is well", not status_of(mode, clean, error))
        for said in ("assertion violated x", cut_off, "cc: x", "pan: x"):
            expect(f"{mode[-1]}: a check says {said}", status_of(mode, Answer(said), error))
    for mode in (["quick"], ["self_test"], ["part", "m.faults.1"], ["part", "m.faults.2"]):
        expect(f"{mode[-1]}: all faults are found", not status_of(mode, clean, error))
        expect(f"{mode[-1]}: a fault is not found", status_of(mode, clean, clean))
        for said in (cut_off, "spin: x", "cc: x", "pan: x"):
            is_noticed = status_of(mode, clean, Answer(said))
            expect(f"{mode[-1]}: a fault's search says {said}", is_noticed)
    expect("quick: a table with two faults", status_of(["quick"], clean, error, "two quick faults"))
    expect("a part that is none", status_of(["part", "m.checks.9"], clean, error))
    print(f"{len(failures)} of these were not noticed")
    return len(failures)


def main():
    models = [Model("protocol", CHECKS, FAULTS, LONG, KINDS)]
    return Script("protocol.py", models, search, name_of).main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
