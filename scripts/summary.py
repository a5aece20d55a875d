#!/usr/bin/env python3
"""summary.py <preset> <results.xml> -- last lines of ./check: how many tests passed, failed and were SKIPPED, and why.

Reads what `ctest --output-junit` wrote. A test that did not run counts as failed unless it said itself that it was skipped.
Exit status 1 when something failed, or when nothing ran.
"""
import re
import sys
import xml.etree.ElementTree as xml

SKIP_MARK = re.compile(r"\[  SKIPPED \]|^SKIPPED:", re.MULTILINE)


def skip_reason(output):
    """The sentence after GTEST_SKIP() or after SKIPPED:, else the last line that is not GoogleTest's frame."""
    found = re.search(r"^.*: Skipped\n(.*?)\n(?=\[  SKIPPED|\n)", output, re.MULTILINE | re.DOTALL)
    if found is None:
        found = re.search(r"^SKIPPED:\s*(.+)$", output, re.MULTILINE)
    if found is not None and found.group(1).strip():
        return " ".join(found.group(1).split())
    return "no reason given"


def main():
    preset, path = sys.argv[1], sys.argv[2]
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
            reason = note.get("message") if note is not None and note.get("message") else status
            failed.append((name, reason))
    for name, reason in skipped:
        print(f"SKIPPED {name}: {reason}")
    for name, reason in failed:
        print(f"FAILED {name}: {reason}")
    print(f"check {preset}: {passed} passed, {len(failed)} failed, {len(skipped)} SKIPPED ({seconds:.0f} s of test time)")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
