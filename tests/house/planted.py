#!/usr/bin/env python3
"""planted.py <root> --cxx C++ -- builds without tests have no planted faults (observe/planted.h).

A hot path's source is compiled as such a build compiles it, and as one with tests does: the object
of the first asks for no planted fault, that of the second does. Without nm the test is skipped.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
SOURCE = "levels/line/software_commit.cpp"
PLANTED = "tmh::observe::detail::planted"


def asks(arguments, definitions):
    """What the object needs of what is planted."""
    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, "made.o")
        subprocess.run(
            [arguments.cxx, "-std=c++20", "-O1", "-DTMH_HAVE_SDT=0", f"-I{arguments.root}"]
            + [f"-I{os.path.join(arguments.root, 'include')}", *definitions]
            + ["-c", os.path.join(arguments.root, SOURCE), "-o", made],
            check=True,
        )
        answer = subprocess.run(["nm", "-C", made], capture_output=True, text=True, check=True)
    return [line for line in answer.stdout.splitlines() if PLANTED in line]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--cxx", required=True)
    arguments = parser.parse_args()
    if shutil.which("nm") is None:
        print("SKIPPED: nm is not installed")
        return SKIPPED
    problems = [f"without tests: {line}" for line in asks(arguments, [])]
    if not asks(arguments, ["-DTMH_PLANTED_FAULTS"]):
        problems.append("with tests nothing is asked for: this test would see nothing")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
