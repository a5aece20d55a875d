"""budgets.py -- what tests/house/budgets.py says: no document has more words than its budget."""

import budgets
import source_tree
from rules.rule import Planted, Rule, Violation


class Budgets(Rule):
    name = "budgets"
    demands = "No document has more words than its budget."
    exceptions = budgets.EXCEPTIONS

    def judge(self, tree, exceptions=None):
        # It allows a document some slack below its exception.
        allowed = self.exceptions if exceptions is None else exceptions
        with source_tree.remembered(tree):
            found = budgets.check(tree.root, allowed, budgets.TOTAL_WORDS)
        lines = [line.partition(": ") for line in found]
        return [Violation(file, 1, what) for file, _, what in lines]


# budgets.py --self-test plants the others.
Budgets.right = {"README.md": "word " * budgets.README_WORDS, "docs/a.md": "word "}
Budgets.planted = (
    Planted("a long README", {"README.md": "word " * (budgets.README_WORDS + 1)},
            ("README.md:1: 1201 words",)),
    Planted("a false exception", {}, ("docs/a.md:1: 1 words need no exception",),
            {"docs/a.md": 1600}),
)
RULE = Budgets()
