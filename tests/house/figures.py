#!/usr/bin/env python3
"""What the house looks like in numbers, one row for each room: files, lines, classes, circles of
includes, asserts; then words of documents and options.

    figures.py ROOT [ROOT...]      one table for each tree: a change beside what it changes

The largest class is the one with the most methods.
"""

import collections
import re
import sys

import source_tree
from rules import asserts, circles, classes, cxx


def rows(tree):
    rooms = collections.defaultdict(list)
    for name in circles.files_of_rooms(tree):
        rooms[circles.room_of(name)].append(name)
    largest_of = circles.largest_circles(tree)
    for room, members in sorted(rooms.items()):
        found = [counted for name in members
                 for counted in classes.classes(cxx.parsed(tree, name))]
        lines, count = asserts.count([tree.read(name) for name in members])
        largest = max(found, key=lambda each: len(each.methods), default=None)
        yield (room, len(members), lines, len(found), len(largest_of.get(room, [])), count,
               lines // count if count else 0, len(largest.methods) if largest else 0,
               len(largest.fields) if largest else 0, largest.name if largest else "")


def words(tree):
    return sum(len(tree.read(name).split()) for name in tree.files
               if name.endswith(".md") or name.startswith("docs/man/"))


def options(tree):
    """Fields of DomainOptions and of what it holds, and environment variables of the options."""
    file = cxx.parsed(tree, "include/tmh/options.hpp")
    fields = sum(len(each.fields) for each in classes.classes(file) if each.name != "Option")
    page = tree.read("docs/options.md")
    return fields, len(set(re.findall(r"\| `(TMH_[A-Z_0-9]+)`", page)))


def table(root):
    tree = source_tree.Tree(root)
    print(f"{'room':24}files  lines classes circle asserts lines/assert largest class")
    for room, files, lines, count, circle, found, per, methods, fields, name in rows(tree):
        print(f"{room:24}{files:5} {lines:6} {count:7} {circle or '-':>6} {found:7} "
              f"{per or '-':>12} {name} ({methods} methods, {fields} fields)")
    fields, variables = options(tree)
    print(f"words of documents: {words(tree)}; options: {fields} fields, {variables} variables")


def main():
    if len(sys.argv) < 2:
        print(__doc__)
        return 64
    for root in sys.argv[1:]:
        table(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
