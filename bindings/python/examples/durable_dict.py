"""A durable dict survives ``kill -9`` of all its processes at once.

Writers put records and tell the main process of each key when the put has returned. The main
process kills all of them in the middle of their work, opens the domain again, and looks for every
key that it was told of. The domain is strict: such a record is on the disk, so it would survive a
power cut, too.

    python durable_dict.py [folder] [--seconds S]
"""

import argparse
import itertools
import multiprocessing
import multiprocessing.connection
import sys
import tempfile
import time

import tmh

WRITERS = 3


def value_of(key):
    return f"value of {key}"


def write(folder, number, pipe):
    """Put records without an end. Runs in a process of its own."""
    records = tmh.open(folder, "strict").dict("records")
    for count in itertools.count():
        key = f"{number}/{count}"
        records[key] = value_of(key)
        pipe.send(key)


def keys_in(pipes, seconds=None):
    """What comes through the pipes, until they end or the time is over."""
    until = time.monotonic() + seconds if seconds is not None else None
    open_pipes, left = set(pipes), seconds
    while open_pipes and (left is None or left > 0):
        for pipe in multiprocessing.connection.wait(open_pipes, left):
            try:
                yield pipe.recv()
            except (EOFError, OSError):  # the last message may be half of one
                open_pipes.remove(pipe)
        left = until - time.monotonic() if until is not None else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", help="of the domain (a temporary one)")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="from the first put to the kill (1)"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or temporary
        with tmh.open(folder, "strict") as domain:
            domain.dict("records").clear()  # of an earlier run
        writers, pipes = [], []
        for number in range(WRITERS):
            pipe, its_end = multiprocessing.Pipe(duplex=False)
            writer = multiprocessing.Process(
                target=write, args=(folder, number, its_end), daemon=True
            )
            writer.start()
            its_end.close()
            writers.append(writer)
            pipes.append(pipe)

        acknowledged = list(itertools.islice(keys_in(pipes), 1))
        acknowledged += keys_in(pipes, arguments.seconds)
        for writer in writers:
            writer.kill()
        for writer in writers:
            writer.join()
        acknowledged += keys_in(pipes)

        with tmh.open(folder, "strict") as domain:
            records = domain.dict("records")
            missing = [key for key in acknowledged if records.get(key) != value_of(key)]
            print(f"{len(acknowledged)} puts acknowledged, {len(records)} records found")
        print(f"{len(missing)} acknowledged records missing")
        is_right = bool(acknowledged) and not missing
        print("right" if is_right else "WRONG")
        return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
