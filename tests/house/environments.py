#!/usr/bin/env python3
"""environments.py <root> --build BUILD --slice N/OF | --self-test -- each example and workload is
right under each value of each variable.

A run must end with status 0 and the right result, or be refused: then its status is not 0 and it
prints the documented message, where its setting may be refused (refusals_of()). Settings: each
value of each variable that is not the default, by itself and together with TMH_LEVELS=hybrid. `tmh
run` sets the level itself, so workloads run at both levels instead; the programs that take longest
run without the pairs. Variables and values are those of `tmh policies` and MORE_VALUES; each has a
row in docs/options.md. Runs are dealt to slices in turn. Each has a fresh folder, and may go on
beside others.
"""

import argparse
import collections
import csv
import json
import os
import re
import subprocess
import sys
import tempfile

Program = collections.namedtuple("Program", "name command is_right is_hybrid has_pairs tells_why")
Run = collections.namedtuple("Run", "status output errors")

# Values beside those that `tmh policies` lists.
MORE_VALUES = {
    "TMH_POLICY": ["backoff-us-max=0"],
    "TMH_ESCALATION": ["after-n=1"],
    "TMH_CAPACITY": ["1KiB/2/64"],
    "TMH_GROUP_COMMIT": ["active=1"],
    "TMH_POLICIES": ["conflict=self-abort,backoff=none,escalation=after-n=1,latency=full"],
}
# For emulators, and for tests that kill: no program runs under them here.
NO_SETTINGS = {"TMH_ASSUME_RTM", "TMH_CRASH_AT"}
OPTIONS = "docs/options.md"
WORKLOADS = [
    "bank",
    "list",
    "tree",
    "hash",
    "mixed",
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-d",
    "ycsb-e",
    "ycsb-f",
    "tpcb",
]
OPERATIONS = 100
TRANSACTIONS = 2000  # of level_comparison, a hundredth of them large


def is_exactly(text):
    return lambda output: output == text


def has(*patterns):
    return lambda output: all(re.search(pattern, output, re.MULTILINE) for pattern in patterns)


def all_committed(output):
    """level_comparison: a line for each of three levels, TRANSACTIONS transactions each."""
    sums = [
        sum(map(int, re.findall(r"(\d+) at (?:lines|pages)", line))) for line in output.splitlines()
    ]
    return sums == [TRANSACTIONS] * 3


def invariant_holds(output):
    rows = list(csv.DictReader(output.splitlines()))
    return (
        len(rows) == 1
        and rows[0]["invariant_holds"] == "true"
        and rows[0]["operations"] == str(OPERATIONS)
    )


def inverted_index_text(root):
    """Six files: the run takes a tenth of a second of processor time, --tiny ten times as much. Its
    merges outgrow cache lines all the same. TMH_LONG=1: --tiny."""
    if os.environ.get("TMH_LONG"):
        return ["--tiny"]
    text = ["--limit-files", "6", "--limit-bytes", "30000", f"{root}/docs"]
    return ["--workers", "2", "--shards", "4", *text]


