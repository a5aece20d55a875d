#!/usr/bin/env python3
"""man.py <root> | --self-test -- manual pages: formatted without a warning, and complete.

Rules: (1) the formatter (mandoc, man or groff, whichever is there first) has nothing to say about a
page; without any of them the test is skipped. (2) NAME, SEE ALSO and a DESCRIPTION are there, and
NAME says what the file's name says. (3) a page of ours that SEE ALSO names exists. (4) every
function of xac.h's durable part has a page. (5) tmh.1 documents every subcommand that tools/ has,
in its DESCRIPTION, with every option in its SYNOPSIS.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

import source_tree

SKIPPED = 77
DURABLE_CALLS = ["xFlush", "xendAs", "xCheckpoint", "xArchive", "xRecover", "xBackup"]
OURS = re.compile(r"^\.Xr ((?:x[A-Z]|xend|tmh)\S*) (\d)", re.MULTILINE)


def formatter():
    """Command that prints warnings about the page that follows, or None."""
    if shutil.which("mandoc"):
        return ["mandoc", "-T", "lint", "-W", "warning"]
    if shutil.which("man") and shutil.which("groff"):
        version = subprocess.run(["man", "--version"], capture_output=True, text=True, check=False)
        # a minimal system has a stand-in that only says that pages were removed
        if re.match(r"man \d", version.stdout):
            return ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]
    if shutil.which("groff"):
        return ["groff", "-ww", "-z", "-mdoc", "-Tutf8"]
    return None


def check_page(root, name, command):
    text = source_tree.read(root, name)
    base, section = os.path.basename(name).rsplit(".", 1)
    problems = []
    # -w kinds that newer groffs have about hyphenation would depend on the terminal's width, hence
    # MANWIDTH.
    answer = subprocess.run(
        [*command, os.path.join(root, name)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"},
    )
    said = answer.stderr + (answer.stdout if command[0] == "mandoc" else "")
    if answer.returncode != 0 or said.strip():
        problems.append(f"{name}: {said.strip() or 'the formatter failed'}")
    for heading in ("NAME", "DESCRIPTION", "SEE ALSO"):
        if f".Sh {heading}\n" not in text:
            problems.append(f"{name}: has no {heading}")
    if not re.search(rf"^\.Dt {re.escape(base.upper())} {section}$", text, re.MULTILINE):
        problems.append(f"{name}: its .Dt says another name or section")
    for page, number in OURS.findall(text):
        if not os.path.isfile(os.path.join(root, "docs", "man", f"{page}.{number}")):
            problems.append(f"{name}: refers to {page}({number}), which does not exist")
    return problems


def check_complete(root):
    problems = [
        f"docs/man/{call}.3 is missing"
        for call in DURABLE_CALLS
        if not os.path.isfile(os.path.join(root, "docs", "man", call + ".3"))
    ]
    header = source_tree.read(root, "include/xac.h")
    problems += [f"xac.h declares no {call}" for call in DURABLE_CALLS if call + "(" not in header]
    page = source_tree.read(root, "docs/man/tmh.1")
    tools = source_tree.read(root, "tools/command_line.cpp")
    names = re.findall(
        r'add(?:_live|_bare|_subcommand)?\((?:&app_, |log, |LiveCommand::Kind::k\w+,\s+)?"(\w+)"',
        tools,
    )
    for name in names:
        if not re.search(rf"^\.(?:It )?Cm (?:log )?{name}$", page, re.MULTILINE):
            problems.append(f"docs/man/tmh.1: says nothing about {name}")
    for name in re.findall(r'add_subcommand\("([\w-]+)"', tools):
        if name != "log" and not re.search(rf"^\.(?:It )?Cm {name}$", page, re.MULTILINE):
            problems.append(f"docs/man/tmh.1: says nothing about {name}")
    sections = dict(
        re.findall(r"^\.Sh ([A-Z ]+)\n(.*?)(?=^\.Sh |\Z)", page, re.MULTILINE | re.DOTALL)
    )
    for option in re.findall(r'add_\w+(?:<[\w:]+>)?\(\s*(?:sub, )?"--([\w-]+)', tools):
        if not re.search(rf"-{option}\b(?!-)", sections.get("SYNOPSIS", "")):
            problems.append(f"docs/man/tmh.1: its SYNOPSIS lacks --{option}")
    problems += [
        f"docs/man/tmh.1: commands are described in {name}"
        for name, text in sections.items()
        if name != "DESCRIPTION" and re.search(r"^\.Ss ", text, re.MULTILINE)
    ]
    return problems


def pages(root):
    files = source_tree.project_files(root)
    return [name for name in files if re.match(r"docs/man/[^/]+\.\d$", name)]


def self_test(command):
    """A right page passes; each fault is caught."""
    right = (
        ".Dd November 21, 2026\n.Dt A 3\n.Os\n.Sh NAME\n.Nm a\n.Nd b\n.Sh DESCRIPTION\nText.\n.Sh"
        " SEE ALSO\n.Xr tmh 1\n"
    )
    faults = {
        "a macro without an end": right.replace("Text.", ".Bl -tag -width x\n.It a"),
        "no DESCRIPTION": right.replace(".Sh DESCRIPTION\n", ""),
        "another name": right.replace(".Dt A", ".Dt B"),
        "no such page": right.replace("tmh 1", "tmh 8"),
    }
    if command[0] != "mandoc":
        faults["an escape that is none"] = right.replace("Text.", "Text \\[nosuch].")
    problems = []
    for what, text in {"": right, **faults}.items():
        with tempfile.TemporaryDirectory() as root:
            source_tree.plant(root, {"docs/man/a.3": text, "docs/man/tmh.1": right})
            found = check_page(root, "docs/man/a.3", command)
            if bool(found) != bool(what):
                problems.append(f"{what or 'a right page'}: {found}")
    return problems


def main():
    command = formatter()
    if command is None:
        print("SKIPPED: neither mandoc nor man nor groff is installed")
        return SKIPPED
    if sys.argv[1] == "--self-test":
        problems = self_test(command)
    else:
        root = sys.argv[1]
        names = pages(root)
        problems = [
            problem for name in names for problem in check_page(root, name, command)
        ] + check_complete(root)
        if not names:
            problems.append("no page found")
    print("\n".join(problems) or "man: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
