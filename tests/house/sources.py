#!/usr/bin/env python3
"""sources.py ROOT | --self-test -- each `Source:` line, and each citation of a document, names
something that exists.

Source:   its first sentence consists of clauses, separated by semicolons. Each names a file of the
          tree, an entry of docs/sources.md or a man page; or it begins with the section of the
          clause before.
Documents a section or rule cited of docs/design.md or docs/style.md (`docs/design.md 4, D2`) and a
          quoted heading (`hierarchy/exchange/PROTOCOL.md, "Death"`) are headings there, anywhere
          in the tree. Other spellings of those documents' names are refused.
Comments  a file of the tree that a comment of C or C++ names exists.
Rules     each row of the table "Rules of papers" of docs/sources.md names an entry above it, a
          file and a function that it has, a test's file and a test that it has.
Glossary  the last column of each row of docs/glossary.md names files that exist, and the rows are
          in alphabetical order.
"""
import os
import re
import sys
import tempfile

import source_tree

CHECKED = (*source_tree.CODE, ".py", ".md", ".pml", ".cmake", ".txt", ".1", ".3", ".7")
SOURCES, GLOSSARY = "docs/sources.md", "docs/glossary.md"
RULES = "## Rules of papers\n"
NUMBERED = ("docs/design.md", "docs/style.md")
# This file plants wrong citations.
SKIPPED_FILES = ("tests/house/sources.py",)
SKIPPED_FOLDERS = ("papers/",)

LABEL = re.compile(r"^\s*(//|#|\*)?\s*Source:\s+(.*)$")
CONTINUED = re.compile(r"^\s*(?://|#|\*) {6,}(\S.*)$")
MAN_PAGE = re.compile(r"\b([A-Za-z_][\w.+-]*)\(([1-8])[a-z]?\)")
NUMBER = r"(?:D[1-8]|S[1-5]|\d+)"
NUMBERS = re.compile(r"(docs/(?:design|style)\.md)((?:(?:,| and| to)? " + NUMBER + r"\b)+)")
QUOTED = re.compile(r'([\w/.-]+\.md)((?:,? (?:and )?"[^"]+")+)')
OLD = re.compile(r"\b(?:DESIGN|STYLE),? (?:sections? )?(?:D?\d)"
                 r"|\bnotes, (?:lessons?|invariants?)\b")
# In code. A document may say once which rules it means.
BARE = re.compile(r"\((?:D[1-8]|S[1-5])[):]")
SECTION_FIRST = re.compile(r"(?:vol\.|sections?|chapters?|appendix|tables?|figures?|\d)")
PATH = re.compile(r"(?<![\w./-])((?:[\w.+-]+/)+[\w+-]+\.[a-z]+)\b")


def one_line(text):
    """Wrapped comments as one line each: a citation may be broken anywhere."""
    text = re.sub(r"\n[ \t]*(?://+|#+(?= )|\*(?!/))?[ \t]*(?=\S)", " ", text)
    return re.sub(r"[ \t]+", " ", text)


def headings(text):
    return [line.lstrip("#").replace("`", "").strip() for line in text.splitlines()
            if re.match(r"#+ ", line)]


def rows(text):
    """The cells of the rows of tables, without their heads."""
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if cells[0] not in ("short name", "source", "word", ""):
                yield cells


