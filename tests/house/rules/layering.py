"""layering.py -- every #include goes down (docs/design.md 3).

Rules: (1) a room includes itself and the rooms listed for it, nothing else; so one level never
includes the other, and only the rooms of hierarchy/ know two at once. (2) Public headers include
public headers only. (3) Rooms below hierarchy/ see of the public headers only the plain values:
error.hpp, options.hpp, past.hpp, policies.hpp, lab.hpp, instance.hpp, latency.hpp; levels/line also
what its user's code has inline of it, tmh/detail/line_access.hpp. (4) rtm_emulator/, an own
product, is included by nobody else; observe/perf/, a library of its own, by tools and tests;
programs/, which includes nothing of ours, by tools, benches, tests and two examples. (5) An include
of our own is written from the root of the repository, or <tmh/...>, <xac.h>. Examples, which people
copy out, may name a file beside them instead. (6) include/tmh/trees/ includes itself and the
sentence about C++20: a tree knows of no transactions. (7) Other rooms include a room of DOORS
through its door alone; its own files and tests may pass that by.
"""

import os
import re

from rules.rule import Planted, Rule, Violation

LOW = [
    "include/tmh/error.hpp",
    "include/tmh/options.hpp",
    "include/tmh/past.hpp",
    "include/tmh/policies.hpp",
    "include/tmh/lab.hpp",
    "include/tmh/instance.hpp",
    "include/tmh/latency.hpp",
    "platform/",
    "observe/",
]
# Needs nothing else: every room can state what it expects.
ASSERT = "platform/assert.h"
LEVELS = [
    "include/",
    "platform/",
    "observe/",
    "storage/",
    "levels/line/",
    "levels/lock/",
    "levels/page/",
]
BELOW_DOMAIN = [
    "hierarchy/exchange/",
    "hierarchy/threads/",
    "hierarchy/durability/",
    "hierarchy/watch/",
]
ALL_ROOMS = LEVELS + ["hierarchy/"]
# Room (longest match wins) -> prefixes that it may include, besides itself.
MAY_INCLUDE = {
    "include/": [],
    # Trees know of no transactions; the sentence about C++20 is all that they share.
    "include/tmh/trees/": ["include/tmh/detail/cxx20.hpp"],
    # The ground floor: platform/ asks for planted faults and says its steps, observe/ maps files.
    "platform/": LOW,
    "observe/": LOW,
    "observe/perf/": ["include/", "platform/"],
    # A product of its own: neither includes libtmh nor is included by it.
    "rtm_emulator/": ["include/tmh/rtm_emulation.h"],
    "storage/": LOW,
    "levels/line/": LOW + ["storage/", "include/tmh/detail/line_access.hpp"],
    "levels/lock/": LOW + ["storage/"],
    "levels/page/": LOW + ["storage/"],
    "hierarchy/exchange/": LEVELS,
    # Where threads run, and what is durable, know nothing of each other.
    "hierarchy/threads/": LEVELS + ["hierarchy/exchange/"],
    "hierarchy/durability/": LEVELS + ["hierarchy/exchange/"],
    "hierarchy/watch/": LEVELS + ["hierarchy/exchange/", "hierarchy/threads/"],
    "hierarchy/domain/": LEVELS + BELOW_DOMAIN,
    "hierarchy/transaction/": LEVELS + BELOW_DOMAIN + ["hierarchy/domain/"],
    "hierarchy/api/": ALL_ROOMS,
    "compat/": ["include/", "hierarchy/", ASSERT],
    # Transactions of many instances, and the locks that they hold.
    "compat/libtp/": ["include/", "platform/", "observe/", "storage/page_id.h", "hierarchy/",
                      "levels/lock/"],
    # Serial code, which knows no transaction.
    "compat/libdb/": ["include/", ASSERT, "platform/disk.h", "observe/steps.h",
                      "observe/planted.h"],
    # The same library in a process of its own.
    "compat/libdb/server/": ["include/", ASSERT, "compat/libdb/", "compat/libtp/interruption.h",
                             "compat/libtp/client/wire.h"],
    # A library of its own on level 1 alone.
    "compat/libitm/": ["include/", "platform/", "observe/", "storage/", "levels/line/"],
    # The engine of its methods pages, and what that engine brings to a program.
    "levels/process/ground/": LOW,
    "levels/process/heap/": LOW + ["levels/process/ground/"],
    "levels/process/": LOW,
    "compat/libitm/tasks/": LOW + ["include/tmh/itm.h", "levels/process/"],
    "compat/libitm/calls/": LOW + ["levels/process/", "compat/libitm/tasks/"],
    "compat/libitm/pages/": LOW + ["levels/process/", "compat/libitm/tasks/"],
    # What programs share knows nothing of the library.
    "programs/": [],
    "tools/": ALL_ROOMS + ["programs/", "examples/workloads/", "compat/libtp/chain_layout.h"],
    "bench/": ALL_ROOMS
    + ["programs/", "examples/trees/", "examples/structures/", "examples/workloads/"],
    "bindings/python/": ["include/", ASSERT],  # what a user sees
    "bindings/tcl/": ["include/", ASSERT],
    "examples/": ["include/"],
    # Programs, and not pages of a manual.
    "examples/inverted_index/": ["include/", "programs/", "examples/"],
    "examples/itm/": ["include/", "programs/", "examples/"],
    "tests/": ALL_ROOMS
    + ["levels/process/", "programs/", "compat/", "tools/", "bench/", "examples/"],
}
# Room -> the one header of it that files of other rooms include.
DOORS = {
    "levels/lock/": "levels/lock/lock.h",
    "levels/page/shared/": "levels/page/shared/shared.h",
    "levels/page/versions/": "levels/page/versions/versions.h",
    "levels/page/redo/": "levels/page/redo/redo.h",
    "levels/page/publish/": "levels/page/publish/publish.h",
    "levels/page/views/": "levels/page/views/views.h",
    "levels/page/touch/": "levels/page/touch/touch.h",
    "levels/page/": "levels/page/page.h",
    "levels/process/": "levels/process/process.h",
    "levels/process/ground/": "levels/process/ground/ground.h",
    "levels/process/heap/": "levels/process/heap/heap.h",
    "compat/libitm/tasks/": "compat/libitm/tasks/tasks.h",
    "compat/libitm/pages/": "compat/libitm/pages/pages.h",
    "hierarchy/exchange/": "hierarchy/exchange/exchange.h",
    "hierarchy/threads/": "hierarchy/threads/threads.h",
    "hierarchy/durability/": "hierarchy/durability/durability.h",
    "hierarchy/watch/": "hierarchy/watch/watch.h",
    "hierarchy/domain/": "hierarchy/domain/domain.h",
    "hierarchy/transaction/": "hierarchy/transaction/transaction.h",
}
# Libraries of their own -> rooms that may include them, besides themselves.
APART = {"rtm_emulator/": [], "observe/perf/": ["tools/", "tests/"]}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def folder_of(name):
    return max((folder for folder in MAY_INCLUDE if name.startswith(folder)), key=len, default=None)


