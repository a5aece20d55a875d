#!/usr/bin/env python3
"""optional.py <root> --cmake CMAKE --cxx C++ -- an optional header that comes or goes reaches a build folder.

In one fresh build folder: (1) CMake is kept from <sys/sdt.h>; (2) the header is there, below a prefix of the test's own;
(3) it is gone again. Each time one of the library's object files is brought up to date: its notes hold probes in (2) alone,
and the summary of the configuration says the same. The cache is never cleared: that is what an installed package meets.
(4) No source of the project asks the compiler what is there.
Without <sys/sdt.h> or readelf (1) to (3) are skipped.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

import source_tree

SKIPPED = 77
OBJECT = "CMakeFiles/tmh_objects.dir/platform/disk.cpp.o"  # small, and holds the probes fsync and fsync_done


def header_of(compiler):
    """The path of <sys/sdt.h> as the compiler finds it, or None."""
    answer = subprocess.run([compiler, "-M", "-x", "c++", "-"], input="#include <sys/sdt.h>\n",
                            capture_output=True, text=True, check=False)
    found = re.search(r"\S*/sys/sdt\.h", answer.stdout)
    return found.group(0) if answer.returncode == 0 and found else None


def run(command):
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if answer.returncode != 0:
        raise SystemExit(f"{command}: exit status {answer.returncode}\n{answer.stdout}")
    return answer.stdout


def asks_the_compiler(root):
    """Sources in which the compiler, and not CMake, decides what is there."""
    return [f"{name}: __has_include decides a feature; CMake is to (cmake/optional.cmake)"
            for name in source_tree.code_files(root) if "__has_include" in source_tree.read(root, name)]


def one_object(arguments, work, hidden):
    """Configures (an old cache, when there is one) and builds; (what the summary says, names of probes)."""
    build = os.path.join(work, "build")
    off = [f"-DTMH_BUILD_{part}=OFF" for part in ("TESTS", "BENCH", "EXAMPLES", "TOOLS", "RTM_EMULATION")]
    printed = run([arguments.cmake, "-G", "Ninja", "-S", arguments.root, "-B", build, *off, "-DTMH_INSTALL=OFF",
                   "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_COMPILER={arguments.cxx}", f"-DCMAKE_IGNORE_PATH={hidden}",
                   f"-DCMAKE_PREFIX_PATH={os.path.join(work, 'prefix')}"])
    said = re.search(r"USDT probes: ([^;.]*)", printed)
    run([arguments.cmake, "--build", build, "--target", OBJECT])
    notes = run(["readelf", "-nW", os.path.join(build, OBJECT)])
    return said.group(1) if said else "nothing", set(re.findall(r"Provider: tmh\s+Name: (\w+)", notes))


def come_and_go(arguments, header):
    problems = []
    with tempfile.TemporaryDirectory(prefix="tmh-optional-") as work:
        prefix = os.path.join(work, "prefix", "include")
        hidden = os.path.dirname(os.path.dirname(header))
        for step in ("hidden", "installed", "removed"):
            if step == "installed":
                shutil.copytree(os.path.dirname(header), os.path.join(prefix, "sys"),
                                ignore=lambda _, names: [name for name in names if not name.startswith("sdt")])
            elif step == "removed":
                shutil.rmtree(prefix)
            said, probes = one_object(arguments, work, hidden)
            wanted = {"fsync", "fsync_done"} if step == "installed" else set()
            if probes != wanted:
                problems.append(f"<sys/sdt.h> {step}: the object file has the probes {sorted(probes)}, not {sorted(wanted)}")
            if said != ("yes" if step == "installed" else "no, systemtap-sdt-dev is missing"):
                problems.append(f"<sys/sdt.h> {step}: the summary says {said!r} of USDT probes")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--cmake", required=True)
    parser.add_argument("--cxx", required=True)
    arguments = parser.parse_args()
    problems = asks_the_compiler(arguments.root)
    header = header_of(arguments.cxx)
    missing = "<sys/sdt.h> is not installed (systemtap-sdt-dev)" if header is None else None
    missing = missing or ("readelf is not installed (binutils)" if shutil.which("readelf") is None else None)
    if missing is None:
        problems += come_and_go(arguments, header)
    print("\n".join(problems) or (f"SKIPPED: {missing}" if missing else "optional: clean"))
    return 1 if problems else SKIPPED if missing else 0


if __name__ == "__main__":
    sys.exit(main())
