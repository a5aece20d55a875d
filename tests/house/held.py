#!/usr/bin/env python3
"""held.py <root> --cxx C++ -- what DomainLock::Held (levels/page/shared/domain_lock.h) refuses.

Each planted violation is a few lines that must not compile, for the reason that its row names; the
right use of the same calls must compile. The compiler looks at syntax and types alone.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

HEAD = """
#include <optional>
#include <type_traits>

#include "levels/page/versions/consistency_tree.h"
#include "levels/page/shared/domain_lock.h"
using tmh::page::DomainLock;
using Held = DomainLock::Held;
"""

RIGHT = """
void locked(const Held &held);
void f(DomainLock &lock, tmh::page::ConsistencyTree &tree) {
  Held held = lock.take();
  locked(held);
  tree.repair(held);
  const Held moved = std::move(held);
  locked(moved);
}
"""

# (what is violated, lines, a part of the compiler's reason: GNU's or clang's)
VIOLATIONS = [
    (
        "a locked function is called without the lock",
        "void f(tmh::page::ConsistencyTree &tree) { tree.repair(); }",
        ("no matching function", "too few arguments"),
    ),
    (
        "the lock itself stands for holding it",
        "void f(DomainLock &lock, tmh::page::ConsistencyTree &tree) { tree.repair(lock); }",
        ("cannot convert", "no viable conversion", "invalid initialization", "no matching"),
    ),
    ("made by hand", "Held f() { return Held(nullptr, 0); }", ("private", "inaccessible")),
    ("made of nothing", "Held held;", ("no matching",)),
    ("copied", "Held f(const Held &held) { return held; }", ("deleted",)),
    (
        "kept: a second one takes its place",
        "void f(Held &kept, DomainLock &lock) { kept = lock.take(); }",
        ("deleted",),
    ),
    (
        "kept in a member that is filled later",
        "struct S { std::optional<Held> kept; void f(DomainLock &l) { kept = l.take(); } };",
        ("deleted", "no viable", "no match"),
    ),
    ("taken and given back at once", "void f(DomainLock &lock) { lock.take(); }",
     ("nodiscard", "unused")),
]


def compile_all(arguments, lines):
    """What the compiler says, by line of `lines`; all at once, since the headers take the time."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "planted.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(HEAD + "#line 1\n" + "\n".join(lines) + "\n")
        answer = subprocess.run(
            [arguments.cxx, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
            + [f"-I{arguments.root}", f"-I{os.path.join(arguments.root, 'include')}", source],
            capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"},
        )
    said = {}
    for found in re.finditer(r"planted\.cpp:(\d+):.*", answer.stderr):
        said.setdefault(int(found[1]), []).append(found[0])
    by_line = {at: "\n".join(texts) for at, texts in said.items()}
    return answer.returncode == 0, by_line, answer.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--cxx", required=True)
    arguments = parser.parse_args()
    problems = []
    compiles, _, stderr = compile_all(arguments, RIGHT.splitlines())
    if not compiles:
        problems.append(f"the right use does not compile:\n{stderr}")
    lines = [f"namespace n{at} {{ {code} }}" for at, (_, code, _) in enumerate(VIOLATIONS)]
    _, said, _ = compile_all(arguments, lines)
    for at, (what, _, reasons) in enumerate(VIOLATIONS, 1):
        if "error:" not in said.get(at, ""):
            problems.append(f"{what}: compiles")
        elif not any(reason in said[at] for reason in reasons):
            problems.append(f"{what}: refused, but not for one of {reasons}:\n{said[at]}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
