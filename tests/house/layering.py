#!/usr/bin/env python3
"""layering.py <root> | --self-test -- every #include goes down (docs/design.md 3).

Rules: (1) a folder includes itself and the folders listed for it, nothing else; so one level never
includes another, and only hierarchy/ knows two at once. (2) Public headers include public headers
only. (3) Layers below hierarchy/ see of the public headers only the plain values: error.hpp,
options.hpp, policies.hpp, instance.hpp, latency.hpp; levels/line also what its user's code has
inline of it, tmh/detail/line_access.hpp. (4) platform/rtm_emulation/, a library of its own, is
included by nobody else. (5) An include of our own is written from the root of the repository, or
<tmh/...>, <xac.h>. Examples, which people copy out, may name a file beside them instead.
"""

import os
import re
import sys
import tempfile

import source_tree

LOW = [
    "include/tmh/error.hpp",
    "include/tmh/options.hpp",
    "include/tmh/policies.hpp",
    "include/tmh/instance.hpp",
    "include/tmh/latency.hpp",
    "platform/",
    "observe/",
]
ALL_LAYERS = ["include/", "platform/", "observe/", "levels/", "hierarchy/"]
# Folder (longest match wins) -> prefixes that it may include, besides itself.
MAY_INCLUDE = {
    "include/": [],
    # The ground floor: platform/ asks for planted faults, observe/ may map files.
    "platform/": LOW,
    "observe/": LOW,
    # a library of its own: neither includes libtmh nor is included by it
    "platform/rtm_emulation/": ["include/tmh/rtm_emulation.h"],
    "levels/storage/": LOW,
    "levels/line/": LOW + ["levels/storage/", "include/tmh/detail/line_access.hpp"],
    "levels/page/": LOW + ["levels/storage/"],
    "hierarchy/": ALL_LAYERS,
    "compat/": ["include/", "hierarchy/"],
    "perf/": ["include/", "platform/"],
    "tools/": ALL_LAYERS + ["perf/", "examples/workloads/"],
    "bench/": ALL_LAYERS + ["examples/trees/", "examples/structures/", "examples/workloads/"],
    "examples/": ["include/"],  # what a user sees
    "tests/": ALL_LAYERS + ["compat/", "perf/", "tools/", "bench/", "examples/"],
}
APART = "platform/rtm_emulation/"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def folder_of(name):
    return max((folder for folder in MAY_INCLUDE if name.startswith(folder)), key=len, default=None)


def target_of(root, name, quote, included):
    """Our file that the directive in file `name` names, or None when it is not ours."""
    candidates = ["include/" + included, included]
    if name.startswith("examples/"):
        candidates.append(os.path.join(os.path.dirname(name), included))
    for candidate in map(os.path.normpath, candidates):
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    if quote == '"' or included.startswith("tmh/"):
        return "(no such file from the root: " + included + ")"
    return None


def violations(root):
    found = []
    for name in source_tree.code_files(root):
        folder = folder_of(name)
        if folder is None:
            if not name.startswith(("cmake/", "papers/")):
                found.append(f"{name}: lies in no folder of the layout")
            continue
        for match in INCLUDE.finditer(source_tree.read(root, name)):
            target = target_of(root, name, match.group(1), match.group(2))
            if target is not None and target.startswith(APART) and folder != APART:
                found.append(f"{name}: {folder} may not include {target}")
                continue
            if target is None or any(
                target.startswith(prefix) for prefix in [folder] + MAY_INCLUDE[folder]
            ):
                continue
            found.append(f"{name}: {folder} may not include {target}")
    return found


def self_test():
    headers = [
        "include/tmh/error.hpp",
        "include/tmh/rtm_emulation.h",
        "platform/rtm_emulation/exec.h",
        "include/tmh/domain.hpp",
        "include/xac.h",
        "platform/files.h",
        "levels/storage/heap.h",
        "levels/page/view.h",
        "levels/line/rtm.h",
        "hierarchy/participants.h",
        "compat/libxac/xac.h",
        "tools/top.h",
        "tests/support/seed.h",
        "bench/support/table.h",
        "examples/inverted_index/index.h",
    ]
    allowed = {
        "hierarchy/a.cpp": (
            '#include "levels/page/view.h"\n#include "levels/line/rtm.h"\n#include'
            ' <tmh/domain.hpp>\n#include <vector>\n'
        ),
        "platform/rtm_emulation/a.cpp": (
            '#include <tmh/rtm_emulation.h>\n#include "platform/rtm_emulation/exec.h"\n'
        ),
        "levels/page/a.cpp": (
            '#include "levels/page/view.h"\n#include "levels/storage/heap.h"\n#include'
            ' <tmh/error.hpp>\n'
        ),
        "examples/inverted_index/a.cpp": '#include "index.h"\n#include <tmh/domain.hpp>\n',
        "examples/a.cpp": (
            '#include <tmh/domain.hpp>\n#include <xac.h>\n// #include "platform/files.h" in a'
            ' comment\n'
        ),
        "tests/a_test.cpp": (
            '#include "tests/support/seed.h"\n#include "platform/files.h"\n#include'
            ' <gtest/gtest.h>\n'
        ),
    }
    planted = {
        "platform/b.cpp": '#include "levels/storage/heap.h"\n',
        "levels/storage/b.cpp": '#include "levels/page/view.h"\n',
        "levels/page/b.cpp": '#include "levels/line/rtm.h"\n',
        "levels/line/b.cpp": '  #  include "levels/page/view.h"\n',
        "levels/page/c.cpp": '#include <hierarchy/participants.h>\n',
        "levels/page/d.cpp": '#include <tmh/domain.hpp>\n',
        "hierarchy/b.cpp": '#include "compat/libxac/xac.h"\n',
        "hierarchy/c.cpp": '#include "tests/support/seed.h"\n',
        "include/tmh/b.hpp": '#include "platform/files.h"\n',
        "compat/libxac/b.cpp": '#include "levels/page/view.h"\n',
        "examples/b.cpp": '#include "hierarchy/participants.h"\n',
        "examples/c.cpp": '#include "../platform/files.h"\n',
        "bench/b.cpp": '#include "tests/support/seed.h"\n',
        "platform/c.cpp": '#include "files.h"\n',
        "perf/b.cpp": '#include "hierarchy/participants.h"\n',
        "platform/d.cpp": '#include "platform/rtm_emulation/exec.h"\n',
        "hierarchy/d.cpp": '#include "platform/rtm_emulation/exec.h"\n',
        "platform/rtm_emulation/b.cpp": '#include "platform/files.h"\n',
        "engine/b.cpp": "int x;\n",
    }
    with tempfile.TemporaryDirectory() as root:
        source_tree.plant(root, {name: "#pragma once\n" for name in headers})
        source_tree.plant(root, allowed)
        problems = [f"wrongly reported: {line}" for line in violations(root)]
        source_tree.plant(root, planted)
        reported = {line.split(":")[0] for line in violations(root)}
        problems += [f"planted in {name}, not reported" for name in planted if name not in reported]
    return problems


def main():
    if sys.argv[1] == "--self-test":
        problems = self_test()
    else:
        root = sys.argv[1]
        problems = violations(root)
        if not source_tree.code_files(root):
            problems.append("no source file found: nothing was checked")
    print("\n".join(problems) or "layering: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
