#!/usr/bin/env python3
"""run.py -- installs the build to a temporary prefix and uses it from outside: CMake package,
pkg-config, shared, static; the tmh command and the manual pages.

The prefix is moved after the install (packages may not remember where they were made) and has a
space in its name. Every program is built in a folder outside the source tree and must print 10.
"""

import argparse
import os
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def run(command, folder, environment=None):
    print("$", *command, flush=True)
    merged = {**os.environ, **(environment or {})}
    answer = subprocess.run(
        command, cwd=folder, env=merged, stdout=subprocess.PIPE, text=True, check=False
    )
    if answer.returncode != 0:
        raise SystemExit(f"{command[0]}: exit status {answer.returncode}\n{answer.stdout}")
    return answer.stdout


def expect_ten(program, folder, environment=None):
    shutil.rmtree(os.path.join(folder, "counter"), ignore_errors=True)
    printed = run([program], folder, environment).strip()
    if printed != "10":
        raise SystemExit(f"{program} printed {printed!r}, not 10")


def cmake_project(arguments, prefix, work, project, programs):
    source, build = os.path.join(work, "outside"), os.path.join(work, project + "-build")
    shutil.copytree(HERE, source, dirs_exist_ok=True)
    flags = " ".join(arguments.flags)
    run(
        [
            arguments.cmake,
            "-G",
            "Ninja",
            "-S",
            os.path.join(source, project),
            "-B",
            build,
            f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DCMAKE_C_COMPILER={arguments.cc}",
            f"-DCMAKE_CXX_COMPILER={arguments.cxx}",
            f"-DCMAKE_C_FLAGS={flags}",
            f"-DCMAKE_CXX_FLAGS={flags}",
            "--no-warn-unused-cli",
        ],
        work,
    )
    run([arguments.cmake, "--build", build], work)
    for program in programs:
        expect_ten(os.path.join(build, program), work)


def pkg_config_project(arguments, prefix, libdir, work):
    environment = {"PKG_CONFIG_PATH": os.path.join(prefix, libdir, "pkgconfig")}

    def pkg_config(*options):
        # Debian's pkg-config escapes the space in our prefix for a shell; here no shell is between.
        text = run(["pkg-config", *options], work, environment).strip()
        return [word.replace("\0", " ") for word in text.replace("\\ ", "\0").split()]

    # 0. What needs C++20 says so, a C compiler is not told of it.
    for package, wanted in (("tmh", ["-std=c++20"]), ("xac", []), ("tmh-tp", [])):
        standards = [word for word in pkg_config("--cflags", package) if word.startswith("-std")]
        if standards != wanted:
            raise SystemExit(f"pkg-config --cflags {package} has {standards}, not {wanted}")
    # 1. C, shared: xac, or tmh-tp, alone is named; libtmh is its private affair.
    c_packages = {
        "xac": os.path.join(HERE, "c", "counter.c"),
        "tmh-tp": os.path.join(HERE, "c", "counter_tp.c"),
    }
    cxx_source = os.path.join(HERE, "cxx", "counter.cpp")
    c_program, cxx_program = os.path.join(work, "c-program"), os.path.join(work, "cxx-program")
    library_path = {"LD_LIBRARY_PATH": os.path.join(prefix, libdir)}
    linked_later = "-Wl,-rpath-link," + os.path.join(prefix, libdir)
    for package, source in c_packages.items():
        run(
            [
                arguments.cc,
                *arguments.flags,
                source,
                "-o",
                c_program,
                *pkg_config("--cflags", "--libs", package),
                linked_later,
            ],
            work,
        )
        expect_ten(c_program, work, library_path)
    # 2. C++, shared.
    run(
        [
            arguments.cxx,
            *arguments.flags,
            cxx_source,
            "-o",
            cxx_program,
            *pkg_config("--cflags", "--libs", "tmh"),
        ],
        work,
    )
    expect_ten(cxx_program, work, library_path)
    if arguments.tool:  # libtmhperf is made with the command
        events = os.path.join(work, "events-program")
        run(
            [
                arguments.cxx,
                *arguments.flags,
                os.path.join(HERE, "cxx", "events.cpp"),
                "-o",
                events,
                *pkg_config("--cflags", "--libs", "tmhperf"),
            ],
            work,
        )
        expect_ten(events, work, library_path)
    # 3. C, our libraries static: a folder that holds the archives alone leaves the linker no
    #    choice.
    archives = os.path.join(work, "archives")
    os.makedirs(archives)
    for name in ("libxac.a", "libtmh-tp.a", "libtmh.a"):
        shutil.copy(os.path.join(prefix, libdir, name), archives)
    for package, source in c_packages.items():
        words = pkg_config("--static", "--libs", package)
        run(
            [
                arguments.cc,
                *arguments.flags,
                source,
                "-o",
                c_program,
                *pkg_config("--cflags", package),
                "-L" + archives,
                *[word for word in words if not word.startswith("-L")],
            ],
            work,
        )
        expect_ten(c_program, work)


def manual_and_command(arguments, prefix, work):
    """Every page of docs/man/ lies where man looks for it; the installed tmh command runs."""
    pages = os.path.normpath(os.path.join(HERE, "..", "..", "..", "docs", "man"))
    for page in sorted(os.listdir(pages)):
        if not page[-1].isdigit():
            continue
        section = page.rsplit(".", 1)[1]
        path = os.path.join(prefix, arguments.mandir, "man" + section, page)
        if section == "1" and not arguments.tool:
            continue
        if not os.path.isfile(path):
            raise SystemExit(f"{path} was not installed")
    if arguments.tool:
        printed = run([os.path.join(prefix, "bin", "tmh"), "--version"], work)
        if not printed.startswith("tmh "):
            raise SystemExit(f"tmh --version printed {printed!r}")
        for installed in ("tmh/schema/doctor.schema.json", "bash-completion/completions/tmh"):
            if not os.path.isfile(os.path.join(prefix, "share", installed)):
                raise SystemExit(f"share/{installed} was not installed")
        if os.path.exists(os.path.join(prefix, arguments.libdir, "libtmh-rtm-emulation.so")):
            printed = run(
                [
                    "sh",
                    "-c",
                    '"$0" rtm-emulate --stats -- true 2>&1',
                    os.path.join(prefix, "bin", "tmh"),
                ],
                work,
            )
            if not printed.startswith("RTM emulation:"):
                raise SystemExit(
                    f"tmh rtm-emulate printed {printed!r}: the installed library was not loaded"
                )
        for installed in ("tmh/schema/doctor.schema.json", "bash-completion/completions/tmh"):
            if not os.path.isfile(os.path.join(prefix, "share", installed)):
                raise SystemExit(f"share/{installed} was not installed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--cmake", required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--libdir", required=True)
    parser.add_argument("--mandir", required=True)
    parser.add_argument("--tool", action="store_true", help="the tmh command was built")
    parser.add_argument("--flags", default=[], type=str.split)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tmh-install-") as work:
        first, prefix = os.path.join(work, "first"), os.path.join(work, "moved prefix")
        run([arguments.cmake, "--install", arguments.build, "--prefix", first], work)
        os.rename(first, prefix)
        manual_and_command(arguments, prefix, work)
        counters = ["counter_shared", "counter_static", "counter_xac_static", "counter_tp_static",
                    "counter_plugin"]
        cmake_project(
            arguments, prefix, work, "cxx", counters + (["events"] if arguments.tool else [])
        )
        cmake_project(arguments, prefix, work, "c", ["counter_xac", "counter_tp"])
        pkg_config_project(arguments, prefix, arguments.libdir, work)


if __name__ == "__main__":
    main()
