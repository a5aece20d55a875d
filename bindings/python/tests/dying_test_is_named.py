#!/usr/bin/env python3
"""dying_test_is_named.py <folder> [<option of in_fresh_environment.py run>...] -- what a run says
of tests that end its process, fail, or leave something behind. <folder> has the environment.

Writes such tests, runs them, and looks for their names and for the commands that run them alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent
SKIPPED = 77

# `print`: pytest captures what a test writes.
DIES = """
import os, signal, conftest, pytest

def test_lives():
    print("unseen")

@pytest.mark.parametrize("word", ["a b/c"])
def test_dies(word):
    print("unseen")
    os.kill(os.getpid(), signal.SIGUSR1)
"""
FAILS = """
import subprocess, threading, conftest

conftest.SLOWDOWN = 0.001  # what is left behind here does not end
go = threading.Event()

def test_leaves_a_thread():
    threading.Thread(target=go.wait, name="the thread", daemon=True).start()

def test_leaves_a_child():
    globals()["child"] = subprocess.Popen(["sleep", "1000"])

def test_lives():
    go.set()
    child.wait()

def test_fails():
    assert not "this"
"""


def main() -> int:
    folder, *options = sys.argv[1:]
    planted = Path(folder).resolve() / "planted"
    shutil.rmtree(planted, ignore_errors=True)
    planted.mkdir(parents=True)
    shutil.copy(TESTS / "conftest.py", planted)
    wrong = []

    def run(file: str, program: str, expected: list[str]) -> None:
        (planted / file).write_text(program)
        command = [sys.executable, "-B", TESTS / "in_fresh_environment.py", "run",
                   "--folder", folder, "--tests-folder", planted, *options, file]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == SKIPPED:
            print(done.stdout)
            sys.exit(SKIPPED)
        lines = done.stdout.splitlines()
        missing = [each for each in expected if not any(each in line for line in lines)]
        if done.returncode != 1 or missing:
            wrong.append(file)
            print(f"{file}: status {done.returncode}, not said: {missing}", done.stdout,
                  done.stderr, sep="\n")

    alone = f"alone: {sys.executable} -B {TESTS / 'in_fresh_environment.py'} run --folder"
    run("test_dies.py", DIES, [f"died of SIGUSR1 in test_dies.py::test_dies[a b/c]; {alone}"])
    run("test_fails.py", FAILS, [
        "left behind: thread the thread",
        "sleep 1000",
        f"FAILED test_fails.py::test_leaves_a_thread; {alone}",
        f"FAILED test_fails.py::test_leaves_a_child; {alone}",
        f"FAILED test_fails.py::test_fails; {alone}",
        "1 failed, 3 passed, 2 errors",
    ])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
