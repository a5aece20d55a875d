#!/usr/bin/env python3
"""style.py format|headers <root> [--cc C] [--cxx C++] | --self-test -- style that a compiler or
clang-format judges.

format   clang-format changes nothing (version 14: others break some lines elsewhere; without it the
         test is skipped)
headers  every header of the public interface and of the layers compiles alone, twice included,
         without a warning; rtm_emulation.h also as C99; xac.h also as C99 and C++11, and
         XAC_NO_SHORT_NAMES hides its short names. include/tmh/*.hpp below C++20: one sentence, and
         few lines.
         With --objects: those that the build has compiled alone, with the same warnings, are not
         compiled again (built_alone()). The others are compiled behind headers that they include
         themselves, precompiled ones (HUBS) and others (chains()): that is as good as alone
         (includes_of()).
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import source_tree

SKIPPED = 77
WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wshadow",
    "-Wconversion",
    "-Wsign-conversion",
    "-Werror",
]


def clang_format_14():
    for name in ("clang-format-14", "clang-format"):
        path = shutil.which(name)
        if path:
            version = subprocess.run(
                [path, "--version"], capture_output=True, text=True, check=False
            ).stdout
            if re.search(r"version 14\.", version):
                return path
    return None


def check_format(root, _):
    tool = clang_format_14()
    if tool is None:
        print("SKIPPED: clang-format 14 is not installed")
        sys.exit(SKIPPED)
    files = [os.path.join(root, name) for name in source_tree.code_files(root)]
    if not files:
        return ["no source file found"]
    answer = subprocess.run(
        [tool, "--dry-run", "-Werror", *files], capture_output=True, text=True, check=False
    )
    places = {}
    for name, line in re.findall(r"^(.*?):(\d+):\d+: error: ", answer.stderr, re.MULTILINE):
        places.setdefault(name, set()).add(int(line))
    if answer.returncode != 0 and not places:
        return [answer.stderr or "clang-format failed"]
    return [
        f"{name}:{min(lines)}: {len(lines)} lines are not formatted; clang-format -i mends them"
        for name, lines in places.items()
    ]


# Headers that many others include, the larger last. They are precompiled: the others read a fifth
# of the text that they read alone.
HUBS = (
    "include/tmh/error.hpp",
    "include/tmh/options.hpp",
    "storage/home.h",
    "include/tmh/domain.hpp",
    "levels/page/redo/redo_writer.h",
)


def includes_of(root, names):
    """Header -> the headers of `names` that it includes at last, itself among them.

    What one of these includes is there for every line of the header that is not an #include, so a
    header that forgets one fails as well behind them as it does alone. Hence no #include that is
    conditional, or stands below anything else: who has not read it may need it.
    """
    direct = {}
    for name in names:
        depth, found = 0, []
        for line in source_tree.read(root, name).splitlines():
            line = re.sub(r"^# +", "#", line.partition("//")[0].strip())
            include = re.match(r'#include\s*[<"]([^>"]+)[>"]', line)
            if line.startswith("#if"):
                depth += 1
            elif line.startswith("#endif"):
                depth -= 1
            elif include and depth == 0:
                found += {include[1], "include/" + include[1]} & names
            elif line not in ("", "#pragma once") and depth == 0:
                break
        direct[name] = found
    closures = {}
    for name in names:
        closure, open_ends = {name}, [name]
        while open_ends:
            more = set(direct[open_ends.pop()]) - closure
            closure |= more
            open_ends += more
        closures[name] = closure
    return closures


def include_line(name):
    return (
        f"#include <{name.removeprefix('include/')}>\n"
        if name.startswith("include/")
        else f'#include "{name}"\n'
    )


def compile_alone(root, compiler, language, standard, text, hub=None, made=None):
    """`hub`: a precompiled header to begin with. `made`: the text becomes one, of this name."""
    if made:
        with open(made, "w", encoding="utf-8") as file:
            file.write(text)
    command = [
        *compiler,
        "-x",
        language,
        "-std=" + standard,
        *(["-o", made + ".gch"] if made else ["-fsyntax-only"]),
        *WARNINGS,
        "-DTMH_HAVE_SDT=0",
        "-I",
        os.path.join(root, "include"),
        "-I",
        root,
        *(["-include", hub] if hub else []),
        made or "-",
    ]
    answer = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return (
        []
        if answer.returncode == 0
        else [f"{standard}: {text.splitlines()[0]} does not compile alone:\n{answer.stderr}"]
    )


OLD_STANDARD_LINES_MAX = 12


def below_cxx20(root, compiler, header):
    """A header of the C++ interface as C++17: the sentence of detail/cxx20.hpp, and no more."""
    command = [
        *compiler,
        "-x",
        "c++",
        "-std=c++17",
        "-fsyntax-only",
        "-I",
        os.path.join(root, "include"),
        "-",
    ]
    answer = subprocess.run(
        command, input=f"#include <{header}>\n", capture_output=True, text=True, check=False
    )
    lines = answer.stderr.splitlines()
    said = sum(" error: " in line and "tmh needs C++20" in line for line in lines)
    if answer.returncode != 0 and said == 1 and len(lines) <= OLD_STANDARD_LINES_MAX:
        return []
    return [
        f"{header} as C++17: the sentence {said} times in {len(lines)} lines, exit status "
        f"{answer.returncode}; it is to include <tmh/detail/cxx20.hpp> first"
    ]


def built_alone(root, names, objects):
    """Headers that the build has compiled alone: the first thing that their own .cpp includes, when
    its object is newer than every header and than that .cpp. Not those with assertions, which a
    release build does not compile, nor without #pragma once, which nobody has included twice.
    """
    headers_ns = max(
        (
            os.stat(os.path.join(root, name)).st_mtime_ns
            for name in names
            if name.endswith((".h", ".hpp"))
        ),
        default=0,
    )
    built = set()
    for name in names:
        source = os.path.splitext(name)[0] + ".cpp"
        compiled = [
            path for path in objects if path.endswith("/" + source + ".o") and os.path.isfile(path)
        ]
        if name == source or source not in names or not compiled:
            continue
        changed_ns = max(headers_ns, os.stat(os.path.join(root, source)).st_mtime_ns)
        text = source_tree.read(root, name)
        lines = source_tree.read(root, source).splitlines()
        first = next((line for line in lines if line and not line.startswith("//")), "")
        if (
            first == f'#include "{name}"'
            and re.search(r"^#pragma once$", text, re.MULTILINE)
            and "assert(" not in text.replace("static_assert(", "")
            and all(os.stat(path).st_mtime_ns > changed_ns for path in compiled)
        ):
            built.add(name)
    return built


def chains(names, closures, hubs):
    """(hub or None, headers to compile behind it): each header includes those in front of it."""
    found = []
    for name in sorted(names, key=lambda name: (len(closures[name]), name)):
        hub = next((hub for hub in reversed(hubs) if hub in closures[name]), None)
        for other, chain in found:
            if other == hub and chain[-1] in closures[name]:
                chain.append(name)
                break
        else:
            found.append((hub, [name]))
    return found


def compile_headers(root, compiler, names, alone, pool):
    """Each of `alone`, twice in one compilation, behind others that it includes itself."""
    closures = includes_of(root, names)
    problems = []
    with tempfile.TemporaryDirectory() as folder:

        def precompile(hub):
            path = os.path.join(folder, hub.replace("/", "_"))
            text = include_line(hub)
            return path, compile_alone(root, compiler, "c++-header", "c++20", text * 2, made=path)

        hubs = [hub for hub in HUBS if hub in names]
        paths = {}
        for hub, (path, said) in zip(hubs, pool.map(precompile, hubs)):
            problems += said
            if not said:
                paths[hub] = path

        def compile_chain(hub_and_chain):
            hub, chain = hub_and_chain
            text = "".join(map(include_line, chain)) * 2
            said = compile_alone(root, compiler, "c++", "c++20", text, paths.get(hub))
            if not said:
                return []
            # alone, so that the message is about one header and about nothing else
            return [
                line
                for name in chain
                for line in compile_alone(root, compiler, "c++", "c++20", include_line(name) * 2)
            ]

        rest = [name for name in alone if name not in hubs]
        for said in pool.map(compile_chain, chains(rest, closures, list(paths))):
            problems += said
    return problems


def check_headers(root, compilers):
    jobs = []
    names = source_tree.code_files(root)
    built = built_alone(root, names, compilers.objects)
    if built:
        print(f"{len(built)} headers were compiled alone by the build")
    headers = {
        name
        for name in names
        if name.endswith((".h", ".hpp"))
        and name.startswith(
            ("include/", "platform/", "observe/", "storage/", "levels/", "hierarchy/", "compat/")
        )
    }
    xac = "#include <xac.h>\n"
    if os.path.isfile(os.path.join(root, "include/xac.h")):
        used = xac + xac + "int f(void);\nint f(void) { return COMMITTED + READ_WRITE; }\n"
        hidden = (
            "#define XAC_NO_SHORT_NAMES\n"
            + xac
            + "#if defined COMMITTED || defined READ || defined DURABLE || defined PAGESIZE\n#error"
            " a short name is visible\n#endif\nint f(void);\nint f(void) { return"
            " XAC_COMMITTED; }\n"
        )
        jobs += [
            (compilers.cc, "c", "c99", used),
            (compilers.cc, "c", "c11", used),
            (compilers.cxx, "c++", "c++11", used),
            (compilers.cc, "c", "c99", hidden),
        ]
    if os.path.isfile(os.path.join(root, "include/tmh/rtm_emulation.h")):
        jobs.append(
            (
                compilers.cc,
                "c",
                "c99",
                "#include <tmh/rtm_emulation.h>\n" * 2
                + "int f(void);\nint f(void) { return TMH_RTM_EMULATION_OFF; }\n",
            )
        )
    if not headers:
        return ["no header found"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        alone = sorted(headers - built)
        results = [compile_headers(root, compilers.cxx, headers, alone, pool)]
        results += pool.map(lambda job: compile_alone(root, *job), jobs)
        if "include/tmh/detail/cxx20.hpp" in names:
            public = [
                name.removeprefix("include/")
                for name in names
                if name.startswith("include/tmh/") and name.endswith(".hpp")
            ]
            results += pool.map(lambda header: below_cxx20(root, compilers.cxx, header), public)
    return [problem for result in results for problem in result]


CHECKS = {
    "format": check_format,
    "headers": check_headers,
}


def self_test(compilers):
    """Each check must pass a right tree and catch what is planted in a wrong one."""
    own_root = source_tree.OWN_ROOT
    right = {
        "include/tmh/a.hpp": "#pragma once\n\nint f(char *p);\n",
        "platform/a.cpp": "int f();\n",
        ".clang-format": source_tree.read(own_root, ".clang-format"),
    }
    wrong = {
        "format": {"platform/b.cpp": "int  f( );\n"},
        "headers": {"platform/b.h": "#pragma once\ninline std::string f() { return {}; }\n"},
    }
    problems = []
    for name, planted in wrong.items():
        if name == "format" and clang_format_14() is None:
            continue
        with tempfile.TemporaryDirectory() as root:
            source_tree.plant(root, right)
            problems += [
                f"{name}, wrongly reported: {line}" for line in CHECKS[name](root, compilers)
            ]
            source_tree.plant(root, planted)
            if not CHECKS[name](root, compilers):
                problems.append(f"{name}: what was planted is not reported")
    problems += built_self_test() + old_standard_self_test(compilers)
    return problems + hub_self_test(compilers)


def hub_self_test(compilers):
    """A precompiled header hides no #include that is forgotten."""
    hub = "#pragma once\n#include <string>\n"
    include, use = "#include <tmh/error.hpp>\n", "inline std::string f() { return {}; }\n"
    cases = [
        ("includes the hub", include + use, True),
        ("includes it by way of another", '#include "platform/other.h"\n' + use, True),
        ("does not include the hub", use, False),
        ("includes it too late", use + include, False),
        ("may include it", "#ifdef A\n" + include + "#endif\n" + use, False),
        ("includes it, and is wrong", include + use + "int g(int a, int a);\n", False),
    ]
    problems = [f"HUBS: no such header: {name}" for name in HUBS
                if not os.path.isfile(os.path.join(source_tree.OWN_ROOT, name))]
    for name, text, right in cases:
        with tempfile.TemporaryDirectory() as root:
            other = "#pragma once\n// a\n#include <tmh/error.hpp>\n"
            source_tree.plant(root, {HUBS[0]: hub, "platform/other.h": other,
                                     "platform/a.h": "#pragma once\n" + text})
            if (check_headers(root, compilers) == []) != right:
                problems.append(f"headers, behind a hub: wrong about one that {name}")
    # The one that includes the other has what that forgot, in front of it or behind it.
    for first, last in (("#include <string>\n", ""), ("", "#include <string>\n")):
        with tempfile.TemporaryDirectory() as root:
            text = f'#pragma once\n{first}#include "platform/a.h"\n{last}std::string g();\n'
            source_tree.plant(root, {"platform/b.h": text, "platform/a.h": "#pragma once\n" + use})
            found = check_headers(root, compilers)
            if len(found) != 1 + (not first) or "platform/a.h" not in found[0]:
                problems.append(f"headers, in a chain: wrong about one that forgets: {found}")
    with tempfile.TemporaryDirectory() as root:
        source_tree.plant(root, {HUBS[0]: "#pragma once\n" + use, "platform/a.h": "#pragma once\n"})
        if not check_headers(root, compilers):
            problems.append("headers: a wrong hub is not reported")
    return problems


