#!/usr/bin/env python3
"""container_table.py ROOT --worker PROGRAM [--write] -- the table of containers in
docs/what_may_lie_in_a_segment.md is that of kill_containers_test.

--write puts the program's table there instead.
"""
import argparse
import pathlib
import subprocess
import sys

BEGIN, END = "<!-- containers -->\n", "<!-- end of containers -->"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--worker", required=True)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    table = subprocess.run([arguments.worker, "table"], capture_output=True, text=True,
                           check=True).stdout
    page = pathlib.Path(arguments.root, "docs/what_may_lie_in_a_segment.md")
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not begin or not end:
        print(f"{page}: no {BEGIN.strip()} ... {END}")
        return 1
    right = before + begin + table + end + behind
    if arguments.write:
        page.write_text(right, encoding="utf-8")
    elif right != text:
        print(f"{page} has another table than kill_containers_test, which is\n{table}"
              "(container_table.py --write puts it there)")
        return 1
    print("the table is that of the test")
    return 0


if __name__ == "__main__":
    sys.exit(main())
