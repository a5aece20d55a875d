#!/usr/bin/env python3
"""snippets.py refused|shown ROOT [--cxx C++] | --self-test [--cxx C++] -- code that must compile,
and code that must not.

refused  Segment::root<T>() of a type that may not lie in a segment is one error, with its sentence;
         of types that may, none
shown    each ```cpp block of README.md and of docs/ compiles as shown: a program alone, anything
         else as the body of a function, with what the text around it takes for granted
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import source_tree

STD_STRING = "allocates from the process's heap (std::allocator)"
VIRTUAL = "has virtual functions: the next process"
HANDLE = "is a lock, thread or other handle of this process"
CODE = "is a pointer to a function"
OWNER = "is a std::unique_ptr, shared_ptr or weak_ptr"
ERASED = "is a std::function or std::any"
# What is declared before, T, a piece of the sentence.
SHAPE = "struct Shape { virtual ~Shape() = default; };"
REFUSED = [
    (SHAPE, "Shape", VIRTUAL),
    (SHAPE, "std::list<Shape, tmh::allocator<Shape>>", VIRTUAL),
    (SHAPE, "std::map<int, Shape, std::less<>, tmh::allocator<std::pair<const int, Shape>>>",
     VIRTUAL),
    (SHAPE, "std::pair<int, std::optional<Shape>>", VIRTUAL),
    ("", "std::string", STD_STRING),
    ("", "std::string[4]", STD_STRING),
    ("", "std::vector<int>", STD_STRING),
    ("", "std::vector<std::string, tmh::allocator<std::string>>", STD_STRING),
    ("", "std::map<int, std::string, std::less<>, "
         "tmh::allocator<std::pair<const int, std::string>>>", STD_STRING),
    ("", "std::queue<int>", STD_STRING),
    ("", "std::variant<int, std::string>", STD_STRING),
    ("", "std::array<std::vector<int>, 2>", STD_STRING),
    ("", "std::vector<int, std::scoped_allocator_adaptor<std::allocator<int>>>", STD_STRING),
    ("", "std::pmr::string", "std::pmr::memory_resource"),
    ("", "std::unique_ptr<int>", OWNER),
    ("", "std::vector<std::shared_ptr<int>, tmh::allocator<std::shared_ptr<int>>>", OWNER),
    ("", "std::function<void()>", ERASED),
    ("", "std::any", ERASED),
    ("", "void (*)()", CODE),
    ("struct Row { long hits; };", "long (Row::*)()", CODE),
    ("", "tmh::field<void (*)()>", None),  # a field's value is not looked at
    ("", "std::mutex", HANDLE),
    ("", "std::thread", HANDLE),
    ("", "std::condition_variable", HANDLE),
    ("", "int &", "a reference is the address of another object"),
    ("struct Mine {};\ntemplate <> struct tmh::may_lie_in_segment<Mine> : std::false_type {};",
     "Mine", "is specialised as false"),
    (SHAPE + "\ntemplate <> struct tmh::may_lie_in_segment<Shape> : std::true_type {};",
     "Shape", None),
    ("struct Row { long hits; const char *name; };", "Row", None),
    ("struct Account { tmh::field<long> balance; };", "Account", None),
    ("struct Node { tmh::offset_ptr<Node> next; Node *other; };", "Node", None),
    ("struct Tree : std::map<int, Tree, std::less<>, tmh::allocator<std::pair<const int, Tree>>> {"
     " using map::map; };", "Tree", None),
    ("using String = std::basic_string<char, std::char_traits<char>, tmh::allocator<char>>;",
     "std::vector<String, std::scoped_allocator_adaptor<tmh::allocator<String>>>", None),
    ("", "std::variant<int, long>", None),
    ("", "std::array<long, 100000>", None),
    ("", "std::queue<int, std::deque<int, tmh::allocator<int>>>", None),
]
INCLUDES = "".join(f"#include <{name}>\n" for name in (
    "any", "condition_variable", "deque", "functional", "list", "map", "memory_resource", "mutex",
    "optional", "queue", "scoped_allocator", "string", "thread", "variant", "vector",
    "tmh/tmh.hpp"))

# What a block uses and the text around it has declared: the word that a block must have to need it,
# and the declaration. It stands in front of the block's function, or behind the first blank line of
# the block, where its own types are known.
TAKEN_FOR_GRANTED = [
    ("domain", "front", "tmh::Domain domain;"),
    ("segment", "front", "tmh::Segment segment;"),
    ("table", "front", "struct Row { long hits; };\nRow *table = nullptr;\nstd::size_t size = 1;\n"
                       "long key = 0;\nstd::size_t hash(long value) { "
                       "return static_cast<std::size_t>(value); }"),
    ("from", "behind", "Account from, to;"),
]


def compiles(root, cxx, folder, name, text):
    """'' or what the compiler says."""
    path = os.path.join(folder, name + ".cpp")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    command = [*cxx, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused",
               "-I", os.path.join(root, "include"), path]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if answer.returncode == 0 else answer.stderr or "it does not compile"


def errors_by_line(said, path):
    """{line of our file: [error, ...]}: of each error the place that asked for what was
    instantiated. g++ says it before, clang behind."""
    found, before, pending = {}, 0, None
    for line in said.splitlines():
        place = re.match(re.escape(path) + r":(\d+):", line)
        if "required from here" in line and place:
            before = int(place[1])
        elif " error: " in line:
            pending = line.split(" error: ", 1)[1]
            if place or before:
                found.setdefault(int(place[1]) if place else before, []).append(pending)
                pending, before = None, 0
        elif pending and place and "in instantiation of" in line:
            found.setdefault(int(place[1]), []).append(pending)
            pending = None
    return found


def check_refused(root, cxx, cases=None):
    """All in one file, each in a line of its own: the headers take longer than the cases."""
    cases = REFUSED if cases is None else cases
    lines, line_of = INCLUDES.splitlines(), []
    for number, (declared, kind, _) in enumerate(cases):
        kind, declared = (re.sub(r"\b(Shape|Row|Mine|Account|Node|Tree|String)\b",
                                 rf"\g<1>{number}", text) for text in (kind, declared))
        lines.append(declared.replace("\n", " "))
        lines.append(f"void make{number}(const tmh::Segment &segment) "
                     f"{{ (void)segment.root<{kind}>(\"a\"); }}")
        line_of.append(len(lines))
    with tempfile.TemporaryDirectory() as folder:
        said = compiles(root, cxx, folder, "refused", "\n".join(lines) + "\n")
        errors = errors_by_line(said, os.path.join(folder, "refused.cpp"))
    problems = []
    for (_, kind, sentence), line in zip(cases, line_of):
        about = errors.pop(line, [])
        if sentence is None and about:
            problems.append(f"{kind} is refused: {about}")
        elif sentence is not None and (len(about) != 1 or "tmh: " not in about[0]
                                       or sentence not in about[0]):
            problems.append(f"{kind} is not refused with one sentence, '{sentence}', but: {about}")
    if errors or (said and len(problems) == 0 and all(case[2] is None for case in cases)):
        problems.append(f"other errors: {errors}\n{said}")
    return problems


def program_of(block):
    if "int main(" in block:
        return block
    includes = re.findall(r"^#include .*$", block, re.MULTILINE)
    body = re.sub(r"^#include .*\n", "", block, flags=re.MULTILINE)
    front = ""
    for word, where, text in TAKEN_FOR_GRANTED:
        is_declared = re.search(rf"[\w>] [&*]?{word}(?: =|\(|;|,)", body)
        if is_declared or not re.search(rf"\b{word}\b", body):
            continue
        if where == "front":
            front += text + "\n"
        else:
            head, _, tail = body.partition("\n\n")
            body = f"{head}\n{text}\n\n{tail}"
    return "\n".join(includes) + f"\n{INCLUDES}{front}void shown() {{\n{body}\n}}\n"


def blocks_of(text):
    return re.findall(r"^```cpp\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def check_shown(root, cxx):
    docs = [name for name in source_tree.project_files(root) if re.fullmatch(r"docs/.*\.md", name)]
    shown = [(name, number, block) for name in ["README.md", *docs]
             for number, block in enumerate(blocks_of(source_tree.read(root, name)), 1)]
    if not shown:
        return ["no ```cpp block found"]
    with tempfile.TemporaryDirectory() as folder:
        def judge(entry):
            name, number, block = entry
            file = f"{name.replace('/', '_')}_{number}"
            said = compiles(root, cxx, folder, file, program_of(block))
            return [f"{name}: its C++ block {number} does not compile:\n{said}"] if said else []

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            problems = [problem for found in pool.map(judge, shown) for problem in found]
    print(f"{len(shown)} blocks of C++")
    return problems


CHECKS = {"refused": check_refused, "shown": check_shown}


def self_test(cxx):
    """What is wrong is reported."""
    root = source_tree.OWN_ROOT
    problems = []
    wrong = [("", "int", STD_STRING), ("", "std::string", None), (SHAPE, "Shape", STD_STRING)]
    if len(check_refused(root, cxx, wrong)) != len(wrong):
        problems.append("refused: what is planted is not reported")
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.join(root, "include"), os.path.join(folder, "include"))
        source_tree.plant(folder, {"README.md": "```cpp\nint value = \"text\";\n```\n",
                                   "docs/right.md": "```cpp\nint main() {}\n```\n"})
        if len(check_shown(folder, cxx)) != 1:
            problems.append("shown: what is planted is not reported")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("check", nargs="?", choices=CHECKS)
    parser.add_argument("root", nargs="?")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--cc")
    parser.add_argument("--cxx", default=["c++"], type=str.split)
    arguments = parser.parse_args()
    if arguments.self_test:
        problems = self_test(arguments.cxx)
    else:
        problems = CHECKS[arguments.check](arguments.root, arguments.cxx)
    print("\n".join(problems) or "clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
