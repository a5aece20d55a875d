"""Measure a workload: every contestant in turn, round after round."""

from __future__ import annotations

import random
import shutil
import statistics
from array import array
from dataclasses import dataclass, field
from multiprocessing.context import ForkContext
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

from . import running
from .contestants import Contestant, WrongResult
from .workloads import INSERTS_MAX, Workload

# Share of the planned time that finds out how many operations fill it.
_TRIAL_SHARE = 0.25
_NO_END_S = 1e6
# One new record of so many is looked at afterwards.
_CHECKED_OF = 100


@dataclass
class Settings:
    """What the command line says."""

    processes: Sequence[int]
    rounds: int
    seconds: float
    operations: int | None
    records: int
    say: Callable[[str], Any]


@dataclass
class Row:
    """One line of a table: a contestant, an operation, a number of processes.

    Attributes
    ----------
    rates : list of float
        Operations per second of all processes, one for each round.
    why_not : str
        Why there is no measurement; else empty.
    """

    operation: str
    processes: int
    contestant: type[Contestant]
    rates: list[float] = field(default_factory=list)
    samples_ns: array = field(default_factory=lambda: array("q"))
    why_not: str = ""

    @property
    def rate(self) -> float | None:
        return statistics.median(self.rates) if self.rates else None

    def percentile_us(self, share: float) -> float | None:
        """The duration below which this share of the sampled operations lies."""
        if not self.samples_ns:
            return None
        in_order = sorted(self.samples_ns)
        return in_order[min(len(in_order) - 1, int(share * len(in_order)))] / 1e3


def measure(
    workload: Workload,
    contestants: Sequence[type[Contestant]],
    folder: Path,
    context: ForkContext,
    settings: Settings,
) -> list[Row]:
    """Rows in the order of the table."""
    made: dict[type[Contestant], Contestant] = {}
    why_missing = {kind: "" if kind.is_installed() else "not installed" for kind in contestants}
    try:
        for kind in contestants:
            if why_missing[kind]:
                continue
            settings.say(f"{kind.shown()}: data")
            place = folder / kind.name
            place.mkdir(parents=True)
            made[kind] = workload.make(kind, place, context, settings.records)
            try:
                running.apart(context, made[kind].prepare)
            except running.Failed as failed:
                settings.say(str(failed))
                why_missing[kind] = _last_line(failed)
        rows = []
        for operation in workload.operations:
            for processes in settings.processes:
                some = [
                    Row(
                        operation, processes, kind,
                        why_not=why_missing[kind] or kind.why_not(operation, processes),
                    )
                    for kind in contestants
                ]
                _measure_rows(workload, made, some, context, settings)
                rows += some
        return rows
    finally:
        for each in made.values():
            each.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _measure_rows(
    workload: Workload,
    made: dict[type[Contestant], Contestant],
    rows: Sequence[Row],
    context: ForkContext,
    settings: Settings,
) -> None:
    plans: dict[type[Contestant], running.Plan] = {}
    for number in range(settings.rounds):
        for row in _measured(rows):
            settings.say(
                f"{row.contestant.shown()}: {row.operation}, {row.processes} processes, "
                f"round {number + 1}"
            )

            def once(plan: running.Plan, row: Row = row) -> running.Run:
                return _run(workload, made[row.contestant], row, context, plan)

            try:
                if settings.operations is not None:
                    plan = running.Plan(settings.operations, _NO_END_S)
                elif row.contestant not in plans:
                    trial = once(running.trial(settings.seconds * _TRIAL_SHARE))
                    plan = running.planned(trial.rate, row.processes, settings.seconds)
                    plans[row.contestant] = plan
                else:
                    plan = plans[row.contestant]
                if row.operation == "insert":
                    plan = plan._replace(operations=min(plan.operations, INSERTS_MAX))
                result = once(plan)
                if row.operation != "get":
                    running.apart(context, made[row.contestant].check)
            except running.Failed as failed:
                settings.say(str(failed))
                row.why_not = _last_line(failed)
                row.rates.clear()
                continue
            row.rates.append(result.rate)
            row.samples_ns.extend(result.samples_ns)


def _measured(rows: Sequence[Row]) -> Iterator[Row]:
    return (row for row in rows if not row.why_not)


def _run(
    workload: Workload,
    contestant: Contestant,
    row: Row,
    context: ForkContext,
    plan: running.Plan,
) -> running.Run:
    # Other arguments in each run.
    first_seed = random.getrandbits(32)

    def work(number: int, measure_here: running.Measure) -> None:
        arguments = workload.arguments(
            contestant, row.operation, first_seed + number, plan.operations
        )
        worker = contestant.open()
        done = measure_here(worker.operations[row.operation], arguments)
        if row.operation == "insert":
            for key, value in arguments[:done:_CHECKED_OF]:
                if worker.operations["get"](key) != value:
                    raise WrongResult(f"{contestant.name}: a new record is lost")
            inserted = arguments[: max(done, running.WARM_UP.operations)]
            worker.remove(list({key for key, _ in inserted}))
        worker.close()

    return running.run(context, row.processes, plan, work)


def _last_line(failed: running.Failed) -> str:
    return "failed: " + str(failed).strip().splitlines()[-1][:120]
