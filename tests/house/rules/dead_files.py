"""dead_files.py -- each file is built, included, linked to or named by another one.

Built: a file of the build or a script names it, or a pattern that it fits; variables are resolved
to all values that any set(), list(APPEND) or foreach() gives them. Included: an #include of ours
reaches it, or `-include` in the build. Linked to or named, if it is no source: its name stands in
another file, as a whole word; of a Python module its stem behind `import`, `from` or a dot; of a
manual page also `name(section)`.
"""

import collections
import fnmatch
import itertools
import os
import re

from rules import layering
from rules.rule import Planted, Rule, Violation

# Found by their names or places, each with the program that looks.
KNOWN = [
    (r"(.*/)?README\.md|LICENSE|CHANGELOG\.md|ARCHITECTURE\.md", "readers"),
    (r"(.*/)?CMakeLists\.txt|CMakePresets\.json", "cmake"),
    (r"(.*/)?\.gitignore|\.ci/run|\.clang-format", "git, CI, clang-format"),
    (r"bindings/python/tests/conftest\.py", "pytest"),
    (r"bindings/python/(pyproject\.toml|tmh/py\.typed|tmh/.*\.pyi)", "pip, type checkers"),
    (r"bindings/python/(.*/)?__(init|main)__\.py", "Python"),
    (r"tests/itm/compiled/\w+\.cpp", "tests/itm/compiled.py, which builds each"),
    (r"tests/house/lives/\w+_store\.cpp", "tests/house/lives/lives.py, by stem"),
    (r"tests/house/rules/\w+\.py", "tests/house/house.py"),
    (r"papers/memory-mapped-transactions/results/(full|without-rtm)/[\w-]+\.(csv|json|txt|html)",
     "the reproduction's own reports"),
    (r"bench/results/\w+\.(txt|json)", "bench/measurements.py"),
]
SOURCES = (".c", ".cpp", ".S")
HEADERS = (".h", ".hpp")
# What mentions of names are looked for in: no data.
DATA = re.compile(r"papers/.*\.(csv|json|html|txt)|tests/costs\.txt|.*\.gz")
# The rules' own tables name what they except.
RULES = "tests/house/rules/"
WORD = re.compile(r"[\w.+-]*\w")
BUILDS = re.compile(r"(.*/)?CMakeLists\.txt|.*\.cmake")
SCRIPTS = re.compile(r".*\.(py|sh)|check|demo")
COMMAND = re.compile(r"\b(set|list|foreach)\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)", re.IGNORECASE)
CMAKE_WORD = re.compile(r'"([^"]*)"|([^\s"()]+)')
VARIABLE = re.compile(r"\$\{(\w+)\}")
VALUES_MAX = 400
IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+([\w, ]+)|import\s+([\w., ]+))",
                    re.MULTILINE)


class Cmake:
    """The paths that the build's files name."""

    def __init__(self, tree):
        self.values = collections.defaultdict(set)
        self.words = set()
        for name in filter(BUILDS.fullmatch, tree.files):
            text = re.sub(r"#[^\n]*", "", tree.read(name))
            own = os.path.dirname(name)
            found = [quoted or bare for quoted, bare in CMAKE_WORD.findall(text)]
            self.words.update(word.replace("${CMAKE_CURRENT_SOURCE_DIR}", own) for word in found
                              if "." in word or "*" in word)
            for command, arguments in COMMAND.findall(text):
                self.note(command.lower(), [quoted or bare for quoted, bare
                                            in CMAKE_WORD.findall(arguments)], own)
        self.paths = {os.path.normpath(path.lstrip("/")) for word in self.words
                      for path in self.resolved(word)}
        self.patterns = [path for path in self.paths if "*" in path]

    def note(self, command, words, own):
        if command == "list" and words[:1] != ["APPEND"] or len(words) < 2:
            return
        if command == "list":
            words = words[1:]
        name = words[0]
        for word in words[1:]:
            for part in word.split(";"):
                self.values[name].update(
                    each.replace("${CMAKE_CURRENT_SOURCE_DIR}", own)
                    for each in part.split())
                self.values[name].add(part.replace("${CMAKE_CURRENT_SOURCE_DIR}", own))

    def resolved(self, word, seen=()):
        """All values of a word with variables; of unknown variables: nothing."""
        names = [name for name in VARIABLE.findall(word) if name not in ("PROJECT_SOURCE_DIR",)]
        word = word.replace("${PROJECT_SOURCE_DIR}/", "").replace("${PROJECT_SOURCE_DIR}", "")
        if not names:
            return {word}
        if len(seen) > 4:
            return set()
        choices = []
        for name in dict.fromkeys(names):
            values = set()
            for value in self.values.get(name, ()):
                if f"${{{name}}}" not in value:
                    values |= self.resolved(value, (*seen, name))
            choices.append([(name, value) for value in sorted(values)[:VALUES_MAX]])
        found = set()
        for choice in itertools.islice(itertools.product(*choices), VALUES_MAX * 4):
            made = word
            for name, value in choice:
                made = made.replace(f"${{{name}}}", value)
            found.add(made)
        return found

    def names(self, path):
        return path in self.paths or any(
            fnmatch.fnmatchcase(path, pattern) and path.count("/") == pattern.count("/")
            for pattern in self.patterns)