class Tree:
    def __init__(self, root):
        self.root = root
        self.files = set(source_tree.project_files(root))
        self.folders = {name.split("/")[0] for name in self.files if "/" in name}
        self.headings_of = {name: headings(self.read(name)) for name in self.files
                            if name.endswith(".md")}
        self.sources = {}  # short name -> is it a program?
        is_program = False
        text = self.read(SOURCES) if SOURCES in self.files else ""
        entries, _, self.rules = text.partition(RULES)
        for line in entries.splitlines():
            if line.startswith("## "):
                is_program = line == "## Programs"
            self.sources.update((cells[0].replace("\\", ""), is_program) for cells in rows(line))

    def read(self, name):
        return source_tree.read(self.root, name)

    def cited(self, text):
        """The entries of docs/sources.md that a text names."""
        return [name for name in self.sources
                if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE)]

    def lacks_number(self, document, number):
        return not any(re.match(rf"{number}\. ", heading)
                       for heading in self.headings_of.get(document, []))

    def is_file_of_ours(self, path):
        return path.split("/")[0] in self.folders

    def resolves(self, clause):
        if self.cited(clause) or any(path in self.files for path in PATH.findall(clause)):
            return True
        return MAN_PAGE.search(clause) is not None


def citations_of(text):
    """(line number, text) of each `Source:`, unwrapped."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        found = LABEL.match(line)
        if not found:
            continue
        words = [found[2]]
        for more in lines[number + 1:]:
            continued = CONTINUED.match(more)
            if not continued:
                break
            words.append(continued[1])
        yield number + 1, " ".join(words)


def without_parentheses(text):
    while True:
        less = re.sub(r"(?<=[ ,;])\([^()]*\)", "", text)
        if less == text:
            return text
        text = less


def clauses_of(text):
    """Of the first sentence."""
    sentence = re.split(r"(?<=[a-z0-9)\]\"'}])\.(?: (?=[A-Z])|$)", without_parentheses(text))[0]
    return [clause.strip() for clause in sentence.split(";") if clause.strip(" .")]


def check_source(tree, text):
    problems = []
    for number, clause in enumerate(clauses_of(text)):
        if not tree.resolves(clause) and not (number and SECTION_FIRST.match(clause)):
            problems.append(f"names no file, man page or entry of {SOURCES}: {clause}")
        is_foreign = any(tree.sources[name] for name in tree.cited(clause))
        for path in PATH.findall(clause):
            if tree.is_file_of_ours(path) and path not in tree.files and not is_foreign:
                problems.append(f"no such file: {path}")
    for name, section in MAN_PAGE.findall(text):
        if name.startswith("tmh") and f"docs/man/{name}.{section}" not in tree.files:
            problems.append(f"no such man page: {name}({section})")
    return problems


def check_documents(tree, name, text):
    """Citations of documents, wherever they stand."""
    old = OLD.findall(text) + (BARE.findall(text) if name.endswith(source_tree.CODE) else [])
    problems = [f"cite a rule as docs/design.md D1, a section as docs/style.md 4, not as {one}"
                for one in old]
    for document, numbers in NUMBERS.findall(text):
        problems += [f"{document} has no {number}" for number in re.findall(NUMBER, numbers)
                     if tree.lacks_number(document, number)]
    for document, quoted in QUOTED.findall(text):
        beside = os.path.join(os.path.dirname(name), document)
        document = beside if beside in tree.headings_of else document
        if document not in tree.headings_of:
            continue
        for heading in re.findall(r'"([^"]+)"', quoted):
            heading = heading.rstrip(".,").replace("`", "")
            if not any(re.match(rf"{re.escape(heading)}(?!\w)", have)
                       for have in tree.headings_of[document]):
                problems.append(f'{document} has no heading "{heading}"')
    return problems


def check_comments(tree, text):
    comments = "\n".join(re.findall(r"//.*", text))
    return [f"no such file: {path}" for path in PATH.findall(comments)
            if tree.is_file_of_ours(path) and path not in tree.files
            and path.endswith((*source_tree.CODE, ".py", ".md"))]


def check_rules(tree):
    problems = []
    for cells in rows(tree.rules):
        what = f"{SOURCES}: '{cells[1] if len(cells) > 1 else cells[0]}'"
        if not tree.cited(cells[0]):
            problems.append(f"{what}: no such source: {cells[0]}")
        pairs = [re.findall(r"`([^`]+)`", cell) for cell in cells[2:]]
        if len(pairs) != 2 or any(len(pair) != 2 for pair in pairs):
            problems.append(f"{what}: wants a file and a function, a test's file and a test")
            continue
        for (path, name), folder in zip(pairs, ("", "tests/")):
            if path not in tree.files or not path.startswith(folder):
                problems.append(f"{what}: no such file: {path}")
            elif not re.search(rf"\b{re.escape(name)}\b", tree.read(path)):
                problems.append(f"{what}: {path} has no {name}")
    return problems


def check_glossary(tree):
    problems, before = [], ""
    for cells in rows(tree.read(GLOSSARY) if GLOSSARY in tree.files else ""):
        word, places = cells[0], re.findall(r"`([^`]+)`", cells[-1])
        if word.casefold() < before:
            problems.append(f"{GLOSSARY}: '{word}' is not in alphabetical order")
        before = word.casefold()
        if not places:
            problems.append(f"{GLOSSARY}: '{word}' names no file")
        problems += [f"{GLOSSARY}: '{word}': no such file: {place}" for place in places
                     if place not in tree.files]
    return problems


def check(root):
    tree, problems = Tree(root), []
    for name in sorted(tree.files):
        if not name.endswith(CHECKED) or name in SKIPPED_FILES:
            continue
        if name.startswith(SKIPPED_FOLDERS):
            continue
        text = tree.read(name)
        for number, source in citations_of(text):
            problems += [f"{name}:{number}: {what}" for what in check_source(tree, source)]
        problems += [f"{name}: {what}" for what in check_documents(tree, name, one_line(text))]
        if name.endswith(source_tree.CODE):
            problems += [f"{name}: {what}" for what in check_comments(tree, text)]
    return problems + check_rules(tree) + check_glossary(tree)


RIGHT = {
    "docs/design.md": "# Design\n## 4. The protocol\n### D1. Durable\n### D2. The log\n### S1. L\n",
    "docs/style.md": "# Style\n## 4. Lock-free\n",
    "docs/sources.md": "## Papers\n| short name | source |\n|---|---|\n| thesis | x |\n"
                       "| TL2 | y |\n| C++ standard | w |\n## Programs\n"
                       "| short name | source |\n|---|---|\n| Linux | z |\n"
                       "## Rules of papers\n| source | rule | file, function | test |\n"
                       "|---|---|---|---|\n"
                       "| thesis 2.1 | r | `tools/c.cpp` `f` | `tests/d_test.cpp` `IsSo` |\n",
    "tools/c.cpp": "int f() { return 0; }\n",
    "tests/d_test.cpp": "TEST(D, IsSo) {}\n",
    "docs/glossary.md": "| word | meaning | where |\n|---|---|---|\n| chain | a | `tools/a.h` |\n"
                        "| Clock | b | `tools/a.h` |\n",
    "hierarchy/exchange/PROTOCOL.md":
        "# How\n## Death (all)\n## Steps\nSource: thesis, section 6.2.\n",
    "docs/man/tmh-levels.7": "x",
    "tools/a.h": """// tools/a.h -- a, docs/design.md 4 and D1, as docs/style.md
