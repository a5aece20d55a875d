"""lines_changed.py -- what it takes to make a serial tree transactional: lines and library calls,
counted in the sources (table 5.4).

A line counts when something is left of it without comments. The trees themselves are the same files
in both programs.
"""

import difflib
import os
import re
import sys

TREES = {
    "B+-tree": ("bptree", ["bptree.hpp", "bptree_nodes.hpp", "slot.hpp", "keys.hpp"]),
    "CO B-tree": ("cobtree", ["cobtree.hpp", "veb_layout.hpp", "slot.hpp", "keys.hpp"]),
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


def local_includes(lines):
    return [line for line in lines if line.startswith('#include "')]


def count(root):
    """Rows of table 5.4, ours: a dictionary per tree."""
    folder = os.path.join(root, "examples", "trees")
    rows = []
    for tree, (name, headers) in TREES.items():
        shared_by_both = sum(len(code_lines(os.path.join(folder, header))) for header in headers)
        serial = code_lines(os.path.join(folder, name + "_serial.cpp"))
        shared = code_lines(os.path.join(folder, name + "_shared.cpp"))
        if local_includes(serial) != local_includes(shared):
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
