#!/usr/bin/env python3
"""Each .cpp of the library has a header of its stem, beside it or among the public ones.

    stems.py ROOT         names each .cpp that has none
    stems.py --self-test  finds one that has none, and a false exception

So a class has one .cpp (docs/style.md 1). A .cpp that is left is a chapter of another one: it is
merged into that one, or its class gets a header of its own.
"""
import os
import sys
import tempfile

LIBRARY = ("platform", "observe", "storage", "levels", "hierarchy", "compat", "rtm_emulator")
PUBLIC = "include"

# Sources without a header, each with its reason.
EXCEPTIONS = {
    "counters.cpp": "tmh/perf.hpp has its class",
    "site_profile.cpp": "tmh/perf.hpp has its class",
    "barriers.cpp": "defines functions of the ABI of -fgnu-tm: the compiler knows them",
    "blocks.cpp": "the same",
    "control.cpp": "the same",
    "runtime_calls.cpp": "the same",
    "forks.cpp": "a constructor registers what it defines",
    "memory.cpp": "the same",
    "own_new.cpp": "replaces operator new and delete",
    "c11_calls.cpp": "defines functions of libc: their headers are the system's",
    "checked_calls.cpp": "defines functions of libc: their headers are the system's",
    "input_output_calls.cpp": "defines functions of libc: their headers are the system's",
    "mutex_calls.cpp": "defines functions of libc: their headers are the system's",
    "process_calls.cpp": "defines functions of libc: their headers are the system's",
    "stream_calls.cpp": "defines functions of libc: their headers are the system's",
    "sync_calls.cpp": "defines functions of libc: their headers are the system's",
    "wait_calls.cpp": "defines functions of libc: their headers are the system's",
    "thread_calls.cpp": "defines functions of libc: their headers are the system's",
    "interpose.cpp": "defines functions of libc: their headers are the system's",
    "heap_calls.cpp": "the same",
    "map_calls.cpp": "the same",
    "file_calls.cpp": "the same",
    "library_calls.cpp": "the same",
    "signal_calls.cpp": "the same",
    "process_commit.cpp": "a part of class ProcessThread: process_thread.h",
}


def files(root, folders, endings):
    """Paths below `root`, in these folders of it, that end so."""
    for folder in folders:
        for at, _, names in os.walk(os.path.join(root, folder)):
            yield from (os.path.join(at, name) for name in sorted(names) if name.endswith(endings))


def stem(path):
    """The file's name without its ending."""
    return os.path.splitext(os.path.basename(path))[0]


def problems(root, exceptions):
    """One line for each source without a header, and for each exception that is none."""
    public = {stem(path) for path in files(root, (PUBLIC,), (".h", ".hpp"))}
    needed = set()
    for path in files(root, LIBRARY, (".cpp",)):
        if os.path.exists(path[:-len("cpp")] + "h") or stem(path) in public:
            continue
        name = os.path.basename(path)
        needed.add(name)
        if name not in exceptions:
            yield f"{os.path.relpath(path, root)}: no header of its stem"
    for name in sorted(exceptions.keys() - needed):
        yield f"stems.py: {name} needs no exception"


def self_test():
    """A tree with one source of each kind."""
    with tempfile.TemporaryDirectory() as root:
        for name in ("platform/with.cpp", "platform/with.h", "platform/without.cpp",
                     "hierarchy/shown.cpp", "include/tmh/shown.hpp", "levels/page/excepted.cpp",
                     "tests/free.cpp"):
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "w", encoding="utf-8").close()
        found = list(problems(root, {"excepted.cpp": "a reason", "with.cpp": "a false one"}))
        assert found == ["platform/without.cpp: no header of its stem",
                         "stems.py: with.cpp needs no exception"], found


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    if len(list(files(sys.argv[1], LIBRARY, (".cpp",)))) < 100:
        print("fewer than 100 sources found: is this the root of the tree?")
        return 1
    found = list(problems(sys.argv[1], EXCEPTIONS))
    print("\n".join(found) if found else "clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
