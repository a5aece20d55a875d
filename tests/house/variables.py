#!/usr/bin/env python3
"""variables.py <root> --tool TMH | --self-test -- `tmh policies` lists what the library reads.

Every variable of the environment, and no other one. A variable is read where its name stands as a
string in a source of the library. The RTM emulator and libitm are products of their own (man
tmh-rtm-emulation, tmh-itm), and their variables are not listed.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

ROOMS = ["platform", "observe", "storage", "levels", "hierarchy", "compat"]
NOT_THE_LIBRARY = ["rtm_emulator", "compat/libitm", "levels/process"]
# It ends a process at a step: tests set it, and its values are the names in observe/steps.h.
NOT_LISTED = {"TMH_CRASH_AT"}
NAME = re.compile(r'"(TMH_[A-Z][A-Z_]*)"')


def read_by(root):
    """Each variable, with a file that reads it."""
    found = {}
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(root, room)):
            inside = os.path.relpath(folder, root)
            if any(inside == each or inside.startswith(each + "/") for each in NOT_THE_LIBRARY):
                continue
            for name in sorted(names):
                if not name.endswith((".cpp", ".h", ".hpp", ".c")):
                    continue
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    for variable in NAME.findall(file.read()):
                        found.setdefault(variable, os.path.join(inside, name))
    return found


def problems_of(found, listed):
    missing = sorted(set(found) - listed - NOT_LISTED)
    unread = sorted((listed | NOT_LISTED) - set(found))
    return ([f"{found[each]} reads {each}: tmh policies does not list it" for each in missing] +
            [f"nothing reads {each}" for each in unread])


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for folder in ("hierarchy", "rtm_emulator", "tools"):
            os.makedirs(os.path.join(root, folder))
        sources = {"hierarchy/a.cpp": 'getenv("TMH_ONE"); choose("TMH_TWO", x); "TMH_CRASH_AT"',
                   "rtm_emulator/b.cpp": '"TMH_THREE"', "tools/c.cpp": '"TMH_FOUR"'}
        for name, text in sources.items():
            with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                file.write(text)
        found = read_by(root)
    wrong = []
    if problems_of(found, {"TMH_ONE", "TMH_TWO"}):
        wrong.append("a right list is refused")
    if len(problems_of(found, {"TMH_ONE"})) != 1:
        wrong.append("a variable that is not listed is not found")
    if len(problems_of(found, {"TMH_ONE", "TMH_TWO", "TMH_FIVE"})) != 1:
        wrong.append("a variable that nothing reads is not found")
    return wrong


def main():
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        problems = self_test()
    else:
        answer = subprocess.run([arguments[2], "policies", "--json"],
                                capture_output=True, text=True, check=True)
        listed = {each["variable"] for each in json.loads(answer.stdout)["policies"]}
        problems = problems_of(read_by(arguments[0]), listed)
    print("\n".join(problems) or "variables: fine")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
