#!/usr/bin/env python3
"""rtm_emulated.py -- tests and benches with real RTM code once more, on the RTM emulator instead of
the processor.

rtm_emulated.py --build BUILD [--markdown] NAME...   these variants ("quick", "long" and "all" are
                                                     groups), and a table of them
rtm_emulated.py --build BUILD --others               whether each file of tests with RTM variants is
                                                     listed; under TMH_LONG=1 also runs group long
rtm_emulated.py --list GROUP                         names

A variant passes when its program does, transactions have committed that touched memory, and the
emulator met no instruction that it does not know. Detecting RTM commits ten empty transactions in
each process that asks; they are not counted. Exit status 77: skipped.
"""

import argparse
import collections
import glob
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../cmake"))
import gtest_cases

# A test's file, or a bench's program; which of the file's tests.
Variant = collections.namedtuple("Variant", "name file tests arguments environment group at_pages")


RTM = re.compile("Rtm")


# at_pages: these tests run all instances at level 2 of a domain whose level 1 is RTM, or level 2
#           takes their pages all the time. They need no
# commits.
def rtm_tests(file, group="quick", at_pages=False):
    return Variant(file, file, RTM, [], {}, group, at_pages)


def bench(program, arguments, group):
    name = f"bench.{program}" + ("" if "--tiny" in arguments else ".full")
    return Variant(name, program, None, arguments, {}, group, False)


VARIANTS = [
    rtm_tests("rtm_test"),
    rtm_tests("rtm_lines_test"),
    rtm_tests("rtm_loader_test"),
    # Level 2 and software lines end long before 20,000 emulated transactions per thread do;
    # natively they outlast 100,000.
    rtm_tests("rtm_multi_test")._replace(
        environment={"TMH_RTM_TRANSACTIONS": "20000", "TMH_RTM_STOPS_ITSELF": "1"}
    ),
    rtm_tests("line_capacity_test"),
    rtm_tests("multi_recall_test"),
    rtm_tests("history_multi_test"),
    rtm_tests("thread_history_test"),
    rtm_tests("multi_irrevocable_test", at_pages=True),
    rtm_tests("multi_stalls_test", at_pages=True),
    rtm_tests("multi_mixes_test")._replace(environment={"TMH_MIXES": "2"}),
    rtm_tests("multi_mixes_test", "long")._replace(
        name="multi_mixes_test.long", environment={"TMH_MIXES": "40"}
    ),
    rtm_tests("kill_random_test"),
    rtm_tests("kill_repair_test", "long", at_pages=True),
    rtm_tests("kill_heap_test", "long", at_pages=True),
    rtm_tests("tool_test"),
    rtm_tests("rtm_heap_test", "long"),
    rtm_tests("kill_counters_test", "long"),
    rtm_tests("tool_run_test", "long", at_pages=True),
    rtm_tests("allocator_test", "long", at_pages=True),
    rtm_tests("disk_full_test", "long", at_pages=True),
    rtm_tests("kill_regressions_test", "long", at_pages=True),
    rtm_tests("multi_allocator_test", "long", at_pages=True),
    rtm_tests("multi_bytes_tree_test", "long"),
    rtm_tests("multi_field_trees_test", "long"),
    rtm_tests("multi_pools_test", "long", at_pages=True),
    rtm_tests("multi_semantics_test", "long", at_pages=True),
    rtm_tests("multi_isolation_test", "long", at_pages=True),
    rtm_tests("multi_page_cache_test", "long", at_pages=True),
    rtm_tests("multi_wide_commit_test", "long", at_pages=True),
    rtm_tests("isolation_history_multi_test", "long", at_pages=True),
    rtm_tests("multi_trees_test", "long", at_pages=True),
    rtm_tests("multi_slow_readers_test", "long", at_pages=True),
    rtm_tests("past_test", "long", at_pages=True),
    rtm_tests("multi_versions_test", "long", at_pages=True),
    rtm_tests("semantics_segments_test", "long", at_pages=True),
    rtm_tests("semantics_signals_test", "long", at_pages=True),
    rtm_tests("semantics_test", "long", at_pages=True),
    rtm_tests("stray_access_test", "long", at_pages=True),
    rtm_tests("thread_views_test", "long", at_pages=True),
    # A death at every step, in every mode: the modes are inside the tests.
    rtm_tests("kill_steps_test", "long")._replace(tests=re.compile("")),
    # Bank, list, tree, hash set and mix under every policy, their instrumented bodies in RTM. Not
    # "Lines": its instances must not leave level 1, which RTM cannot promise. Not the planted
    # faults: they are in software lines.
    rtm_tests("multi_structures_test", "long")._replace(
        tests=re.compile("EveryPolicy.*/Hybrid_"), environment={"TMH_LINE": "rtm"}
    ),
    bench("line", ["--tiny"], "quick"),
    bench("hierarchy", ["--tiny"], "quick"),
    bench("capacity", ["--tiny"], "quick"),
]
# They emulate by themselves; or judge facts about RTM that are made up.
NO_VARIANTS = re.compile(r"^(multi_|tool_)?rtm_emulation|^tool_doctor_test$")


def programs_of(build):
    """{file of tests: (its program, its tests)}, of the programs that have been built"""
    found = {}
    for program in sorted(glob.glob(f"{build}/tests/*_test*")):
        if not os.path.isfile(program) or NO_VARIANTS.match(os.path.basename(program)):
            continue
        for stem, case in gtest_cases.cases_of(program):
            found.setdefault(stem, (program, []))[1].append(case)
    return found


