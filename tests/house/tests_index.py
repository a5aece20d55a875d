#!/usr/bin/env python3
"""tests_index.py ROOT [--print] | --self-test -- each test says in its first sentence what it is
about; --print makes the index of tests from these.

A test is a *_test.cpp, or a Python script with a main().
"""

import os
import re
import sys
import tempfile

import source_tree

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


def sentence_of(root, name):
    text = source_tree.read(root, name)
    is_script = name.endswith(".py")
    base = os.path.basename(name)
    said = docstring(text, base) if is_script else comment_at_top(text)
    if said.startswith((base, name)):
        said = said.partition(" -- ")[2]
    said = re.split(r"(?<=[a-z0-9)`'])\. ", said)[0].rstrip(".")
    return said.replace("|", "\\|")


def tests_of(root):
    for name in source_tree.project_files(root):
        if re.fullmatch(r"tests/(.*/)?\w+_test\.cpp", name):
            yield name
        elif re.fullmatch(r"tests/(.*/)?\w+\.py", name):
            if "def main(" in source_tree.read(root, name):
                yield name


def index_of(root):
    rows = ["| test | what it is about |", "|---|---|"]
    for name in sorted(tests_of(root), key=lambda name: (name.endswith(".py"), name)):
        short = name.removeprefix("tests/").removesuffix(".cpp")
        rows.append(f"| `{short}` | {sentence_of(root, name)} |")
    return "\n".join(rows) + "\n"


def check(root):
    return [
        f"{name} does not say in its first sentence what it is about"
        for name in tests_of(root)
        if not sentence_of(root, name)
    ]


def self_test():
    """The index has each test's sentence; a test that is silent is reported."""
    tree = {
        "tests/a_test.cpp": "// tests/a_test.cpp -- one thing,\n// in 0.1 s. More.\n// Source: x\n",
        "tests/b/c_test.cpp": "// tests/b/c_test.cpp -- another.\n// Invariant: y\n",
        "tests/d.py": '"""d.py ROOT\n\na third. More.\n"""\ndef main():\n',
        "tests/helper.py": "x = 1\n",
    }
    index = (
        "| test | what it is about |\n|---|---|\n| `a_test` | one thing, in 0.1 s |\n"
        "| `b/c_test` | another |\n| `d.py` | a third |\n"
    )
    problems = []
    for what, planted in {"": {}, "silent": {"tests/a_test.cpp": "int main() {}\n"}}.items():
        with tempfile.TemporaryDirectory() as root:
            source_tree.plant(root, {**tree, **planted})
            found = check(root)
            if bool(found) != bool(what):
                problems.append(f"{what or 'a right tree'}: {found}")
            if not what and index_of(root) != index:
                problems.append(f"another index: {index_of(root)}")
    return problems


def main():
    arguments = sys.argv[1:]
    if "--print" in arguments:
        print(index_of(arguments[0]), end="")
        return 0
    problems = self_test() if arguments == ["--self-test"] else check(arguments[0])
    print("\n".join(problems) or "index of tests: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
