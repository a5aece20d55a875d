"""circles.py -- files of a room include each other in a circle only where the table says so.

A circle is a set of files of which each includes each other one, by way of others perhaps. A
header, its source and its X_inline.h are one file.
"""

import collections
import os

from rules import layering
from rules.classes import ROOMS
from rules.rule import Planted, Rule, Violation

DEPTH = 2  # levels/page


def room_of(name):
    return "/".join(os.path.dirname(name).split("/")[:DEPTH])


def files_of_rooms(tree):
    return [name for name in tree.code if name.startswith(ROOMS)]


def stem_of(name, known):
    """Of a file: a header, its source, and what it has inline in a file of its own, are one."""
    stem = os.path.splitext(name)[0]
    whole = stem.removesuffix("_inline")
    return whole if whole in known else stem


def circles(tree, names):
    """Sets of the files of `names` that include each other, as stems."""
    known = {os.path.splitext(name)[0] for name in names}
    edges = collections.defaultdict(set)
    for name in names:
        stem = stem_of(name, known)
        for target, _ in layering.includes_of(tree, name):
            if stem_of(target, known) in known - {stem}:
                edges[stem].add(stem_of(target, known))
    return components(known, edges)


def components(nodes, edges):
    """Strongly connected components of at least two nodes (Tarjan's, without recursion)."""
    order, low, stack, on_stack, found = {}, {}, [], set(), []
    for start in sorted(nodes):
        if start in order:
            continue
        work = [(start, iter(sorted(edges[start])))]
        order[start] = low[start] = len(order)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, rest = work[-1]
            for target in rest:
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(edges[target]))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    component = []
                    while True:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                        if component[-1] == node:
                            break
                    if len(component) > 1:
                        found.append(sorted(component))
    return found


def largest_circles(tree):
    """The largest circle of each room that has one."""
    largest = {}
    for circle in circles(tree, files_of_rooms(tree)):
        room = room_of(circle[0])
        if len(circle) > len(largest.get(room, [])):
            largest[room] = circle
    return largest


class Circles(Rule):
    name = "circles"
    demands = "No files of a room include each other in a circle."
    # room -> files in its largest circle
    exceptions = {
        "bench/support": 2,
        "bindings/python": 5,
        "examples/inverted_index": 2,
        "examples/itm": 2,
        "hierarchy/transaction": 2,
        "levels/line": 2,
        "levels/page": 3,
        "platform": 4,
        "rtm_emulator": 7,
        "storage/heap": 2,
        "tools": 4,
    }

    def violations(self, tree):
        for room, circle in sorted(largest_circles(tree).items()):
            names = " ".join(os.path.basename(stem) for stem in circle)
            file = next(name for name in (circle[0] + ".h", circle[0] + ".hpp", circle[0] + ".cpp")
                        if name in tree.file_set)
            yield Violation(file, 1, f"{room} has a circle of {len(circle)} files: {names}", room,
                            len(circle))


Circles.right = {
    "storage/a.h": '#include "storage/b.h"\n',
    "storage/a.cpp": '#include "storage/a.h"\n',
    "storage/b.h": "",
    "storage/b.cpp": '#include "storage/b.h"\n#include "storage/c.h"\n',
    "storage/c.h": '#include "storage/a.h"\n',
    "storage/d.h": '#include "storage/a.h"\n',
    "platform/e.h": "",
    "platform/e.cpp": '#include "platform/e_inline.h"\n',
    "platform/e_inline.h": '#include "platform/e.h"\n',
}
Circles.right_exceptions = {"storage": 3}
Circles.planted = (
    Planted("no exception", {}, ("a.h:1: storage has a circle of 3 files: a b c",), {}),
    Planted("a smaller exception", {}, ("the exceptions say 2",), {"storage": 2}),
    Planted("a larger exception", {}, ("the exceptions say 4",), {"storage": 4}),
    Planted("an exception that nothing needs", {}, ("tools needs no exception",),
            {"storage": 3, "tools": 2}),
) + tuple(
    Planted(f"a circle in {room}", {f"{room}/x.h": f'#include "{room}/y.h"\n',
                                    f"{room}/y.h": f'#include "{room}/x.h"\n'},
            (f"{room}/x.h:1: {room} has a circle of 2 files",))
    for room in ("compat/libxac", "bindings/python", "tools", "bench/support", "programs")
)
RULE = Circles()
