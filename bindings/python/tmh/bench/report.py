"""Tables in Markdown, and the same numbers for programs."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from .contestants import Contestant
from .measuring import Row
from .workloads import Workload

_HEAD = ("processes", "contestant", "operations/s", "p50 us", "p99 us")


def versions(kinds: Iterable[type[Contestant]]) -> list[str]:
    """Name and version of each contestant's software, or how to get it."""
    found = dict.fromkeys(
        kind.version() if kind.is_installed() else f"{kind.name} not installed ({kind.install})"
        for kind in kinds
    )
    return [each for each in found if each]


def as_markdown(workload: Workload, rows: Sequence[Row]) -> str:
    """A heading, and a table for each operation."""
    parts = [f"### {workload.title}"]
    for operation in workload.operations:
        some = [row for row in rows if row.operation == operation]
        lines = [(*_HEAD, f"of {workload.baseline.shown()}")]
        for row in some:
            if row.why_not:
                lines.append((str(row.processes), row.contestant.shown(), row.why_not, "", "", ""))
                continue
            times = ratio(workload, row, rows)
            lines.append(
                (
                    str(row.processes), row.contestant.shown(), _short(row.rate),
                    _short(row.percentile_us(0.5)), _short(row.percentile_us(0.99)),
                    "-" if times is None else f"{times:.2f}" if times >= 0.1 else f"{times:.1g}",
                )
            )
        parts.append(f"{operation}:\n\n{_aligned(lines)}")
    return "\n\n".join(parts) + "\n"


def ratio(workload: Workload, row: Row, rows: Sequence[Row]) -> float | None:
    """Operations per second in units of the baseline's in the same run."""
    for other in rows:
        is_same = (other.operation, other.processes) == (row.operation, row.processes)
        if is_same and other.contestant is workload.baseline and other.rate and row.rate:
            return row.rate / other.rate
    return None


def as_record(workload: Workload, row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    """A row for a JSON file."""
    return {
        "workload": workload.title,
        "operation": row.operation,
        "processes": row.processes,
        "contestant": row.contestant.shown(),
        "operations_per_s": row.rate,
        "operations_per_s_of_rounds": row.rates,
        "p50_us": row.percentile_us(0.5),
        "p99_us": row.percentile_us(0.99),
        "baseline": workload.baseline.shown(),
        "ratio": ratio(workload, row, rows),
        "why_not": row.why_not,
    }


def _short(number: float | None) -> str:
    if number is None:
        return "-"
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(each) for each in column) for column in zip(*lines)]

    def row(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if number == 1 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(cells, widths))
        ]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * width if number == 1 else "-" * (width - 1) + ":"
            for number, width in enumerate(widths)]
    return "\n".join([row(lines[0]), row(rule), *map(row, lines[1:])])