def target_of(tree, name, quote, included):
    """Our file that the directive in file `name` names, or None when it is not ours."""
    candidates = ["include/" + included, included]
    if name.startswith("examples/"):
        candidates.append(os.path.join(os.path.dirname(name), included))
    for candidate in map(os.path.normpath, candidates):
        if candidate in tree.file_set:
            return candidate
    if quote == '"' or included.startswith("tmh/"):
        return "(no such file from the root: " + included + ")"
    return None


def includes_of(tree, name):
    """(our file, line) of each #include of file `name`."""
    text = tree.read(name)
    for match in INCLUDE.finditer(text):
        target = target_of(tree, name, match.group(1), match.group(2))
        if target is not None:
            yield target, text.count("\n", 0, match.start(1)) + 1


def may_include(folder, target):
    apart = next((each for each in APART if target.startswith(each)), None)
    if apart is not None and folder != apart and folder not in APART[apart]:
        return False
    return any(target.startswith(prefix) for prefix in [folder] + MAY_INCLUDE[folder])


def passes_by_door(name, target):
    """The door that file `name` should have included instead of `target`; None: it may."""
    room = max((room for room in DOORS if target.startswith(room)), key=len, default=None)
    if room is None or name.startswith((room, "tests/")) or target == DOORS[room]:
        return None
    return DOORS[room]


