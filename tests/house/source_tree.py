"""source_tree.py -- which files belong to the project, and their texts; shared by the tests of the
house."""

import contextlib
import os
import subprocess

CODE = (".c", ".cpp", ".h", ".hpp")
# The tree that these scripts lie in.
OWN_ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
# root -> Tree: what project_files() and read() answer from instead of asking the disk again.
REMEMBERED = {}


class Tree:
    """The files of a tree, each read once."""

    def __init__(self, root):
        self.root = root
        self.files = project_files(root)
        self.file_set = frozenset(self.files)
        self.code = [name for name in self.files if name.endswith(CODE)]
        self.code_set = frozenset(self.code)
        self._texts = {}
        self.memo = {}  # what rules share

    def read(self, name):
        if name not in self._texts:
            self._texts[name] = read_from_disk(self.root, name)
        return self._texts[name]


@contextlib.contextmanager
def remembered(tree):
    """Inside, project_files() and read() answer from the tree."""
    REMEMBERED[tree.root] = tree
    try:
        yield
    finally:
        del REMEMBERED[tree.root]


def project_files(root):
    """Paths relative to root: what git tracks or would add; without git (an unpacked archive),
    every file outside build/."""
    if root in REMEMBERED:
        return REMEMBERED[root].files
    try:
        answer = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            text=True,
            check=True,
        )
        top = subprocess.run(
            ["git", "-C", root, "rev-parse", "--show-toplevel"],
            capture_output=True,
            text=True,
            check=True,
        )
        # A tree inside another repository (a test's temporary folder, say) is not described by that
        # repository.
        if os.path.realpath(top.stdout.strip()) == os.path.realpath(root):
            names = sorted(set(answer.stdout.split("\0")) - {""})
            return [name for name in names if os.path.isfile(os.path.join(root, name))]
    except (OSError, subprocess.CalledProcessError):
        pass
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in (".git", "build", "__pycache__")]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def code_files(root):
    return [name for name in project_files(root) if name.endswith(CODE)]


def read(root, name):
    return REMEMBERED[root].read(name) if root in REMEMBERED else read_from_disk(root, name)


def read_from_disk(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def plant(root, files):
    """Writes files {path: text} below root: the planted trees of the self-tests."""
    for name, text in files.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
