#!/usr/bin/env python3
"""body_kinds.py <root> --cxx C++ -- what a site's body may be, as the compiler judges it.

Each right program compiles without a warning. Each wrong one is refused, and the compiler's answer
holds the wanted words, so a program that is refused for another reason fails here.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

FLAGS = [
    "-std=c++20",
    "-fsyntax-only",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wshadow",
    "-Wconversion",
    "-Werror",
]
HEAD = """#include <cstdint>
#include <functional>
#include <tmh/tmh.hpp>
void set(tmh::Fields, tmh::field<int> *at) { *at = 1; }
"""
# In one line, by which the compiler's errors are told apart.
FUNCTION = (
    "void run{}([[maybe_unused]] const tmh::Site &site, [[maybe_unused]] tmh::field<int> *at,"
    " [[maybe_unused]] int *plain) {{ {} }}\n"
)
RIGHT = [
    "tmh::atomically(site, [&](tmh::Fields) { *at = 1; });",
    "tmh::atomically(site, [&] { *plain = 1; });",
    "tmh::atomically(site, [&](tmh::Fields fields) { set(fields, at); });",
    "tmh::atomically(site, [&](auto fields) { set(fields, at); });",
    "tmh::atomically(site, tmh::Durability::kStrict, [&](tmh::Fields) { *at = 1; });",
    (
        "*plain = tmh::atomically(site, [&](tmh::Fields) { return at->load(); }) + tmh::query(site,"
        " [&] { return *plain; });"
    ),
    (
        "const std::function<int(tmh::Fields)> body = [&](tmh::Fields) { return at->load(); };"
        " (void)tmh::query(site, body);"
    ),
]
BOTH = "can be called with and without tmh::Fields"
WRONG = [
    (
        "a body that does not say what it is",
        "tmh::atomically(site, [&](auto...) { *plain = 1; });",
        BOTH,
    ),
    (
        "a body with a default",
        (
            "struct Body { void operator()() const {} void operator()(tmh::Fields) const {} };"
            " tmh::atomically(site, Body());"
        ),
        BOTH,
    ),
    (
        "a query that does not say what it is",
        "(void)tmh::query(site, [&](auto...) { return *plain; });",
        BOTH,
    ),
    (
        "std::bind, which takes whatever it gets",
        "tmh::atomically(site, std::bind([](int *word) { *word = 1; }, plain));",
        BOTH,
    ),
    (
        "a plain body in a function that demands the token",
        "tmh::atomically(site, [&] { set({}, at); });",
        "Fields",
    ),
    (
        "a token that is made elsewhere",
        "set(tmh::Fields(tmh::detail::FieldsKey()), at);",
        "private",
    ),
    (
        "a body that wants something else",
        "tmh::atomically(site, [&](int) { *plain = 1; });",
        "no matching function",
    ),
    (
        "a reference out of an instrumented body",
        "tmh::atomically(site, [&](tmh::Fields) -> tmh::field<int> & { return *at; });",
        "returns an object",
    ),
    (
        "a kind as the site's word",
        'const tmh::Site other(site.domain(), "x", "", 2);',
        "no matching",
    ),
]


def told_apart(said, path):
    """{line of our file: all that the compiler says of it, an error each}: of what was instantiated
    the line that asked for it. g++ tells it before the error, clang behind."""
    found, line_of_error, text, before = {}, None, "", 0
    for line in [*said.splitlines(), f"{path}:0: error: no more"]:
        place = re.match(re.escape(path) + r":(\d+):", line)
        if " error: " in line:
            if line_of_error is not None:
                found.setdefault(line_of_error, []).append(text)
            line_of_error, text, before = (int(place[1]) if place else before), "", 0
        elif place and "required from here" in line:
            before = int(place[1])
        elif place and line_of_error == 0 and "in instantiation of" in line:
            line_of_error = int(place[1])
        text += line + "\n"
    return found


def errors_of(arguments, statements):
    """Of each statement the errors that the compiler has, and those of no statement. All in one
    program: its headers take longer than the statements."""
    first = HEAD.count("\n") + 1
    functions = [FUNCTION.format(*one) for one in enumerate(statements)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kinds.cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write(HEAD + "".join(functions))
        answer = subprocess.run(
            [arguments.cxx, *FLAGS, "-I", arguments.root + "/include", path],
            text=True,
            check=False,
            capture_output=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        )
        found = told_apart(answer.stderr, path)
    errors = [found.pop(first + number, []) for number in range(len(statements))]
    others = list(found.values())
    if answer.returncode != 0 and not any(errors) and not others:
        others.append(answer.stderr)
    return errors, others


def problems_of(arguments):
    errors, others = errors_of(arguments, RIGHT)
    problems = [
        f"a right body is refused: {statement}: {said}"
        for statement, said in zip(RIGHT, errors)
        if said
    ] + [f"among right bodies: {said}" for said in others]
    errors, _ = errors_of(arguments, [statement for _, statement, _ in WRONG])
    for (what, statement, words), said in zip(WRONG, errors):
        if not said:
            problems.append(f"{what} compiles: {statement}")
        elif not any(words in one for one in said):
            problems.append(f"{what} is refused, without the words '{words}': {said}")
    return problems  # other errors follow from those of the statements


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--cc")
    parser.add_argument("--cxx", required=True)
    arguments = parser.parse_args()
    problems = problems_of(arguments)
    print(
        "\n".join(problems)
        if problems
        else f"{len(RIGHT)} right bodies compile, {len(WRONG)} wrong ones are refused"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
