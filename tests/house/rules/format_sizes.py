"""format_sizes.py -- FORMAT.md names the sizes that the code asserts.

Each record of a domain's files is a struct whose size a static_assert fixes, in the file that the
row of FORMAT.md names as its definition.
"""

import re

from rules.rule import Planted, Rule, Violation

# name in a row of FORMAT.md -> the struct, and how the row says its size
RECORDS = {
    "tmh.state": ("DomainState", r"(\d+) bytes: lock"),
    "tmh.participants": ("Participant", r"records of (\d+) bytes"),
    "tmh.versions.head": ("VersionHead", r"(\d+)-byte heads"),
    "tmh.commits": ("CommitLogEntry", r"entries of (\d+) bytes"),
    "tmh.directory.N": ("DirectoryRecord", r"(\d+) bytes per page"),
    "tmh.accesses": ("AccessEntry", r"entries of (\d+) bytes"),
    "tmh.pages.N": ("PageMeta", r"(\d+) bytes per page"),
}


def is_format(name):
    return name.startswith(("levels/", "storage/")) and name.endswith("/FORMAT.md")


def line_of(text, place):
    return text.count("\n", 0, place) + 1


class FormatSizes(Rule):
    name = "format_sizes"
    demands = "FORMAT.md names the sizes that the code asserts."

    def violations(self, tree):
        document = next(filter(is_format, tree.files), None)
        if document is None:
            yield Violation("storage/log/FORMAT.md", 1, "there is no FORMAT.md")
            return
        text = tree.read(document)
        for name, (struct, said) in RECORDS.items():
            row = re.search(rf"^\| `{re.escape(name)}`.*$", text, re.MULTILINE)
            size = row and re.search(said, row[0])
            where = row and re.findall(r"`([a-z_/]+\.h)` \|$", row[0])
            line = line_of(text, row.start()) if row else 1
            if not size or not where or where[0] not in tree.file_set:
                yield Violation(document, line, f"the row of {name} names no size or no file")
                continue
            asserted = re.search(rf"static_assert\(sizeof\({struct}\) == (\d+)",
                                 tree.read(where[0]))
            if not asserted or asserted[1] != size[1]:
                found = asserted[1] if asserted else "nothing"
                yield Violation(document, line,
                                f"{name} has {size[1]} bytes, {where[0]} asserts {found}")


ROWS = [f"| `{name}` | x | 64 bytes: lock records of 64 bytes 64-byte heads entries of 64 bytes "
        "64 bytes per page | `levels/b.h` |\n" for name in RECORDS]
FormatSizes.right = {
    "storage/log/FORMAT.md": "".join(ROWS),
    "levels/b.h": "".join(f"static_assert(sizeof({struct}) == 64);\n"
                          for struct, _ in RECORDS.values()),
}
FormatSizes.planted = (
    Planted("a wrong size",
            {"storage/log/FORMAT.md": "".join(ROWS).replace("64 bytes: lock", "65 bytes: lock")},
            ("FORMAT.md:1: tmh.state has 65 bytes, levels/b.h asserts 64",)),
    Planted("a missing row", {"storage/log/FORMAT.md": "".join(ROWS[1:])},
            ("FORMAT.md:1: the row of tmh.state names no",)),
)
RULE = FormatSizes()
