#!/usr/bin/env python3
"""How many files a reader crosses who follows one store through the library.

    lives.py ROOT [--build FOLDER]    compiles ROOT's library and the programs beside this script by
                                      -O0 -finstrument-functions into FOLDER (default: a temporary
                                      one), runs them, and prints a table

Of the functions that run, in order, count those of the project with at least LINES lines: shorter
ones a reader takes in where they are called. A move is a step to a function in another file than
the one before; a return is a move to a file that was left before.

Method pages of -fgnu-tm is not among them: its engine would have the program's own notes in views.
Takes two minutes on two cores, so it is no test. Needs addr2line and nm (binutils).
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
LINES = 8
FLAGS = ("-O0 -g1 -fno-inline -finstrument-functions"
         " -finstrument-functions-exclude-file-list=/usr/include,/usr/lib")
# Name, source, arguments and environment of the program.
LIVES = [
    ("a durable store", "durable_store", "", {}),
    ("a store at level 1", "line_store", "", {}),
    ("-fgnu-tm, lines", "itm_store", "-fgnu-tm", {"ITM_DEFAULT_METHOD": "lines"}),
]

Function = collections.namedtuple("Function", "name file lines")


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, capture_output=True, **options).stdout


def build(root, folder):
    """The instrumented libraries and programs, in `folder`."""
    library = os.path.join(folder, "library")
    run("cmake", "-S", root, "-B", library, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
        f"-DCMAKE_CXX_FLAGS={FLAGS} -DNDEBUG", "-DTMH_BUILD_TESTS=OFF", "-DTMH_BUILD_BENCH=OFF")
    run("ninja", "-C", library, "tmh_static", "tmh_itm")
    for program in {source for _, source, _, _ in LIVES}:
        extra = [extra for _, source, extra, _ in LIVES if source == program][0].split()
        source = os.path.join(HERE, f"{program}.cpp")
        out = os.path.join(folder, program)
        libraries = [] if extra else [os.path.join(library, "libtmh.a"), "-lfmt"]
        run("g++", "-std=c++20", *FLAGS.split(), *extra, "-I", os.path.join(root, "include"), "-I",
            os.path.realpath(os.path.join(HERE, "..", "..", "..")), source, *libraries, "-rdynamic",
            "-o", out)
    return library


def record(folder, library, program, environment):
    """The addresses that the program entered, and (begin, end, offset, file) of its mappings."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as work:
        env = dict(os.environ, LD_LIBRARY_PATH=itm_folder(library), **environment)
        out = run(os.path.join(folder, program), os.path.join(work, "domain"), env=env)
    entered, maps = [], []
    for line in out.splitlines():
        word, rest = line.split(" ", 1)
        if word == "entered":
            entered.append(int(rest, 16))
        elif word == "map":
            found = re.match(r"(\w+)-(\w+) \S+ (\w+) \S+ \d+\s+(/\S+)", rest)
            if found:
                maps.append((int(found[1], 16), int(found[2], 16), int(found[3], 16), found[4]))
    return entered, maps


def itm_folder(library):
    for folder, _, files in os.walk(library):
        if any(name.startswith("libitm.so") for name in files):
            return folder
    return library


def resolve(file, addresses):
    """Function of each address: where it begins and ends by the line table."""
    ends = {}
    for line in run("nm", "-S", "--defined-only", file).splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tTwWuV":
            ends[int(words[0], 16)] = int(words[0], 16) + int(words[1], 16) - 1
    asked = [each for address in addresses for each in (address, ends.get(address, address))]
    out = run("addr2line", "-f", "-C", "-e", file, input="\n".join(map(hex, asked)) + "\n")
    lines = out.splitlines()
    functions = {}
    for i, address in enumerate(addresses):
        name, begin, _, end = lines[4 * i:4 * i + 4]
        path, first = begin.split(" ")[0].rsplit(":", 1)
        last = end.split(" ")[0].rsplit(":", 1)[1]
        known = first.isdigit() and last.isdigit()
        functions[address] = Function(name, path, int(last) - int(first) + 1 if known else 0)
    return functions


def base_of(file, maps):
    return min(begin - offset for begin, _, offset, path in maps if path == file)


def story(root, entered, maps):
    """The functions that a reader opens, in order."""
    by_file = collections.defaultdict(set)
    place = {}
    for address in set(entered):
        for begin, end, _, path in maps:
            if begin <= address < end:
                place[address] = (path, address - base_of(path, maps))
                by_file[path].add(address - base_of(path, maps))
    known = {}
    for path, addresses in by_file.items():
        for address, function in resolve(path, sorted(addresses)).items():
            known[path, address] = function
    prefix = os.path.realpath(root) + os.sep
    functions = []
    for address in entered:
        function = known.get(place.get(address))
        if function is None or function.lines < LINES:
            continue
        path = os.path.realpath(function.file)
        if path.startswith(prefix) and not path.startswith(HERE):
            functions.append(function._replace(file=path[len(prefix):]))
    return functions


def figures(functions):
    """Files, moves, returns."""
    seen, moves, returns, last = set(), 0, 0, None
    for function in functions:
        if last is not None and function.file != last:
            moves += 1
            returns += function.file in seen
        seen.add(function.file)
        last = function.file
    return len(seen), moves, returns


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("root")
    parser.add_argument("--build")
    parser.add_argument("--story", action="store_true", help="also each function, in order")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.build or temporary
        os.makedirs(folder, exist_ok=True)
        library = build(arguments.root, folder)
        print("life                  files  moves  returns")
        for name, program, _, environment in LIVES:
            functions = story(arguments.root, *record(folder, library, program, environment))
            print(f"{name:20} {'':1}{figures(functions)[0]:5} {figures(functions)[1]:6} "
                  f"{figures(functions)[2]:8}")
            if arguments.story:
                for function in functions:
                    print(f"    {function.file}: {function.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
