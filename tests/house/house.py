#!/usr/bin/env python3
"""house.py ROOT [--rule NAME] [--times] | ROOT --index | --rules | --self-test -- all rules about
the tree's text, in one reading of it.

Prints `file:line: rule: what` for each violation. --rules lists the rules, each with its sentence
and the number of its exceptions; --index prints what each test is about. --self-test plants
violations in temporary trees: each rule must find them, and nothing else. What needs a compiler, a
build folder or minutes is a script of its own.
"""

import importlib
import os
import sys
import tempfile
import time

import source_tree
from rules import first_sentences, rule

RULES = ("layering", "classes", "circles", "stems", "declarations", "dead_files", "asserts",
         "readmes", "lines", "columns", "first_sentences", "citations", "budgets", "format_sizes",
         "features")
# Fewer files of code are not this project: nothing would be checked.
CODE_FILES_MIN = 100


def all_rules():
    return [importlib.import_module(f"rules.{name}").RULE for name in RULES]


def printed(found, violation):
    return f"{violation.file}:{violation.line}: {found.name}: {violation.what}"


def check(root, rules, times=None):
    tree = source_tree.Tree(root)
    if len(tree.code) < CODE_FILES_MIN:
        return [f"{root}: {len(tree.code)} files of code: is this the root of the tree?"]
    lines = []
    for each in rules:
        start = time.process_time()
        lines += [printed(each, violation) for violation in each.judge(tree)]
        if times is not None:
            times.append((time.process_time() - start, each.name))
    return lines


def self_test_of(each):
    problems = []
    cases = [rule.Planted("a right tree", {}, (), each.right_exceptions), *each.planted]
    if not each.planted:
        problems.append(f"{each.name}: nothing is planted")
    for case in cases:
        exceptions = case.exceptions if case.exceptions is not None else each.right_exceptions
        with tempfile.TemporaryDirectory() as root:
            source_tree.plant(root, {**each.right, **case.files})
            found = [f"{one.file}:{one.line}: {one.what}"
                     for one in each.judge(source_tree.Tree(root), exceptions)]
        problems += [f"{each.name}: {case.what}: wrongly reported: {line}" for line in found
                     if not any(said in line for said in case.said)]
        problems += [f"{each.name}: {case.what}: not reported: {said}" for said in case.said
                     if not any(said in line for line in found)]
    return problems


def self_test(rules):
    problems = [problem for each in rules for problem in self_test_of(each)]
    for each in rules:
        if not each.demands.endswith(".") or ". " in each.demands:
            problems.append(f"{each.name} does not say in one sentence what it demands")
        if not os.path.exists(os.path.join(source_tree.OWN_ROOT, "tests/house/rules",
                                           each.name + ".py")):
            problems.append(f"{each.name} does not lie in the file of its name")
    with tempfile.TemporaryDirectory() as root:
        if not check(root, rules):
            problems.append("a folder without sources passes")
        source_tree.plant(root, first_sentences.RULE.right)
        index = first_sentences.index_of(source_tree.Tree(root))
        if index != first_sentences.INDEX:
            problems.append(f"another index of tests: {index}")
    return problems


def main():
    arguments = sys.argv[1:]
    rules = all_rules()
    if "--rule" in arguments:
        at = arguments.index("--rule")
        wanted = arguments[at + 1]
        del arguments[at:at + 2]
        rules = [each for each in rules if each.name == wanted]
        if not rules:
            print(f"no rule {wanted}; there are {' '.join(RULES)}")
            return 64
    if arguments == ["--rules"]:
        for each in rules:
            print(f"{each.name:16} {len(each.exceptions):3} {each.demands}")
        return 0
    if arguments[1:] == ["--index"]:
        print(first_sentences.index_of(source_tree.Tree(arguments[0])), end="")
        return 0
    if len(arguments) != 1 and arguments[1:] != ["--times"]:
        print(__doc__)
        return 64
    times = []
    if arguments == ["--self-test"]:
        problems = self_test(rules)
    else:
        problems = check(os.path.realpath(arguments[0]), rules, times)
    print("\n".join(problems) or f"house: {len(rules)} rules, clean")
    if "--times" in arguments:
        for seconds, name in sorted(times, reverse=True):
            print(f"{seconds:6.2f} s {name}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
