#!/usr/bin/env python3
"""thread_verdicts.py --programs PATH [--preload FILE [--method M]] | --self-test -- every program
with threads has the verdict that its source expects: by the C library's threads, and by those of a
library that is preloaded.

--programs  thread_programs: --list, --expected, and a program's name
--preload   the library; without it, programs are left out whose names begin with "pages_" or
            "deaths_"
--method    ITM_DEFAULT_METHOD: of the engine itself, which lets no thread die without a
            transaction, so "deaths_" are left out; a preloaded library without it does not map
            memory, so "memory_" are
--only      a regular expression for names of programs
--jobs, --timeout, --times  programs at once (2), seconds for each (slowdown.HANG_S), runs of each
            (1)

A verdict is what a program prints, and "dies of SIGNAL", "dies with CODE", "hangs". Exit code 1:
some verdict is not the expected one.
"""

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
# pylint: disable=wrong-import-position
from slowdown import HANG_S


def verdict_of(code, output):
    """What the exit code and the output say."""
    words = output.strip()
    if code == "hangs":
        return (words + " hangs").strip()
    if code < 0:
        return (words + f" dies of {-code}").strip()
    if code > 0 or not words or words.endswith("written"):
        return (words + f" dies with {code}").strip()
    return words


def run(path, name, options):
    """The verdict of one program."""
    environment = dict(os.environ)
    if options.preload:
        environment["LD_PRELOAD"] = options.preload
    if options.method:
        environment["ITM_DEFAULT_METHOD"] = options.method
    with subprocess.Popen([path, name], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as child:
        try:
            output, _ = child.communicate(timeout=options.timeout)
            return verdict_of(child.returncode, output)
        except subprocess.TimeoutExpired:
            child.kill()
            output, _ = child.communicate()
            return verdict_of("hangs", output)


def self_test():
    """Each kind of end."""
    cases = [((0, "5 6\n"), "5 6"), ((-11, ""), "dies of 11"), ((7, ""), "dies with 7"),
             ((0, ""), "dies with 0"), (("hangs", ""), "hangs"), ((0, "written "),
                                                                 "written dies with 0")]
    wrong = [case for case in cases if verdict_of(*case[0]) != case[1]]
    for case in wrong:
        print(f"self-test: {case}: {verdict_of(*case[0])}")
    return 1 if wrong else 0


def main():
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--programs")
    parser.add_argument("--preload")
    parser.add_argument("--method")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=HANG_S)
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if not options.programs:
        parser.error("--programs is needed")
    if options.preload and not os.path.exists(options.preload):
        parser.error(f"there is no {options.preload}")
    listed = subprocess.run([options.programs, "--expected"], capture_output=True, text=True,
                            check=True).stdout
    expected = dict(line.split("\t") for line in listed.splitlines())
    names = [name for name in expected if re.search(options.only, name)
             and (options.preload or not name.startswith("pages_"))
             and ((options.preload and not options.method) or not name.startswith("deaths_"))
             and (options.method or not options.preload or not name.startswith("memory_"))]
    if not names:
        parser.error("no program is named so")
    wrong = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = [name for name in names for _ in range(options.times)]
        verdicts = pool.map(lambda name: run(options.programs, name, options), runs)
        for name, verdict in zip(runs, verdicts):
            if verdict != expected[name]:
                wrong += 1
                print(f"{name}: {verdict}\n    expected: {expected[name]}")
    print(f"{len(runs)} runs, {wrong} wrong verdicts")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
