#!/usr/bin/env python3
"""Shows Doxygen the comments of a header as documentation: the house writes // above a declaration,
and behind a member.

Usage: filter.py FILE. Lines stay where they are, so that Doxygen's warnings name the right ones.
"""

import re
import sys

# What Doxygen or Markdown would take for markup.
MARKUP = re.compile(r"([\\@<>#&$%*])")
COMMENT = re.compile(r"^(\s*)//(?!/)\s?(.*)$")
BEHIND = re.compile(r"^(\s*[^\s/].*?\S)\s*//(?!/)\s?(.*)$")


def text(comment):
    return MARKUP.sub(r"\\\1", comment)


def shown_head(lines):
    """The comment at the top: "path -- what it is", then paragraphs with labels. One line for
    each."""
    name = text(COMMENT.match(lines[0])[2])
    yield "/** @file"
    for number, line in enumerate(lines[1:]):
        words = re.sub(r"^([A-Z]\w*:)", r"<p><b>\1</b>", text(COMMENT.match(line)[2]).strip())
        yield (f"@brief {name} " if number == 0 else "") + words


def shown(lines):
    head = next((i for i, line in enumerate(lines) if COMMENT.match(line) is None), len(lines))
    if head > 1:
        yield from shown_head(lines[:head])
        yield "*/ " + lines[head]
    column = None  # of a comment behind a member in the line above
    for line in lines[head + 1 if head > 1 else 0 :]:
        comment = COMMENT.match(line)
        if comment is not None and len(comment[1]) == column:  # goes on
            yield f"{comment[1]}///< {text(comment[2])}"
            continue
        behind = BEHIND.match(line) if comment is None else None
        # A comment behind a brace, a directive or a macro belongs to no declaration.
        is_member = (
            behind is not None
            and '"' not in behind[1]
            and behind[1][-1] in ";,"
            and not behind[1].lstrip().startswith(("#", "}"))
        )
        column = line.index("//") if is_member else None
        if comment is not None:
            yield f"{comment[1]}/// {text(comment[2])}"
        elif is_member:
            yield f"{behind[1]}  ///< {text(behind[2])}"
        # a specialization: no interface of ours, and Doxygen 1.9 does not know its scope
        elif line.startswith("struct std::"):
            yield "// " + line
        else:
            yield line


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = file.read().split("\n")
    print("\n".join(shown(lines)), end="")


if __name__ == "__main__":
    main()
