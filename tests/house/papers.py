#!/usr/bin/env python3
"""papers.py <root> --benches DIR --out DIR | --links <root> | --self-test --
papers/memory-mapped-transactions keeps its promises.

--benches  `reproduce --quick` with tiny inputs writes JSON and CSV for every experiment, and a page
           with at least 12 plots, that names every table of the thesis and has ours beside it; the
           same command again runs nothing twice.
--links    every link of its README leads to a file, and every table and experiment is named there;
           the trees take no more library calls than the thesis's; each table and figure has its
           program, and rows in the full run; the documents' tables are what the results of the full
           run say.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import source_tree

PAPER = os.path.join("papers", "memory-mapped-transactions")
TABLES = [
    f"Table {name}"
    for name in (
        "4.1 4.2 4.3 4.4 4.5 4.6 4.7 4.8 4.9 4.10 5.1 5.2 5.3 5.4 5.5 5.6 "
        "C.1 C.2 C.3 C.4 C.5 C.6 C.7 C.8 C.9 C.10 C.11 C.12"
    ).split()
]
FIGURES = ["Figure 4-2", "Figure 4-4", "Figure 5-3"]
PLOTS_MIN = 12
CALLS_MAX = {"B+-tree": 23, "CO B-tree": 17}
# Each table and figure that is measured again: the experiment, and what a row of its result has.
EVIDENCE = {
    **{f"Table 4.{i}": [("page-touch", {"section": "touch", "pattern": "hot"})] for i in (2, 6)},
    **{f"Table {name}": [("page-touch", {"section": "primitive", "thesis_table": shown})]
       for name, shown in (("4.3", "4.3"), ("4.4", "4.4"), ("4.5", "4.5"), ("C.3", "4.3"),
                           ("C.4", "4.5"))},
    **{f"Table {name}": [("durable-page-touch", {"section": f"table-{shown}"})]
       for name, shown in (("4.7", "4.7"), ("4.8", "4.8"), ("4.10", "4.10"), ("C.5", "4.7"),
                           ("C.6", "4.8"), ("C.10", "4.10"))},
    **{f"Table {name}": [("concurrency", {"section": "table-4.9", "test": test})
                         for test in "ABC"] for name in ("4.9", "C.9")},
    "Table 5.1": [("trees-static", {"section": "static"})],
    "Table 5.2": [("trees-dynamic", {"section": "dynamic"})],
    "Table 5.3": [("trees-in-order", {"section": "in-order"})],
    "Table 5.4": [("lines-changed", {"tree": tree}) for tree in CALLS_MAX],
    **{f"Table {name}": [("trees-durable", {"section": "commit", "contestant": each})
                         for each in ("tmh-bptree", "tmh-cobtree", "bdb-thesis")]
       for name in ("5.5", "5.6", "C.12")},
    **{f"Table C.{i}": [("machine", {"table": f"C.{i}"})] for i in (1, 2, 7, 8)},
    "Table C.11": [("trees-nondurable", {"section": "commit", "contestant": each})
                   for each in ("tmh-bptree", "tmh-cobtree", "bdb-thesis")],
    "Figure 4-2": [("page-touch", {"section": "touch", "advice": "none"})],
    "Figure 4-4": [("page-touch", {"section": "touch", "advice": "per-page"})],
    "Figure 5-3": [("trees-durable", {"section": "kth"})],
}
# Each figure that is a program: its source in examples/libxac.
PROGRAMS = {"1-6": ["1_6"], "2-1": ["2_1"], "2-2": ["2_2"], "2-3": ["2_3"],
            "2-4": ["2_4_program_1", "2_4_program_2"], "4-1": ["4_1_a", "4_1_b"],
            "4-3": ["4_3_a", "4_3_b"]}


def use_modules(root, paper):
    """Of the paper's reproduction, and what all papers share."""
    sys.path[:0] = [
        os.path.join(root, each)
        for each in (os.path.join(paper, "reproduction"), "papers/runs", "papers/plots")
    ]


def lacking_evidence(wanted, results):
    """wanted: (name, experiment, what a row of its result has). results: experiment -> its JSON."""
    return [
        f"{name}: {experiment} has no row with {has}"
        for name, experiment, has in wanted
        if not any(
            all(row.get(key) == value for key, value in has.items())
            for row in results.get(experiment, {}).get("rows", [])
        )
    ]


