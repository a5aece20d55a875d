"""first_sentences.py -- each test says in its first sentence what it is about.

A test is a *_test.cpp, or a Python script with a main(). index_of() makes the index of tests from
these sentences (house.py --index).
"""

import os
import re

from rules.rule import Planted, Rule, Violation

LABEL = re.compile(r"^[A-Z]\w*s?:")


def comment_at_top(text):
    """The comment of a C++ file up to its first label, as one line."""
    words = []
    for line in text.splitlines():
        line = line.removeprefix("//").strip() if line.startswith("//") else None
        if line is None or LABEL.match(line):
            break
        words.append(line)
    return " ".join(words)


def docstring(text, name):
    """The first paragraph that says something, as one line."""
    found = re.search(r'^"""(.*?)"""', text, re.MULTILINE | re.DOTALL)
    paragraphs = [
        " ".join(part.split()) for part in re.split(r"\n\s*\n", found[1] if found else "")
    ]
    usage = paragraphs[0].startswith(name) and " -- " not in paragraphs[0]
    return paragraphs[1] if usage and len(paragraphs) > 1 else paragraphs[0]


def sentence_of(tree, name):
    text = tree.read(name)
    is_script = name.endswith(".py")
    base = os.path.basename(name)
    said = docstring(text, base) if is_script else comment_at_top(text)
    if said.startswith((base, name)):
        said = said.partition(" -- ")[2]
    said = re.split(r"(?<=[a-z0-9)`'])\. ", said)[0].rstrip(".")
    return said.replace("|", "\\|")


def tests_of(tree):
    for name in tree.files:
        if re.fullmatch(r"tests/(.*/)?\w+_test\.cpp", name):
            yield name
        elif re.fullmatch(r"tests/(.*/)?\w+\.py", name):
            if re.search(r"^def main\(", tree.read(name), re.MULTILINE):
                yield name


def index_of(tree):
    rows = ["| test | what it is about |", "|---|---|"]
    for name in sorted(tests_of(tree), key=lambda name: (name.endswith(".py"), name)):
        short = name.removeprefix("tests/").removesuffix(".cpp")
        rows.append(f"| `{short}` | {sentence_of(tree, name)} |")
    return "\n".join(rows) + "\n"


class FirstSentences(Rule):
    name = "first_sentences"
    demands = "Each test says in its first sentence what it is about."

    def violations(self, tree):
        for name in tests_of(tree):
            if not sentence_of(tree, name):
                yield Violation(name, 1, "does not say in its first sentence what it is about")


FirstSentences.right = {
    "tests/a_test.cpp": "// tests/a_test.cpp -- one thing,\n// in 0.1 s. More.\n// Source: x\n",
    "tests/b/c_test.cpp": "// tests/b/c_test.cpp -- another.\n// Invariant: y\n",
    "tests/d.py": '"""d.py ROOT\n\na third. More.\n"""\ndef main():\n',
    "tests/helper.py": "x = 1\n",
}
FirstSentences.planted = (
    Planted("a silent test", {"tests/a_test.cpp": "int main() {}\n"}, ("tests/a_test.cpp:1:",)),
    Planted("a silent script", {"tests/e.py": "def main():\n"}, ("tests/e.py:1:",)),
)
# What index_of() makes of the right tree.
INDEX = (
    "| test | what it is about |\n|---|---|\n| `a_test` | one thing, in 0.1 s |\n"
    "| `b/c_test` | another |\n| `d.py` | a third |\n"
)
RULE = FirstSentences()
