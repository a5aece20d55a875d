#!/usr/bin/env python3
"""options_doc.py ROOT [--tool TMH [--write]] | --self-test -- docs/options.md names each option.

Rules: (1) with --tool, the table between BEGIN and END is what `tmh policies` prints; --write puts
it there. (2) each field of DomainOptions, Policies and SegmentOptions is named. (3) each variable
that the library or the command reads is named. (4) each field of Policies stands in the section of
docs/measurements.md that says which bench compares it; the benches that it names exist.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import source_tree

DOCUMENT = "docs/options.md"
MEASUREMENTS = "docs/measurements.md"
COMPARED = "## Where each option is compared\n"
OPTIONS = "include/tmh/options.hpp"
POLICIES = "include/tmh/policies.hpp"
BEGIN, END = "<!-- options -->\n", "<!-- end of options -->"
# These defaults depend on the machine: the command tells this machine's, the document both.
DEFAULTS_BY_MACHINE = {("TMH_STRAY", "fault"): "default where the processor has protection keys",
                       ("TMH_STRAY", "allow"): "default elsewhere"}
DEFAULT = " (default)"
HEAD = re.compile(r"^(TMH_[A-Z_]+) \((?:DomainOptions::([\w.]+)|environment only)\) -- (.+)$")
ROOMS = ("compat/", "hierarchy/", "levels/", "observe/", "platform/", "storage/", "tools/")


def choices_of(printed):
    """What `tmh policies` prints: [(variable, field, about, [(value, meaning, is_default)])]."""
    choices = []
    for line in printed.splitlines():
        head = HEAD.match(line)
        if head:
            choices.append((head[1], head[2] or "", head[3], []))
        elif line.startswith("  "):
            value, meaning = line.split(None, 1)
            is_default = meaning.endswith(DEFAULT)
            choices[-1][3].append((value, meaning.removesuffix(DEFAULT), is_default))
    return choices


def table_of(choices):
    rows = ["| variable | field | what it decides | values |", "|---|---|---|---|"]
    for variable, field, about, values in choices:
        cells = []
        for value, meaning, is_default in values:
            mark = DEFAULTS_BY_MACHINE.get((variable, value), "default" if is_default else "")
            cells.append(f"`{value}`{f' ({mark})' if mark else ''}: {meaning}")
        field = f"`{field}`" if field else "-"
        rows.append(f"| `{variable}` | {field} | {about} | {'<br>'.join(cells)} |")
    return "\n".join(rows) + "\n"


def fields_of(text, structure):
    """Data members of a structure of plain values."""
    body = re.search(rf"^struct {structure} \{{\n(.*?)^\}};", text, re.MULTILINE | re.DOTALL)
    if body is None:
        return []
    code = re.sub(r"//.*", "", body[1])
    members = [member.split("=")[0].strip() for member in re.split(r";", code)]
    return [re.search(r"(\w+)(?:\{\})?$", member)[1] for member in members
            if member and not member.startswith("friend ")]


def variables_of(root):
    """What the sources of the library and of the command ask the environment for."""
    found = set()
    for name in source_tree.code_files(root):
        if name.startswith(ROOMS) and "rtm_emulation/" not in name:
            text = source_tree.read(root, name)
            found.update(re.findall(r'(?:getenv|from_environment|choose|chosen)\(\s*[^"()]*'
                                    r'"(TMH_[A-Z_]+)"', text))
    return found


def write_table(root, printed):
    text = source_tree.read(root, DOCUMENT)
    before, begin, rest = text.partition(BEGIN)
    _, end, behind = rest.partition(END)
    with open(os.path.join(root, DOCUMENT), "w", encoding="utf-8") as file:
        file.write(before + begin + table_of(choices_of(printed)) + end + behind)


def uncompared(root, policies):
    """Policies without a bench, and benches that there are not."""
    _, _, section = source_tree.read(root, MEASUREMENTS).partition(COMPARED)
    rows = [row for row in section.partition("\n## ")[0].splitlines() if row.startswith("| `")]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    problems = [f"{MEASUREMENTS} names no bench that compares Policies::{field}"
                for field in policies
                if not any(f"`{field}`" in cell[0] and "`" in cell[1] for cell in cells)]
    for cell in cells:
        problems += [f"{MEASUREMENTS}: there is no bench {name}"
                     for name in re.findall(r"`(\w+)(?: --[^`]*)?`", cell[1])
                     if not os.path.exists(os.path.join(root, "bench", f"{name}.cpp"))]
    return problems


def check(root, printed=None):
    text = source_tree.read(root, DOCUMENT)
    problems = []
    options = source_tree.read(root, OPTIONS)
    fields = [(name, field) for name in ("DomainOptions", "SegmentOptions")
              for field in fields_of(options, name)]
    problems += [f"{DOCUMENT} does not name {name}::{field}" for name, field in fields
                 if f"| `{field}` |" not in text]
    problems += [] if fields else [f"{OPTIONS}: no field found"]
    policies = fields_of(source_tree.read(root, POLICIES), "Policies")
    problems += [f"{DOCUMENT} does not name Policies::{field}" for field in policies
                 if f"| `policies.{field}` |" not in text]
    problems += [] if policies else [f"{POLICIES}: no field found"]
    problems += uncompared(root, policies)
    variables = variables_of(root)
    problems += [f"{DOCUMENT} does not name {variable}" for variable in sorted(variables)
                 if f"`{variable}`" not in text]
    problems += [] if variables else ["no variable found in the sources"]
    if printed is None:
        return problems
    before, begin, rest = text.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not begin or not end:
        return problems + [f"{DOCUMENT}: no {BEGIN.strip()} ... {END}"]
    right = before + begin + table_of(choices_of(printed)) + end + behind
    if right != text:
        problems.append(f"{DOCUMENT} has another table than `tmh policies`, which is\n"
                        f"{table_of(choices_of(printed))}(options_doc.py --write puts it there)")
    return problems


def self_test():
    """A right tree passes; each fault is caught."""
    printed = ("TMH_A (DomainOptions::policies.a) -- what a is\n  x   first (default)\n"
               "  y   second\n"
               "\nTMH_B (environment only) -- what b is\n  z   third (default)\n")
    table = ("| variable | field | what it decides | values |\n|---|---|---|---|\n"
             "| `TMH_A` | `policies.a` | what a is | `x` (default): first<br>`y`: second |\n"
             "| `TMH_B` | - | what b is | `z` (default): third |\n")
    right = {
        OPTIONS: "struct DomainOptions {\n  bool n = false;\n};\n",
        POLICIES: "struct Policies {\n  int a{};  // b; c\n};\n",
        "hierarchy/a.cpp": 'f(std::getenv("TMH_A"));\n',
        DOCUMENT: BEGIN + table + END + "\n| `n` |\n",
        "bench/b.cpp": "",
        MEASUREMENTS: COMPARED + "| `a` | `b --only x` | everywhere |\n",
    }
    document, options = right[DOCUMENT], right[OPTIONS]
    faults = {
        "": {},
        "another meaning": {DOCUMENT: document.replace("second", "2nd")},
        "no marks": {DOCUMENT: document.replace(BEGIN, "")},
        "a field without a row": {OPTIONS: options.replace("  bool", "  long m;\n  bool")},
        "a policy without a row": {POLICIES: "struct Policies {\n  int a{};\n  int b{};\n};\n"},
        "a policy that no bench compares": {
            MEASUREMENTS: COMPARED + "| `a` | none | - |\n## b\n| `a` | `b` | |\n"
        },
        "a bench that there is not": {MEASUREMENTS: right[MEASUREMENTS].replace("`b ", "`c ")},
        "a variable without a row": {"tools/a.cpp": 'chosen(command.c, "TMH_C", "auto");\n'},
    }
    problems = []
    for what, planted in faults.items():
        with tempfile.TemporaryDirectory() as root:
            source_tree.plant(root, {**right, **planted})
            found = check(root, printed)
            if bool(found) != bool(what):
                problems.append(f"{what or 'a right tree'}: {found}")
    with tempfile.TemporaryDirectory() as root:
        source_tree.plant(root, {**right, **faults["another meaning"]})
        write_table(root, printed)
        if source_tree.read(root, DOCUMENT) != document:
            problems.append("--write does not write the table")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", nargs="?")
    parser.add_argument("--tool")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        problems = self_test()
    else:
        printed = None
        if arguments.tool:
            printed = subprocess.run([arguments.tool, "policies"], capture_output=True, text=True,
                                     check=True).stdout
            if arguments.write:
                write_table(arguments.root, printed)
        problems = check(arguments.root, printed)
    print("\n".join(problems) or "options: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