def unnamed_experiments(text, experiments):
    return [
        f"README: experiment {each.name} is not named"
        for each in experiments
        if not re.search(rf"reproduce [a-z0-9 -]*\b{each.name}\b", text)
    ]


def lacking_rows(results):
    problems = lacking_evidence(
        [(name, *pair) for name, wanted in EVIDENCE.items() for pair in wanted], results
    )
    if not any("cpu" in each.get("environment", {}) for each in results.values()):
        problems.append("Table 4.1: no result names the machine")
    return problems


def lacking_programs(root, experiments):
    """Figures without their program or its test, experiments without their bench."""
    folder = os.path.join(root, "examples", "libxac")
    figures_test = os.path.join(root, "tests", "libxac", "libxac_figures_test.cpp")
    with open(figures_test, encoding="utf-8") as file:
        test = file.read()
    problems = []
    for figure, names in PROGRAMS.items():
        for name in names:
            if not os.path.exists(os.path.join(folder, f"figure_{name}.c")):
                problems.append(f"Figure {figure}: no examples/libxac/figure_{name}.c")
            # "_a" and "_b" are put behind the name there
            if not re.search(rf'"figure_{re.sub("_[ab]$", "", name)}(_reported)?"', test):
                problems.append(f"Figure {figure}: libxac_figures_test does not run figure_{name}")
    for each in experiments:
        if each.bench and not os.path.exists(os.path.join(root, "bench", each.bench + ".cpp")):
            problems.append(f"{each.name}: no bench/{each.bench}.cpp")
    return problems


def results_in(folder, names):
    results = {}
    for name in names:
        with open(os.path.join(folder, name + ".json"), encoding="utf-8") as file:
            results[name] = json.load(file)
    return results

def names_in_text(text):
    """Tables that a README names, ranges like "4.3 to 4.6" and "C.5, C.6" included."""
    found = set()
    for chapter, first, last in re.findall(r"\b([4-6C])\.(\d+) to \1\.(\d+)\b", text):
        found.update(f"{chapter}.{i}" for i in range(int(first), int(last) + 1))
    found.update(".".join(pair) for pair in re.findall(r"\b([4-6C])\.(\d+)\b", text))
    return found


def broken_links(folder, text):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text)
    missing = [
        f"README: {link} leads nowhere"
        for link in links
        if "://" not in link and not os.path.exists(os.path.join(folder, link))
    ]
    return missing if links else ["README: no links"]


def check_links(root):
    folder = os.path.join(root, PAPER)
    with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
        text = file.read()
    problems = broken_links(folder, text)
    named = names_in_text(text)
    problems += [
        f"README: {table} is not named"
        for table in TABLES
        if table.removeprefix("Table ") not in named
    ]
    use_modules(root, PAPER)
    import experiments
    import lines_changed

    problems += unnamed_experiments(text, experiments.EXPERIMENTS)
    problems += lacking_programs(root, experiments.EXPERIMENTS)
    full = os.path.join(folder, "results", "full")
    problems += lacking_rows(results_in(full, [each.name for each in experiments.EXPERIMENTS]))
    for row in lines_changed.count(root):
        if not 0 < row["calls_added"] <= CALLS_MAX[row["tree"]]:
            problems.append(
                f"{row['tree']}: {row['calls_added']} library calls, the thesis needed"
                f" {CALLS_MAX[row['tree']]}"
            )
    return problems


def tree_rows(text):
    """{tree: numbers} of the table in examples/trees/README.md."""
    row = r"^\| (B\+-tree|CO B-tree) \| (\d+) \| (\d+), (\d+) \| (\d+) \|$"
    rows = re.findall(row, text, re.MULTILINE)
    return {tree: [int(each) for each in numbers] for tree, *numbers in rows}


def check_trees(root):
    """examples/trees/README.md counts what lines_changed.py counts."""
    use_modules(root, PAPER)
    import lines_changed
    with open(os.path.join(root, "examples", "trees", "README.md"), encoding="utf-8") as file:
        said = tree_rows(file.read())
    counted = {
        row["tree"]: [0, row["lines_added"], row["lines_removed"], row["calls_added"]]
        for row in lines_changed.count(root)
    }
    if said == counted:
        return []
    return [f"examples/trees/README.md says {said}, lines_changed.py counts {counted}"]


