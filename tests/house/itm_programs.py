#!/usr/bin/env python3
"""itm_programs.py <program>... -- the programs of examples/itm take options and answer as one.

The programs are given as files itm_NAME, itm_NAME_mutex and itm_NAME_plain. Of each: --help; exit
status 2 and a message for what is no option or no value of one; the keys of its line of JSON. One
thread with --operations does the same each time, in all three builds.
"""
import collections
import json
import os
import re
import subprocess
import sys

KEYS = ["program", "build", "threads", "seed", "operations", "seconds", "operations_per_second",
        "transactions", "attempts", "check", "details"]
WRONG = [
    ["--no-such-option"],
    ["stray"],
    ["--threads"],
    ["--threads", "0"],
    ["--threads", "257"],
    ["--threads", "two"],
    ["--seconds", "-1"],
    ["--seconds", "0"],
    ["--operations", "-1"],
    ["--operations", "1.5"],
    ["--seed", "-1"],
    ["--seed", "18446744073709551616"],
]
# Of these programs alone: values that do not fit each other, or no value of the option.
WRONG_OF = {
    "hash_set": [["--size", "10", "--range", "5"], ["--updates", "101"]],
    "bank": [["--read-all", "60", "--turn", "50"], ["--readers", "2"]],
    "ycsb": [["--workload", "G"], ["--theta", "1"]],
    "kmeans": [["--points", "3", "--clusters", "4"]],
    "maze": [["--x", "2", "--y", "2", "--z", "1", "--routes", "3"]],
    "mesh": [["--angle", "30"]],
}
# A small input.
SMALL = {
    "hash_set": ["--size", "1000"],
    "red_black_tree": ["--size", "1000"],
    "reservations": ["--rows", "200"],
    "ycsb": ["--records", "200"],
    "kmeans": ["--points", "500"],
    "gene_assembly": ["--gene", "500", "--segments", "2000"],
    "maze": ["--x", "20", "--y", "20", "--z", "2", "--routes", "20"],
    "graph": ["--scale", "6"],
    "packets": ["--flows", "200"],
    "mesh": ["--points", "200"],
}


def run(program, *options):
    return subprocess.run([program, *options], capture_output=True, text=True, check=False)


def problems_of_options(program, name, build):
    wrong = WRONG + WRONG_OF.get(name, [])
    if build == "plain":
        wrong = wrong + [["--threads", "2"]]
    for options in wrong:
        answer = run(program, *options)
        if answer.returncode != 2 or answer.stdout or not answer.stderr:
            yield f"{' '.join(options)}: exit status {answer.returncode}, said {answer.stderr!r}"
    answer = run(program, "--help")
    if answer.returncode != 0 or answer.stderr:
        yield f"--help: exit status {answer.returncode}"
    for option in ("--threads", "--seconds", "--operations", "--seed", "--help"):
        if option not in answer.stdout:
            yield f"--help does not name {option}"


def line_of(program, name):
    """The program's line as a dictionary, or what is wrong with it."""
    answer = run(program, "--threads", "1", "--operations", "3", "--seed", "7",
                 *SMALL.get(name, []))
    if answer.returncode != 0 or answer.stderr or answer.stdout.count("\n") != 1:
        return f"exit status {answer.returncode}: {answer.stdout}{answer.stderr}"
    line = json.loads(answer.stdout)
    if list(line) != KEYS:
        return f"keys {list(line)}"
    if line["check"] != "ok" or line["threads"] != 1 or line["seed"] != 7:
        return f"not as asked: {answer.stdout}"
    if line["attempts"] < line["transactions"] or line["seconds"] <= 0:
        return f"counts that cannot be: {answer.stdout}"
    return line


def problems_of_lines(name, builds):
    results = {}
    for build, program in sorted(builds.items()):
        for time in ("first", "second"):
            line = line_of(program, name)
            if isinstance(line, str):
                yield f"{build}: {line}"
                continue
            if (line["program"], line["build"]) != (name, build):
                yield f"{build} says it is {line['program']}, {line['build']}"
            same = (line["operations"], line["transactions"], line["details"])
            results[f"{build}, {time} run"] = same
    for each, result in results.items():
        if result != next(iter(results.values())):
            yield f"another result by {each}: {results}"


def main():
    programs = collections.defaultdict(dict)
    for path in sys.argv[1:]:
        found = re.fullmatch(r"itm_(\w+?)(?:_(mutex|plain))?", os.path.basename(path))
        programs[found[1]][found[2] or "itm"] = path
    problems = [] if programs else ["no program is given"]
    for name, builds in sorted(programs.items()):
        if sorted(builds) != ["itm", "mutex", "plain"]:
            problems.append(f"{name}: builds {sorted(builds)}")
        for build, program in sorted(builds.items()):
            problems += [f"{name}, {build}: {problem}"
                         for problem in problems_of_options(program, name, build)]
        problems += [f"{name}: {problem}" for problem in problems_of_lines(name, builds)]
    print("\n".join(problems) or f"{len(programs)} programs: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