def includes_beside(tree, name):
    """What file `name` includes: from the root, or beside it."""
    for match in layering.INCLUDE.finditer(tree.read(name)):
        for folder in ("", "include", os.path.dirname(name)):
            yield os.path.normpath(os.path.join(folder, match.group(2)))


def imported(text):
    """Names of modules that a script imports."""
    for package, names, plain in IMPORT.findall(text):
        yield from package.split(".")
        yield from (name.split()[0] for name in f"{names},{plain}".split(",") if name.split())
        yield from re.split(r"[., ]+", plain)
    yield from re.findall(r'"tmh\.(\w+)"', text)


class DeadFiles(Rule):
    name = "dead_files"
    demands = "Each file is built, included, linked to or named by another one."
    exceptions = {
        "tests/tools/old_files/make_old_files.cpp": "made the files beside it, by hand",
    }

    def violations(self, tree):
        build = Cmake(tree)
        included, modules, named, built = set(), set(), collections.Counter(), set()
        for name in tree.files:
            if DATA.fullmatch(name) or name.startswith(RULES):
                continue
            text = tree.read(name)
            words = set(WORD.findall(text))
            named.update(words)
            if BUILDS.fullmatch(name) or SCRIPTS.fullmatch(name):
                built |= words
            if name in tree.code_set:
                included.update(path for path in includes_beside(tree, name) if path != name)
            if name.endswith((".py", ".cpp")) or text.startswith("#!/usr/bin/env python"):
                modules.update(imported(text))
        for name in tree.files:
            if any(re.fullmatch(pattern, name) for pattern, _ in KNOWN):
                continue
            if name.endswith(HEADERS):
                alive = name in included or os.path.basename(name) in built
            elif name.endswith(SOURCES):
                alive = build.names(name) or name in included or os.path.basename(name) in built
            else:
                alive = build.names(name) or self.is_named(tree, name, named, modules)
            if not alive:
                yield Violation(name, 1, "nothing builds, includes, links to or names it", name)

    @staticmethod
    def is_named(tree, name, named, modules):
        base = os.path.basename(name)
        stem, _, ending = base.rpartition(".")
        by_itself = base in WORD.findall(tree.read(name)) and not DATA.fullmatch(name)
        if named[base] > by_itself or ending == "py" and stem in modules:
            return True
        return ending.isdigit() and any(
            f"{stem}({ending})" in tree.read(other) or f".Xr {stem} {ending}" in tree.read(other)
            for other in tree.files if other != name and not DATA.fullmatch(other))


DeadFiles.right = {
    "CMakeLists.txt": 'foreach(room platform observe)\n'
                      '  list(APPEND globs "${PROJECT_SOURCE_DIR}/${room}/*.cpp")\nendforeach()\n'
                      'file(GLOB sources ${globs})\nadd_executable(a "tools/named.cpp")\n'
                      'add_test(NAME a COMMAND python3 "${PROJECT_SOURCE_DIR}/tests/run.py")\n'
                      'file(GLOB pages "docs/man/*.[1-9]")\n',
    "README.md": "See [design](docs/design.md), tmh-levels(7).\n",
    "docs/design.md": "x\n",
    "docs/man/a.3": "x\n",
    "docs/man/tmh-levels.7": "x\n",
    "platform/a.cpp": '#include "platform/a.h"\n',
    "platform/a.h": "// platform/a.h -- a\n",
    "observe/b.cpp": "",
    "tools/named.cpp": '#include "beside.h"\n',
    "tools/beside.h": "",
    "tests/run.py": "import helper\n",
    "tests/helper.py": "",
    "tests/house/rules/stems.py": '"tools/dead.cpp"\n',
}
DeadFiles.planted = tuple(
    Planted(f"a dead {path}", {path: f"// {path} -- dead\n"}, (f"{path}:1: nothing builds",))
    for path in ("platform/dead.h", "tools/dead.cpp", "bench/support/dead.cpp", "tests/dead.py",
                 "docs/dead.md", "cmake/dead.sh", "tools/schema/dead.json", "platform/a.S",
                 "bindings/python/tmh/dead.py", "docs/dead.7")
) + (
    Planted("a source that a document names", {"tools/dead.cpp": "", "tools/README.md":
                                               "| `dead.cpp` | a |\n"}, ("tools/dead.cpp:1:",)),
)
RULE = DeadFiles()
