#!/usr/bin/env python3
"""run.py --tmh PATH --cxx C++ --root FOLDER [...] -- random programs of transactions end as the
same programs without transactions do.

--count, --first, --seed  which programs of generate.py
--levels    of optimization, "0,1,2,3"
--methods   of tmh itm, each with one thread and with two; rtm runs under the emulator
--libitm    another libitm.so.1 than that of tmh's build, for methods lines and serial
--jobs, --timeout  files of programs at once (processors), seconds for each program
--expect-wrong     some program must end wrong: the library has a planted fault

Where one ends otherwise, GCC's library says, with one thread, whether g++ has compiled it wrong:
these are listed, and counted. Exit code 1: some are wrong that GCC's library runs right.
"""

import argparse
import collections
import concurrent.futures
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "support")]
# pylint: disable=wrong-import-position
import ours
from slowdown import HANG_S

PER_FILE = 50
ROUNDS = {1: 4, 2: 20}
FLAGS = ["-std=gnu++20", "-w", "-fwrapv", "-pthread"]
Case = collections.namedtuple("Case", "number level method threads")


class File:
    """The programs of one file, at one level of optimization."""

    def __init__(self, arguments, folder, numbers, level):
        self.arguments, self.level = arguments, level
        self.first, self.last = numbers[0], numbers[-1]
        self.base = os.path.join(folder, f"p{self.first}_{level}")
        self.refused = ""

    def make(self):
        """False: g++ does not compile it."""
        source = self.base + ".cpp"
        with open(source, "w", encoding="utf-8") as out:
            subprocess.run(
                [sys.executable, "-B", os.path.join(HERE, "generate.py")]
                + ["--seed", str(self.arguments.seed), "--first", str(self.first)]
                + ["--count", str(self.last - self.first + 1)],
                check=True,
                stdout=out,
            )
        for flags, end in ((["-fgnu-tm"], ""), (["-DGENERATED_PLAIN"], "_plain")):
            done = subprocess.run(
                [self.arguments.cxx, *FLAGS, f"-O{self.level}", *flags, f"-I{self.arguments.root}"]
                + [source, os.path.join(HERE, "generated_main.cpp"), "-o", self.base + end],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                self.refused = done.stderr
                return False
        return True

    def remove(self):
        for end in (".cpp", "", "_plain"):
            if os.path.exists(self.base + end):
                os.unlink(self.base + end)

    def run(self, command, environment, threads, first=None, last=None):
        """What each program says: number -> hash, or how it has died."""
        first = self.first if first is None else first
        last = self.last if last is None else last
        said = {}
        while first <= last:
            words = [str(threads), str(ROUNDS[threads]), str(first), str(last)]
            with subprocess.Popen(
                [*command, *words],
                env={**os.environ, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            ) as process:
                try:
                    out, error = process.communicate(timeout=self.arguments.timeout)
                    end = f"dies of {-process.returncode}: {error.strip()[-200:]}"
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, 9)
                    out, end = process.communicate()[0], "hangs"
                status = process.returncode
            at = first
            for line in out.splitlines():
                left, _, right = line.partition(" ")
                if left == "begin":
                    at = int(right)
                elif left.isdigit():
                    said[int(left)] = right
            if status == 0 and end != "hangs":
                return said
            said[at] = end
            first = at + 1
        return said

    def plain(self, threads):
        return self.run([self.base + "_plain"], {}, threads)

    def ours(self, method, threads):
        if self.arguments.libitm:
            folder = os.path.dirname(self.arguments.libitm)
            environment = {"LD_LIBRARY_PATH": folder, "ITM_DEFAULT_METHOD": method}
            return self.run([self.base], environment, threads)
        return self.run(ours.command(self.arguments.tmh, method, [self.base]), {}, threads)

    def gcc(self, number):
        """What GCC's library says, with one thread."""
        return self.run([self.base], {"ITM_DEFAULT_METHOD": "ml_wt"}, 1, number, number)[number]

    def check(self, wrong, by_gcc):
        """How many runs there were."""
        count, plains = 0, {threads: self.plain(threads) for threads in ROUNDS}
        gcc = {}
        for method in self.arguments.methods.split(","):
            for threads, plain in plains.items():
                for number, said in self.ours(method, threads).items():
                    count += 1
                    if said == plain[number]:
                        continue
                    if number not in gcc:
                        gcc[number] = self.gcc(number)
                    case = Case(number, self.level, method, threads)
                    is_right = gcc[number] == plains[1][number]
                    (wrong if is_right else by_gcc).append((case, said, plain[number], gcc[number]))
        return count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tmh", required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TMH_SEED", "2005")))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--levels", default="0,1,2,3")
    parser.add_argument("--methods", default="lines,serial,pages-serializable")
    parser.add_argument("--libitm", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=float, default=HANG_S)
    parser.add_argument("--expect-wrong", action="store_true")
    arguments = parser.parse_args()
    wrong, by_gcc, refused = [], [], []
    runs = 0

    def work(first, level):
        last = min(first + PER_FILE, arguments.first + arguments.count)
        file = File(arguments, folder, range(first, last), level)
        if file.make():
            count = file.check(wrong, by_gcc)
            file.remove()
            return count
        count = 0
        for number in range(first, last):  # g++ stops at one of them
            single = File(arguments, folder, [number], level)
            if single.make():
                count += single.check(wrong, by_gcc)
            else:
                refused.append((number, level, single.refused.strip().splitlines()[:1]))
            single.remove()
        file.remove()
        return count

    with tempfile.TemporaryDirectory() as folder:
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            works = [
                pool.submit(work, first, level)
                for first in range(arguments.first, arguments.first + arguments.count, PER_FILE)
                for level in arguments.levels.split(",")
            ]
            for each in works:
                runs += each.result()
    for number, level, why in refused:
        print(f"g++ does not compile program {number} at -O{level}: {why}")
    for kind, these in (("compiled wrong by g++", by_gcc), ("WRONG", wrong)):
        for case, said, plain, gcc in sorted(these)[:40]:
            print(f"{kind}: program {case.number} -O{case.level}, {case.method}, {case.threads} "
                  f"threads: {said}; without transactions {plain}, on GCC's library {gcc}")
    print(f"seed {arguments.seed}: {arguments.count} programs, {runs} runs: {len(wrong)} wrong, "
          f"{len(by_gcc)} compiled wrong by g++, {len(refused)} not compiled by it")
    if arguments.expect_wrong:
        return 0 if wrong else 1
    return 1 if wrong or runs == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
