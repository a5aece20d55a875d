#!/usr/bin/env python3
"""gtest_cases.py PROGRAM PROPERTIES COSTS LIST -- what ctest knows of the tests in a GoogleTest
program.

A program holds the tests of several files. ctest's name of a test begins with the stem of its file:
log_damage_test.LogDamageTest.LogCutAtEveryLength. The properties of a file's tests are a line of
PROPERTIES, "<stem> <beginning of names> <property> <value> ...", separated by tabs. COSTS says
which tests take long (scripts/test_costs.py). LIST is what ctest includes.
"""

import json
import os
import subprocess
import sys
import tempfile

LIST_TIMEOUT_SEC = 60


def cases_of(program):
    """[(stem of the file, name as --gtest_filter knows it)] in the program's order."""
    with tempfile.TemporaryDirectory() as folder:
        listed = os.path.join(folder, "list.json")
        subprocess.run(
            [program, "--gtest_list_tests", "--gtest_output=json:" + listed],
            stdout=subprocess.DEVNULL,
            check=True,
            cwd=folder,
            timeout=LIST_TIMEOUT_SEC,
        )
        with open(listed, encoding="utf-8") as file:
            suites = json.load(file)["testsuites"]
    return [
        (
            os.path.splitext(os.path.basename(case["file"]))[0],
            suite["name"] + "." + case["name"],
        )
        for suite in suites
        for case in suite["testsuite"]
    ]


def costs_of(path):
    """{name of a test: seconds}"""
    with open(path, encoding="utf-8") as file:
        lines = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return {name: seconds for seconds, name in lines}


def quoted(text):
    """A bracket argument of CMake's, which nothing is special in."""
    equals = "="
    while "]" + equals + "]" in text:
        equals += "="
    return f"[{equals}[{text}]{equals}]"


def ctest_list(program, properties, costs):
    lines = []
    for stem, case in cases_of(program):
        if stem not in properties:
            raise SystemExit(f"{program}: no properties for the tests of {stem}")
        name = properties[stem][0] + "." + case.replace("DISABLED_", "")
        test_properties = properties[stem][1:] + ["SKIP_REGULAR_EXPRESSION", r"\[  SKIPPED \]"]
        if name in costs:
            test_properties += ["COST", costs[name]]
        if "DISABLED_" in case:
            test_properties += ["DISABLED", "TRUE"]
        filtered = quoted("--gtest_filter=" + case)
        lines += [
            f"add_test({quoted(name)} {quoted(program)} {filtered}"
            " --gtest_also_run_disabled_tests)",
            f"set_tests_properties({quoted(name)} PROPERTIES "
            + " ".join(map(quoted, test_properties))
            + ")",
        ]
    return "\n".join(lines) + "\n"


def write_ctest_list(program, properties_path, costs_path, path):
    with open(properties_path, encoding="utf-8") as file:
        words = [line.rstrip("\n").split("\t") for line in file]
    text = ctest_list(program, {each[0]: each[1:] for each in words}, costs_of(costs_path))
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


if __name__ == "__main__":
    write_ctest_list(*sys.argv[1:])
