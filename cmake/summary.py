#!/usr/bin/env python3
"""summary.py <preset> <tier> <results.xml> -- last lines of ./check, at most 15. The tier: quick or
full.

Reads what `ctest --output-junit` wrote. Prints skips by reason, the most frequent first; each
failure with the command that runs it alone; the counts; which modes this machine cannot run, whose
tests ctest does not list (cmake/gtest_cases.py). Lists that are longer, and the names of all
skipped tests, stand in skipped.txt and failed.txt beside <results.xml>.
A test that did not run counts as failed unless it said itself that it was skipped.
Exit status 1 when something failed, or when nothing ran.
"""
import glob
import os
import re
import sys
import xml.etree.ElementTree as xml

SKIP_MARK = re.compile(r"\[  SKIPPED \]|^SKIPPED:", re.MULTILINE)
LINES_MAX = 15
FAILURES_MAX = 8
COLUMNS_MAX = 140
# Presets that are not the default one, and the flag of ./check that selects them.
FLAGS = {"dev": "--asan ", "tsan": "--tsan ", "ubsan": "--ubsan ", "clang": "--clang ",
         "coverage": "--coverage "}


def skip_reason(output):
    """The sentence after GTEST_SKIP() or after SKIPPED:."""
    found = re.search(r"^.*: Skipped\n(.*?)\n(?=\[  SKIPPED|\n)", output, re.MULTILINE | re.DOTALL)
    if found is None:
        found = re.search(r"^SKIPPED:\s*(.+)$", output, re.MULTILINE)
    if found is not None and found.group(1).strip():
        return " ".join(found.group(1).split())
    return "no reason given"


def read_results(path):
    """(number passed, [(name, why)] failed, [(name, reason)] skipped, seconds)"""
    passed, failed, skipped, seconds = 0, [], [], 0.0
    for case in xml.parse(path).getroot().iter("testcase"):
        name, status = case.get("name"), case.get("status")
        output = case.findtext("system-out") or ""
        seconds += float(case.get("time") or 0)
        if status == "run":
            passed += 1
        elif status == "notrun" and SKIP_MARK.search(output):
            skipped.append((name, skip_reason(output)))
        else:
            note = case.find("failure")
            why = note.get("message") if note is not None else None
            failed.append((name, " ".join((why or status).split())))
    return passed, failed, skipped, seconds


def cut(line):
    return line if len(line) <= COLUMNS_MAX else line[:COLUMNS_MAX - 3] + "..."


def failure_line(flags, name, why):
    """Not cut: a command that is cut runs something else."""
    exactly = re.sub(r"([][+*?()|^$\\])", r"\\\1", name)
    return f"FAILED {name} ({why[:60]}): ./check {flags}-R '^{exactly}$'"


def failure_lines(flags, failed, path):
    lines = [failure_line(flags, name, why) for name, why in failed]
    if len(lines) > FAILURES_MAX:
        rest = len(lines) - (FAILURES_MAX - 1)
        lines[FAILURES_MAX - 1:] = [f"FAILED {rest} more: {path}"]
    return lines


def skip_lines(skipped, lines_max, path):
    """Tests by reason, and where each of them is named."""
    counts = {}
    for _, reason in skipped:
        counts[reason] = counts.get(reason, 0) + 1
    by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = by_count if len(by_count) < lines_max else by_count[:lines_max - 2]
    lines = [cut(f"SKIPPED {count:4}: {reason}") for reason, count in shown]
    if len(shown) < len(by_count):
        rest = by_count[len(shown):]
        tests = sum(count for _, count in rest)
        lines.append(f"SKIPPED {tests:4}: {len(rest)} other reasons")
    return lines + [f"SKIPPED tests by name: {path}"] if lines else []


def unlisted_lines(folder):
    """A line per reason: what this machine cannot run, and how many tests are not listed."""
    counts, names = {}, {}
    for path in glob.glob(os.path.join(folder, "tests/lists/*.unlisted")):
        with open(path, encoding="utf-8") as file:
            for line in file:
                name, _, why = line.rstrip("\n").partition("\t")
                counts[why] = counts.get(why, 0) + 1
                names.setdefault(why, set()).add(name)
    return [
        cut(f"NOT LISTED {count}, in {', '.join(sorted(names[why]))}: {why}")
        for why, count in sorted(counts.items())
    ]


def write_lines(path, lines):
    """An empty list removes the file, so that no older one is taken for this run's."""
    if lines:
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
    elif os.path.exists(path):
        os.remove(path)


def main():
    preset, tier, path = sys.argv[1:]
    larger = "--long " if os.environ.get("TMH_LONG") else "--full "
    flags = FLAGS.get(preset, "") + (larger if tier == "full" else "")
    try:
        passed, failed, skipped, seconds = read_results(path)
    except (OSError, xml.ParseError) as error:
        print(f"check {preset} {tier}: no test ran: there is no list of results ({error})")
        return 1
    folder = os.path.dirname(os.path.abspath(path))
    failed_path = os.path.join(folder, "failed.txt")
    skipped_path = os.path.join(folder, "skipped.txt")
    write_lines(failed_path, [failure_line(flags, name, why) for name, why in failed])
    write_lines(skipped_path, [f"{name}: {reason}" for name, reason in skipped])
    failures = failure_lines(flags, failed, failed_path)
    unlisted = unlisted_lines(folder)
    skips_max = LINES_MAX - 1 - len(failures) - len(unlisted)
    lines = unlisted + skip_lines(skipped, skips_max, skipped_path) + failures
    for line in lines:
        print(line)
    print(f"check {preset} {tier}: {passed} passed, {len(failed)} failed, {len(skipped)} SKIPPED "
          f"({seconds:.0f} s of test time)")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
