#!/usr/bin/env python3
"""commands.py <root> -- ./demo, ./check and .ci/run around stand-ins for cmake and ctest.

What they configure, in any order, and what their last lines say. The stand-ins write down how they
are called; ctest leaves the results that the case wants.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from xml.sax.saxutils import escape, quoteattr

LINES_MAX = 15

CMAKE = r"""#!/bin/sh
echo "cmake $*" >> "$CALLS"
[ "$1" = --preset ] || exit 0
if [ -e "$ROOT/package-is-missing" ]; then rm "$ROOT/package-is-missing"; exit 1; fi
mkdir -p "$ROOT/build/$2"
printf 'CMAKE_HOME_DIRECTORY:INTERNAL=%s\nCMAKE_GENERATOR:INTERNAL=Ninja\n' "$ROOT" \
  > "$ROOT/build/$2/CMakeCache.txt"
printf '#!/bin/sh\necho the demo "$@"\n' > "$ROOT/build/$2/tmh_inverted_index"
chmod +x "$ROOT/build/$2/tmh_inverted_index"
"""
CTEST = r"""#!/bin/sh
echo "ctest $*" >> "$CALLS"
echo "   Start   1: a.test"
if [ -e "$ROOT/results.xml" ]; then cp "$ROOT/results.xml" results.xml; fi
cat "$ROOT/ctest-says"
[ ! -e "$ROOT/ctest-fails" ]
"""


class Scratch:
    """A copy of the scripts; the stand-ins come first in PATH."""

    def __init__(self, root, folder):
        self.root = os.path.realpath(folder)
        for name in ("demo", "check", ".ci", "cmake"):
            source, target = os.path.join(root, name), os.path.join(self.root, name)
            (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, target)
        os.makedirs(os.path.join(self.root, "tools"))
        for name, text in (("cmake", CMAKE), ("ctest", CTEST)):
            self.write("tools/" + name, text)
            os.chmod(os.path.join(self.root, "tools", name), 0o755)
        self.write("ctest-says", "")

    def write(self, name, text):
        with open(os.path.join(self.root, name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.root, name), encoding="utf-8") as file:
            return file.read()

    def run(self, *command):
        """(exit status, lines printed, calls of the stand-ins)"""
        self.write("calls", "")
        path = os.path.join(self.root, "tools") + ":" + os.environ["PATH"]
        environment = {**os.environ, "PATH": path, "TMH_NO_INSTALL": "1", "ROOT": self.root,
                       "TMH_TEST_SLOWDOWN": "2", "CALLS": os.path.join(self.root, "calls")}
        answer = subprocess.run([os.path.join(self.root, command[0]), *command[1:]],
                                env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, check=False)
        return answer.returncode, answer.stdout.splitlines(), self.read("calls").splitlines()

    def results(self, passed, failed=(), skipped=()):
        """Names of failed tests; (name, reason) of skipped ones."""
        cases = [f'<testcase name="t.{n}" status="run" time="0.5"/>' for n in range(passed)]
        cases += [f'<testcase name={quoteattr(name)} status="fail" time="1">'
                  '<failure message="Failed"/></testcase>' for name in failed]
        cases += [f'<testcase name={quoteattr(name)} status="notrun" time="0"><system-out>'
                  f'SKIPPED: {escape(reason)}\n</system-out></testcase>'
                  for name, reason in skipped]
        self.write("results.xml", f'<?xml version="1.0"?><suite>{"".join(cases)}</suite>')


def configured(scratch, name, fresh, parts):
    """Runs ./demo or ./check; what it configures otherwise. parts: ON, OFF; None: as is."""
    status, lines, calls = scratch.run(name)
    call = next((call for call in calls if call.startswith("cmake --preset release")), "")
    said = re.findall(r"-DTMH_BUILD_TESTS=(\w+)", call)
    if status != 0 or said != ([parts] if parts else []) or ("--fresh" in call) != fresh:
        wanted = f"{'--fresh' if fresh else 'an old folder'}, tests {parts or 'as they are'}"
        return [f"{name}: exit status {status}, {call!r}; wanted: {wanted}; {lines}"]
    return [] if name == "check" or lines[-1] == "the demo" else [f"demo: printed {lines}"]


def orders(root):
    sequences = [
        [("demo", True, "OFF"), ("demo", False, None), ("check", False, "ON"),
         ("demo", False, None), ("check", False, "ON")],
        [("check", True, "ON"), ("demo", False, None), ("check", False, "ON")],
    ]
    problems = []
    for sequence in sequences:
        with tempfile.TemporaryDirectory(prefix="tmh-commands-") as folder:
            scratch = Scratch(root, folder)
            scratch.results(1)
            for name, fresh, parts in sequence:
                problems += configured(scratch, name, fresh, parts)
    foreign = ["CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\nCMAKE_GENERATOR:INTERNAL=Ninja\n",
               "CMAKE_HOME_DIRECTORY:INTERNAL={}\nCMAKE_GENERATOR:INTERNAL=Unix Makefiles\n"]
    for cache in foreign:
        for name, parts in (("demo", "OFF"), ("check", "ON")):
            with tempfile.TemporaryDirectory(prefix="tmh-commands-") as folder:
                scratch = Scratch(root, folder)
                scratch.results(1)
                os.makedirs(os.path.join(scratch.root, "build/release"))
                scratch.write("build/release/CMakeCache.txt", cache.format(scratch.root))
                problems += configured(scratch, name, True, parts)
    with tempfile.TemporaryDirectory(prefix="tmh-commands-") as folder:
        scratch = Scratch(root, folder)
        scratch.write("package-is-missing", "")
        if scratch.run("demo")[0] == 0:
            problems.append("demo: a fresh folder that cannot be configured is no error")
        problems += configured(scratch, "demo", True, "OFF")
        scratch.write("package-is-missing", "")
        status, lines, calls = scratch.run("demo", "--tiny")
        if status != 0 or len(calls) != 3 or lines[-1] != "the demo --tiny":
            problems.append(f"demo, an old folder wants a new package: {status} {lines} {calls}")
    return problems


def summary(root, folder):
    scratch = Scratch(root, folder)
    problems = []

    def expect(what, holds, *details):
        if not holds:
            problems.append(": ".join([what, *map(str, details)]))

    names = ["a.Of/Each.Kind/0", "b.Brackets[1]", "c.Plus+", "c.Plus++", "d.(x)|y", "e.$^*?"]
    skips = [(f"skipped.{n}", f"reason <{n % 40}> " + "long " * n) for n in range(391)]
    said = "1/9 Test #1: a.test ....***Failed    0.50 sec\nwhat the test says\n\n"
    not_run = "The following tests did not run:\n" + "\tx - y (Skipped)\n" * 391 + "\n"
    scratch.write("ctest-says", said + "99% tests passed, 7 tests failed out of 9\n" + not_run)
    for failed in (names, names + [f"many.{n}" for n in range(400)]):
        scratch.results(5, failed, skips)
        scratch.write("ctest-fails", "")
        status, lines, _ = scratch.run("check")
        state = [i for i, line in enumerate(lines) if re.match(r"tests: \d+ of ", line)][-1]
        last = lines[state + 1:]
        expect("the state of tests", re.fullmatch(r"tests: 1 of 9, 1 failed, \d+ s", lines[state]),
               lines[state])
        expect("what a failing test says is shown", "what the test says" in lines[:state], lines)
        expect("exit status of failures", status not in (0, None), status)
        expect("lines", len(last) <= LINES_MAX and max(map(len, last)) <= 200, len(last), last)
        expect("ctest's list of skips stays", not any("y (Skipped)" in line for line in lines))
        expect("counts", last[-1].startswith(f"check release quick: 5 passed, {len(failed)} "
                                             "failed, 391 SKIPPED ("), last[-1])
        counts = [int(line.split()[1].rstrip(":")) for line in last
                  if re.match(r"SKIPPED +\d+:", line)]
        expect("sum of skips by reason", sum(counts) == 391, last)
        expect("most frequent first", counts[:-1] == sorted(counts[:-1], reverse=True), counts)
        by_name = scratch.read("build/release/skipped.txt").splitlines()
        expect("all skips in the file", len(by_name) == 391, len(by_name))
        expect("the file's path", any(line.endswith("build/release/skipped.txt") for line in last))
        commands = scratch.read("build/release/failed.txt").splitlines()
        expect("a line for each failure", len(commands) == len(failed), len(commands))
        for name, command in zip(failed, commands):
            pattern = re.search(r": \./check -R '(.*)'$", command).group(1)
            found = [other for other in failed if re.search(pattern, other)]
            expect("the command runs this test alone", found == [name], command, found)
        shown = [line for line in last if line.startswith("FAILED") and line in commands]
        expect("failures are shown", len(shown) == min(len(failed), 7), last)
        status, lines, _ = scratch.run(".ci/run", "--tsan")
        tail = lines[lines.index("=== summary") + 1:]
        expect(".ci/run", status != 0 and len(tail) <= LINES_MAX + 1, status, tail)
        expect(".ci/run: the state", tail[0].startswith("tests: 1 of 9, 1 failed, "), tail[0])
        expect(".ci/run: counts last", tail[-1].startswith("check tsan quick: 5 passed, "),
               tail[-1])
        expect("the flag", any(f"./check --tsan -R '^{names[0]}$'" in line for line in tail), tail)
        os.remove(os.path.join(scratch.root, "ctest-fails"))

    scratch.write("ctest-says", "1/1 Test #1: a.test ....   Passed    0.50 sec\n")
    scratch.results(3)
    status, lines, calls = scratch.run(".ci/run")
    tail = lines[lines.index("=== summary") + 1:]
    expect("all pass", status == 0 and len(tail) == 6, status, tail)
    expect("counts of all", [line.split(" (")[0] for line in tail[1::2]]
           == [f"check {what}: 3 passed, 0 failed, 0 SKIPPED"
               for what in ("release quick", "release full", "clang full")], tail)
    full = [call for call in calls if call.startswith("ctest")][1]
    expect("the quick tier runs once", "-LE ^quick$" in full, full)
    old = os.path.join(scratch.root, "build/release/failed.txt")
    expect("old failures", not os.path.exists(old))

    os.remove(os.path.join(scratch.root, "results.xml"))
    status, lines, _ = scratch.run("check")
    expect("an older run's results", status == 1 and "no test ran" in lines[-1], status, lines)
    scratch.results(0, (), [("s.1", "why")])
    status, lines, _ = scratch.run("check")
    expect("nothing but skips", status == 1 and "0 passed" in lines[-1], status, lines)
    return problems


def main():
    root = sys.argv[1]
    problems = orders(root)
    with tempfile.TemporaryDirectory(prefix="tmh-commands-") as folder:
        problems += summary(root, folder)
    print("\n".join(problems) or "commands: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
