"""A durable job queue whose workers are killed at random: each job is done exactly once.

A worker takes a job and stores its result in one transaction. When it dies in between, the job is
in the queue again. The domain is strict: what a call has returned is on the disk, so jobs and
results also survive a power cut. Workers sleep in ``jobs.get()`` while the queue is empty.

    python job_queue.py [folder] [--jobs N] [--kills N]
"""

import argparse
import multiprocessing
import random
import sys
import tempfile

import tmh

WORKERS = 3


def open_all(folder):
    """The domain, the jobs, their results, and how often a job was done."""
    domain = tmh.open(folder, "strict")
    return domain, domain.queue("jobs"), domain.dict("results"), domain.counter("done")


def work(folder):
    """Do jobs until one is None. Runs in a process of its own."""
    domain, jobs, results, done = open_all(folder)

    @domain.atomically
    def do_next():
        job = jobs.get()
        if job is not None:
            results[job] = sum(range(job))
            done.add(1)
        return job

    with domain:
        while do_next() is not None:
            pass


def start(folder):
    worker = multiprocessing.Process(target=work, args=(folder,), daemon=True)
    worker.start()
    return worker


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", help="of the domain (a temporary one)")
    parser.add_argument("--jobs", type=int, default=500, help="jobs to do (500)")
    parser.add_argument("--kills", type=int, default=10, help="workers to kill (10)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or temporary
        domain, jobs, results, done = open_all(folder)

        @domain.atomically
        def forget_an_earlier_run():
            results.clear()
            done.value = 0
            while jobs:
                jobs.get()

        @domain.atomically
        def put(some):
            for job in some:
                jobs.put(job)

        @domain.atomically
        def wait_until_done(count):
            if done.value < count:
                tmh.retry()

        forget_an_earlier_run()
        workers = [start(folder) for _ in range(WORKERS)]
        kills = max(1, arguments.kills)
        for kill in range(kills):
            some = range(kill, arguments.jobs, kills)
            before = done.value
            put(some)
            wait_until_done(before + random.randint(0, len(some)))
            if kill < arguments.kills:
                victim = random.randrange(WORKERS)
                workers[victim].kill()
                workers[victim].join()
                workers[victim] = start(folder)
        put([None] * WORKERS)
        for worker in workers:
            worker.join()

        expected = {job: sum(range(job)) for job in range(arguments.jobs)}
        print(f"{arguments.kills} workers killed")
        print(f"{len(results)} results, {done.value} jobs done, {len(jobs)} left")
        is_right = (
            results == expected
            and done.value == arguments.jobs
            and not jobs
            and all(worker.exitcode == 0 for worker in workers)
        )
        domain.close()
        print("right" if is_right else "WRONG")
        return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
