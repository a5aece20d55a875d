#!/usr/bin/env python3
"""format_sizes.py <root> | --self-test -- FORMAT.md names the sizes that the code asserts.

Each record of a domain's files is a struct whose size a static_assert fixes, in the file that the
row of FORMAT.md names as its definition.
"""
import glob
import os
import re
import sys

# name in a row of FORMAT.md -> the struct, and how the row says its size
RECORDS = {
    "tmh.state": ("DomainState", r"(\d+) bytes: lock"),
    "tmh.participants": ("Participant", r"records of (\d+) bytes"),
    "tmh.versions.head": ("VersionHead", r"(\d+)-byte heads"),
    "tmh.commits": ("CommitLogEntry", r"entries of (\d+) bytes"),
    "tmh.directory.N": ("DirectoryRecord", r"(\d+) bytes per page"),
    "tmh.accesses": ("AccessEntry", r"entries of (\d+) bytes"),
    "tmh.pages.N": ("PageMeta", r"(\d+) bytes per page"),
}


def problems_in(text, source_of):
    """source_of: a path of the tree -> its text."""
    problems = []
    for name, (struct, said) in RECORDS.items():
        row = re.search(rf"^\| `{re.escape(name)}`.*$", text, re.MULTILINE)
        size = row and re.search(said, row[0])
        where = row and re.findall(r"`([a-z_/]+\.h)` \|$", row[0])
        if not size or not where:
            problems.append(f"FORMAT.md: the row of {name} names no size or no file")
            continue
        asserted = re.search(rf"static_assert\(sizeof\({struct}\) == (\d+)", source_of(where[0]))
        if not asserted or asserted[1] != size[1]:
            found = asserted[1] if asserted else "nothing"
            problems.append(f"FORMAT.md: {name} has {size[1]} bytes, {where[0]} asserts {found}")
    return problems


def self_test():
    names = list(RECORDS)
    row = ("| `{}` | x | 64 bytes: lock records of 64 bytes 64-byte heads entries of 64 bytes "
           "64 bytes per page | `a/b.h` |")
    text = "\n".join(row.format(name) for name in names)
    code = "\n".join(f"static_assert(sizeof({struct}) == 64);" for struct, _ in RECORDS.values())
    wrong = []
    if problems_in(text, lambda path: code):
        wrong.append("right sizes are refused")
    if len(problems_in(text.replace("64 bytes: lock", "65 bytes: lock"), lambda path: code)) != 1:
        wrong.append("a wrong size is not found")
    if len(problems_in("\n".join(text.splitlines()[1:]), lambda path: code)) != 1:
        wrong.append("a missing row is not found")
    return wrong


def main():
    if sys.argv[1:] == ["--self-test"]:
        problems = self_test()
    else:
        root = sys.argv[1]

        def source_of(path):
            with open(os.path.join(root, path), encoding="utf-8") as file:
                return file.read()

        # in its room, wherever that lies
        found = [path for room in ("levels", "storage")
                 for path in glob.glob(os.path.join(root, room, "**", "FORMAT.md"), recursive=True)]
        text = source_of(os.path.relpath(found[0], root))
        problems = problems_in(text, source_of)
    print("\n".join(problems) or "format_sizes: fine")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
