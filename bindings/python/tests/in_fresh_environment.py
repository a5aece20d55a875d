#!/usr/bin/env python3
"""in_fresh_environment.py build|run -- the package as a user gets it, for ./check.

build: makes a virtual environment, builds the wheel, installs it there with pytest, says its size,
and imports it where no compiler is found. run: pytest on one file of tests in that environment, by
`python -X dev` with warnings as errors.

Exit status 77 and "SKIPPED: why" mean skipped: there is no venv module, no header of Python, or no
package index in reach.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parents[1]
SKIPPED = 77


def skip(why: str) -> None:
    print(f"SKIPPED: {why}")
    sys.exit(SKIPPED)


def call(command: list, **more) -> subprocess.CompletedProcess:
    return subprocess.run([str(part) for part in command], text=True, check=False, **more)


def environment_of(options: argparse.Namespace) -> dict[str, str]:
    """Of the tests: what a sanitized extension needs in an interpreter that is not."""
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if "address" in options.sanitize:
        # The C++ library with it: AddressSanitizer looks for its functions when it starts.
        paths = [
            call([options.cxx, f"-print-file-name={name}"], stdout=subprocess.PIPE).stdout.strip()
            for name in ("libasan.so", "libstdc++.so.6")
        ]
        variables["LD_PRELOAD"] = " ".join(paths)
        # The interpreter leaks by itself; faults are the library's.
        variables["ASAN_OPTIONS"] = (
            "detect_leaks=0:handle_segv=0:handle_sigbus=0:allow_user_segv_handler=1"
            ":quarantine_size_mb=4"
        )
    return variables


def build(options: argparse.Namespace) -> int:
    if not Path(sysconfig.get_paths()["include"], "Python.h").is_file():
        skip("Python's headers are missing (Debian: python3-dev)")
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    venv = options.folder / "venv"
    made = call([sys.executable, "-m", "venv", venv], capture_output=True)
    if made.returncode != 0:
        skip(f"no virtual environment (Debian: python3-venv): {made.stdout.strip()[:200]}")
    pip = [venv / "bin/python", "-m", "pip", "--disable-pip-version-check"]
    needed = ["scikit-build-core>=0.10", "nanobind>=2.2", "numpy>=2.0", "pytest", "lmdb",
              "diskcache"]
    found = call([*pip, "install", "-q", *needed], capture_output=True)
    if found.returncode != 0:
        skip(f"no package index in reach: {found.stderr.strip().splitlines()[-1][:200]}")
    wheels = options.folder / "wheels"
    settings = {
        "SKBUILD_CMAKE_DEFINE": f"TMH_BUILT={Path(options.built).resolve()};"
        f"TMH_SANITIZE={options.sanitize};CMAKE_CXX_COMPILER={options.cxx}",
        "SKBUILD_BUILD_DIR": str(options.folder.resolve() / "build"),
    }
    # In the environment that is there: ninja and cmake are the system's.
    built = call([*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", wheels, PACKAGE],
                 env={**os.environ, **settings})
    if built.returncode != 0:
        return 1
    (wheel,) = wheels.glob("tmh-*.whl")
    if call([*pip, "install", "-q", "--no-deps", wheel]).returncode != 0:
        return 1
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes")
    # What runs it: no compiler, no tools.
    bare = {**environment_of(options), "PATH": "/nowhere"}
    program = "import tmh; print('tmh', tmh.__version__, tmh.__file__)"
    return call([venv / "bin/python", "-I", "-c", program], env=bare, cwd="/").returncode


def run(options: argparse.Namespace) -> int:
    python = options.folder / "venv/bin/python"
    if not python.exists() or not list(options.folder.glob("wheels/*.whl")):
        skip("the package was not built")
    tests = PACKAGE / "tests" / options.file
    scratch = options.folder / f"run-{tests.stem}"
    shutil.rmtree(scratch, ignore_errors=True)
    command = [
        python, "-X", "dev", "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider",
        "-o", "faulthandler_timeout=120", f"--basetemp={scratch}", "--durations=3", tests,
    ]
    return call(command, env=environment_of(options), cwd=options.folder).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "run"):
        command = commands.add_parser(name)
        command.add_argument("--folder", type=Path, required=True, help="of the environment")
        command.add_argument("--sanitize", default="", help="as TMH_SANITIZE of the project")
        command.add_argument("--cxx", default="c++", help="the compiler")
        if name == "build":
            command.add_argument("--built", required=True, help="a build folder with libtmh.a")
        else:
            command.add_argument("file", help="such as test_arrays.py")
    options = parser.parse_args()
    if "thread" in options.sanitize:
        skip("ThreadSanitizer wants the whole interpreter built with it")
    return build(options) if options.command == "build" else run(options)


if __name__ == "__main__":
    sys.exit(main())
