#!/usr/bin/env python3
"""tiers.py ROOT --build BUILD | --self-test -- the quick tier stays within its budget, and meets
every mode.

Each mode of tests/support/modes.h that this machine can run is the parameter of a quick test. Each
file of tests stands in tests/tiers.txt, once, and has a quick test if it says so. Each test that
ctest lists has the label "quick" or "full", not both, and a full one says why, in a word that
tests/README.md explains. What the targets and the tests of the quick tier cost stands in
tests/costs.txt (cmake/test_costs.py measures it); together they cost at most the budgets below.
What has been added since it was measured counts, too: a test as a second, a source as its target's
mean, a target or a test of another kind not at all: it must be measured. Nothing here is a
measurement, so a slow machine changes no verdict.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

import source_tree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../cmake"))
import test_costs
import tiers

# Derived: ./check has ten minutes on two slow cores, packages and a reserve for a machine that is
# half as slow again as the one that tests/costs.txt names: 2 x 600 s / 1.5 for all three.
BUILD_BUDGET_S = 460
TESTS_BUDGET_S = 260
# A test of GoogleTest that has been added to a file since the file was measured.
NEW_TEST_S = 1.0
# The kinds of tests; what other labels there are says why a test is not quick.
KINDS = {"unit", "multi", "example", "bench", "itm", "house", "python"}


def problems_of_table(root):
    """Files without a line, and lines without a file."""
    found = [
        name.removeprefix("tests/").removesuffix(".cpp")
        for name in source_tree.project_files(root)
        if re.fullmatch(r"tests/[a-z_]+/\w+_test\.cpp", name)
    ]
    table = tiers.read_table(os.path.join(root, "tests/tiers.txt"))
    said = {f"{words[2]}/{stem}" for stem, words in table.items()}
    problems = [f"tests/tiers.txt has no line for {name}" for name in sorted(set(found) - said)]
    return problems + [f"tests/tiers.txt names {name}, which there is not"
                       for name in sorted(said - set(found))]


def problems_of_labels(tests, reasons):
    """tests: [(name, labels)]"""
    problems = []
    for name, labels in tests:
        tier = {"quick", "full"} & set(labels)
        why = set(labels) - KINDS - {"quick", "full"}
        if len(tier) != 1:
            problems.append(f"{name} has the labels {' '.join(labels)}: not one tier")
        elif tier == {"full"} and not why and "bench" not in labels:
            problems.append(f"{name} is not quick, and no label says why")
        for word in sorted(why - reasons):
            problems.append(f"{name} is not quick because of \"{word}\", which the table of tiers "
                            "in tests/README.md does not explain")
    return problems


def problems_of_quick_files(tests, table):
    """tests: [(name, labels)]. A number or an expression of a line may select nothing."""
    listed = {name.partition(".")[0] for name, _ in tests}
    quick = {name.partition(".")[0] for name, labels in tests if "quick" in labels}
    return [f"tests/tiers.txt: {stem} is quick, and none of its tests is"
            for stem, (tier, *_) in sorted(table.items())
            if tier == "quick" and stem in listed - quick]


def problems_of_modes(names, modes, unavailable):
    """names: of quick tests."""
    met = {word for name in names for word in re.split(r"[^A-Za-z0-9]", name)}
    return [f"no quick test runs in mode {mode}: tests/tiers.txt"
            for mode in modes if mode not in met and mode not in unavailable]


def modes_in(header):
    return re.findall(r'^ *\{"(\w+)", Detection::', header, re.MULTILINE)


def build_seconds(measured, sources):
    """(seconds, problems) of the targets {name: number of sources}."""
    total, problems = measured.get("links", test_costs.Build(0.0, 0)).seconds, []
    for name, count in sources.items():
        if name not in measured:
            problems.append(f"target {name} is built by ./check, and tests/costs.txt does not say "
                            "what that costs: cmake/test_costs.py BUILD --build-log")
            continue
        cost = measured[name]
        added = max(0, count - cost.sources)
        total += cost.seconds * (1 + added / max(1, cost.sources))
    return total, problems


def test_seconds(measured, counts, gtest_names):
    """(seconds, problems) of {name: number of tests}."""
    total, problems = 0.0, []
    for name, count in counts.items():
        cost = measured.get(name)
        if cost is None and name not in gtest_names:
            problems.append(f"test {name} is run by ./check, and tests/costs.txt does not say what "
                            f"that costs: cmake/test_costs.py BUILD --tests '^{name}$'")
            continue
        cost = cost or test_costs.Tests(0.0, 0)
        total += cost.seconds + NEW_TEST_S * max(0, count - cost.tests)
    return total, problems


def over_budget(what, seconds, budget):
    print(f"{what}: {seconds:.0f} of {budget} processor seconds")
    if seconds <= budget:
        return []
    return [f"{what} costs {seconds:.0f} processor seconds, and may cost {budget}: make something "
            "cheaper, or move it to ./check --full (tests/tiers.txt), or measure again "
            "(cmake/test_costs.py)"]


def reasons_in(readme):
    """The words of the table below the heading "Tiers"."""
    part = readme.partition("\n## Tiers\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))


def compiled_targets(build):
    """Targets that `ninja quick` makes objects of."""
    inputs = subprocess.run(
        ["ninja", "-t", "inputs", "quick"], cwd=build, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    return set(re.findall(r"^CMakeFiles/([^/\n]+)\.dir/.*\.o$", inputs, re.MULTILINE))


def problems_of_budget(build, costs_path):
    costs = test_costs.read(costs_path)[0]
    sources = test_costs.sources_of(build)
    compiled = {name: sources.get(name, 0) for name in compiled_targets(build)}
    seconds, problems = build_seconds(costs["build"], compiled)
    problems += over_budget("the build", seconds, BUILD_BUDGET_S)
    counts, gtest_names = {}, set()
    for name, command, _ in test_costs.tests_of(build, "-L", "^quick$"):
        group = test_costs.cost_name(name, command)
        counts[group] = counts.get(group, 0) + 1
        if group != name:
            gtest_names.add(group)
    seconds, more = test_seconds(costs["test"], counts, gtest_names)
    return problems + more + over_budget("the tests", seconds, TESTS_BUDGET_S)


def self_test():
    cost = test_costs
    build = {"a": cost.Build(10.0, 5), "links": cost.Build(2.0, 0)}
    assert build_seconds(build, {"a": 5}) == (12.0, [])
    assert build_seconds(build, {"a": 10})[0] == 22.0
    assert "target b" in build_seconds(build, {"a": 5, "b": 1})[1][0]
    test = {"x_test": cost.Tests(3.0, 7), "house.y": cost.Tests(1.0, 1)}
    assert test_seconds(test, {"x_test": 7, "house.y": 1}, {"x_test"}) == (4.0, [])
    assert test_seconds(test, {"x_test": 9, "z_test": 2}, {"x_test", "z_test"})[0] == 7.0
    assert "house.z" in test_seconds(test, {"house.z": 1}, set())[1][0]
    assert over_budget("it", 5, 5) == [] and over_budget("it", 6, 5) != []
    modes = modes_in('  {"A", Detection::kLazy},\n    {"B", Detection::kLazy},\n')
    assert modes == ["A", "B"], modes
    assert problems_of_modes(["t.S.x/B_1"], modes, set()) == [
        "no quick test runs in mode A: tests/tiers.txt"]
    assert problems_of_modes(["t.S.x/B_1"], modes, {"A"}) == []
    reasons = reasons_in("\n## Tiers\n| `deaths` | more |\n\n## Else\n| `no` | |\n")
    assert reasons == {"deaths"}, reasons
    right = [("a", ["quick", "unit"]), ("b", ["full", "multi", "deaths"]), ("c", ["full", "bench"])]
    assert problems_of_labels(right, reasons) == []
    for wrong in (["unit"], ["quick", "full", "unit", "deaths"], ["full", "unit"],
                  ["full", "unit", "so"]):
        assert problems_of_labels([("w", wrong)], reasons), wrong
    table = {"s": ("quick", ["=No"], "f"), "t": ("quick", [], "f"), "u": ("full", ["x"], "f")}
    found = problems_of_quick_files([("s.A.a", ["full"]), ("t.A.a", ["quick"])], table)
    assert len(found) == 1 and "s is quick" in found[0], found
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tiers.txt")
        for wrong in ("a/b_test\tquick", " a/b_test quick", "A/b_test quick", "a/b_test quick 0",
                      "a/b_test quick 2x", "a/b_test quick 2 3", "a/b_test quick =[",
                      "a/b_test quick need:rtm", "a/b_test quick needs:rmt", "a/b_test full",
                      "a/b_test full edges quick"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(wrong + "\n")
            try:
                raise AssertionError(f"{wrong}: {tiers.read_table(path)}")
            except SystemExit:
                pass
        with open(path, "w", encoding="utf-8") as file:
            file.write("# so\na/b_test quick 3 =x#y needs:rtm=Z # why\na/c_test full edges\n")
        assert tiers.read_table(path)["b_test"] == ("quick", ["3", "=x#y", "needs:rtm=Z"], "a")
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "tests/page"))
        for name, text in (("page/a_test.cpp", ""), ("page/b_test.cpp", ""),
                           ("tiers.txt", "page/a_test quick\npage/c_test full deaths\n")):
            with open(os.path.join(folder, "tests", name), "w", encoding="utf-8") as file:
                file.write(text)
        found = problems_of_table(folder)
        assert len(found) == 2 and "b_test" in found[0] and "c_test" in found[1], found
    table = {"s": ("quick", [], "f"), "t": ("quick", ["=^A", "needs:rtm=B"], "f"),
             "u": ("full", ["deaths", "needs:keys"], "f")}
    cases = [("s", f"S.{test}/{mode}") for test in ("P", "Q") for mode in ("M", "N")]
    labels = tiers.labels_of(cases, table)
    assert [words[0] for words in labels] == ["quick", "full", "full", "quick"], labels
    assert tiers.labels_of([("t", "A.x"), ("t", "B.x"), ("u", "C.x")], table) == [
        ("quick",), ("full", "rest"), ("full", "deaths")]
    assert tiers.needs_of("t", "B.x", table) == ["rtm"] and tiers.needs_of("t", "A.x", table) == []
    assert tiers.needs_of("u", "C.x", table) == ["keys"]
    assert sorted(tiers.spread(12, 3, 11)) == [3, 7, 11]
    print("tiers: wrong ones are found")
    return 0


def main():
    if "--self-test" in sys.argv:
        return self_test()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root")
    parser.add_argument("--build", required=True)
    options = parser.parse_args()
    readme = source_tree.read(options.root, "tests/README.md")
    tests = [(name, properties.get("LABELS", []))
             for name, _, properties in test_costs.tests_of(options.build)]
    problems = problems_of_table(options.root)
    problems += problems_of_labels(tests, reasons_in(readme))
    table = tiers.read_table(os.path.join(options.root, "tests/tiers.txt"))
    problems += problems_of_quick_files(tests, table)
    modes = modes_in(source_tree.read(options.root, "tests/support/modes.h"))
    with open(os.path.join(options.build, "tests/lists/unavailable_modes.txt"),
              encoding="utf-8") as file:
        unavailable = {line.partition("\t")[0] for line in file}
    quick = [name for name, labels in tests if "quick" in labels]
    problems += problems_of_modes(quick, modes, unavailable)
    problems += problems_of_budget(options.build, os.path.join(options.root, "tests/costs.txt"))
    for problem in problems:
        print(problem)
    print("tiers: " + (f"{len(problems)} problems" if problems else "within budget"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