def programs(root, build):
    def example(name, is_right, is_hybrid=False, has_pairs=True):
        return Program(name, [f"{build}/example_{name}"], is_right, is_hybrid, has_pairs, True)

    # as the thesis prints them: they look at no error, so a refused xInit() makes them crash
    def figure(name, is_right):
        return Program("libxac." + name, [f"{build}/libxac/{name}"], is_right, False, True, False)

    def workload(name, level):
        size = "1" if name == "tpcb" else "64"
        command = [
            f"{build}/tmh",
            "run",
            name,
            "--operations",
            str(OPERATIONS),
            "--size",
            size,
            "--level",
            level,
            "--csv",
        ]
        return Program(
            f"{name} at level {level}", command, invariant_holds, level == "hybrid", False, True
        )

    examples = [
        example("counter", is_exactly("4000\n")),
        example("bank", is_exactly("4000 transfers, every audit saw 819200\n")),
        example("condition_wait", is_exactly("1000 letters, in order\n")),
        example("durable_queue", has(r"^round \d+: 0 killed\n\Z")),
        example("job_queue", has(r"600 jobs: each done once$"), has_pairs=False),
        example(
            "levels",
            has(r"^sum 100000000, with interest 100976448$"),
            is_hybrid=True,
            has_pairs=False,
        ),
        example("own_policy", has(r"^count 4000$"), is_hybrid=True, has_pairs=False),
        example("map_index", is_exactly("be: 1 5\nnot: 3\nor: 2\nto: 0 4\n")),
        example("bptree_shared", is_exactly("1000 records\n")),
        example("cobtree_shared", is_exactly("1000 records\n")),
        Program(
            "level_comparison",
            [f"{build}/example_level_comparison", "level_comparison.domain", str(TRANSACTIONS)],
            all_committed,
            True,
            False,
            True,
        ),
        Program(
            "inverted_index",
            [f"{build}/tmh_inverted_index", "--no-kills", *inverted_index_text(root)],
            has(
                r"^The index equals the one that plain serial code built",
                r"^Every word's count and number of files equal those of plain",
            ),
            True,
            False,
            True,
        ),
        figure("durable", is_exactly("1\n")),
        figure("figure_2_3", is_exactly("523776\n")),
    ]
    silent = [
        "1_6",
        "2_1",
        "2_2",
        "2_4_program_1",
        "2_4_program_2",
        "4_1_a",
        "4_1_b",
        "4_3_a",
        "4_3_b",
    ]
    return (
        examples
        + [figure("figure_" + name, is_exactly("")) for name in silent]
        + [workload(name, level) for name in WORKLOADS for level in ("hybrid", "page")]
    )


def values_of(policies):
    values = {}
    for one in policies:
        if one["variable"] in NO_SETTINGS:
            continue
        listed = values.setdefault(one["variable"], [])
        if not one["default"]:
            listed.append(one["value"])
    for variable, more in MORE_VALUES.items():
        values.setdefault(variable, []).extend(more)
    return values


def settings(program, values):
    """What a program is run under."""
    yield {}
    for variable, all_values in values.items():
        for value in all_values:
            yield {variable: value}
            if program.has_pairs and variable != "TMH_LEVELS":
                yield {"TMH_LEVELS": "hybrid", variable: value}


def refusals_of(program, setting):
    """The messages with which the program may be refused."""
    messages = []
    if setting.get("TMH_DETECTION") in {"eager", "locking"} and (
        program.is_hybrid or setting.get("TMH_LEVELS") == "hybrid"
    ):
        messages.append(
            "hybrid levels need lazy detection: a snapshot moves on when a page is recalled"
        )
    if setting.get("TMH_LINE") == "rtm":
        messages += [
            "RTM was demanded and does not work here",
            "level 1 by RTM needs a volatile domain: its commits leave no redo records",
        ]
    if setting.get("TMH_STRAY") == "fault":
        messages.append("TMH_STRAY=fault: the processor has no protection keys")
    return messages


def judge(program, setting, run):
    """None: as it must be. Else what is wrong."""
    if run.status == 0:
        return None if program.is_right(run.output) else "a wrong result"
    messages = refusals_of(program, setting)
    if not messages:
        return f"status {run.status}"
    if program.tells_why and not any(message in run.errors for message in messages):
        return f"status {run.status} without a documented message"
    return None


