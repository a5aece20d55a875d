#!/usr/bin/env python3
"""pages_symbols.py LIBRARY LIBC OBJECT... | --self-test -- what the engine of the methods pages
exports: calls of the C library and names of its own, all that its sources export, and nothing else.

LIBRARY  libtmh-itm-pages.so: `nm -D --defined-only` tells what it exports
LIBC     libc.so.6: names that it has, too, may be exported
OBJECT   of the library: what has default visibility there must be exported. C++ names apart

Exit code 1: a name too many, or one is missing (in pages.map).
"""

import subprocess
import sys

# The last one is the C++ library's: std::cout stays on stdout (std_streams.cpp).
OWN = ("tmh_itm_", "__cxa_", "_ZNSt8ios_base15sync_with_stdioEb")


def is_cxx(name):
    return name.startswith("_Z")


def exported(text):
    """Names in the answer of `nm -D --defined-only`."""
    return {line.split()[-1].partition("@")[0] for line in text.splitlines() if line.split()}


def visible(text):
    """Names in the answer of `readelf -sW` that objects give to all."""
    names = set()
    for line in text.splitlines():
        words = line.split()
        if len(words) == 8 and words[4] in ("GLOBAL", "WEAK") and words[5] == "DEFAULT":
            if words[6] != "UND" and words[3] in ("FUNC", "OBJECT", "IFUNC", "TLS", "NOTYPE"):
                names.add(words[7])
    return names


def problems_of(library, libc, objects):
    too_many = {name for name in library - libc if not name.startswith(OWN)}
    missing = {name for name in objects - library if not is_cxx(name)}
    problems = [f"{name} is exported, and is no name of the C library" for name in too_many]
    problems += [f"{name} is not exported: pages.map lacks it" for name in missing]
    problems += [] if "tmh_itm_pages" in library else ["tmh_itm_pages is missing"]
    return sorted(problems)


def read(*command):
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        sys.exit(answer.stderr.strip() or f"{command[0]} refuses {command[-1]}")
    return answer.stdout


def self_test():
    library = exported("0000000000007200 T malloc\n0000000000002000 D tmh_itm_pages\n")
    libc = exported("00000000000a0000 T malloc@@GLIBC_2.2.5\n00000000000a0010 W free@@GLIBC_2\n")
    line = "  %d: 0000000000000000 %5d %s %s %s %s %s\n"
    objects = visible(
        "   Num:    Value          Size Type    Bind   Vis      Ndx Name\n"
        + line % (1, 10, "FUNC", "GLOBAL", "DEFAULT", "5", "malloc")
        + line % (2, 10, "FUNC", "GLOBAL", "HIDDEN", "5", "internal")
        + line % (3, 0, "NOTYPE", "GLOBAL", "DEFAULT", "UND", "free")
        + line % (4, 10, "FUNC", "WEAK", "DEFAULT", "6", "_ZSt4swapv")
        + line % (5, 10, "FUNC", "LOCAL", "DEFAULT", "6", "inner")
        + line % (6, 8, "OBJECT", "GLOBAL", "DEFAULT", "6", "tmh_itm_pages")
    )
    assert objects == {"malloc", "_ZSt4swapv", "tmh_itm_pages"}, objects
    assert problems_of(library, libc, objects) == []
    assert "free is not exported" in problems_of(library, libc, objects | {"free"})[0]
    assert "swap is exported" in problems_of(library | {"swap"}, libc, objects)[0]
    assert "_Znwm is exported" in problems_of(library | {"_Znwm"}, libc, objects)[0]
    assert problems_of({"malloc"}, libc, {"malloc"}) == ["tmh_itm_pages is missing"]
    print("self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    library, libc, *objects = sys.argv[1:]
    names = exported(read("nm", "-D", "--defined-only", library))
    problems = problems_of(
        names,
        exported(read("nm", "-D", "--defined-only", libc)),
        visible(read("readelf", "-sW", *objects)),
    )
    print("\n".join([*problems, f"{len(names)} names"]))
    return sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
