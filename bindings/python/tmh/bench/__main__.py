"""The command ``python -m tmh.bench``."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import Sequence

from . import machine, measuring, report, running
from .workloads import CONTESTANT_NAMES, WORKLOADS

_DESCRIPTION = """\
Measure tmh beside what else Python has for data that processes share: shared memory with a lock,
a server process, SQLite, LMDB, diskcache, GNU dbm. Prints tables in Markdown.
"""

_EPILOG = f"""\
how it measures:
  The processes of a run begin together at a barrier and do a fixed number of operations each; the
  time runs from the barrier to the last end. A short trial before the first round finds the number
  that fills --seconds. Contestants take turns within a round, so that a noisy minute hits all of
  them; operations/s is of all processes, the median of the rounds.
  p50 and p99 are of operations that are timed by themselves: one of {running.SAMPLED_OF}, so that
  looking at the clock costs the others nothing, or all where one takes more than
  {running.SHORT_US} us. After each run with stores the data are checked.

examples:
  python -m tmh.bench --only transfers --processes 2
  python -m tmh.bench --only durable tmh sqlite3 --folder /var/tmp
"""


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text}: a number above 0")
    return number


def _positive_seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 3600:
        raise argparse.ArgumentTypeError(f"{text}: seconds above 0")
    return seconds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tmh.bench", description=_DESCRIPTION, epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--processes", type=_positive, nargs="+", default=[1, 2, 4], metavar="N",
        help="numbers of processes to measure (1 2 4)",
    )
    parser.add_argument(
        "--rounds", type=_positive, default=3, metavar="N", help="rounds of each row (3)"
    )
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "--seconds", type=_positive_seconds, default=0.4, metavar="S",
        help="time that a run is meant to take (0.4)",
    )
    amount.add_argument(
        "--operations", type=_positive, metavar="N",
        help="operations of each process in each run, in place of --seconds",
    )
    parser.add_argument(
        "--records", type=_positive, default=50_000, metavar="N",
        help="records of each dict (50000)",
    )
    parser.add_argument(
        "--only", nargs="+", choices=[*WORKLOADS, *CONTESTANT_NAMES], metavar="NAME", default=[],
        help="only these workloads and contestants; names: "
        + ", ".join([*WORKLOADS, *CONTESTANT_NAMES]),
    )
    parser.add_argument(
        "--folder", type=Path, metavar="DIR",
        help="where the data lie; what disk it is decides on the durable rows (a temporary folder)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write all numbers into this file"
    )
    parser.add_argument(
        "--tiny", action="store_true",
        help="a test run of a few seconds, whatever else is given; its numbers mean nothing",
    )
    return parser


def _say(text: str) -> None:
    """Progress, where a person looks on."""
    if "\n" in text:
        print(text, file=sys.stderr)
    elif sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns
    -------
    int
        1 when a contestant failed, else 0.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    settings = measuring.Settings(
        given.processes, given.rounds, given.seconds, given.operations, given.records, _say
    )
    if given.tiny:
        settings.processes, settings.rounds = [1, 2], 1
        settings.seconds, settings.records = 0.02, 500
    workloads = {
        name: each for name, each in WORKLOADS.items()
        if name in given.only or not set(given.only) & set(WORKLOADS)
    }
    kinds = {
        name: [
            kind for kind in each.contestants
            if kind.name in given.only or not set(given.only) & set(CONTESTANT_NAMES)
        ]
        for name, each in workloads.items()
    }
    if not any(kinds.values()):
        parser.error("--only: none of these contestants takes part in these workloads")
    if given.folder is not None and not given.folder.is_dir():
        parser.error(f"--folder {given.folder}: no such folder")
    # fork: a worker has the interpreter at once, and opens its data itself.
    context = multiprocessing.get_context("fork")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tmh-bench-", dir=given.folder) as made:
        folder = Path(made)
        facts = machine.description(folder)
        facts["versions"] = ", ".join(report.versions(sum(kinds.values(), [])))
        for name, fact in facts.items():
            print(f"- {name}: {fact}")
        if facts["filesystem"] in ("tmpfs", "ramfs"):
            print(
                f"- **warning**: {folder.parent} lies in memory ({facts['filesystem']}), where "
                "nothing is durable: the durable rows say nothing. Give a folder on a disk by "
                "--folder."
            )
        print(flush=True)
        records, has_failed = [], False
        for name, workload in workloads.items():
            if not kinds[name]:
                continue
            rows = measuring.measure(workload, kinds[name], folder / name, context, settings)
            _say("")
            print(report.as_markdown(workload, rows), flush=True)
            records += [report.as_record(workload, row, rows) for row in rows]
            has_failed = has_failed or any("failed" in row.why_not for row in rows)
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": facts, "rows": records}, indent=1) + "\n")
    print(f"{time.monotonic() - begin:.0f} s")
    return 1 if has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
