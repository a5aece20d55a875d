#!/usr/bin/env python3
"""body_kinds.py <root> --cxx C++ -- what a site's body may be, as the compiler judges it.

Each right program compiles without a warning. Each wrong one is refused, and the compiler's answer
holds the wanted words, so a program that is refused for another reason fails here.
"""

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

FLAGS = [
    "-x",
    "c++",
    "-std=c++20",
    "-fsyntax-only",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wshadow",
    "-Wconversion",
    "-Werror",
]
PROGRAM = """#include <cstdint>
#include <functional>
#include <tmh/tmh.hpp>
void set(tmh::Fields, tmh::field<int> *at) {{ *at = 1; }}
void run([[maybe_unused]] const tmh::Site &site, [[maybe_unused]] tmh::field<int> *at,
         [[maybe_unused]] int *plain) {{
  {}
}}
"""
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
        "no matching function",
    ),
]


def compile_it(arguments, statement):
    answer = subprocess.run(
        [arguments.cxx, *FLAGS, "-I", arguments.root + "/include", "-"],
        input=PROGRAM.format(statement),
        text=True,
        check=False,
        capture_output=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    )
    return answer.returncode == 0, answer.stderr


def problem_of_right(arguments):
    """All in one program: they are compiled in the time of one."""
    compiles, said = compile_it(arguments, "".join(f"{{ {statement} }}\n" for statement in RIGHT))
    return None if compiles else f"a right body is refused:\n{said}"


def problem_of_wrong(arguments, what, statement, words):
    compiles, said = compile_it(arguments, statement)
    if compiles:
        return f"{what} compiles: {statement}"
    return None if words in said else f"{what} is refused, without the words '{words}':\n{said}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--cc")
    parser.add_argument("--cxx", required=True)
    arguments = parser.parse_args()
    with ThreadPoolExecutor(2) as workers:
        jobs = [workers.submit(problem_of_right, arguments)]
        jobs += [workers.submit(problem_of_wrong, arguments, *wrong) for wrong in WRONG]
        problems = [problem for problem in (job.result() for job in jobs) if problem]
    print(
        "\n".join(problems)
        if problems
        else f"{len(RIGHT)} right bodies compile, {len(WRONG)} wrong ones are refused"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
