#!/usr/bin/env python3
"""probes.py <root> --library PATH --sdt 0|1 | <root> --self-test

The USDT probes in libtmh are those that docs/man/tmh-probes.7 documents.

Rules: (1) the library's .note.stapsdt names each documented probe, and no other, with as many
arguments. (2) scripts for bpftrace use documented probes only. The first is skipped with --sdt 0
(CMake has not found <sys/sdt.h>) and without readelf. --self-test: faults planted in a right
listing are caught.
"""

import os
import re
import shutil
import subprocess
import sys

import source_tree

SKIPPED = 77


def documented(root):
    """Name -> number of arguments."""
    page = source_tree.read(root, "docs/man/tmh-probes.7")
    return {
        name: len(arguments.split())
        for name, arguments in re.findall(r"^\.It Sy (\w+) Ar (.*)$", page, re.MULTILINE)
    }


def in_library(listing):
    """Set of (name, number of arguments), of the provider tmh."""
    return {
        (name, len(arguments.split()))
        for name, arguments in re.findall(
            r"Provider: tmh\s+Name: (\w+)\s+Location:.*\s+Arguments: ?(.*)", listing
        )
    }


def problems_of(wanted, listing):
    found = in_library(listing)
    problems = [
        f"tmh-probes(7) documents {name} with {count} arguments, which the library lacks"
        for name, count in wanted.items()
        if (name, count) not in found
    ]
    return problems + [
        f"the library has a probe {name} with {count} arguments, which tmh-probes(7) does not"
        " document"
        for name, count in sorted(found)
        if wanted.get(name) != count
    ]


def scripts(root, wanted):
    problems = []
    for name in source_tree.project_files(root):
        if name.endswith(".bt"):
            used = re.findall(r"usdt:\S+:tmh:(\w+)", source_tree.read(root, name))
            problems += [
                f"{name}: there is no probe {probe}" for probe in used if probe not in wanted
            ]
            problems += [f"{name}: uses no probe"] if not used else []
    return problems


def self_test(root):
    note = (
        "    Provider: tmh\n    Name: {}\n    Location: 0x1, Base: 0x2, Semaphore: 0x0\n   "
        " Arguments: {}\n"
    )
    right = (
        note.format("begin", "4@$1 8@%rax")
        + note.format("begin", "-4@4(%rsp) 8@%rdx")
        + note.format("abort", "4@%ecx")
    )
    wanted = {"begin": 2, "abort": 1}
    faults = {
        "a probe is missing": note.format("begin", "4@$1 8@%rax"),
        "one too many": right + note.format("end", "4@$1"),
        "an argument too few": right.replace("4@$1 8@%rax", "4@$1"),
        "another provider": right.replace("tmh", "tm"),
    }
    problems = [f"a right listing: {problem}" for problem in problems_of(wanted, right)]
    problems += [
        f"{what}: not caught"
        for what, listing in faults.items()
        if not problems_of(wanted, listing)
    ]
    return problems + (
        [] if documented(root) else ["no probe is documented: nothing would be checked"]
    )


def main():
    root = sys.argv[1]
    if sys.argv[2] == "--self-test":
        problems = self_test(root)
    else:
        library, sdt = (sys.argv[sys.argv.index(option) + 1] for option in ("--library", "--sdt"))
        wanted = documented(root)
        problems = scripts(root, wanted)
        if sdt == "0":
            print(
                "\n".join(problems)
                or "SKIPPED: configured without <sys/sdt.h> (systemtap-sdt-dev): no probes"
            )
            return 1 if problems else SKIPPED
        if shutil.which("readelf") is None:
            print("\n".join(problems) or "SKIPPED: readelf is not installed (binutils)")
            return 1 if problems else SKIPPED
        listing = subprocess.run(
            ["readelf", "-nW", os.path.realpath(library)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        problems += problems_of(wanted, listing)
    print("\n".join(problems) or "probes: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
