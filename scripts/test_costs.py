#!/usr/bin/env python3
"""test_costs.py RESULTS.xml -- writes tests/costs.txt: the tests that took longest in a run of
./check, so that ctest starts them first also where it has run none yet.

RESULTS.xml is what `ctest --output-junit` wrote: build/release/results.xml.
"""

import os
import sys
import xml.etree.ElementTree as xml

SECONDS_MIN = 2.0
COSTS = os.path.join(os.path.dirname(__file__), "..", "tests", "costs.txt")
HEAD = """\
# Seconds and name of each test of 2 s and more: ctest starts the longest first.
# Written by scripts/test_costs.py.
"""


def main(results):
    cases = [
        (float(case.get("time") or 0), case.get("name"))
        for case in xml.parse(results).getroot().iter("testcase")
    ]
    longest = sorted((case for case in cases if case[0] >= SECONDS_MIN), reverse=True)
    with open(COSTS, "w", encoding="utf-8") as file:
        file.write(HEAD + "".join(f"{seconds:.0f} {name}\n" for seconds, name in longest))


if __name__ == "__main__":
    main(sys.argv[1])