// 4 says.
// Source:    thesis, sections 2.1 (a; b), 3.2 and appendix B; docs/design.md D1, D2; TL2. We
//            differ: prose; more prose.
// More:      pkeys(7).
""",
    "tools/b.h": """// Source:    Linux tools/perf/x.json; pkeys(7); tmh-levels(7);
//            C++ standard, pools; section 2; hierarchy/exchange/PROTOCOL.md, "Death", "Steps".
""",
    "tests/c.py": "# Source:  the prose of tools/a.h.\n",
}
# What -> the source that is planted instead, and a part of what is said of it.
FAULTS = {
    "a paper that is not listed": ("Knuth, 1968.", "names no file"),
    "a second clause that says nothing": ("thesis, 2.1; common sense.", "names no file"),
    "a man page without a section": ("pkeys.", "names no file"),
    "a man page of ours": ("tmh-other(7).", "no such man page"),
    "a missing file": ("thesis; tools/gone.h.", "no such file: tools/gone.h"),
    "a missing section": ("docs/design.md 4 and 5.", "docs/design.md has no 5"),
    "a missing rule": ("docs/design.md D1 to D8.", "docs/design.md has no D8"),
    "a missing section of style": ("docs/style.md 7.", "docs/style.md has no 7"),
    "a missing section, wrapped": ("thesis; docs/design.md 4,\n//            9.", "has no 9"),
    "a missing heading": ('hierarchy/exchange/PROTOCOL.md, "Life".', 'no heading "Life"'),
    "a second missing heading": ('hierarchy/exchange/PROTOCOL.md, "Steps", "Life".',
                                 'no heading "Life"'),
    "half a word of a heading": ('hierarchy/exchange/PROTOCOL.md, "Ste".', 'no heading "Ste"'),
    "an old spelling": ("thesis; DESIGN section 4.", "cite a rule as"),
    "an old spelling of style": ("thesis, as STYLE 4.", "cite a rule as"),
    "an old spelling of notes": ("thesis; notes, lesson 2.", "cite a rule as"),
    "a rule without its document": ("thesis (D2).", "cite a rule as"),
}

# What -> what is replaced in the row of a rule, by what, and a part of what is said of it.
RULE_FAULTS = {
    "a rule of no source": ("| thesis 2.1 |", "| hearsay 2.1 |", "no such source: hearsay"),
    "a rule in a missing file": ("`tools/c.cpp`", "`tools/gone.cpp`", "no such file: tools/gone"),
    "a rule in a missing function": ("`f`", "`g`", "tools/c.cpp has no g"),
    "a rule with a missing test": ("`IsSo`", "`IsNot`", "tests/d_test.cpp has no IsNot"),
    "a rule with a test elsewhere": ("`tests/d_test.cpp` `IsSo`", "`tools/c.cpp` `f`",
                                     "no such file: tools/c.cpp"),
    "a rule without a test": (" `IsSo`", "", "wants a file and a function"),
}


def self_test():
    """A right tree passes; each planted fault is reported, with its sentence."""
    planted = {what: ({"tools/bad.h": f"// Source:    {source}\n"}, said)
               for what, (source, said) in FAULTS.items()}
    planted["a citation outside a Source line"] = (
        {"tools/bad.cpp": "int a;  // as docs/design.md D7 says\n"}, "docs/design.md has no D7")
    planted["a comment that names a missing file"] = (
        {"tools/bad.cpp": "int a;  // as in tools/gone.h\n"}, "no such file: tools/gone.h")
    planted["a word without a header"] = (
        {GLOSSARY: "| word | where |\n|---|---|\n| a | `tools/gone.h` |\n"}, "no such file")
    planted["a word that names no file"] = (
        {GLOSSARY: "| word | where |\n|---|---|\n| a | somewhere |\n"}, "names no file")
    for what, (old, new, said) in RULE_FAULTS.items():
        planted[what] = ({SOURCES: RIGHT[SOURCES].replace(old, new)}, said)
    planted["words out of order"] = (
        {GLOSSARY: "| word | where |\n|---|---|\n| b | `tools/a.h` |\n| a | `tools/a.h` |\n"},
        "alphabetical")
    problems = []
    for what, (files, said) in {"": ({}, None), **planted}.items():
        with tempfile.TemporaryDirectory() as root:
            source_tree.plant(root, {**RIGHT, **files})
            found = check(root)
        is_right = not found if said is None else len(found) >= 1 and all(
            said in one or "names no file" in one for one in found) and any(
            said in one for one in found)
        if not is_right:
            problems.append(f"{what or 'a right tree'}: {found or 'not reported'}")
    return problems


def main():
    root = sys.argv[1]
    problems = self_test() if root == "--self-test" else check(os.path.abspath(root))
    print("\n".join(problems) or "sources: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
