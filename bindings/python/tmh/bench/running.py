"""Runs: processes that begin together, do their operations, and say when they were done."""

from __future__ import annotations

import itertools
import math
import time
import traceback
import warnings
from array import array
from multiprocessing.connection import Connection
from multiprocessing.context import ForkContext
from typing import Any, Callable, NamedTuple, Sequence

from .contestants import Operation, WrongResult

# One operation of so many is timed by itself where operations are short. The others run without a
# look at the clock, which costs some 50 ns.
SAMPLED_OF = 8
SHORT_US = 50
# A run that takes so much longer than planned ends early. Its rate counts what it has done.
_PATIENCE = 8
# How long a process may take to open its data and to close them.
_OPEN_S = 120


class Failed(Exception):
    """A process of a run has failed; the message is its traceback."""


class Plan(NamedTuple):
    """How much each process of a run does: what comes first ends it.

    Attributes
    ----------
    operations : int
        Of each process.
    seconds : float
        After which no operation begins.
    sampled_of : int
        One operation of so many is timed by itself.
    """

    operations: int
    seconds: float
    sampled_of: int = SAMPLED_OF


Measure = Callable[[Operation, Sequence[tuple]], int]

# Operations of each process before the barrier: they open files and touch pages.
WARM_UP = Plan(64, 0.02)


class Run(NamedTuple):
    """What a run has measured.

    Attributes
    ----------
    rate : float
        Operations per second of all processes, from the first begin to the last end.
    samples_ns : array of int
        Durations of single operations.
    """

    rate: float
    samples_ns: array


def planned(rate: float, processes: int, seconds: float) -> Plan:
    """Equal work for each process that takes about `seconds` at the rate of all."""
    sampled_of = SAMPLED_OF if rate * SHORT_US / processes > 1e6 else 1
    operations = max(SAMPLED_OF, math.ceil(rate * seconds / processes))
    return Plan(operations, _PATIENCE * seconds, sampled_of)


def trial(seconds: float) -> Plan:
    """A run that finds out how many operations fill a time."""
    return Plan(1 << 62, seconds)


def repeat(
    operation: Operation, arguments: Sequence[tuple], plan: Plan, samples_ns: array
) -> tuple[int, int, int]:
    """Do the operations of one process.

    Returns
    -------
    begin_ns, end_ns, done : int
        Of the system's monotonic clock, which all processes share.
    """
    clock = time.perf_counter_ns
    feed = itertools.cycle(arguments)
    count, done = plan.operations, 0
    begin_ns = now_ns = clock()
    until_ns = begin_ns + int(plan.seconds * 1e9)
    while done < count and now_ns < until_ns:
        given = next(feed)
        before_ns = clock()
        operation(*given)
        now_ns = clock()
        samples_ns.append(now_ns - before_ns)
        rest = min(plan.sampled_of, count - done) - 1
        for given in itertools.islice(feed, rest):
            operation(*given)
        done += 1 + rest
    return begin_ns, clock(), done


def apart(context: ForkContext, action: Callable[[], Any]) -> None:
    """Call `action` in a process of its own, so that this one opens nothing."""
    receiver, sender = context.Pipe(duplex=False)
    process = _started(context, _reporting, sender, action)
    sender.close()
    _received([receiver], [process], _OPEN_S)


def run(
    context: ForkContext,
    processes: int,
    plan: Plan,
    work: Callable[[int, Measure], None],
) -> Run:
    """Let processes work together.

    Parameters
    ----------
    work : function of int and function
        Runs in each process: it opens what it works with, and calls the second argument with the
        operation and its arguments, which gives how many operations it has done. The first is the
        process's number.
    """
    barrier = context.Barrier(processes)

    def act(number: int) -> Any:
        measured: list[Any] = []

        def measure(operation: Operation, arguments: Sequence[tuple]) -> int:
            samples_ns = array("q")
            repeat(operation, arguments, WARM_UP, array("q"))
            barrier.wait(_OPEN_S)
            result = repeat(operation, arguments, plan, samples_ns)
            measured.append((*result, samples_ns))
            # What a process does afterwards does not disturb the others.
            barrier.wait(plan.seconds + _OPEN_S)
            return result[-1]

        try:
            work(number, measure)
        except BaseException:
            barrier.abort()
            raise
        return measured[0]

    receivers, children = [], []
    for number in range(processes):
        receiver, sender = context.Pipe(duplex=False)
        children.append(_started(context, _reporting, sender, lambda number=number: act(number)))
        sender.close()
        receivers.append(receiver)
    results = _received(receivers, children, plan.seconds + 2 * _OPEN_S)
    elapsed_ns = max(end for _, end, _, _ in results) - min(begin for begin, _, _, _ in results)
    samples_ns = array("q", itertools.chain.from_iterable(each for *_, each in results))
    return Run(sum(done for _, _, done, _ in results) / elapsed_ns * 1e9, samples_ns)


def _started(context: ForkContext, target: Callable[..., Any], *arguments: Any) -> Any:
    process = context.Process(target=target, args=arguments, daemon=True)
    with warnings.catch_warnings():
        # Idle threads of numpy's BLAS: it handles forks itself.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def _reporting(sender: Connection, action: Callable[[], Any]) -> None:
    try:
        result, error = action(), ""
    except WrongResult as wrong:
        result, error = None, f"wrong result: {wrong}"
    except BaseException:
        result, error = None, traceback.format_exc()
    sender.send((result, error))
    sender.close()


def _received(
    receivers: Sequence[Connection], children: Sequence[Any], seconds_max: float
) -> list[Any]:
    """What the children report. All of them have ended then."""
    results, errors = [], []
    for receiver in receivers:
        try:
            result, error = receiver.recv() if receiver.poll(seconds_max) else (None, "no answer")
        except EOFError:
            result, error = None, "a process has died"
        receiver.close()
        results.append(result)
        if error:
            errors.append(error)
    for child in children:
        if errors:
            child.kill()
        child.join()
    if errors:
        # What another process's failure has caused says less than the failure.
        raise Failed(next((each for each in errors if "BrokenBarrier" not in each), errors[0]))
    return results
