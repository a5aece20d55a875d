"""Processes count together while some of them are killed at random.

Each worker adds one to a counter of all workers and to a cell of its own, in one transaction. A
SIGKILL may hit it anywhere, also in the middle of that: either both numbers have grown or neither
has. So in the end the counter equals the sum of the cells, those of the dead included. No other
worker waits for a dead one.

    python counters.py [folder] [--kills N]
"""

import argparse
import multiprocessing
import random
import sys
import tempfile

import numpy as np

import tmh

WORKERS = 4
CELLS = 4096


def open_all(folder):
    """The domain and what lies in it: the first process that asks makes it."""
    domain = tmh.open(folder)
    segment = domain.map("counters")
    own = segment.array("own", CELLS, np.int64)
    return domain, segment.counter("total"), own, segment.counter("stop")


def work(folder, cell):
    """Count until `stop` is not 0. Runs in a process of its own."""
    domain, total, own, stop = open_all(folder)

    @domain.atomically
    def count():
        total.add(1)
        own[cell] += 1

    with domain:
        while not stop.value:
            for _ in range(100):
                count()


def start(folder, number):
    worker = multiprocessing.Process(target=work, args=(folder, number % CELLS), daemon=True)
    worker.start()
    return worker


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", help="of the domain (a temporary one)")
    parser.add_argument("--kills", type=int, default=20, help="workers to kill (20)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or temporary
        domain, total, own, stop = open_all(folder)
        # Not an Event of multiprocessing: a worker may die while it holds the lock of that.
        stop.value = 0

        @domain.atomically
        def wait_until(count):
            if total.value < count:
                tmh.retry()

        begin = total.value
        workers = [start(folder, number) for number in range(WORKERS)]
        for kill in range(arguments.kills):
            wait_until(total.value + random.randrange(2000))
            victim = random.randrange(WORKERS)
            workers[victim].kill()
            workers[victim].join()
            workers[victim] = start(folder, WORKERS + kill)
        wait_until(total.value + 1000)
        stop.value = 1
        for worker in workers:
            worker.join()
        with domain.query():
            counted, by_all = total.value, int(own.sum())
        domain.close()
        print(f"{arguments.kills} workers killed")
        print(f"counter {counted:,}, sum of the workers' cells {by_all:,}")
        is_right = counted == by_all > begin and all(worker.exitcode == 0 for worker in workers)
        print("right" if is_right else "WRONG")
        return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
