#!/usr/bin/env python3
"""test_costs.py BUILD [--build-log | --tests [REGEX] | --order] -- measures what tests/costs.txt
says.

--build-log  what each target of the quick tier takes to compile, from BUILD/.ninja_log. REQUIRES:
             BUILD was empty when `ninja quick` began, on a machine that did nothing else and has
             the processors of this one.
--tests      what the tests of the quick tier take (or those that REGEX names), each run alone.
--order      which tests take long, from BUILD/results.xml, the last run of ./check --full: ctest
             starts these first.

tests/costs.txt has lines of three kinds. "build <seconds> <sources> <target>": processor seconds,
and how many sources the target had then. "test <seconds> <tests> <name>": processor seconds of all
tests of one file (its stem), or of one test that is not GoogleTest's. "long <seconds> <name>": a
test of 2 s and more. tests/house/tiers.py adds them up.
"""

import collections
import json
import os
import re
import resource
import subprocess
import sys
import xml.etree.ElementTree as xml

SECONDS_MIN = 2.0
COSTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "costs.txt")
HEAD = """\
# Written by cmake/test_costs.py, which says what the lines mean. Measured on {machine}.
"""
Build = collections.namedtuple("Build", "seconds sources")
Tests = collections.namedtuple("Tests", "seconds tests")


def read(path=COSTS):
    """{kind: {name: value}}: build and test (Build, Tests), long (seconds); the first line."""
    costs = {"build": {}, "test": {}, "long": {}}
    head = ""
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if line.startswith("#"):
                head += line
            elif words and words[0] == "long":
                costs["long"][words[2]] = float(words[1])
            elif words:
                kind = Build if words[0] == "build" else Tests
                costs[words[0]][words[3]] = kind(float(words[1]), int(words[2]))
    return costs, head


def read_longest(path=COSTS):
    """{name of a test: seconds}"""
    return read(path)[0]["long"]


def write(costs, head):
    lines = []
    for kind in ("build", "test"):
        for name, (seconds, count) in sorted(costs[kind].items(), key=lambda item: -item[1][0]):
            lines.append(f"{kind} {seconds:.1f} {count} {name}\n")
    for name, seconds in sorted(costs["long"].items(), key=lambda item: (-item[1], item[0])):
        lines.append(f"long {seconds:.0f} {name}\n")
    with open(COSTS, "w", encoding="utf-8") as file:
        file.write(head + "".join(lines))


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = re.findall(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
    return f"{len(names)} x {names[0] if names else 'an unknown processor'}"


def sources_of(build):
    """{target: how many sources it has}, what the build knows of its tiers (cmake/tiers.cmake)."""
    with open(os.path.join(build, "quick_sources.txt"), encoding="utf-8") as file:
        lines = [line.rstrip("\n").partition(" ") for line in file]
    return {
        target: sum(not source.startswith("$") for source in sources.split(";"))
        for target, _, sources in lines
    }


def build_costs(build):
    """{target: Build} of what the log says was built. What is linked counts as one target. Steps
    are timed by the clock, and run more at a time than there are processors: their sum is scaled to
    what the processors had in all."""
    seconds = collections.Counter()
    with open(os.path.join(build, ".ninja_log"), encoding="utf-8") as file:
        steps = {line.split("\t")[3]: line.split("\t") for line in file if not line.startswith("#")}
    for output, words in steps.items():
        found = re.match(r"CMakeFiles/([^/]+)\.dir/", output)
        seconds[found[1] if found else "links"] += (int(words[1]) - int(words[0])) / 1000
    passed = max(int(words[1]) for words in steps.values()) / 1000
    scale = min(1.0, passed * os.cpu_count() / sum(seconds.values()))
    sources = sources_of(build)
    return {name: Build(spent * scale, sources.get(name, 0)) for name, spent in seconds.items()}


def tests_of(build, *arguments):
    """What ctest would run: [(name, command, properties)]"""
    listed = subprocess.run(
        ["ctest", "--show-only=json-v1", *arguments],
        cwd=build, check=True, stdout=subprocess.PIPE, text=True,
    )
    return [
        (test["name"], test["command"], {each["name"]: each["value"] for each in
                                         test.get("properties", [])})
        for test in json.loads(listed.stdout)["tests"]
        if "command" in test
    ]


def cost_name(name, command):
    """GoogleTest's tests are counted by file."""
    is_gtest = any(word.startswith("--gtest_filter=") for word in command)
    return name.partition(".")[0] if is_gtest else name


def measure(command, properties):
    """Processor seconds of one test, its descendants' too."""
    environment = dict(os.environ)
    for pair in properties.get("ENVIRONMENT", []):
        name, _, value = pair.partition("=")
        environment[name] = value
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, cwd=properties.get("WORKING_DIRECTORY"), env=environment, check=False,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return done.returncode, spent


def test_costs(build, pattern, report=print):
    seconds, counts = collections.Counter(), collections.Counter()
    for name, command, properties in tests_of(build, "-L", "^quick$", "-R", pattern):
        status, spent = measure(command, properties)
        if status not in (0, 77):
            report(f"{name} ends with status {status}")
        seconds[cost_name(name, command)] += spent
        counts[cost_name(name, command)] += 1
    return {name: Tests(seconds[name], counts[name]) for name in seconds}


def longest_of(results):
    cases = [
        (float(case.get("time") or 0), case.get("name"))
        for case in xml.parse(results).getroot().iter("testcase")
    ]
    return {name: seconds for seconds, name in cases if seconds >= SECONDS_MIN}


def main(build, what="--tests", pattern="."):
    costs, head = read()
    if what == "--build-log":
        costs["build"] = build_costs(build)
    elif what == "--order":
        costs["long"] = longest_of(os.path.join(build, "results.xml"))
    elif what == "--tests":
        measured = test_costs(build, pattern)
        if not measured:
            raise SystemExit(f"no quick test's name matches {pattern}")
        costs["test"] = measured if pattern == "." else {**costs["test"], **measured}
    else:
        raise SystemExit(__doc__)
    measured = {"--build-log": "build", "--order": "long"}.get(what, "test")
    if not costs[measured]:
        raise SystemExit(f"{build}: nothing was measured; {COSTS} stays as it is")
    write(costs, HEAD.format(machine=processor()) if pattern == "." else head)


if __name__ == "__main__":
    main(*sys.argv[1:])
