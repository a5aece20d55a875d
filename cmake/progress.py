#!/usr/bin/env python3
"""progress.py build|tests LOG -- what a person sees of a build or of tests while they run.

Reads what ninja or ctest print from standard input, keeps all of it in the file LOG, and prints
one line: how much is done, what failed, the seconds, and which test runs longest. On a terminal the
line is replaced each second; elsewhere a new one is printed when half a minute has passed. What a
failing compiler or a failing test has said is printed at once, of a test the last lines.
"""

import os
import re
import select
import sys
import time

# A terminal's line is replaced so often; other readers would get hundreds of lines.
TERMINAL_PERIOD_S = 1.0
PERIOD_S = 30.0
COLUMNS_MAX = 100
FAILURE_LINES_MAX = 60

STEP = re.compile(r"^\[(\d+)/(\d+)\] (.*)$")
START = re.compile(r"^ +Start +\d+: (\S+)")
RESULT = re.compile(
    r"^ *(\d+)/(\d+) Test +#\d+: (\S+) [. ]*(?:\*\*\*)?(Passed|Failed|Skipped|Timeout|Not Run"
    r"|Exception: .*?|.*?) +([\d.]+) sec"
)


class Build:
    """What ninja prints."""

    def __init__(self):
        self.done = self.all = 0
        self.failed = 0

    def read(self, line):
        """What is to be shown of the line, or None."""
        step = STEP.match(line)
        if step:
            self.done, self.all = int(step[1]), int(step[2])
            return None
        self.failed += line.startswith("FAILED: ")
        return line if line and line != "ninja: no work to do." else None

    def state(self, seconds):
        failed = f", {self.failed} failed" if self.failed else ""
        return f"build: {self.done} of {self.all} steps{failed}, {seconds:.0f} s"

    def finish(self):
        return []


class Tests:
    """What ctest prints."""

    def __init__(self):
        self.done = self.all = self.failed = self.skipped = 0
        self.running = {}
        self.said = None  # lines of the failed test whose output is being read

    def read(self, line):
        result, start = RESULT.match(line), START.match(line)
        shown = None
        if result or start or re.match(r"^\d+% tests passed", line):
            shown = self.tail()
        if start:
            self.running[start[1]] = time.monotonic()
        elif result:
            self.done, self.all = int(result[1]), int(result[2])
            self.running.pop(result[3], None)
            if result[4] == "Skipped":
                self.skipped += 1
            elif result[4] != "Passed":
                self.failed += 1
                self.said = [f"FAILED {result[3]} ({result[4]}, {result[5]} s)"]
        elif self.said is not None:
            self.said.append(line)
        return shown

    def tail(self):
        """The end of what the failed test has said."""
        said, self.said = self.said, None
        if said is None:
            return None
        left_out = len(said) - 1 - FAILURE_LINES_MAX
        if left_out > 0:
            said[1 : 1 + left_out] = [f"  ({left_out} lines are left out)"]
        return "\n".join(said).rstrip("\n")

    def state(self, seconds):
        longest = min(self.running.items(), key=lambda item: item[1], default=None)
        # How many there are ctest says when the first has ended.
        done = f"{self.done} of {self.all}" if self.all else "none has ended"
        text = f"tests: {done}, {self.failed} failed, {seconds:.0f} s"
        if longest is not None:
            text += f"; longest: {longest[0]}, {time.monotonic() - longest[1]:.0f} s"
        return text

    def finish(self):
        tail = self.tail()
        return [tail] if tail else []


class Printer:
    """Standard output: one line that is replaced, or a line from time to time."""

    def __init__(self, source):
        self.source = source
        self.begin = time.monotonic()
        self.is_terminal = sys.stdout.isatty()
        self.period_s = TERMINAL_PERIOD_S if self.is_terminal else PERIOD_S
        self.next = self.begin + self.period_s

    def seconds(self):
        return time.monotonic() - self.begin

    def show(self, text):
        print(("\r\033[K" if self.is_terminal else "") + text, flush=True)

    def tick(self, now=False):
        if not now and time.monotonic() < self.next:
            return
        self.next = time.monotonic() + self.period_s
        line = self.source.state(self.seconds())[:COLUMNS_MAX]
        if self.is_terminal and not now:
            print("\r\033[K" + line, end="", flush=True)
        else:
            self.show(line)


def lines_of(stream, on_wait):
    """The lines of a pipe; calls on_wait() at least each second."""
    rest = b""
    while True:
        if not select.select([stream], [], [], TERMINAL_PERIOD_S)[0]:
            on_wait()
            continue
        part = os.read(stream, 65536)
        if not part:
            break
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


def main(what, log):
    if what not in ("build", "tests"):
        raise SystemExit(__doc__)
    sys.stdout.reconfigure(errors="replace")
    source = Build() if what == "build" else Tests()
    printer = Printer(source)
    with open(log, "w", encoding="utf-8") as kept:
        for line in lines_of(sys.stdin.fileno(), printer.tick):
            kept.write(line + "\n")
            shown = source.read(line)
            if shown is not None:
                printer.show(shown)
            printer.tick()
    for text in source.finish():
        printer.show(text)
    printer.tick(now=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
