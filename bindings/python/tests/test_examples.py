"""The examples are right, also when many of their workers die; the benchmark runs."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import hung_s

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(arguments, folder):
    """What a program of Python prints; it must end with 0."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=folder, capture_output=True, text=True,
        timeout=hung_s(300),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def number_before(words, lines):
    """The number in front of these words in what an example printed."""
    return int(re.search(rf"([\d,]+) {words}", "\n".join(lines)).group(1).replace(",", ""))


def test_every_example_has_a_test():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {"counters", "job_queue", "matrix", "durable_dict"}


@pytest.mark.parametrize("name", ["counters", "job_queue", "matrix", "durable_dict"])
def test_an_example_is_right(name, tmp_path):
    domain = tmp_path / "domain"
    for _ in range(2):  # also in the folder of an earlier run
        lines = run([EXAMPLES / f"{name}.py", domain], tmp_path)
        assert lines[-1] == "right"
    assert list(domain.iterdir()), "the folder that was given is the domain's"


@pytest.mark.quick
@pytest.mark.parametrize(
    "arguments",
    [
        ("counters.py", "--kills", 2), ("job_queue.py", "--jobs", 30, "--kills", 1),
        ("matrix.py", "--queries", 1), ("durable_dict.py", "--seconds", 0.05),
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_example_takes_a_temporary_folder(tmp_path, arguments):
    name, *options = arguments
    assert run([EXAMPLES / name, *options], tmp_path)[-1] == "right"
    assert not list(tmp_path.iterdir())


def test_200_kills_lose_nothing_and_count_nothing_twice(tmp_path):
    times = 10 if os.environ.get("TMH_LONG") == "1" else 1
    for number in range(times):
        kills = 0
        for name, *options in (
            ("counters", "--kills", 120),
            ("job_queue", "--kills", 80, "--jobs", 2000),
        ):
            lines = run([EXAMPLES / f"{name}.py", tmp_path / f"{name}{number}", *options], tmp_path)
            assert lines[-1] == "right"
            kills += number_before("workers killed", lines)
        assert kills >= 200


def test_the_benchmark_measures_every_contestant_that_is_installed(tmp_path):
    report = tmp_path / "report.json"
    folder = tmp_path / "data"
    folder.mkdir()
    lines = run(["-m", "tmh.bench", "--tiny", "--json", report, "--folder", folder], tmp_path)
    assert not list(folder.iterdir()), "the benchmark leaves nothing behind"
    found = json.loads(report.read_text())
    rows = found["rows"]
    assert {row["processes"] for row in rows} == {1, 2}
    assert {row["operation"] for row in rows} == {"transfer", "get", "put", "insert"}
    measured = {row["contestant"] for row in rows if row["operations_per_s"]}
    expected = {"tmh", 'tmh, levels="page"', "shared_memory + Lock", "Manager().list() + its Lock"}
    modules = {"sqlite3": "_sqlite3", "lmdb": "lmdb", "diskcache": "diskcache", "dbm.gnu": "_gdbm"}
    for name, module in modules.items():
        if importlib.util.find_spec(module) is not None:
            expected.add(name)
        else:
            assert any(f"{name} not installed" in line for line in lines)
    assert measured == expected
    assert not [row for row in rows if "failed" in row["why_not"]]
    for row in rows:
        assert row["why_not"] or 0 < row["p50_us"] <= row["p99_us"]
