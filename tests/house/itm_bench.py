#!/usr/bin/env python3
"""itm_bench.py --bench PATH --libitm PATH --plots itm_plots.py PROGRAM... -- bench/itm takes
libraries and programs of others, refuses wrong ones, and fails when a program does.

--bench   build/<preset>/bench/itm
--libitm  our libitm.so.1
--plots   bench/itm_plots.py
PROGRAM   files itm_NAME, itm_NAME_mutex, itm_NAME_plain of examples/itm; the bench has a case of
          each NAME
"""
import argparse
import csv
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
# pylint: disable=wrong-import-position
from slowdown import HANG_S

SKIPPED = 77
TINY = ["--tiny", "--threads", "2"]
PAGES = ["pages", "pages-serializable"]  # where there is userfaultfd


class Test:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.problems = []
        self.programs = {os.path.basename(path): os.path.abspath(path)
                         for path in options.programs}
        self.set = self.programs["itm_hash_set"]

    def run(self, *arguments, **environment):
        return subprocess.run(
            [self.options.bench, "--dir", self.folder, *arguments],
            capture_output=True, text=True, check=False, env={**os.environ, **environment})

    def expect(self, what, answer, status, said="", where="stderr"):
        text = getattr(answer, where)
        if answer.returncode != status or said not in text:
            self.problems.append(f"{what}: exit status {answer.returncode}, not {status}; "
                                 f"{where} lacks {said!r}: {text[-500:]}{answer.stderr[-300:]}")

    def file(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def programs_file(self, *programs):
        return self.file("programs.json", json.dumps({"programs": programs}))

    def command(self, *more):
        return [self.set, "--threads", "{threads}", "--operations", "100", "--size", "64", *more]

    def outside(self, **more):
        return {"name": "outside", "command": self.command(),
                "rate": {"json": "operations_per_second"}, **more}


def refused_libraries(test):
    library = test.options.libitm
    for text, said in [
        ("x", "not NAME=PATH"),
        ("=" + library, "not NAME=PATH"),
        ("x=", "not NAME=PATH"),
        ("x=/no/such/file", "there is no file /no/such/file"),
        ("x=/no/such/file:ml_wt", "there is no file /no/such/file"),
        ("x=" + library + ":", "no method behind the colon"),
        ("x=" + test.folder, "there is no file"),
        ("x=" + test.file("text", "text of more than eighteen bytes\n"), "is no shared library"),
        ("lines=" + library, "the name lines is taken"),
    ]:
        test.expect(f"--libitm {text}", test.run("--libitm", text, "--tiny"), 2, said)
    twice = ["--libitm", f"x={library}", "--libitm", f"x={library}:serial"]
    test.expect("two of one name", test.run(*twice, "--tiny"), 2, "the name x is taken")


def refused_options(test):
    for arguments, said in [
        (["--only", "("], "no regular expression"),
        (["--only", "no-such-case"], "nothing matches"),
        (["--on", "["], "no regular expression"),
        (["--on", "no-such-library"], "nothing matches"),
    ]:
        test.expect(" ".join(arguments), test.run("--tiny", *arguments), 2, said)


def refused_files(test):
    answer = test.run("--programs", os.path.join(test.folder, "none.json"))
    test.expect("no file", answer, 2, "it cannot be read")
    for text, said in [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        ("[]", "it is no object"),
        ("{}", '"programs" is no list'),
        ('{"programs": []}', '"programs" is no list'),
        ('{"programs": {}}', '"programs" is no list'),
        ('{"programs": [], "more": 1}', 'has a key "more"'),
        ('{"programs": [1]}', "program 1: it is no object"),
    ]:
        answer = test.run("--programs", test.file("programs.json", text))
        test.expect(f"programs file {text!r}", answer, 2, said)
    plain_command = [test.set, "--threads", "2"]
    for change, said in [
        ({"name": None}, '"name" is missing'),
        ({"name": ""}, '"name" is no text'),
        ({"name": "ycsb/A"}, "the name is taken"),
        ({"command": None}, '"command" is missing'),
        ({"command": []}, '"command" is no list of texts'),
        ({"command": "text"}, '"command" is no list of texts'),
        ({"command": [1]}, '"command" is no list of texts'),
        ({"command": [""]}, "names no program"),
        ({"command": ["./none", "{threads}"]}, "none is no program"),
        ({"command": [test.folder + "/programs.json", "{threads}"]}, "is no program"),
        ({"command": test.command("{thread}")}, "there is no {thread}; there are {threads}"),
        ({"command": plain_command}, 'so "threads" must be a list of the one number'),
        ({"command": plain_command, "threads": [1, 2]}, "the one number"),
        ({"mutex": plain_command}, "the one number"),
        ({"plain": []}, '"plain" is no list of texts'),
        ({"folder": "none"}, "is no folder"),
        ({"threads": []}, '"threads" is no list of numbers'),
        ({"threads": [0]}, '"threads": 0 is no whole number'),
        ({"threads": ["2"]}, "is no whole number"),
        ({"rate": None}, '"rate" is missing'),
        ({"rate": "x"}, '"rate" is no object'),
        ({"rate": {}}, 'one of "json" and "regex"'),
        ({"rate": {"json": "a", "regex": "(b)"}}, 'one of "json" and "regex"'),
        ({"rate": {"regex": "("}}, "is no regular expression"),
        ({"rate": {"regex": "Time"}}, "has no group"),
        ({"rate": {"json": "a", "is": "minutes"}}, "minutes is neither rate nor seconds"),
        ({"rate": {"json": "a", "unit": "s"}}, 'has a key "unit"'),
        ({"check": "*"}, "is no regular expression"),
        ({"check": 1}, '"check" is no text'),
        ({"exit_code": 256}, '"exit_code": 256 is no whole number in 0 to 255'),
        ({"exit_code": -1}, "is no whole number"),
        ({"exit_code": True}, "is no whole number"),
        ({"colour": "red"}, 'has a key "colour"'),
    ]:
        program = {k: v for k, v in test.outside(**change).items() if v is not None}
        answer = test.run("--programs", test.programs_file(program))
        test.expect(f"a program with {change}", answer, 2, said)
        name = program.get("name", "")
        if name and f"program 1, {name}: " not in answer.stderr:
            test.problems.append(f"{change}: the message does not name the program")
    answer = test.run("--programs", test.programs_file(test.outside(), test.outside()))
    test.expect("two of one name", answer, 2, "program 2, outside: the name is taken")


def fails(test, change, said, seconds_max):
    """A program does not do as said: exit status 1, and the reason in the message and a row."""
    result = os.path.join(test.folder, "failed.json")
    answer = test.run("--programs", test.programs_file(test.outside(**change)), "--only",
                      "^outside$", "--on", "^lines$", "--seconds-max", seconds_max,
                      "--json", result, *TINY)
    test.expect(f"a program with {change}", answer, 1, "outside, 2 threads, lines: ")
    test.expect(f"a program with {change}", answer, 1, said)
    with open(result, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    if not any(said in row.get("failure", "") for row in rows):
        test.problems.append(f"{change}: no row has the failure: {rows}")


def failures(test):
    """Programs that do not do as said, one of them too late."""
    shell = ["/bin/sh", "-c"]
    for change, said in [
        ({"check": "no such words"}, "does not match the expression of its check"),
        ({"exit_code": 3}, "exit code 0"),
        ({"command": test.command("--no-such-option")}, "exit code 2: "),
        ({"command": shell + ["kill -SEGV $$; : {threads}"]}, "died of signal 11"),
        ({"command": shell + ["echo {threads}"]}, "it printed no JSON object"),
        ({"command": shell + ["echo '{\"operations_per_second\": {threads}}'"]},
         "it loaded no libitm.so.1"),
        ({"command": ["no-such-program", "{threads}"]}, "no-such-program: No such file"),
        ({"rate": {"json": "details"}}, "its field details is no number"),
        ({"rate": {"json": "details.no"}}, "has no field details.no"),
        ({"rate": {"regex": "no such words([0-9])"}}, "the expression of its rate"),
        ({"rate": {"regex": "program(.)"}}, "which is no number"),
        ({"rate": {"json": "details.inserted"}, "command": test.command("--updates", "0")},
         "its number is 0"),
    ]:
        fails(test, change, said, str(HANG_S))
    is_late(test, shell)
    answer = test.run("--only", "^hash_set/updates$", "--on", "^gcc ml_wt$", *TINY,
                      LD_PRELOAD=os.path.realpath(test.options.libitm))
    test.expect("another library by LD_PRELOAD", answer, 1, "it loaded ")


def is_late(test, shell):
    """A program, stopped, that has started another one: both end, and the bench says so."""
    stopped = os.path.join(test.folder, "stopped")
    waits = f"sh -c 'kill -STOP $$' & echo $! > {stopped}; kill -STOP $$; : {{threads}}"
    left = ""
    # On a slow machine it may be killed before it has started the other one.
    for seconds_max in ("0.5", "4", "32"):
        fails(test, {"command": shell + [waits]}, f"still ran after {seconds_max} s", seconds_max)
        if os.path.exists(stopped):
            with open(stopped, encoding="utf-8") as file:
                left = file.read().strip()
        if left:
            break
    if not left or not ends(left):
        test.problems.append(f"the process {left} that a late program started is still there")


def dies_with_the_bench(test):
    """A program, stopped, whose bench is killed."""
    fifo = os.path.join(test.folder, "fifo")
    os.mkfifo(fifo)
    command = ["/bin/sh", "-c", f"echo $$ > {fifo}; kill -STOP $$; : {{threads}}"]
    programs = test.programs_file(test.outside(command=command))
    with subprocess.Popen([test.options.bench, "--dir", test.folder, "--programs", programs,
                           "--only", "^outside$", *TINY], stdout=subprocess.DEVNULL) as bench:
        with open(fifo, encoding="utf-8") as file:
            child = file.read().strip()
        bench.kill()
    if not ends(child):
        test.problems.append("a program is still there although its bench was killed")


def ends(pid):
    """Waits until it has."""
    deadline = time.monotonic() + HANG_S
    while is_alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def what_it_writes(test):
    test.file("timed", '#!/bin/sh\n"$@" >/dev/null && echo "Time = 0.25 s"; exit 7\n', 0o755)
    programs = test.programs_file(
        test.outside(mutex=[test.set + "_mutex", *test.command()[1:]],
                     plain=[test.set + "_plain", *test.command()[1:]],
                     check='"check":"ok"'),
        {"name": "outside/timed", "command": ["./timed", *test.command()], "exit_code": 7,
         "rate": {"regex": "Time = ([0-9.]+)", "is": "seconds"}, "folder": ".", "threads": [2]})
    result, table = (os.path.join(test.folder, name) for name in ("result.json", "result.csv"))
    answer = test.run("--programs", programs, "--only", "^outside|scan|reservations/many",
                      "--libitm", f"other={test.options.libitm}:serial",
                      "--libitm", f"pages-other={test.options.libitm}",
                      "--json", result, "--csv", table, "--tiny")
    test.expect("programs of others", answer, 0, "geometric mean", "stdout")
    if answer.returncode != 0:
        return
    with open(result, encoding="utf-8") as file:
        whole = json.load(file)
    rows = whole["rows"]
    with open(table, newline="", encoding="utf-8") as file:
        if len(list(csv.DictReader(file))) != len(rows):
            test.problems.append("the CSV has other rows than the JSON")
    found = {(r["case"], r["threads"], r["contestant"]): r for r in rows if r["section"] == "rates"}
    pages = [each for each in PAGES if f"on {each}\n" in test.run("--list").stdout]
    ours = ["lines", "serial", "other", "pages-other"]
    libraries = ["gcc ml_wt", "gcc gl_wt", *ours, *pages]
    wanted = {("outside", t, c) for t in (1, 2) for c in [*libraries, "mutex"]}
    wanted |= {("outside", 1, "plain")} | {("outside/timed", 2, c) for c in libraries}
    has = {key for key in found if key[0].startswith("outside")}
    if has != wanted:
        test.problems.append(f"rows {sorted(has ^ wanted)} are missing or too many")
    for key, row in found.items():
        if key[0] == "outside/timed" and row["operations_per_s_median"] != 4:
            test.problems.append(f"{key}: 0.25 s are {row['operations_per_s_median']} per second")
        is_baseline = key[2] == "gcc ml_wt"
        if is_baseline and row["times_ml_wt"] != 1:
            test.problems.append(f"{key}: ml_wt is {row['times_ml_wt']} times itself")
        if ("counted_aborts_validation" in row) != (key[2] in ours) or (
                ("counted_conflicts" in row) != (key[2] in pages)):
            test.problems.append(f"{key}: aborts by cause are told by the wrong ones: {row}")
        if key[0].startswith("reservations") and row["attempts_per_transaction"] < 1:
            test.problems.append(f"{key}: {row['attempts_per_transaction']} attempts")
    has_long = {(r["threads"], r["contestant"]) for r in rows
                if r["section"] == "long" and r["long_per_s_median"] > 0}
    # The reservations have write skew.
    if has_long != {(t, c) for t in (1, 2) for c in [*libraries, "mutex"] if c != "pages"}:
        test.problems.append(f"long transactions of {has_long}")
    verdicts = [r["what"] for r in rows if r["section"] == "verdict"]
    for what in ("lines, times ml_wt, slowest case, threads: 1",
                 "lines, times ml_wt, slowest case, threads: 2",
                 "lines, times ml_wt, geometric mean, threads: 2",
                 "pages-other, long transactions, times ml_wt, threads: 2",
                 "pages-other, others beside long transactions, slowed, threads: 1"):
        if what not in verdicts:
            test.problems.append(f"no verdict about {what}")
    plots(test, result)


def plots(test, result):
    page = os.path.join(test.folder, "page.html")
    draw = [sys.executable, "-B", test.options.plots]
    answer = subprocess.run([*draw, result, page], capture_output=True, text=True, check=False)
    test.expect("plots", answer, 0, " plots", "stdout")
    with open(page, encoding="utf-8") as file:
        text = html.unescape(file.read())
    if "Operations per second, 2 threads" not in text or (
            "has no matplotlib" not in text and text.count("<svg") < 3):
        test.problems.append("the page of plots lacks some")
    for wrong in (os.path.join(test.folder, "none"), test.file("wrong.json", '{"bench": "line"}')):
        answer = subprocess.run([*draw, wrong, page], capture_output=True, text=True, check=False)
        test.expect(f"plots of {wrong}", answer, 2, "is no result of bench/itm")


def what_it_has(test):
    answer = test.run("--list")
    cases = set(re.findall(r"^case ([^/\n]+)", answer.stdout, re.MULTILINE))
    names = {re.sub("^itm_|_(mutex|plain)$", "", name) for name in test.programs}
    for name in sorted(names - cases):
        test.problems.append(f"examples/itm has {name}, of which the bench has no case")
    for each in ("gcc ml_wt", "gcc gl_wt", "lines", "serial", "mutex", "plain"):
        if f"on {each}\n" not in answer.stdout:
            test.problems.append(f"--list lacks {each}: {answer.stdout}{answer.stderr}")
    # Where a build has neither programs nor libraries.
    alone = os.path.join(test.folder, "nothing", "bench", "itm")
    os.makedirs(os.path.dirname(alone))
    shutil.copy(test.options.bench, alone)
    answer = subprocess.run([alone, "--tiny"], capture_output=True, text=True, check=False)
    test.expect("a build without -fgnu-tm", answer, SKIPPED, "[  SKIPPED ] ", "stdout")
    test.expect("a build without -fgnu-tm", answer, SKIPPED, "no program of examples/itm", "stdout")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--bench", "--libitm", "--plots"):
        parser.add_argument(name, required=True)
    parser.add_argument("programs", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        test = Test(options, folder)
        for check in (refused_libraries, refused_options, refused_files, failures,
                      dies_with_the_bench, what_it_writes, what_it_has):
            check(test)
    print("\n".join(test.problems) or "bench/itm: clean")
    return 1 if test.problems else 0


if __name__ == "__main__":
    sys.exit(main())
