#!/usr/bin/env python3
"""rtm_emulated.py --tool TMH PROGRAM [gtest filter] -- a test program with real RTM code once more, on the RTM emulator instead of the processor.

Passes when the program does, transactions have committed, and the emulator met no instruction that it does not know. Prints what it counted.
"""
import os
import re
import subprocess
import sys

def main():
    if sys.argv[1] != "--tool" or len(sys.argv) not in (4, 5):
        raise SystemExit(__doc__)
    tool, program = sys.argv[2:4]
    arguments = ["--gtest_brief=1"] + [f"--gtest_filter={each}" for each in sys.argv[4:]]
    # LD_BIND_NOW: the loader's way to a function that is called for the first time aborts a transaction, on hardware as well.
    ran = subprocess.run([tool, "rtm-emulate", "--stats", "--", program, *arguments], text=True, errors="replace", stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, check=False, env={**os.environ, "LD_BIND_NOW": "1"})
    print(ran.stdout)
    # Every process that ends tells what its domain has counted so far; several tests of one program share none.
    commits = sum(int(each) for each in re.findall(r"RTM emulation: (\d+) commits", ran.stdout))
    unknown = re.findall(r"aborts, unsupported: \d+", ran.stdout)
    print(f"exit status {ran.returncode}, {commits} commits, unsupported: {unknown or 0}")
    return 0 if ran.returncode == 0 and commits > 0 and not unknown else 1


if __name__ == "__main__":
    sys.exit(main())
