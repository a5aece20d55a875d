"""readmes.py -- each folder of the layout has a README.md that says what it may include."""

import re

from rules.rule import Planted, Rule, Violation

LAYOUT = [
    "include",
    "observe",
    "platform",
    "rtm_emulator",
    "storage",
    "storage/log",
    "storage/heap",
    "levels",
    "levels/line",
    "levels/lock",
    "levels/page",
    "levels/process",
    "hierarchy",
    "hierarchy/exchange",
    "hierarchy/threads",
    "hierarchy/durability",
    "hierarchy/watch",
    "hierarchy/domain",
    "hierarchy/transaction",
    "hierarchy/api",
    "compat",
    "observe/perf",
    "tools",
    "tests",
    "bench",
    "examples",
    "papers",
    "cmake",
]


class Readmes(Rule):
    name = "readmes"
    demands = "Each folder of the layout has a README.md that says what the folder may include."

    def violations(self, tree):
        for folder in LAYOUT:
            path = folder + "/README.md"
            if path not in tree.file_set:
                yield Violation(path, 1, "is missing")
            elif not re.search(r"\binclude", tree.read(path), re.IGNORECASE):
                yield Violation(path, 1, "does not say what the folder may include")


Readmes.right = {folder + "/README.md": "May include: nothing.\n" for folder in LAYOUT}
Readmes.planted = (
    Planted("a silent one", {"hierarchy/README.md": "A folder.\n"},
            ("hierarchy/README.md:1: does not say",)),
)
RULE = Readmes()
