#!/usr/bin/env python3
"""libtp.py <root> --benches DIR --out DIR | --links <root> | --self-test -- papers/libtp keeps its
promises.

--benches  `reproduce --quick` with tiny inputs writes JSON and CSV for every experiment, and a page
           with plots that names every figure and table; the same command again runs nothing twice.
--links    every link of its README leads to a file, and every experiment is named there.
"""

import os
import re
import sys

import papers
import source_tree

PAPER = os.path.join("papers", "libtp")
FIGURES = [f"Figure {i}" for i in (4, 5, 6, 7, 8, 9)] + ["Table 2", "Table 3"]
PLOTS_MIN = 8
# Each figure: the experiment, and what a row of its result has.
EVIDENCE = {
    "Figure 4": ("command", {"section": "command", "way": "components"}),
    "Figure 4, server": ("command", {"section": "command", "way": "record, server"}),
    "Opens": ("command", {"section": "opens", "code": "private files"}),
    "Figure 5": ("latches", {"section": "calls", "what": "read-only", "latch": "semop"}),
    "Figure 6, LIBTP": ("single-user", {"variant": "records", "durability": "synced"}),
    "Figure 6, NOTP": ("single-user", {"variant": "private files", "durability": "volatile"}),
    "Figure 6, FLOCK": ("single-user", {"variant": "flock", "durability": "volatile"}),
    "Figure 6, FSYNC": ("single-user", {"variant": "fsync", "durability": "synced"}),
    "Figure 6, disk bound": ("disk-bound", {"variant": "records", "durability": "synced"}),
    "Figure 6, disk bound, NOTP": ("disk-bound-unprotected", {"variant": "private files"}),
    "Figure 7": ("multi-user", {"variant": "records", "processes": 2}),
    "Figure 8, READ-ONLY": ("read-only", {"variant": "records", "processes": 2}),
    "Figure 8, NO-FSYNC": ("no-fsync", {"variant": "records", "processes": 2}),
    "Tables 2, 3": ("oo1", {"contestant": "B-trees", "operation": "backward"}),
    "Tables 2, 3, pointers": ("oo1", {"contestant": "pointers", "operation": "insert"}),
    "TPC-B at lines": ("everyone", {"variant": "lines", "processes": 2}),
    "TPC-B at pages": ("everyone", {"variant": "pages, locking", "durability": "synced"}),
}


def lacking_rows(results, skipped=()):
    return papers.lacking_evidence(
        [(name, *pair) for name, pair in EVIDENCE.items() if pair[0] not in skipped], results
    )


def check_run(root, benches, out):
    problems, printed, page, results = papers.check_paper(
        root, PAPER, benches, out, FIGURES, PLOTS_MIN
    )
    if not results:
        return problems
    if "wanted" not in printed or "Wanted of this project" not in page:
        problems.append("nothing is said of what was wanted")
    return problems + lacking_rows(results, re.findall(r"^(\S+) +SKIPPED", printed, re.MULTILINE))


def check_links(root):
    folder = os.path.join(root, PAPER)
    with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
        text = file.read()
    papers.use_modules(root, PAPER)
    import experiments

    return papers.broken_links(folder, text) + papers.unnamed_experiments(
        text, experiments.EXPERIMENTS
    )


def misjudged_wishes():
    """Of made-up results."""
    papers.use_modules(source_tree.OWN_ROOT, PAPER)
    import figures_page

    def results(of_notp, of_fsync):
        rates = {("records", "synced"): of_notp, ("private files", "volatile"): 1.0,
                 ("fsync", "synced"): of_notp / of_fsync}
        return {"single-user": {"rows": [
            {"variant": variant, "durability": durability, "processes": 1, "per_second": rate}
            for (variant, durability), rate in rates.items()
        ]}}

    problems = []
    if [met for *_, met in figures_page.wishes(results(0.84, 1.71))] != ["met"] * 2:
        problems.append("wishes that are met are missed, or what is not there is judged")
    if [met for *_, met in figures_page.wishes(results(0.82, 1.69))] != ["missed"] * 2:
        problems.append("wishes that are missed are met")
    if figures_page.wishes({}):
        problems.append("wishes of nothing are judged")
    return problems


def self_test():
    problems = misjudged_wishes()
    every = {}
    for experiment, has in EVIDENCE.values():
        every.setdefault(experiment, {"rows": []})["rows"].append(has)
    if lacking_rows(every):
        problems.append("results with every row are refused")
    every["latches"]["rows"] = []
    if len(lacking_rows(every)) != 1:
        problems.append("a figure without a row is not found")
    if lacking_rows(every, ["latches"]):
        problems.append("what cannot be had here is missed")
    return problems


if __name__ == "__main__":
    sys.exit(papers.main("libtp", self_test, check_links, check_run))
