#!/usr/bin/env python3
"""Doxygen reads the public headers without a warning, and finds what they say.

Usage: docs.py ROOT [DOXYFILE [DOXYGEN]] | docs.py ROOT --self-test. Without a Doxyfile (doxygen was
not found): SKIPPED, exit status 77.
"""

import pathlib
import subprocess
import sys
import tempfile

# Header, a word of a comment above, and one of a comment behind a member: the filter must show
# both.
SAMPLE = """// sample.hpp -- a sample.
// Shape:     small.
#pragma once

// Above: <T> and @at are no markup.
struct Sample {
  int first = 0;  // behind
                  // goes on
  // next
  int second = 0;
};
"""
SHOWN = [
    "/** @file",
    "@brief sample.hpp -- a sample. <p><b>Shape:</b>     small.",
    "*/ #pragma once",
    "/// Above: \\<T\\> and \\@at are no markup.",
    "  int first = 0;  ///< behind",
    "///< goes on",
    "  /// next",
]


def self_test(root):
    with tempfile.TemporaryDirectory() as folder:
        header = pathlib.Path(folder, "sample.hpp")
        header.write_text(SAMPLE, encoding="utf-8")
        shown = subprocess.run(
            [sys.executable, "-B", root / "docs/filter.py", header],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    missing = [line for line in SHOWN if line not in shown]
    if missing or shown.count("\n") != SAMPLE.count("\n"):
        print(f"the filter does not show {missing}; it shows:\n{shown}")
        return 1
    print("docs: the filter shows every kind of comment, and keeps lines")
    return 0


def main():
    root = pathlib.Path(sys.argv[1])
    if sys.argv[2:] == ["--self-test"]:
        return self_test(root)
    if len(sys.argv) < 4:
        print("SKIPPED: doxygen is not installed (Debian: apt install doxygen)")
        return 77
    run = subprocess.run([sys.argv[3], sys.argv[2]], capture_output=True, text=True, check=False)
    print(run.stdout + run.stderr, end="")
    if run.returncode != 0 or "warning:" in run.stderr:
        return 1
    print("docs: doxygen has no warning about the public headers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
