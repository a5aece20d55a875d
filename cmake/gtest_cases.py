#!/usr/bin/env python3
"""gtest_cases.py PROGRAM PROPERTIES TIERS COSTS MODES LIST -- what ctest knows of the tests in a
GoogleTest program.

A program holds the tests of several files. ctest's name of a test begins with the stem of its file:
log_damage_test.LogDamageTest.LogCutAtEveryLength. The properties of a file's tests are a line of
PROPERTIES, "<stem> <beginning of names> <property> <value> ...", separated by tabs. TIERS says
which tests of which files are quick (cmake/tiers.py). COSTS says which tests take long
(cmake/test_costs.py). MODES has what this machine cannot run, a line "<mode> <why>" each,
separated by a tab: tests in these modes, and those that need such a thing by TIERS, are not listed,
but counted in LIST.unlisted. LIST is what ctest includes.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import test_costs
import tiers

# What ends a program that hangs.
LIST_TIMEOUT_SEC = 60 * int(os.environ.get("TMH_TEST_SLOWDOWN") or 1)


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


def what_is_missing(stem, case, table, unavailable):
    """What of `unavailable` the test needs, or None: the mode in its parameter, or what the table
    says of its file."""
    parameter = case.partition(".")[2].partition("/")[2]
    needed = re.split(r"[^A-Za-z0-9]", parameter) + tiers.needs_of(stem, case, table)
    return next((word for word in needed if word in unavailable), None)


def read_lines_of_words(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file if line.strip()]


def quoted(text):
    """A bracket argument of CMake's, which nothing is special in."""
    equals = "="
    while "]" + equals + "]" in text:
        equals += "="
    return f"[{equals}[{text}]{equals}]"


def with_labels(properties, labels):
    """The properties, a flat list of names and values, with more words in LABELS."""
    result = list(properties)
    at = result.index("LABELS") + 1
    result[at] = ";".join([labels[0], result[at], *labels[1:]])
    return result


def ctest_list(program, cases, properties, table, costs):
    """What ctest includes. `cases`: those that can run here."""
    lines = []
    labels = tiers.labels_of(cases, table)
    for (stem, case), words in zip(cases, labels):
        if stem not in properties:
            raise SystemExit(f"{program}: no properties for the tests of {stem}")
        prefix = properties[stem][0]
        if prefix != stem:  # the same tests, compiled once more
            words = ("full", "emulator")
        name = prefix + "." + case.replace("DISABLED_", "")
        test_properties = with_labels(properties[stem][1:], words)
        test_properties += ["SKIP_RETURN_CODE", "77"]  # tests/support/skip_status.cpp
        if name in costs:
            test_properties += ["COST", str(costs[name])]
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


def write_file(path, text):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def write_ctest_list(program, properties_path, tiers_path, costs_path, modes_path, path):
    properties = {each[0]: each[1:] for each in read_lines_of_words(properties_path)}
    unavailable = dict(each[:2] for each in read_lines_of_words(modes_path))
    table = tiers.read_table(tiers_path)
    found = cases_of(program)
    missing = [what_is_missing(stem, case, table, unavailable) for stem, case in found]
    cases = [case for case, what in zip(found, missing) if what is None]
    write_file(
        path + ".unlisted",
        "".join(f"{what}\t{unavailable[what]}\n" for what in missing if what is not None),
    )
    write_file(
        path,
        ctest_list(program, cases, properties, table, test_costs.read_longest(costs_path)),
    )


if __name__ == "__main__":
    write_ctest_list(*sys.argv[1:])
