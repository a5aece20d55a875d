"""lines_changed.py -- what it takes to make a serial tree transactional: lines and library calls,
counted in the sources (table 5.4).

A line counts when something is left of it without comments. The trees themselves are the same files
in both programs.
"""

import difflib
import os
import re
import sys

PROGRAMS = os.path.join("examples", "trees")
LIBRARY = os.path.join("include", "tmh", "trees")
# Of each tree: its programs' name, and its files.
BOTH = [os.path.join(LIBRARY, name) for name in ("slot.hpp", "keys.hpp")]
TREES = {
    "B+-tree": (
        "bptree",
        [os.path.join(LIBRARY, name) for name in ("bptree.hpp", "bptree_nodes.hpp")] + BOTH,
    ),
    "CO B-tree": (
        "cobtree",
        [os.path.join(PROGRAMS, name) for name in ("cobtree.hpp", "veb_layout.hpp")] + BOTH,
    ),
}
# The thesis: 23 and 17 calls.
CALLS_MAX = {"B+-tree": 23, "CO B-tree": 17}
CALL = re.compile(
    r"tmh::(?:\w+::)?(?:atomically|query|open)\s*\(|\.(?:map|root<\w+>|begin|end|close)\s*\("
)


def code_lines(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
    return [
        line for line in (re.sub(r"//.*", "", each).strip() for each in text.splitlines()) if line
    ]


def tree_includes(lines):
    return [line for line in lines if line.startswith(('#include "', "#include <tmh/trees/"))]


def count(root):
    """Rows of table 5.4, ours: a dictionary per tree."""
    folder = os.path.join(root, PROGRAMS)
    rows = []
    for tree, (name, headers) in TREES.items():
        shared_by_both = sum(len(code_lines(os.path.join(root, header))) for header in headers)
        serial = code_lines(os.path.join(folder, name + "_serial.cpp"))
        shared = code_lines(os.path.join(folder, name + "_shared.cpp"))
        if tree_includes(serial) != tree_includes(shared) or not tree_includes(serial):
            raise ValueError(f"{name}: the two programs do not use the same tree")
        changes = [line for line in difflib.ndiff(serial, shared) if line[:2] in ("- ", "+ ")]
        added = [line[2:] for line in changes if line[0] == "+"]
        rows.append({
            "tree": tree,
            "serial_lines": shared_by_both + len(serial),
            "transactional_lines": shared_by_both + len(shared),
            "lines_added": len(added),
            "lines_removed": len(changes) - len(added),
            "calls_added": sum(len(CALL.findall(line)) for line in added),
            "calls_of_the_thesis": CALLS_MAX[tree],
        })
    return rows


if __name__ == "__main__":
    for row in count(sys.argv[1] if len(sys.argv) > 1 else "."):
        print(row)
