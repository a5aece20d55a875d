"""A numpy matrix that workers change while a long query adds it up.

Workers move amounts between rows and between cells, thousands of times per second. The query reads
row after row, many times, and yet sees one moment of the matrix: its total never changes. Neither
side waits for the other.

    python matrix.py [folder] [--queries N]
"""

import argparse
import multiprocessing
import random
import sys
import tempfile

import numpy as np

import tmh

WORKERS = 2
SHAPE = (64, 512)
AMOUNT = 1_000
REPEATS = 50


def open_all(folder):
    """The domain, the matrix, how many moves were made, and whether to stop."""
    domain = tmh.open(folder)
    segment = domain.map("matrix")
    cells = segment.array("cells", SHAPE, np.int64)
    return domain, cells, segment.counter("moves"), segment.counter("stop")


def work(folder, seed):
    """Move amounts until `stop` is not 0. Runs in a process of its own."""
    domain, cells, moves, stop = open_all(folder)
    draw = random.Random(seed)
    rows, columns = SHAPE

    @domain.atomically
    def move_between_rows(source, target):
        amounts = cells[source] // 10
        cells[source] -= amounts
        cells[target] += amounts
        moves.add(1)

    @domain.atomically
    def move_between_cells(source, target, amount):
        cells[source] -= amount
        cells[target] += amount
        moves.add(1)

    with domain:
        while not stop.value:
            move_between_rows(*draw.sample(range(rows), 2))
            for _ in range(10):
                source, target = (
                    (draw.randrange(rows), draw.randrange(columns)) for _ in range(2)
                )
                move_between_cells(source, target, draw.randrange(100))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", help="of the domain (a temporary one)")
    parser.add_argument("--queries", type=int, default=5, help="queries to run (5)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or temporary
        domain, cells, moves, stop = open_all(folder)
        domain.atomically(lambda: cells.fill(AMOUNT))()
        stop.value = 0
        workers = [
            multiprocessing.Process(target=work, args=(folder, seed), daemon=True)
            for seed in range(WORKERS)
        ]
        for worker in workers:
            worker.start()

        @domain.atomically
        def wait_for_more_than(count):
            if moves.value <= count:
                tmh.retry()

        wait_for_more_than(moves.value)
        expected = cells.size * AMOUNT
        is_right = True
        moves_before = moves.value
        for _ in range(arguments.queries):
            begin = moves.value
            with domain.query():
                totals = {sum(int(row.sum()) for row in cells) for _ in range(REPEATS)}
            print(f"sums {sorted(totals)} while the workers made {moves.value - begin:,} moves")
            is_right = is_right and totals == {expected}
        wait_for_more_than(moves_before)
        stop.value = 1
        for worker in workers:
            worker.join()
        is_right = is_right and all(worker.exitcode == 0 for worker in workers)
        domain.close()
        print("right" if is_right else "WRONG")
        return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