def old_standard_self_test(compilers):
    """A header that does not ask for C++20 is reported."""
    own_root = source_tree.OWN_ROOT
    guard = "include/tmh/detail/cxx20.hpp"
    asks = "#include <tmh/detail/cxx20.hpp>\n"
    cases = [
        ("asks", asks + "inline constinit int a = 0;\n", True),
        ("does not ask", "inline int a = 0;\n", False),
        ("does not ask, and needs it", "inline constinit int a = 0;\n" * 20, False),
    ]
    problems = []
    for name, text, right in cases:
        with tempfile.TemporaryDirectory() as root:
            source_tree.plant(
                root,
                {
                    guard: source_tree.read(own_root, guard),
                    "include/tmh/a.hpp": "#pragma once\n" + text,
                },
            )
            if (below_cxx20(root, compilers.cxx, "tmh/a.hpp") == []) != right:
                problems.append(f"headers, below C++20: wrong about one that {name}")
    return problems


def built_self_test():
    """What the build has compiled alone is known, and nothing else is taken for it."""
    header, source, other = (
        "#pragma once\nint f();\n",
        '// a\n#include "platform/a.h"\n\n#include <string>\n',
        "#pragma once\n",
    )
    cases = [  # what is planted, seconds between the newest header and the object, is it known?
        ("built", {"platform/a.h": header, "platform/a.cpp": source}, 1, True),
        (
            "another include first",
            {"platform/a.h": header, "platform/a.cpp": "#include <string>\n" + source},
            1,
            False,
        ),
        (
            "a macro first",
            {"platform/a.h": header, "platform/a.cpp": "#define A\n" + source},
            1,
            False,
        ),
        (
            "an assertion",
            {
                "platform/a.h": header + "inline void g(int i) { assert(i); }\n",
                "platform/a.cpp": source,
            },
            1,
            False,
        ),
        ("no guard", {"platform/a.h": "int f();\n", "platform/a.cpp": source}, 1, False),
        ("an old object", {"platform/a.h": header, "platform/a.cpp": source}, -1, False),
        ("no source", {"platform/a.h": header}, 1, False),
    ]
    problems = []
    for name, planted, newer_sec, expected in cases:
        with tempfile.TemporaryDirectory() as root:
            source_tree.plant(
                root, {**planted, "platform/other.h": other, "build/platform/a.cpp.o": ""}
            )
            for path in planted:
                os.utime(os.path.join(root, path), (1000, 1000))
            os.utime(os.path.join(root, "platform/other.h"), (2000, 2000))
            compiled = os.path.join(root, "build/platform/a.cpp.o")
            os.utime(compiled, (2000 + newer_sec, 2000 + newer_sec))
            if built_alone(root, source_tree.code_files(root), [compiled]) != (
                {"platform/a.h"} if expected else set()
            ):
                problems.append(f"headers, built alone: wrong about: {name}")
            if built_alone(root, source_tree.code_files(root), []):
                problems.append(f"headers, built alone: without an object: {name}")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("check", nargs="?", choices=CHECKS)
    parser.add_argument("root", nargs="?")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--cc", default=["cc"], type=str.split)
    parser.add_argument("--cxx", default=["c++"], type=str.split)
    parser.add_argument(
        "--objects", nargs="*", default=[], help="object files of the build, which is up to date"
    )
    arguments = parser.parse_args()
    problems = (
        self_test(arguments)
        if arguments.self_test
        else CHECKS[arguments.check](arguments.root, arguments)
    )
    print("\n".join(problems) or "clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
