#!/usr/bin/env python3
"""in_fresh_environment.py build|add|run -- the package as a user gets it, for ./check.

build: makes a virtual environment with pytest, builds the wheel, installs it there, says its size,
and imports it where no compiler is found. add: installs what python -m tmh.bench compares with.
run: pytest in that environment, by `python -X dev` with warnings as errors, on a file of tests, on
one test of it (test_arrays.py::test_shapes), or with --quick on those that are marked `quick`.

Exit status 77 and "SKIPPED: why" mean skipped: there is no venv module, no header of Python, or no
package index in reach.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
SKIPPED = 77
FOR_BUILD_AND_TESTS = ["scikit-build-core>=0.10", "nanobind>=2.2", "numpy>=2.0", "pytest"]
FOR_BENCH = ["lmdb", "diskcache"]


def skip(why: str) -> None:
    print(f"SKIPPED: {why}")
    sys.exit(SKIPPED)


def call(command: list, **more) -> subprocess.CompletedProcess:
    return subprocess.run([str(part) for part in command], text=True, check=False, **more)


def python_of(options: argparse.Namespace) -> Path:
    return options.folder / "venv/bin/python"


def pip(options: argparse.Namespace, *arguments, **more) -> subprocess.CompletedProcess:
    command = [python_of(options), "-m", "pip", "--disable-pip-version-check", *arguments]
    return call(command, env={**os.environ, **bytecode_of(options), **more.pop("env", {})}, **more)


def install(options: argparse.Namespace, packages: list[str]) -> None:
    # Python compiles what is imported; all of numpy would take longer than the tests save.
    found = pip(options, "install", "-q", "--no-compile", *packages, capture_output=True)
    if found.returncode != 0:
        if not re.search(r"connection|timed out|ssl|proxy|resolution", found.stderr, re.IGNORECASE):
            sys.exit(f"pip cannot install {' '.join(packages)}:\n{found.stderr}")
        skip(f"no package index in reach: {found.stderr.strip().splitlines()[-1][:200]}")


def bytecode_of(options: argparse.Namespace) -> dict[str, str]:
    """Where Python keeps what it has compiled: not beside the sources."""
    prefix = str(options.folder.resolve() / "bytecode")
    return {"PYTHONPYCACHEPREFIX": prefix, "PYTHONDONTWRITEBYTECODE": ""}


def environment_of(options: argparse.Namespace) -> dict[str, str]:
    """Of the tests: what a sanitized extension needs in an interpreter that is not."""
    variables = {**os.environ, **bytecode_of(options)}
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
        variables["TMH_TEST_SLOWDOWN"] = str(8 * slowdown())  # as tests/support/slowdown.cpp
    return variables


def slowdown() -> int:
    return int(os.environ.get("TMH_TEST_SLOWDOWN") or 1)


def wheel_of_pip() -> Path | None:
    """The one that the venv module would install. Unpacked it serves as well, 5 s sooner."""
    if importlib.util.find_spec("ensurepip") is None:
        skip("no virtual environment (Debian: python3-venv)")
    bundled = Path(importlib.util.find_spec("ensurepip").origin).parent / "_bundled"
    for folder in (sysconfig.get_config_var("WHEEL_PKG_DIR"), bundled):
        for wheel in sorted(Path(folder).glob("pip-*.whl")) if folder else ():
            return wheel
    return None


def make_environment(options: argparse.Namespace) -> None:
    wheel = wheel_of_pip()
    without_pip = ["--without-pip"] if wheel is not None else []
    venv = options.folder / "venv"
    made = call([sys.executable, "-m", "venv", *without_pip, venv], capture_output=True)
    if made.returncode != 0:
        skip(f"no virtual environment (Debian: python3-venv): {made.stdout.strip()[:200]}")
    if wheel is not None:
        (packages,) = venv.glob("lib/python*/site-packages")
        with zipfile.ZipFile(wheel) as pip_itself:
            pip_itself.extractall(packages)


def build(options: argparse.Namespace) -> int:
    if not Path(sysconfig.get_paths()["include"], "Python.h").is_file():
        skip("Python's headers are missing (Debian: python3-dev)")
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    make_environment(options)
    install(options, FOR_BUILD_AND_TESTS)
    wheels = options.folder / "wheels"
    settings = {
        "SKBUILD_CMAKE_DEFINE": f"TMH_BUILT={Path(options.built).resolve()};"
        f"TMH_SANITIZE={options.sanitize};CMAKE_CXX_COMPILER={options.cxx}",
        "SKBUILD_BUILD_DIR": str(options.folder.resolve() / "build"),
    }
    # In the environment that is there: ninja and cmake are the system's.
    built = pip(options, "wheel", "--no-build-isolation", "--no-deps", "-w", wheels, PACKAGE,
                env=settings)
    if built.returncode != 0:
        return 1
    (wheel,) = wheels.glob("tmh-*.whl")
    if pip(options, "install", "-q", "--no-compile", "--no-deps", wheel).returncode != 0:
        return 1
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes", flush=True)
    # What runs it: no compiler, no tools.
    bare = {**environment_of(options), "PATH": "/nowhere"}
    program = "import tmh; print('tmh', tmh.__version__, tmh.__file__)"
    cached = f"pycache_prefix={options.folder.resolve() / 'bytecode'}"
    python = python_of(options).absolute()
    return call([python, "-I", "-X", cached, "-c", program], env=bare, cwd="/").returncode


def skip_unless_built(options: argparse.Namespace) -> None:
    if not python_of(options).exists() or not list(options.folder.glob("wheels/*.whl")):
        skip("the package was not built")


def add(options: argparse.Namespace) -> int:
    skip_unless_built(options)
    install(options, FOR_BENCH)
    return 0


def run(options: argparse.Namespace) -> int:
    skip_unless_built(options)
    file, *inside = options.tests.split("::", 1)
    name = "quick" if options.quick else Path(file).stem
    folder = options.folder.resolve()
    scratch, running = folder / f"run-{name}", folder / f"running-{name}"
    shutil.rmtree(scratch, ignore_errors=True)
    running.unlink(missing_ok=True)
    command = [
        python_of(options).absolute(), "-X", "dev", "-W", "error", "-m", "pytest", "-q",
        "-p", "no:cacheprovider", "-o", f"faulthandler_timeout={120 * slowdown()}",
        f"--basetemp={scratch}", "--durations=3", *(["-m", "quick"] if options.quick else []),
        "::".join((str(options.tests_folder / file), *inside)),
    ]
    ours = [sys.executable, "-B", Path(__file__).resolve(), "run", "--folder", folder]
    if options.sanitize:
        ours += ["--sanitize", options.sanitize, "--cxx", options.cxx]
    if options.tests_folder != PACKAGE / "tests":
        ours += ["--tests-folder", options.tests_folder]
    alone = shlex.join(str(part) for part in ours)
    told = {"TMH_RUNS_ONE_TEST": alone, "TMH_RUNNING_TEST": str(running)}
    status = call(command, env={**environment_of(options), **told}, cwd=folder).returncode
    if status >= 0 and not running.exists():
        return status
    # The process has ended in the midst of a test, or behind the last one.
    how = f"died of {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"
    if running.exists():
        test = running.read_text()
        print(f"\n{how} in {test}; alone: {alone} {shlex.quote(test)}")
    else:
        print(f"\n{how} behind the last test; again: {alone} {shlex.quote(options.tests)}")
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, action in (("build", build), ("add", add), ("run", run)):
        command = commands.add_parser(name)
        command.set_defaults(action=action)
        command.add_argument("--folder", type=Path, required=True, help="of the environment")
        command.add_argument("--sanitize", default="", help="as TMH_SANITIZE of the project")
        command.add_argument("--cxx", default="c++", help="the compiler")
        if name == "build":
            command.add_argument("--built", required=True, help="a build folder with libtmh.a")
        elif name == "run":
            command.add_argument("--quick", action="store_true", help="tests marked quick alone")
            command.add_argument("--tests-folder", type=Path, default=PACKAGE / "tests")
            command.add_argument(
                "tests", nargs="?", default="", help="such as test_arrays.py::test_shapes (all)"
            )
    options = parser.parse_args()
    if "thread" in options.sanitize:
        skip("ThreadSanitizer wants the whole interpreter built with it")
    return options.action(options)


if __name__ == "__main__":
    sys.exit(main())
