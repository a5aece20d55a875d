#!/usr/bin/env python3
"""compiled.py --tmh PATH --cxx C++ [...] -- the programs of compiled/, as a user compiles them,
say what their heads expect, by every method there.

--levels   of optimization, "0,1,2,3"; a head may have fewer
--without  a method that cannot run here
--only     a regular expression for names of programs
--timeout  seconds for each

Method rtm runs under the emulator. Exit code 1: something else was said.
"""

import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
# pylint: disable=wrong-import-position
import ours
from slowdown import HANG_S

ROOT = os.path.join(HERE, "..", "..")
FOLDER = os.path.join(HERE, "compiled")
NOT_HERE = "is not possible here: userfaultfd"  # what libitm says of methods pages


def head_of(path):
    with open(path, encoding="utf-8") as source:
        lines = [line[3:].strip() for line in source if line.startswith("// ")]
    return {
        name: rest.strip()
        for name, _, rest in (line.partition(":") for line in lines)
        if name in ("Methods", "Levels", "Flags", "Says")
    }


def run(words, timeout):
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return "hangs", ""
    end = "" if done.returncode == 0 else f" (status {done.returncode})"
    return (done.stdout.strip() + end).strip(), done.stderr.strip()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tmh", required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--levels", default="0,1,2,3")
    parser.add_argument("--without", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--timeout", type=float, default=HANG_S)
    arguments = parser.parse_args()
    skipped = []

    def check(name, level, head):
        program = os.path.join(folder, f"{name}_{level}")
        done = subprocess.run(
            [arguments.cxx, "-std=gnu++20", "-w", "-fgnu-tm", "-pthread", f"-O{level}", f"-I{ROOT}"]
            + head.get("Flags", "").split()
            + [os.path.join(FOLDER, name + ".cpp"), "-o", program],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            return [f"{name} -O{level} does not compile: {done.stderr}"]
        wrong = []
        for method in head["Methods"].split():
            if method == arguments.without:
                skipped.append(f"method {method} is not possible here")
                continue
            said, error = run(ours.command(arguments.tmh, method, [program]), arguments.timeout)
            if NOT_HERE in error:
                skipped.append(error)
            elif method in ours.NAMES_OF_GCC and f"={method}: the method is" not in error:
                wrong.append(f"{name}, {method}: libitm does not say what that chooses: {error}")
            elif said != head["Says"]:
                wrong.append(f"{name} -O{level}, {method}: {said!r}, not {head['Says']!r} {error}")
        return wrong

    works, wrong, runs = [], [], 0
    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for file in sorted(os.listdir(FOLDER)):
                name, end = os.path.splitext(file)
                if end != ".cpp" or not re.search(arguments.only, name):
                    continue
                head = head_of(os.path.join(FOLDER, file))
                unknown = set(head["Methods"].split()) - set(ours.METHODS + ours.NAMES_OF_GCC)
                if unknown:
                    sys.exit(f"{file}: no method {unknown}")
                levels = set(head.get("Levels", "0 1 2 3").split())
                for level in arguments.levels.split(","):
                    if level in levels:
                        works.append(pool.submit(check, name, level, head))
                        runs += len(head["Methods"].split())
            for work in works:
                wrong += work.result()
    for line in wrong:
        print(line)
    if skipped:
        print(f"SKIPPED: {len(skipped)} runs: {skipped[0]}")
    print(f"{len(works)} programs compiled, {runs} runs: {len(wrong)} wrong")
    return 1 if wrong or not works else 0


if __name__ == "__main__":
    sys.exit(main())
