#!/usr/bin/env python3
"""What the house looks like in numbers, one row for each room: files, lines, classes, circles of
includes, asserts; then words of documents and options.

    figures.py ROOT [ROOT...]      one table for each tree: a change beside what it changes
    figures.py --circles ROOT      fails when a room has a larger circle than CIRCLES allows it, or
                                   a smaller one than it says
    figures.py --self-test         finds a circle

A circle is a set of files (a header and its source are one) of which each includes each other one,
by way of others perhaps. The largest class is the one with the most methods.
"""

import collections
import os
import re
import sys
import tempfile

import classes
import layering
import source_tree

ASSERT = re.compile(r"\bTMH_ASSERT\(|\bstatic_assert\(")
DEPTH = 2  # levels/page
# Files in the largest circle of a room. A circle that is opened shrinks or loses its entry.
CIRCLES = {
    "bindings/python": 5,
    "compat/libitm": 10,
    "hierarchy/transaction": 2,
    "levels/line": 2,
    "levels/page": 3,
    "platform": 5,
    "rtm_emulator": 7,
    "storage/heap": 2,
    "tools": 4,
}


def room_of(name):
    folders = os.path.dirname(name).split(os.sep)
    return os.sep.join(folders[:DEPTH])


def is_library(name):
    return name.startswith(classes.ROOMS) and not name.startswith(("bench", "examples", "programs"))


def circles(root, names):
    """Sizes of the circles of files, by room of their first file."""
    stems = {os.path.splitext(name)[0] for name in names}
    edges = collections.defaultdict(set)
    for name in names:
        stem = os.path.splitext(name)[0]
        for match in layering.INCLUDE.finditer(source_tree.read(root, name)):
            target = layering.target_of(root, name, match.group(1), match.group(2))
            if target is not None and os.path.splitext(target)[0] in stems - {stem}:
                edges[stem].add(os.path.splitext(target)[0])
    return components(stems, edges)


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


def library_files(root):
    return [name for name in source_tree.code_files(root) if is_library(name)]


def largest_circles(root, names):
    """The largest circle of each room that has one."""
    largest = {}
    for circle in circles(root, names):
        room = room_of(circle[0])
        if len(circle) > len(largest.get(room, [])):
            largest[room] = circle
    return largest


def wrong_circles(root, allowed):
    found = largest_circles(root, library_files(root))
    wrong = []
    for room in sorted(set(found) | set(allowed)):
        size = len(found.get(room, []))
        if size != allowed.get(room, 0):
            wrong.append(f"{room}: a circle of {size} files, CIRCLES says {allowed.get(room, 0)}: "
                         + " ".join(os.path.basename(stem) for stem in found.get(room, [])))
    return wrong


def self_test():
    files = {
        "storage/a.h": '#include "storage/b.h"\n',
        "storage/a.cpp": '#include "storage/a.h"\n',
        "storage/b.h": "",
        "storage/b.cpp": '#include "storage/b.h"\n#include "storage/c.h"\n',
        "storage/c.h": '#include "storage/a.h"\n',
        "storage/d.h": '#include "storage/a.h"\n',
    }
    with tempfile.TemporaryDirectory() as root:
        source_tree.plant(root, files)
        cases = [({"storage": 3}, 0), ({}, 1), ({"storage": 2}, 1), ({"storage": 4}, 1)]
        for allowed, count in cases:
            found = wrong_circles(root, allowed)
            if len(found) != count:
                print(f"{allowed}: {found}")
                return 1
    return 0


def rows(root):
    names = library_files(root)
    rooms = collections.defaultdict(list)
    for name in names:
        rooms[room_of(name)].append(name)
    largest_of = largest_circles(root, names)
    for room, members in sorted(rooms.items()):
        texts = {name: source_tree.read(root, name) for name in members}
        found = [counted for text in texts.values() for counted in classes.classes(text)]
        lines = sum(text.count("\n") for text in texts.values())
        asserts = sum(len(ASSERT.findall(text)) for text in texts.values())
        largest = max(found, key=lambda each: len(each.methods), default=None)
        yield (room, len(members), lines, len(found), len(largest_of.get(room, [])), asserts,
               lines // asserts if asserts else 0, len(largest.methods) if largest else 0,
               len(largest.fields) if largest else 0, largest.name if largest else "")


def words(root):
    total = 0
    for name in source_tree.project_files(root):
        if name.endswith(".md") or name.startswith(("man/", "docs/man/")):
            total += len(source_tree.read(root, name).split())
    return total


def options(root):
    """Fields of DomainOptions and of what it holds, and environment variables of the options."""
    text = source_tree.read(root, "include/tmh/options.hpp")
    fields = sum(len(each.fields) for each in classes.classes(text) if each.name != "Option")
    page = source_tree.read(root, "docs/options.md")
    return fields, len(set(re.findall(r"\| `(TMH_[A-Z_0-9]+)`", page)))


def table(root):
    print(f"{'room':24}files  lines classes circle asserts lines/assert largest class")
    for room, files, lines, count, circle, asserts, per, methods, fields, name in rows(root):
        print(f"{room:24}{files:5} {lines:6} {count:7} {circle or '-':>6} {asserts:7} "
              f"{per or '-':>12} {name} ({methods} methods, {fields} fields)")
    fields, variables = options(root)
    print(f"words of documents: {words(root)}; options: {fields} fields, {variables} variables")


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 64
    if sys.argv[1] == "--self-test":
        return self_test()
    if sys.argv[1] == "--circles":
        wrong = wrong_circles(sys.argv[2], CIRCLES)
        print("\n".join(wrong) or "circles: as CIRCLES says")
        return 1 if wrong else 0
    for root in sys.argv[1:]:
        table(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
