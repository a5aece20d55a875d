#!/usr/bin/env python3
"""mutants.py --build FOLDER --tmh PATH --cxx C++ --root FOLDER [--only N,...] -- run.py finds
planted faults: this project's libitm is built anew with one of MUTANTS in a source, and some random
program must end wrong on it.

--only  these of them; without TMH_LONG the first one of these alone

Needs a build folder of ninja, which says how the library is compiled. Exit code 1: a mutant was not
found, or its text is not in the source any more.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
LIBRARY = "libtmh-itm/libitm.so.1"
COMMIT, THREAD = "levels/line/process_commit.cpp", "compat/libitm/thread.cpp"
LINES, PRIVATE = "compat/libitm/lines_method.cpp", "compat/libitm/private_memory.cpp"
# What is wrong, the source, a text of it, the text instead, options of run.py.
MUTANTS = [
    (
        "an undo entry is left out",
        COMMIT,
        "    restore_line(at(i));\n",
        "    if (i != first) restore_line(at(i));\n",
        [],
    ),
    (
        "a rollback lets locks go before it restores",
        COMMIT,
        "  undo_.restore(0);\n",
        "  for (std::uint32_t i = 0; i < undo_.size(); ++i)\n"
        "    if (undo_[i].older == kNoEntry) undo_[i].word->store(undo_[i].before);\n"
        "  undo_.restore(0);\n",
        [],
    ),
    (
        "a commit does not look whether what it has read is still so",
        COMMIT,
        "is_next(stamp, thread_.rv) || thread_.are_unchanged()",
        "stamp != 0",
        [],
    ),
    (
        "a nested block keeps no bytes that the one around it has kept",
        "levels/line/process_thread.cpp",
        "line_of(at), layer_)",
        "line_of(at), 0)",
        [],
    ),
    (
        "a rollback stores to frames that are gone",
        PRIVATE,
        "  if (at >= stack || end <=",
        "  if (at >= stack || 0 <",
        [],
    ),
    (
        "what rolls back runs where it stores to",
        THREAD,
        "  if (reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) >= registers.stack)\n",
        "  if (registers.stack == 0)\n",
        ["--methods", "pages-serializable"],
    ),
    (
        "private memory is not kept for nested blocks",
        LINES,
        "      if (memory.is_nested()) memory.save(to, part);\n",
        "",
        [],
    ),
    (
        "code without optimization finds its begin's result overwritten",
        THREAD,
        "  to.next_instruction = way_back(registers.next_instruction, result);\n",
        "",
        ["--levels", "0"],
    ),
]


def commands_of(build):
    done = subprocess.run(
        ["ninja", "-C", build, "-t", "commands", LIBRARY],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def find_unit(commands, path):
    """The command that compiles this source, alone or among others; what it compiles."""
    for command in commands:
        source = command.split(" -c ")[-1].strip()
        if source == path:
            return command, source
        if source.endswith(".cxx"):
            with open(source, encoding="utf-8") as unit:
                if f'"{path}"' in unit.read():
                    return command, source
    sys.exit(f"mutants.py: nothing compiles {path}")


def make(arguments, folder, commands, mutant):
    """The library with the mutant; None: the text is not there."""
    _, path, text, instead, _ = mutant
    with open(os.path.join(arguments.root, path), encoding="utf-8") as source:
        before = source.read()
    if text not in before:
        return None
    changed = os.path.join(folder, path)
    os.makedirs(os.path.dirname(changed))
    with open(changed, "w", encoding="utf-8") as out:
        out.write(before.replace(text, instead, 1))
    unit = os.path.join(arguments.root, path if path.endswith(".cpp") else THREAD)
    command, source = find_unit(commands, unit)
    if path.endswith(".cpp"):
        with open(source, encoding="utf-8") as text_of_unit:
            text = changed if source == unit else text_of_unit.read().replace(unit, changed)
        if source != unit:  # several sources in one
            changed = os.path.join(folder, "unit.cpp")
            with open(changed, "w", encoding="utf-8") as out:
                out.write(text)
        command = command.replace(f" -c {source}", f" -c {changed}")
    old_object, new_object = command.split(" -o ")[1].split()[0], os.path.join(folder, "mutant.o")
    command = command.replace(f" -o {old_object}", f" -o {new_object}", 1)
    command = command.replace(" -I", f" -I{folder} -I", 1).replace(" -O3 ", " -O1 ")
    subprocess.run(command, shell=True, cwd=arguments.build, check=True)
    library = os.path.join(folder, "libitm.so.1")
    link = commands[-1].replace(f" -o {LIBRARY}", f" -o {library} {new_object}", 1)
    link = link.replace(f" {old_object} ", " ", 1)
    subprocess.run(link, shell=True, cwd=arguments.build, check=True)
    return library


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--tmh", required=True)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", default=",".join(str(each) for each in range(len(MUTANTS))))
    arguments = parser.parse_args()
    numbers = [int(each) for each in arguments.only.split(",")]
    if not os.environ.get("TMH_LONG"):
        del numbers[1:]
    if shutil.which("ninja") is None or not os.path.exists(
        os.path.join(arguments.build, "build.ninja")
    ):
        print("SKIPPED: the build folder is not one of ninja")
        return SKIPPED
    commands = commands_of(arguments.build)
    problems = 0
    print(f"mutants {numbers} of {len(MUTANTS)}")
    for number in numbers:
        mutant = MUTANTS[number]
        with tempfile.TemporaryDirectory() as folder:
            library = make(arguments, folder, commands, mutant)
            if library is None:
                print(f"{number}: {mutant[0]}: its text is not in {mutant[1]}")
                problems += 1
                continue
            done = subprocess.run(
                [sys.executable, "-B", os.path.join(HERE, "run.py"), "--expect-wrong"]
                + ["--tmh", arguments.tmh, "--cxx", arguments.cxx, "--root", arguments.root]
                + ["--libitm", library, "--methods", "lines,serial", "--levels", "2"]
                + ["--timeout", "20", "--count", str(arguments.count), *mutant[4]],
                capture_output=True,
                text=True,
                check=False,
            )
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        print(f"{number}: {mutant[0]}: {'found' if done.returncode == 0 else 'NOT FOUND'}: {last}")
        problems += done.returncode != 0
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