def check_numbers(root):
    folder = os.path.join(root, PAPER)
    use_modules(root, PAPER)
    import readme_numbers

    problems = []
    blocks = 0
    for path in readme_numbers.files(root, folder):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        blocks += len(readme_numbers.BLOCK.findall(text))
        try:
            is_so = (
                readme_numbers.rewritten(text, lambda name: readme_numbers.results_in(folder, name))
                == text
            )
        except readme_numbers.NoResults as error:
            return [str(error)]
        if not is_so:
            problems.append(f"{path}: its tables are not those of its results: reproduce --numbers")
    return (
        problems
        if blocks >= len(readme_numbers.WRITERS)
        else problems + ["the documents lack tables of the full run"]
    )


def run(root, paper, benches, out):
    command = [
        sys.executable,
        "-B",
        os.path.join(root, paper, "reproduce"),
        "--quick",
        "--tiny",
        "--build",
        benches,
        "--out",
        out,
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    print(answer.stdout, end="")
    return answer


def is_without_plots(page):
    return "has no matplotlib" in html.unescape(page)


def lacking_files(out, experiments):
    """Of each experiment of a run: rows, configuration hash, CSV, environment."""
    problems = []
    for name in experiments:
        with open(os.path.join(out, name + ".json"), encoding="utf-8") as file:
            result = json.load(file)
        if (
            not result["rows"]
            or not result["reproduce"]["config_hash"]
            or os.path.getsize(os.path.join(out, name + ".csv")) == 0
        ):
            problems.append(f"{name}: no rows, configuration hash or CSV")
        if (
            "environment" in result
            and not {"commit", "compiler", "cpu", "kernel", "file_system"}
            <= result["environment"].keys()
        ):
            problems.append(f"{name}: its environment is not described")
    return problems


def check_paper(root, paper, benches, out, names, plots_min):
    """Runs a paper's experiments: (problems, what was printed, the page, experiment -> result).
    names: what the page must name."""
    shutil.rmtree(out, ignore_errors=True)
    answer = run(root, paper, benches, out)
    if answer.returncode != 0:
        return [f"reproduce ended with {answer.returncode}: {answer.stderr}"], "", "", {}
    with open(os.path.join(out, "report.html"), encoding="utf-8") as file:
        page = file.read()
    problems = [
        f"the page does not name {name}"
        for name in names
        if not re.search(re.escape(name) + r"(?!\d)", page)
    ]
    if page.count("<svg") < plots_min and not is_without_plots(page):
        problems.append(f"the page has {page.count('<svg')} plots")
    problems += re.findall(r"<p><b>[^<]*</b>: not run\.</p>", page)
    with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
        experiments = json.load(file)["experiments"]
    problems += lacking_files(out, experiments)
    again = run(root, paper, benches, out)
    if again.returncode != 0 or again.stdout.count("done before") != len(experiments):
        problems.append("the same command again runs finished experiments anew")
    return problems, answer.stdout, page, results_in(out, experiments)


def check_run(root, benches, out):
    problems, printed, _, results = check_paper(
        root, PAPER, benches, out, TABLES + FIGURES, PLOTS_MIN
    )
    if not results:
        return problems
    if "cost model" not in printed or "write cache" not in printed:
        problems.append("reproduce prints no cost model, or no write cache")
    return problems + lacking_rows(results)


def misfits():
    """A cost model that is fitted to its own numbers, and to what does not determine one."""
    import cost_model

    right = (2, 5, 30)
    pages = (0, 1, 64)
    problems = []
    for of_writers in (False, True):
        points = [
            (r, w, right[0] * r + right[1] * w + (right[2] if w or not of_writers else 0))
            for r in pages[of_writers:]
            for w in (0, 1, 256)
        ]
        abc = cost_model.fit(points, of_writers)
        if not abc or any(abs(found - each) > 1e-6 for found, each in zip(abc, right)):
            problems.append(f"a cost model is misfitted (of writers: {of_writers}): {abc}")
    if cost_model.fit([(1, 0, 1.0), (2, 0, 2.0)]) is not None:
        problems.append("a cost model is fitted to what does not determine it")
    return problems


def misread_caches():
    """What a made-up sysfs says of a folder's device."""
    import write_cache

    problems = []
    with tempfile.TemporaryDirectory() as folder:
        if not write_cache.of_folder(folder, folder).startswith("unknown"):
            problems.append("a write cache is known of no device")
        device = os.stat(folder).st_dev
        name = f"{os.major(device)}:{os.minor(device)}"
        queue = os.path.join(folder, "dev", "block", name, "queue")
        os.makedirs(queue)
        with open(os.path.join(queue, "write_cache"), "w", encoding="utf-8") as file:
            file.write("write back\n")
        if write_cache.of_folder(folder, folder) != "write back":
            problems.append("a device's write cache is misread")
    return problems


def self_test():
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        open(os.path.join(folder, "there"), "w", encoding="utf-8").close()
        if broken_links(folder, "[a](there) [b](https://example.org/x)") != []:
            problems.append("a good link is reported")
        if len(broken_links(folder, "[a](there) [b](nowhere#part)")) != 1:
            problems.append("a broken link is not reported")
    use_modules(source_tree.OWN_ROOT, PAPER)
    import readme_numbers

    lines = {
        "lines-changed": {
            "rows": [{
                "section": "lines",
                "tree": "oak",
                "serial_lines": 1,
                "lines_added": 2,
                "lines_removed": 3,
                "calls_added": 4,
                "calls_of_the_thesis": 5,
            }]
        }
    }
    for folder in ("full", "other"):
        block = "lines-changed" if folder == "full" else f"lines-changed {folder}"
        written = readme_numbers.rewritten(
            f"a\n<!-- numbers {block} -->\nstale\n<!-- end of numbers -->\nb", {folder: lines}.get
        )
        if (
            "| oak | 1 | 2 | 3 | 4 | 5 |" not in written
            or "stale" in written
            or not (written.startswith("a\n") and written.endswith("-->\nb"))
        ):
            problems.append("a document's table is not written anew")
    paper = os.path.dirname(os.path.dirname(readme_numbers.__file__))
    for misspelt, expected in (
        ("<!-- numbers nothing -->", KeyError),
        ("<!-- numbers lines-changed nowhere -->", readme_numbers.NoResults),
    ):
        try:
            readme_numbers.rewritten(
                misspelt + "\n<!-- end of numbers -->",
                lambda name: readme_numbers.results_in(paper, name),
            )
            problems.append(f"{misspelt} is written")
        except Exception as error:  # noqa: BLE001: which one?
            if type(error) is not expected:
                problems.append(f"{misspelt} is told as {error!r}")
    every = {}
    for experiment, has in (pair for wanted in EVIDENCE.values() for pair in wanted):
        every.setdefault(experiment, {"rows": [], "environment": {"cpu": "x"}})["rows"].append(has)
    if lacking_rows(every):
        problems.append("results with every row are refused")
    every["trees-static"]["rows"] = []
    if len(lacking_rows(every)) != 1:
        problems.append("a table without a row is not found")
    with tempfile.TemporaryDirectory() as root:
        for folder in ("examples/libxac", "tests/libxac"):
            os.makedirs(os.path.join(root, folder))
        names = [name for each in PROGRAMS.values() for name in each]
        for name in names[1:]:
            program = os.path.join(root, "examples/libxac", f"figure_{name}.c")
            open(program, "w", encoding="utf-8").close()
        test = os.path.join(root, "tests", "libxac", "libxac_figures_test.cpp")
        with open(test, "w", encoding="utf-8") as file:
            file.write(" ".join(f'"figure_{re.sub("_[ab]$", "", name)}"' for name in names[:-2]))
        if len(lacking_programs(root, [])) != 3:
            problems.append("a figure without its program or test is not found")
    problems += misfits() + misread_caches()
    counts = tree_rows("| B+-tree | 0 | 2, 3 | 4 |\n| oak | 0 | 2, 3 | 4 |\n")
    if counts != {"B+-tree": [0, 2, 3, 4]}:
        problems.append("counts of lines are misread")
    if names_in_text("tables 4.3 to 4.5, C.10") != {"4.3", "4.4", "4.5", "C.10"}:
        problems.append("tables are misread")
    return problems


def main(paper, check_itself, check_text, check_benches):
    arguments = sys.argv[1:]
    if arguments == ["--self-test"]:
        problems = check_itself()
    elif arguments[0] == "--links":
        problems = check_text(arguments[1])
    else:
        problems = check_benches(
            arguments[0],
            arguments[arguments.index("--benches") + 1],
            arguments[arguments.index("--out") + 1],
        )
    print("\n".join(problems) or f"{paper}: fine")
    return 1 if problems else 0


def check_texts(root):
    return check_links(root) + check_trees(root) + check_numbers(root)


if __name__ == "__main__":
    sys.exit(main("papers", self_test, check_texts, check_run))
