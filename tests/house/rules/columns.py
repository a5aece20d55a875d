"""columns.py -- no line is wider than 100 columns."""

import re

from rules.rule import Planted, Rule, Violation

COLUMNS_MAX = 100
# Which files have which lines that may be wider: None is all of them.
WIDE = [
    (r".*\.(csv|json|html|svg|gz)", None),  # data: a line is a record, a value or generated
    (r"tests/costs\.txt", None),  # generated, names of tests
    (r"papers/.*\.txt", None),  # stored source documents, and what benches printed
    (r".*\.md", r"\s*\|.*"),  # the row of a table is one line in Markdown
    (r".*", r"\W*\S+"),  # one word, an address say, cannot break
]
TOO_WIDE = re.compile(r".{%d,}" % (COLUMNS_MAX + 1))


def may_be_wide(name, line):
    return any(
        re.fullmatch(names, name) and (lines is None or re.fullmatch(lines, line))
        for names, lines in WIDE
    )


class Columns(Rule):
    name = "columns"
    demands = f"No line is wider than {COLUMNS_MAX} columns."

    def violations(self, tree):
        for name in tree.files:
            if may_be_wide(name, ""):
                continue
            text = tree.read(name)
            for match in TOO_WIDE.finditer(text):
                line = match.group(0)
                if not may_be_wide(name, line):
                    yield Violation(name, text.count("\n", 0, match.start()) + 1,
                                    f"{len(line)} columns, at most {COLUMNS_MAX}")


LONG = "word " * COLUMNS_MAX
Columns.right = {
    "docs/a.md": "w" * COLUMNS_MAX + "\n| " + LONG + "|\n",
    "docs/a.json": LONG,
    "papers/a/a.txt": LONG,
    "scripts/a.sh": "# https://example.org/" + "w" * COLUMNS_MAX + "\n",
}
Columns.planted = (
    Planted("a wide line", {"docs/b.md": "\n" + "word " * (COLUMNS_MAX // 5) + "word\n"},
            ("docs/b.md:2: 104 columns",)),
    Planted("a wide row of code", {"tools/b.cpp": "| " + LONG + "|\n"}, ("tools/b.cpp:1:",)),
)
RULE = Columns()
