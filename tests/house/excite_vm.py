#!/usr/bin/env python3
"""excite_vm.py <root> --benches DIR --out DIR | --links <root> | --self-test -- papers/excite-vm
keeps its promises.

--benches  `reproduce --quick` with tiny inputs writes JSON and CSV for every experiment, and a page
           with plots that names every figure; the same command again runs nothing twice; bad
           options are refused.
--links    every link of its README leads to a file, every section of the paper and every experiment
           is named there, and the code that it names is there.
"""

import os
import re
import subprocess
import sys
import tempfile

import papers
import source_tree

PAPER = os.path.join("papers", "excite-vm")
FIGURES = [f"Figure {i}" for i in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)]
SECTIONS = (
    "2.1 2.2 3 3.1 3.2 3.3 3.4 4.1 4.2 4.3 4.4 4.5 4.6 5.1 5.2 5.3 6.1 6.2.1 6.2.2 6.2.3 6.2.4 "
    "6.2.5 6.2.6 7"
).split()
PLOTS_MIN = 12  # without those of compiled programs
# Each figure: the experiment, and what a row of its result has.
EVIDENCE = {
    "Figure 2, list": ("list", {"section": "list", "contestant": "tmh-snapshot"}),
    "Figure 2, bank": ("bank", {"contestant": "tmh-snapshot", "writers": 1, "readers": 1}),
    "Figure 4": ("page-cache", {"policy": "adaptive", "processes": 1}),
    "Figure 5": ("page-cache", {"policy": "all", "processes": 2}),
    "Figure 6": ("ablation", {"section": "ablation", "mechanism": "vectors"}),
    "Figures 7 to 9": ("reservations", {"contestant": "tmh-snapshot", "scan_rows": 0}),
    "Figure 11": ("ycsb", {"contestant": "tmh-snapshot", "workload": "a"}),
    "Figure 12": ("ycsb", {"contestant": "lock", "workload": "e"}),
    "Figure 3": ("stamp", {"contestant": "gcc ml_wt", "case": "gene_assembly", "threads": 2}),
    "Figure 3, method pages": ("stamp", {"contestant": "pages-serializable", "case": "mesh"}),
    "Figure 10": ("cache-server", {"contestant": "mutex", "case": "cache/gets"}),
    "Figure 10, method pages": ("cache-server", {"contestant": "pages", "case": "cache/sets"}),
    "Figure 11, compiled": ("ycsb-compiled", {"contestant": "gcc ml_wt", "case": "ycsb/A"}),
    "Figure 12, method pages": ("ycsb-compiled", {"contestant": "pages", "case": "ycsb/E"}),
    "Faults": ("faults", {"contestant": "gcc ml_wt", "server": "SIGSEGV"}),
    "Faults, method pages": ("faults", {"contestant": "pages", "faults": 12, "lost": 0}),
}
BAD_OPTIONS = (["--full", "--quick"], ["--full", "--tiny"], ["no-such-figure"], ["--rounds", "3"])


def impossible(out, printed):
    """Of the evidence, what cannot be had here: the reproduction has said why."""
    skipped = re.findall(r"^(\S+) +SKIPPED", printed, re.MULTILINE)
    names = [name for name, (experiment, _) in EVIDENCE.items() if experiment in skipped]
    said = os.path.join(out, "stamp.txt")
    if os.path.exists(said):
        with open(said, encoding="utf-8") as file:
            if re.search(r"^left out: (pages: |our libitm)", file.read(), re.MULTILINE):
                names += [name for name in EVIDENCE if name.endswith("method pages")]
    return names


def lacking_rows(results, left_out=()):
    return papers.lacking_evidence(
        [(name, *pair) for name, pair in EVIDENCE.items() if name not in left_out], results
    )


def check_run(root, benches, out):
    problems, printed, page, results = papers.check_paper(
        root, PAPER, benches, out, FIGURES, PLOTS_MIN
    )
    if not results:
        return problems
    if "wanted" not in printed or "Wanted of this project" not in page:
        problems.append("nothing is said of what was wanted")
    for bad in BAD_OPTIONS:
        answer = subprocess.run(
            [sys.executable, "-B", os.path.join(root, PAPER, "reproduce"), *bad],
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 2 or "usage:" not in answer.stderr:
            problems.append(f"reproduce takes {bad}")
    return problems + lacking_rows(results, impossible(out, printed))


def unnamed_sections(text):
    """Of the paper, in the first cells of the README's tables; "6.2.5" does not name 6.2."""
    cells = re.findall(r"^\| ([^|]*) \|", text, re.MULTILINE)
    named = {section for cell in cells for section in re.findall(r"(?<![\d.])\d(?:\.\d)*", cell)}
    return [f"README: section {section} is not named" for section in SECTIONS
            if section not in named]


def lacking_code(root, text):
    """Files in backquotes that are not there: `levels/page/touch/replay`, with an ending or not."""
    problems = []
    for name in re.findall(r"`((?:[a-z_]+/)+[a-z_*]+(?:\.[a-z]+)?)`", text):
        if name.endswith("*"):
            continue
        if not any(os.path.exists(os.path.join(root, name + end)) for end in ("", ".h", ".cpp")):
            problems.append(f"README: there is no {name}")
    return problems


def check_links(root):
    folder = os.path.join(root, PAPER)
    with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
        text = file.read()
    papers.use_modules(root, PAPER)
    import figures

    problems = papers.broken_links(folder, text) + unnamed_sections(text)
    problems += lacking_code(root, text)
    return problems + papers.unnamed_experiments(text, figures.EXPERIMENTS)


def misjudged_wishes():
    """Of made-up results."""
    papers.use_modules(source_tree.OWN_ROOT, PAPER)
    import figures_page

    def results(speed, retried, slowdown):
        bank = {"contestant": "tmh-snapshot", "writers": 1, "readers": 1, "query_speed": speed,
                "times_libitm_queries": "", "queries_retried": retried}
        oltp = {"contestant": "tmh-snapshot", "scan_rows": 100000, "oltp_slowdown": slowdown}
        return {"bank": {"rows": [bank]}, "reservations": {"rows": [oltp]}}

    problems = []
    if [met for *_, met in figures_page.wishes(results(0.6, 0, 1.3))] != ["met"] * 3:
        problems.append("wishes that are met are missed, or libitm's absence is judged")
    if [met for *_, met in figures_page.wishes(results(0.59, 1, 1.31))] != ["missed"] * 3:
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
    every["bank"]["rows"] = []
    if len(lacking_rows(every)) != 1:
        problems.append("a figure without a row is not found")
    if len(lacking_rows(every, ["Figure 2, bank"])) != 0:
        problems.append("what cannot be had here is missed")
    rows = "".join(f"| {section} x | y |\n" for section in SECTIONS)
    if unnamed_sections(rows) or len(unnamed_sections(rows.replace("| 6.2.5 x", "| x"))) != 1:
        problems.append("sections are misread")
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "levels", "page", "touch"))
        planted = os.path.join(root, "levels", "page", "touch", "replay.h")
        open(planted, "w", encoding="utf-8").close()
        if lacking_code(root, "`levels/page/touch/replay` `f()` `levels/page/touch/replay.h`"):
            problems.append("code that is there is missed")
        if len(lacking_code(root, "`levels/page/reply`")) != 1:
            problems.append("code that is not there is not missed")
    return problems


if __name__ == "__main__":
    sys.exit(papers.main("excite-vm", self_test, check_links, check_run))
