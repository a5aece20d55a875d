"""lines.py -- no file is longer than 700 lines."""

from rules.rule import Planted, Rule, Violation
from source_tree import CODE

LINES_MAX = 700
CHECKED = (*CODE, ".py", ".sh", ".cmake", ".txt")


class Lines(Rule):
    name = "lines"
    demands = f"No file of code has more than {LINES_MAX} lines."

    def violations(self, tree):
        for name in tree.files:
            # Stored source documents of papers/ are as long as they are.
            if not name.endswith(CHECKED) or name.endswith(".txt") and name.startswith("papers/"):
                continue
            lines = tree.read(name).count("\n")
            if lines > LINES_MAX:
                yield Violation(name, lines, f"{lines} lines, at most {LINES_MAX}", name, lines)


Lines.right = {"platform/a.cpp": "int f();\n" * LINES_MAX, "papers/a.txt": "\n" * (LINES_MAX + 1)}
Lines.planted = (
    Planted("a long source", {"platform/b.cpp": "int f();\n" * (LINES_MAX + 1)},
            ("platform/b.cpp:701: 701 lines",)),
    Planted("a long script", {"tests/b.py": "\n" * (LINES_MAX + 9)}, ("tests/b.py:709:",)),
)
RULE = Lines()