def run_one(program, setting):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TMH_")}
    with tempfile.TemporaryDirectory(
        dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    ) as folder:
        answer = subprocess.run(
            program.command,
            cwd=folder,
            env={**environment, **setting, "TMPDIR": folder},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    return Run(answer.returncode, answer.stdout, answer.stderr)


def unknown_variables(root, values):
    """A variable that only one of the document and the command names."""
    with open(os.path.join(root, OPTIONS), encoding="utf-8") as document:
        table = (
            document.read().partition("<!-- options -->")[2].partition("<!-- end of options -->")[0]
        )
    named = set(re.findall(r"^\| `(TMH_[A-Z_]+)` \|", table, re.MULTILINE)) - NO_SETTINGS
    return [
        f"{variable}: only one of {OPTIONS} and `tmh policies` names it"
        for variable in sorted(named ^ set(values))
    ]


def self_test():
    counter = Program("counter", [], is_exactly("4\n"), False, True, True)
    hybrid, figure = counter._replace(is_hybrid=True), counter._replace(tells_why=False)
    eager, line = {"TMH_DETECTION": "eager"}, {"TMH_LINE": "rtm"}
    locking = {"TMH_DETECTION": "locking"}
    lazy_message = (
        "hybrid levels need lazy detection: a snapshot moves on when a page is recalled: more"
    )
    right = [
        (counter, {}, Run(0, "4\n", "")),
        (hybrid, eager, Run(1, "", lazy_message)),
        (hybrid, locking, Run(1, "", lazy_message)),
        (counter, line, Run(-6, "", "RTM was demanded and does not work here")),
        (
            counter,
            {"TMH_STRAY": "fault"},
            Run(-6, "", "TMH_STRAY=fault: the processor has no protection keys, or the kernel"),
        ),
        (counter, {**eager, "TMH_LEVELS": "hybrid"}, Run(1, "", lazy_message)),
        (figure, {**eager, "TMH_LEVELS": "hybrid"}, Run(-11, "", "")),
    ]
    wrong = [
        (counter, {}, Run(0, "0\n", "")),
        (counter, {}, Run(1, "4\n", "")),
        (counter, eager, Run(1, "", lazy_message)),
        (hybrid, eager, Run(1, "", "oh")),
        (figure, {}, Run(-11, "", "")),
        (hybrid, eager, Run(0, "0\n", lazy_message)),
        (counter, {"TMH_LEVELS": "hybrid"}, Run(0, "0\n", "")),
    ]
    problems = [f"a right run is refused: {case}" for case in right if judge(*case)] + [
        f"not caught: {case}" for case in wrong if not judge(*case)
    ]
    rows = "operations,invariant_holds\n100,{}\n"
    problems += (
        ["a broken invariant is not caught"]
        if invariant_holds(rows.format("false")) or not invariant_holds(rows.format("true"))
        else []
    )
    line = "lines 1 us each  small: 1980 at lines, {} at pages  huge: 20 at lines, 0 at pages\n"
    problems += (
        ["a lost transaction is not caught"]
        if all_committed(line.format(0) * 2 + line.format(-1))
        or not all_committed(line.format(0) * 3)
        else []
    )
    return problems


def check(arguments):
    tool = subprocess.run(
        [f"{arguments.build}/tmh", "policies", "--json"], capture_output=True, text=True, check=True
    )
    values = values_of(json.loads(tool.stdout)["policies"])
    number, of = map(int, arguments.slice.split("/"))
    problems = unknown_variables(arguments.root, values)
    runs = [
        (program, setting)
        for program in programs(os.path.abspath(arguments.root), arguments.build)
        for setting in settings(program, values)
    ]
    for program, setting in runs[number - 1 :: of]:
        run = run_one(program, setting)
        wrong = judge(program, setting, run)
        if wrong:
            words = " ".join(f"{variable}={value}" for variable, value in setting.items())
            problems.append(
                f"{program.name} with {words or 'no variable set'}:"
                f" {wrong}\n{run.output[-2000:]}{run.errors[-2000:]}"
            )
    if not problems:
        print(
            f"{len(runs[number - 1::of])} of {len(runs)} runs are right, or refused as documented"
        )
        if not os.environ.get("TMH_LONG"):
            print("inverted_index reads 6 files, with TMH_LONG=1 (./check --long) 61")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--build")
    parser.add_argument("--slice", default="1/1")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    problems = self_test() if arguments.self_test else check(arguments)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