def command_of(variant, build, programs):
    if variant.tests is None:
        return [f"{build}/bench/{variant.file}"] + variant.arguments
    program, cases = programs[variant.file]
    chosen_cases = [case for case in cases if variant.tests.search(case)]
    return [program, "--gtest_filter=" + ":".join(chosen_cases), "--gtest_brief=1"]

CAUSES = ["explicit", "conflict", "capacity", "page fault", "system call", "unsupported"]


def counted(output):
    """The counters of the last report: by the end of the first process, all others have ended, and
    all share one domain."""
    start = output.rfind("RTM emulation: ")
    found = (
        re.search(r"RTM emulation: (\d+) commits, (\d+) of them empty", output[start:])
        if start >= 0
        else None
    )
    if found is None:
        return None
    numbers = collections.Counter({"commits": int(found.group(1)), "empty": int(found.group(2))})
    for cause, times in re.findall(r"^  aborts, (.+): (\d+)$", output[start:], re.MULTILINE):
        numbers[cause if cause in CAUSES else "other"] += int(times)
    codes = re.findall(r"^  XABORT (\d+): (\d+)$", output[start:], re.MULTILINE)
    return numbers, " ".join(f"{code}:{times}" for code, times in codes)


def tests_in(output):
    """Passed and skipped by GoogleTest's count; a bench is one."""

    def number(what):
        found = re.findall(rf"^\[ +{what} +\] (\d+) tests?[.,]", output, re.MULTILINE)
        return int(found[-1]) if found else 0

    passed, skipped = number("PASSED"), number("SKIPPED")
    return f"{passed} (+{skipped} skipped)" if skipped else str(passed or 1)


def run(variant, build, programs):
    """A row of the table, and why the variant failed ("" when it did not)."""
    with tempfile.TemporaryDirectory() as folder:
        # LD_BIND_NOW: the loader's way to a function that is called for the first time aborts a
        # transaction, on hardware as well.
        command = [
            f"{build}/tmh",
            "rtm-emulate",
            "--stats",
            "--domain",
            f"{folder}/emulation",
            "--",
        ]
        began = time.monotonic()
        ran = subprocess.run(
            command + command_of(variant, build, programs),
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            cwd=folder,
            env={**os.environ, "LD_BIND_NOW": "1", **variant.environment},
        )
        seconds = time.monotonic() - began
    result = counted(ran.stdout)
    if result is None:
        return (
            None,
            (
                f"{ran.stdout}\n{variant.name}: exit status {ran.returncode}, and no report of the"
                " emulator"
            ),
        )
    numbers, codes = result
    why = []
    if ran.returncode != 0:
        why.append(f"exit status {ran.returncode}")
    if numbers["unsupported"] != 0:
        why.append(f"{numbers['unsupported']} unsupported instructions")
    if numbers["commits"] == (0 if variant.at_pages else numbers["empty"]):
        why.append("nothing was committed")
    row = [variant.name, tests_in(ran.stdout), str(numbers["commits"] - numbers["empty"])]
    row += [str(numbers[cause]) for cause in CAUSES + ["other"]] + [codes or "-", f"{seconds:.1f}"]
    return row, f"{ran.stdout}\n{variant.name}: {', '.join(why)}" if why else ""


def print_table(rows, markdown):
    head = ["variant", "tests passed", "commits"] + CAUSES + ["other", "XABORT code:times", "s"]
    if markdown:
        for row in [head, ["---"] * len(head)] + rows:
            print("| " + " | ".join(row) + " |")
        return
    widths = [max(len(row[i]) for row in [head] + rows) for i in range(len(head))]
    for row in [head] + rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def run_all(variants, build, markdown):
    rows, failures = [], []
    programs = programs_of(build)
    for variant in variants:
        row, why = run(variant, build, programs)
        if row is not None:
            rows.append(row)
        if why:
            failures.append(why)
    for why in failures:
        print(why)
    print_table(rows, markdown)
    print(
        f"{len(variants) - len(failures)} of {len(variants)} variants passed; aborts by cause, then"
        " by code"
    )
    return 1 if failures or not variants else 0


def unlisted(build):
    """Files of tests with RTM variants that nobody runs."""
    listed = {variant.file for variant in VARIANTS}
    return sorted(
        file
        for file, (_, cases) in programs_of(build).items()
        if file not in listed and not NO_VARIANTS.match(file) and any(map(RTM.search, cases))
    )


def chosen(names):
    all_names = [variant.name for variant in VARIANTS]
    for name in names:
        if name not in all_names + ["quick", "long", "all"]:
            raise SystemExit(
                f"{name}: no such variant; there are quick, long, all, {', '.join(all_names)}"
            )
    return [
        each for each in VARIANTS if "all" in names or each.group in names or each.name in names
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build")
    parser.add_argument("--list", metavar="GROUP")
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.list is not None:
        print("\n".join(variant.name for variant in chosen([options.list])))
        return 0
    build = os.path.abspath(options.build)
    if not options.others:
        return run_all(chosen(options.names), build, options.markdown)
    if missing := unlisted(build):
        print("Tests with RTM variants that this list does not have: " + ", ".join(missing))
        return 1
    if not os.environ.get("TMH_LONG"):
        print(
            "SKIPPED: "
            + ", ".join(each.name for each in chosen(["long"]))
            + " take minutes on the emulator: only with TMH_LONG=1 (./check --long)"
        )
        return 77
    return run_all(chosen(["long"]), build, options.markdown)


if __name__ == "__main__":
    sys.exit(main())
