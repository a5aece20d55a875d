#!/usr/bin/env python3
"""budgets.py ROOT | --print ROOT | --self-test -- no document has more words than its budget.

Words are counted as `wc -w` does. A document is a Markdown file or a manual page. EXCEPTIONS may
only shrink: a document that has become shorter than its entry says by more than SLACK wants the
entry lowered. --print shows each document with its words, the longest last.
"""
import re
import sys
import tempfile

import source_tree

DOCUMENT = re.compile(r".*\.md|docs/man/.*\.[1-8]")
README, README_WORDS = "README.md", 1200
PAGE_WORDS = 1500
TOTAL_WORDS = 110936
SLACK = 100
# Pages that are tables by nature, references and reports: their words today.
EXCEPTIONS = {
    "ARCHITECTURE.md": 2830,
    "bench/README.md": 3730,
    "docs/design.md": 1830,
    "docs/glossary.md": 2665,
    "docs/man/tmh-durability.7": 1825,
    "docs/man/tmh-itm.7": 2507,
    "docs/man/tmh-levels.7": 2085,
    "docs/man/tmh.1": 5470,
    "docs/measurements.md": 6920,
    "docs/options.md": 2490,
    "docs/sources.md": 1800,
    "examples/inverted_index/README.md": 2380,
    "hierarchy/exchange/PROTOCOL.md": 7422,
    "levels/process/README.md": 1785,
    "papers/excite-vm/README.md": 2710,
    "papers/memory-mapped-transactions/README.md": 6515,
    "rtm_emulator/README.md": 1870,
    "storage/log/FORMAT.md": 4560,
    "tests/README.md": 1745,
}


def words_of(root):
    return {
        name: len(source_tree.read(root, name).split())
        for name in source_tree.project_files(root)
        if DOCUMENT.fullmatch(name)
    }


def check(root, exceptions, total_words):
    words, problems = words_of(root), []
    for name, count in words.items():
        budget = README_WORDS if name == README else PAGE_WORDS
        allowed = exceptions.get(name, budget)
        if count > allowed:
            problems.append(f"{name}: {count} words, at most {allowed}")
        elif name in exceptions and count <= budget:
            problems.append(f"{name}: {count} words need no exception")
        elif name in exceptions and count < allowed - SLACK:
            problems.append(f"{name}: {count} words, its exception says {allowed}: lower it")
    problems += [f"{name}: an exception without a document" for name in exceptions.keys() - words]
    if sum(words.values()) > total_words:
        problems.append(f"all documents: {sum(words.values())} words, at most {total_words}")
    return problems


def self_test():
    """A right tree passes; each fault is reported."""
    right = {"README.md": README_WORDS, "docs/a.md": PAGE_WORDS, "docs/table.md": 2000,
             "docs/man/a.7": 10, "docs/man/a.txt": 9000}
    planted = {
        "": ({}, None),
        "a long README": ({"README.md": README_WORDS + 1}, "README.md: 1201 words"),
        "a long page": ({"docs/a.md": PAGE_WORDS + 1}, "docs/a.md: 1501 words"),
        "a long manual page": ({"docs/man/a.7": PAGE_WORDS + 1}, "docs/man/a.7: 1501 words"),
        "an exception that grows": ({"docs/table.md": 2001}, "at most 2000"),
        "an exception that shrinks": ({"docs/table.md": 2000 - SLACK - 1}, "lower it"),
        "an exception that has shrunk": ({"docs/table.md": PAGE_WORDS}, "need no exception"),
        "an exception without a document": ({"docs/table.md": None}, "without a document"),
        "many short pages": ({f"a/{i}.md": 1500 for i in range(3)}, "all documents: 9210 words"),
    }
    problems = []
    for what, (changed, said) in planted.items():
        with tempfile.TemporaryDirectory() as root:
            tree = {name: "a \n" * count for name, count in {**right, **changed}.items()
                    if count is not None}
            source_tree.plant(root, tree)
            found = check(root, {"docs/table.md": 2000}, 8000)
        if (said is None and found) or (said and (len(found) != 1 or said not in found[0])):
            problems.append(f"{what or 'a right tree'}: {found or 'not reported'}")
    return problems


def main():
    if sys.argv[1] == "--print":
        for name, count in sorted(words_of(sys.argv[2]).items(), key=lambda one: one[1]):
            print(f"{count:7} {name}")
        return 0
    problems = (self_test() if sys.argv[1] == "--self-test"
                else check(sys.argv[1], EXCEPTIONS, TOTAL_WORDS))
    print("\n".join(problems) or "budgets: kept")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
