"""citations.py -- what sources.py says: each `Source:` line, and each citation of a document, names
something that exists."""

import re

import source_tree
import sources
from rules.rule import Planted, Rule, Violation

PLACE = re.compile(r"([^\s:]+)(?::(\d+))?: (.*)", re.DOTALL)


class Citations(Rule):
    name = "citations"
    demands = "Each source, document, heading and file that a text cites exists."

    def violations(self, tree):
        with source_tree.remembered(tree):
            found = sources.check(tree.root)
        for line in found:
            place = PLACE.fullmatch(line)
            yield Violation(place[1], int(place[2] or 1), place[3])


# sources.py --self-test plants the others.
Citations.right = sources.RIGHT
Citations.planted = (
    Planted("a missing file", {"tools/bad.h": "// Source:    thesis, as tools/gone.h.\n"},
            ("tools/bad.h:1: no such file: tools/gone.h",)),
    Planted("a missing rule", {"tools/bad.cpp": "int a;  // as docs/design.md D7 says\n"},
            ("tools/bad.cpp:1: docs/design.md has no D7",)),
)
RULE = Citations()
