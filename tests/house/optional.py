#!/usr/bin/env python3
"""optional.py <root> --cmake CMAKE --cxx C++ -- an optional header reaches an old build folder.

In one fresh build folder: (1) CMake is kept from <sys/sdt.h>; (2) the header is there, below a
prefix of the test's own; (3) it is gone again. Each time the test builds one object file of the
library: its notes hold probes in (2) alone, and the summary of the configuration says the same.
Nothing clears the cache: that is what a package meets that is installed later.
Without <sys/sdt.h> or readelf it is skipped.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
# A small one.
OBJECT = "CMakeFiles/tmh_objects.dir/platform/disk.cpp.o"
PROBES = {"fsync", "fsync_done"}
PARTS = ("TESTS", "BENCH", "EXAMPLES", "TOOLS", "RTM_EMULATION")


def header_of(compiler):
    """The path of <sys/sdt.h> as the compiler finds it, or None."""
    answer = subprocess.run([compiler, "-M", "-x", "c++", "-"], input="#include <sys/sdt.h>\n",
                            capture_output=True, text=True, check=False)
    found = re.search(r"\S*/sys/sdt\.h", answer.stdout)
    return found.group(0) if answer.returncode == 0 and found else None


def run(command):
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False)
    if answer.returncode != 0:
        raise SystemExit(f"{command}: exit status {answer.returncode}\n{answer.stdout}")
    return answer.stdout


def one_object(arguments, work, hidden):
    """Configures, with the cache of the last time, and builds the object file.
    Returns what the summary says of the probes, and their names in the file."""
    build = os.path.join(work, "build")
    printed = run([arguments.cmake, "-G", "Ninja", "-S", arguments.root, "-B", build,
                   *[f"-DTMH_BUILD_{part}=OFF" for part in PARTS], "-DTMH_INSTALL=OFF",
                   "-DTMH_UNITS=OFF",
                   "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_CXX_COMPILER={arguments.cxx}",
                   f"-DCMAKE_IGNORE_PATH={hidden}",
                   f"-DCMAKE_PREFIX_PATH={os.path.join(work, 'prefix')}"])
    said = re.search(r"USDT probes: ([^;.]*)", printed)
    run([arguments.cmake, "--build", build, "--target", OBJECT])
    notes = run(["readelf", "-nW", os.path.join(build, OBJECT)])
    names = set(re.findall(r"Provider: tmh\s+Name: (\w+)", notes))
    return said.group(1) if said else "nothing", names


def come_and_go(arguments, header):
    problems = []
    with tempfile.TemporaryDirectory(prefix="tmh-optional-") as work:
        include = os.path.join(work, "prefix", "include")
        hidden = os.path.dirname(os.path.dirname(header))
        for step in ("hidden", "installed", "removed"):
            if step == "installed":
                os.makedirs(os.path.join(include, "sys"))
                for name in os.listdir(os.path.dirname(header)):
                    if name.startswith("sdt"):
                        shutil.copy(os.path.join(os.path.dirname(header), name),
                                    os.path.join(include, "sys"))
            elif step == "removed":
                shutil.rmtree(include)
            said, probes = one_object(arguments, work, hidden)
            wanted = PROBES if step == "installed" else set()
            if probes != wanted:
                problems.append(f"<sys/sdt.h> {step}: the object file has the probes "
                                f"{sorted(probes)}, not {sorted(wanted)}")
            if said != ("yes" if step == "installed" else "no, systemtap-sdt-dev is missing"):
                problems.append(f"<sys/sdt.h> {step}: the summary says {said!r} of USDT probes")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--cmake", required=True)
    parser.add_argument("--cxx", required=True)
    arguments = parser.parse_args()
    problems = []
    header, missing = header_of(arguments.cxx), None
    if header is None:
        missing = "<sys/sdt.h> is not installed (systemtap-sdt-dev)"
    elif shutil.which("readelf") is None:
        missing = "readelf is not installed (binutils)"
    else:
        problems += come_and_go(arguments, header)
    print("\n".join(problems) or (f"SKIPPED: {missing}" if missing else "optional: clean"))
    return 1 if problems else SKIPPED if missing else 0


if __name__ == "__main__":
    sys.exit(main())
