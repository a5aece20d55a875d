"""asserts.py -- a room has an assert in 60 lines: preconditions are code, and not prose.

Counted are TMH_ASSERT and static_assert, in headers and sources, comments counting as lines.
"""

import collections
import re

from rules.circles import files_of_rooms, room_of
from rules.rule import Planted, Rule, Violation

ASSERT = re.compile(r"\bTMH_ASSERT\(|\bstatic_assert\(")
LINES_PER_ASSERT = 60


def count(texts):
    """(lines, asserts)"""
    return (sum(text.count("\n") for text in texts),
            sum(len(ASSERT.findall(text)) for text in texts))


def rounded_up(number):
    """To tens, or two digits, so that not each new line changes what the table says."""
    step = max(10, 10 ** (len(str(number)) - 2))
    return -(-number // step) * step


class Asserts(Rule):
    name = "asserts"
    demands = f"Each room has an assert in {LINES_PER_ASSERT} lines."
    # room -> lines per assert, rounded_up(); 0: it has none
    exceptions = {
        "include": (0, "the interface of the thesis, C"),
        "include/tp": (0, "plain C, too"),
        "include/tmh": (160, "contracts of users' calls are checked behind them, by hierarchy/api"),
    }

    def violations(self, tree):
        rooms = collections.defaultdict(list)
        for name in files_of_rooms(tree):
            if not name.startswith("examples/"):  # what people copy out
                rooms[room_of(name)].append(name)
        for room, names in sorted(rooms.items()):
            lines, asserts = count([tree.read(name) for name in names])
            if lines > LINES_PER_ASSERT * max(asserts, 1):
                measure = rounded_up(-(-lines // asserts)) if asserts else 0
                said = f"one in {lines // asserts}" if asserts else "none"
                yield Violation(names[0], 1, f"{room}: {said} of {lines} lines, at least one in"
                                f" {LINES_PER_ASSERT}", room, measure)


def lines_of(number, asserts):
    return "TMH_ASSERT(a);\n" * asserts + "int a;\n" * (number - asserts)


Asserts.right = {
    "storage/a.h": lines_of(600, 10),
    "tools/a.cpp": lines_of(LINES_PER_ASSERT, 0),
    "levels/page/touch/a.cpp": lines_of(700, 5),
}
Asserts.right_exceptions = {"levels/page": 140}
Asserts.planted = (
    Planted("too few", {"compat/libxac/b.cpp": lines_of(599, 9)},
            ("compat/libxac/b.cpp:1: compat/libxac: one in 66 of 599 lines",)),
    Planted("none", {"bench/b.cpp": lines_of(61, 0)}, ("bench: none of 61 lines",)),
    Planted("fewer than the table says", {"levels/page/b.cpp": lines_of(10, 0)},
            ("levels/page: one in 142", ), {"levels/page": 140}),
    Planted("more than the table says", {"levels/page/b.cpp": lines_of(10, 1)},
            ("levels/page: one in 118",)),
    Planted("as many as in other rooms", {"levels/page/b.cpp": lines_of(100, 10)},
            ("levels/page needs no exception",)),
)
RULE = Asserts()