class Layering(Rule):
    name = "layering"
    demands = "Every #include goes down, and through the door of its room."

    def violations(self, tree):
        for name in tree.code:
            folder = folder_of(name)
            if folder is None:
                if not name.startswith(("cmake/", "papers/")):
                    yield Violation(name, 1, "lies in no room of the layout")
                continue
            for target, line in includes_of(tree, name):
                if not may_include(folder, target):
                    yield Violation(name, line, f"{folder} may not include {target}")
                elif (door := passes_by_door(name, target)) is not None:
                    yield Violation(name, line, f"includes {target}, not the door {door}")


HEADERS = [
    "include/tmh/error.hpp",
    "include/tmh/rtm_emulation.h",
    "rtm_emulator/exec.h",
    "include/tmh/domain.hpp",
    "include/tmh/detail/cxx20.hpp",
    "include/tmh/trees/keys.hpp",
    "include/xac.h",
    "platform/files.h",
    "observe/steps.h",
    "observe/perf/encode.h",
    "storage/home.h",
    "storage/heap/heap.h",
    "levels/page/views/views.h",
    "levels/line/rtm.h",
    "hierarchy/exchange/directory.h",
    "hierarchy/exchange/exchange.h",
    "hierarchy/threads/current.h",
    "hierarchy/threads/threads.h",
    "hierarchy/durability/durability.h",
    "hierarchy/watch/watch.h",
    "hierarchy/domain/domain.h",
    "hierarchy/domain/opening.h",
    "hierarchy/transaction/retry.h",
    "hierarchy/transaction/transaction.h",
    "hierarchy/api/handles.h",
    "compat/libxac/xac.h",
    "programs/json.h",
    "tools/top.h",
    "tests/support/seed.h",
    "bench/support/table.h",
    "examples/inverted_index/index.h",
]
ALLOWED = {
    "include/tmh/trees/a.hpp": (
        "#include <tmh/detail/cxx20.hpp>\n#include <tmh/trees/keys.hpp>\n"
    ),
    "platform/a.cpp": '#include "observe/steps.h"\n',
    "observe/a.cpp": '#include "platform/files.h"\n',
    "observe/perf/a.cpp": '#include "observe/perf/encode.h"\n#include <tmh/domain.hpp>\n',
    "storage/a.cpp": '#include "storage/heap/heap.h"\n',
    "storage/heap/a.cpp": '#include "storage/home.h"\n',
    "hierarchy/exchange/a.cpp": (
        '#include "levels/page/views/views.h"\n#include "levels/line/rtm.h"\n#include'
        ' <tmh/domain.hpp>\n#include <vector>\n'
    ),
    "hierarchy/threads/a.cpp": (
        '#include "hierarchy/exchange/exchange.h"\n#include "hierarchy/threads/current.h"\n'
    ),
    "hierarchy/durability/a.cpp": '#include "hierarchy/exchange/exchange.h"\n',
    "hierarchy/watch/a.cpp": '#include "hierarchy/threads/threads.h"\n',
    "hierarchy/domain/a.cpp": (
        '#include "hierarchy/domain/opening.h"\n#include "hierarchy/watch/watch.h"\n#include'
        ' "hierarchy/durability/durability.h"\n'
    ),
    "hierarchy/transaction/a.cpp": '#include "hierarchy/domain/domain.h"\n',
    "hierarchy/api/a.cpp": '#include "hierarchy/transaction/transaction.h"\n',
    "tests/b_test.cpp": '#include "hierarchy/threads/current.h"\n',
    "compat/libxac/a.cpp": '#include "hierarchy/api/handles.h"\n',
    "rtm_emulator/a.cpp": (
        '#include <tmh/rtm_emulation.h>\n#include "rtm_emulator/exec.h"\n'
    ),
    "levels/page/a.cpp": (
        '#include "levels/page/views/views.h"\n#include "storage/heap/heap.h"\n#include'
        ' <tmh/error.hpp>\n'
    ),
    "examples/inverted_index/a.cpp": '#include "index.h"\n#include <tmh/domain.hpp>\n',
    "examples/a.cpp": (
        '#include <tmh/domain.hpp>\n#include <xac.h>\n// #include "platform/files.h" in a'
        ' comment\n'
    ),
    "programs/a.cpp": '#include "programs/json.h"\n',
    "tools/a.cpp": '#include "observe/perf/encode.h"\n#include "programs/json.h"\n',
    "bench/a.cpp": '#include "programs/json.h"\n',
    "examples/itm/a.cpp": '#include "programs/json.h"\n',
    "tests/a_test.cpp": (
        '#include "tests/support/seed.h"\n#include "platform/files.h"\n#include'
        ' <gtest/gtest.h>\n'
    ),
}
REFUSED = {
    "platform/b.cpp": '#include "storage/heap/heap.h"\n',
    "storage/b.cpp": '#include "levels/page/views/views.h"\n',
    "storage/heap/b.cpp": '#include "levels/page/views/views.h"\n',
    "levels/page/b.cpp": '#include "levels/line/rtm.h"\n',
    "levels/line/b.cpp": '  #  include "levels/page/views/views.h"\n',
    "levels/page/c.cpp": '#include <hierarchy/exchange/directory.h>\n',
    "levels/page/d.cpp": '#include <tmh/domain.hpp>\n',
    "hierarchy/exchange/b.cpp": '#include "hierarchy/threads/threads.h"\n',
    "hierarchy/threads/b.cpp": '#include "hierarchy/domain/domain.h"\n',
    "hierarchy/threads/c.cpp": '#include "hierarchy/durability/durability.h"\n',
    "hierarchy/threads/d.cpp": '#include "hierarchy/exchange/directory.h"\n',
    "hierarchy/durability/b.cpp": '#include "hierarchy/threads/threads.h"\n',
    "hierarchy/watch/b.cpp": '#include "hierarchy/domain/domain.h"\n',
    "hierarchy/watch/c.cpp": '#include "hierarchy/threads/current.h"\n',
    "hierarchy/domain/b.cpp": '#include "hierarchy/transaction/transaction.h"\n',
    "hierarchy/domain/c.cpp": '#include <hierarchy/threads/current.h>\n',
    "hierarchy/transaction/c.cpp": '#include "hierarchy/domain/opening.h"\n',
    "hierarchy/api/f.cpp": '#include "hierarchy/transaction/retry.h"\n',
    "tools/b.cpp": '#include "hierarchy/exchange/directory.h"\n',
    "bench/d.cpp": '#include "hierarchy/threads/current.h"\n',
    "hierarchy/transaction/b.cpp": '#include "hierarchy/api/handles.h"\n',
    "hierarchy/api/b.cpp": '#include "compat/libxac/xac.h"\n',
    "hierarchy/api/c.cpp": '#include "tests/support/seed.h"\n',
    "hierarchy/e.cpp": "int x;\n",
    "include/tmh/b.hpp": '#include "platform/files.h"\n',
    "include/tmh/trees/b.hpp": "#include <tmh/domain.hpp>\n",
    "compat/libxac/b.cpp": '#include "levels/page/views/views.h"\n',
    "examples/b.cpp": '#include "hierarchy/api/handles.h"\n',
    "examples/c.cpp": '#include "../platform/files.h"\n',
    "programs/b.cpp": '#include "platform/files.h"\n',
    "programs/c.cpp": '#include "tools/top.h"\n',
    "programs/d.cpp": "#include <tmh/error.hpp>\n",
    "hierarchy/api/e.cpp": '#include "programs/json.h"\n',
    "examples/trees/b.cpp": '#include "programs/json.h"\n',
    "bench/b.cpp": '#include "tests/support/seed.h"\n',
    "bench/c.cpp": '#include "observe/perf/encode.h"\n',
    "platform/c.cpp": '#include "files.h"\n',
    "platform/e.cpp": '#include "observe/perf/encode.h"\n',
    "observe/perf/b.cpp": '#include "hierarchy/api/handles.h"\n',
    "platform/d.cpp": '#include "rtm_emulator/exec.h"\n',
    "hierarchy/api/d.cpp": '#include "rtm_emulator/exec.h"\n',
    "rtm_emulator/b.cpp": '#include "platform/files.h"\n',
    "engine/b.cpp": "int x;\n",
}

Layering.right = {**{name: "#pragma once\n" for name in HEADERS}, **ALLOWED}
Layering.planted = (Planted("includes that go up", REFUSED, tuple(f"{name}:" for name in REFUSED)),)
RULE = Layering()
