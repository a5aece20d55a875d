"""readme_numbers.py -- tables of documents, as Markdown, from the results of a full run.

A document holds blocks between `<!-- numbers NAME -->` and `<!-- end of numbers -->`; `reproduce
--numbers` writes them anew, and the test suite compares them with what it would write. `<!--
numbers NAME FOLDER -->`: of another run, results/FOLDER.
"""
import json
import os
import re
import textwrap

from experiments import EXPERIMENTS
from svg import number

BLOCK = re.compile(r"(<!-- numbers (\S+)(?: (\S+))? -->\n)(.*?)(<!-- end of numbers -->)",
                   re.DOTALL)
OURS = {
    "tmh-bptree": "tmh, B+-tree", "tmh-cobtree": "tmh, cache-oblivious B-tree",
    "tmh-snapshot-bptree": "tmh, B+-tree, snapshot isolation",
    "tmh-hybrid-bptree": "tmh, B+-tree, hybrid domain",
    "tmh-hybrid-cobtree": "tmh, cache-oblivious B-tree, hybrid domain",
    "tmh-fields-bptree": "tmh, B+-tree of fields, hybrid domain",
    "tmh-fields-cobtree": "tmh, cache-oblivious B-tree of fields, hybrid domain",
    "thesis-bptree": "B+-tree on the thesis's mechanism",
    "thesis-cobtree": "cache-oblivious B-tree on the thesis's mechanism",
    "bdb-thesis": "Berkeley DB 5.3, the thesis's cache", "bdb-tuned": "Berkeley DB 5.3, tuned",
    "lmdb": "LMDB", "lmdb-writemap": "LMDB, `MDB_WRITEMAP`", "sqlite": "SQLite, WAL",
    "sqlite-tuned": "SQLite, WAL, tuned"
}

COLUMNS = 100  # of a document


class NoResults(Exception):
    """A run, or an experiment of the full run, is not there. No LookupError: a misspelt block or a
    row without its cell is one."""


class Results:
    """Experiment name -> result, as `reproduce` wrote it."""

    def __init__(self, results):
        self.results = results

    def rows(self, experiment, section, **wanted):
        return [
            row for row in self.results[experiment]["rows"]
            if row.get("section") == section and all(
                row.get(key) == value for key, value in wanted.items())
        ]

    def one(self, experiment, section, **wanted):
        found = self.rows(experiment, section, **wanted)
        return found[0] if found else None

    def parameter(self, experiment, name):
        return self.results[experiment]["parameters"][name]


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + [
        "| " + " | ".join(cell if isinstance(cell, str) else number(cell)
                          for cell in row) + " |"
        for row in rows
    ]) + "\n"


def value(row, key):
    return row[key] if row and key in row else None


def ratio(ours, theirs, key):
    mine, other = value(ours, key), value(theirs, key)
    return mine / other if mine is not None and other else None


def setup(results):
    """Where and when: said once, above all tables."""
    environment = next(r["environment"] for r in results.results.values() if "environment" in r)
    commits = sorted(
        {r["environment"]["commit"] for r in results.results.values() if "environment" in r})
    seconds = sum(r["reproduce"]["seconds"] for r in results.results.values())
    text = (f"{environment['cpu']}, {environment['cores']} cores, RTM {environment['rtm']}; "
            f"{environment['kernel']}, {environment['file_system']}; "
            f"{environment['compiler']} {environment['flags'].strip()}; "
            f"built from {', '.join(commits)}; {number(seconds / 60)} minutes in all.")
    return textwrap.fill(text, COLUMNS, break_on_hyphens=False) + "\n"


def page_touch(results):
    most = max(row["read_pages"] for row in results.rows("page-touch", "touch", pattern="hot"))
    shapes = [(1, 0), (0, 1), (16, 16), (most, 0), (0, most)]
    rows = []
    for pattern in ("hot", "cold"):
        for variant in dict.fromkeys(
                row["variant"] for row in results.rows("page-touch", "touch", pattern=pattern)):
            cells = [
                value(
                    results.one("page-touch",
                                "touch",
                                pattern=pattern,
                                variant=variant,
                                read_pages=read,
                                write_pages=written,
                                advice="none"), "us_per_transaction_median")
                for read, written in shapes
            ]
            rows.append([
                pattern + ", " + ("the thesis's mechanism" if variant == "thesis" else variant)
            ] + cells)
    return table(["us per transaction"] +
                 [f"{read} read, {written} written" for read, written in shapes], rows)


def concurrency(results):
    rows = []
    for mode in dict.fromkeys(row["mode"] for row in results.rows("concurrency", "table-4.9")):
        cells = []
        for test in "ABC":
            pair = [
                results.one("concurrency",
                            "table-4.9",
                            mode=mode,
                            test=test,
                            advised=False,
                            processes=processes) for processes in (1, 2)
            ]
            cells.append(" / ".join(
                number(value(row, "us_per_transaction_median")) for row in pair) +
                         f" ({number(value(pair[1], 'speedup_median'))})")
        rows.append([mode] + cells)
    rows.append([
        "thesis, machine 2 (advised)", "26.2 / 23.0 (1.14)", "28.3 / 24.2 (1.17)",
        "1,786 / 903 (1.98)"
    ])
    return table(
        ["us per transaction, 1 / 2 processes (times as fast)", "test A", "test B", "test C"], rows)


def durable_page_touch(results):
    rows = []
    for durability in ("none", "buffered", "strict"):
        for row in results.rows("durable-page-touch",
                                "table-4.7",
                                durability=durability,
                                advice="none",
                                read_pages=0):
            rows.append([
                f"{durability}, {row['write_pages']:,}", row["us_per_transaction_median"],
                row["floor_us_median"], row["log_bytes_per_transaction"]
            ])
    return table([
        "durability, pages written", "us per transaction", "floor: so many pages synced",
        "log bytes"
    ], rows)


def serial_trees(results):
    rows = []
    for experiment, key, what in (("trees-static", "us_per_search", "search that misses memory"),
                                  ("trees-dynamic", "us_per_insert", "random insert"),
                                  ("trees-dynamic", "us_per_scanned", "record scanned"),
                                  ("trees-dynamic", "us_per_search", "random search"),
                                  ("trees-in-order", "us_per_insert", "insert in order")):
        section = experiment.removeprefix("trees-")
        found = [row for row in results.rows(experiment, section) if value(row, key) is not None]
        oblivious = next((row for row in found if row["tree"] == "CO B-tree"), None)
        blocks = [row for row in found if row["tree"].startswith("B+-tree")]
        best = min(blocks, key=lambda row: row[key])
        worst = max(blocks, key=lambda row: row[key])
        rows.append([
            what,
            value(oblivious,
                  key), f"{number(best[key])} ({best['tree'].removeprefix('B+-tree, ')})",
            f"{number(worst[key])} ({worst['tree'].removeprefix('B+-tree, ')})"
        ])
    return table(["us", "cache-oblivious B-tree", "best B+-tree", "worst B+-tree"], rows)


def inserts(results, experiment):
    """Tables 5.5 and C.11."""
    rows = []
    found = results.rows(experiment, "commit")
    for contestant in dict.fromkeys(row["contestant"] for row in found):
        one, two = (next(
            (row for row in found if row["contestant"] == contestant and row["processes"] == p),
            None) for p in (1, 2))
        if one is None:
            continue
        both = lambda key: f"{number(value(one, key))} / {number(value(two, key))}"  # noqa: E731
        rows.append([
            OURS.get(contestant, contestant),
            both("us_median"),
            both("us_mean"),
            both("us_p999"),
            both("commits_per_s_median"),
            value(one, "log_bytes_per_commit") or "-",
            both("retries_per_commit")
        ])
    return table([
        "1 / 2 processes", "median us", "mean us", "99.9 %", "inserts/s of all", "log bytes",
        "aborts per insert"
    ], rows)


def wish(what, measured, bound, at_most):
    if measured is None:
        return [what, "-", "-", "not run"]
    is_met = measured <= bound if at_most else measured >= bound
    return [
        what, f"{'<=' if at_most else '>='} {bound}", measured, "met" if is_met else "**missed**"
    ]


def wishes_durable(results):
    found = results.rows("trees-durable", "commit")
    at = lambda name, p: next(  # noqa: E731
        (row for row in found if row["contestant"] == name and row["processes"] == p), None)
    floor = next((row for row in found if row["is_floor"] and row["processes"] == 1), None)
    rows = []
    for tree, bound in (("tmh-bptree", 1.1), ("tmh-cobtree", 1.3), ("tmh-fields-bptree", 1.1),
                        ("tmh-fields-cobtree", 1.3)):
        # a run from before there were trees of fields
        if tree.startswith("tmh-fields") and not at(tree, 1):
            continue
        one, two, rival, rival_two = at(tree, 1), at(tree, 2), at("bdb-tuned",
                                                                  1), at("bdb-tuned", 2)
        rows += [
            wish(f"{OURS[tree]}: median of the floor's", ratio(one, floor, "us_median"), bound,
                 True),
            wish(f"{OURS[tree]}: median of Berkeley DB's", ratio(one, rival, "us_median"), 1.0,
                 True),
            wish(f"{OURS[tree]}, 2 processes: inserts/s of Berkeley DB's",
                 ratio(two, rival_two, "commits_per_s_median"), 2.0, False),
            wish(f"{OURS[tree]}, 2 processes: inserts/s of 1 process's",
                 ratio(two, one, "commits_per_s_median"), 1.5, False),
            wish(f"{OURS[tree]}: 99.9 % of Berkeley DB's", ratio(one, rival, "us_p999"), 1.0, True),
            wish(f"{OURS[tree]}, 2 processes: 99.9 % of Berkeley DB's",
                 ratio(two, rival_two, "us_p999"), 1.0, True),
            wish(f"{OURS[tree]}: log bytes of Berkeley DB's",
                 ratio(one, rival, "log_bytes_per_commit"), 0.6, True)
        ]
    return table(["wish", "bound", "measured", ""], rows)


def wishes_nondurable(results):
    found = results.rows("trees-nondurable", "commit")
    key = "commits_per_s_median"
    at = lambda name, p: next(  # noqa: E731
        (row for row in found if row["contestant"] == name and row["processes"] == p), None)
    rows = []
    kinds = [kind for kind in ("hybrid", "fields") if at(f"tmh-{kind}-bptree", 1)]
    all_trees = ["tmh-bptree", "tmh-cobtree"
                ] + [f"tmh-{kind}-{tree}" for kind in kinds for tree in ("bptree", "cobtree")]
    for p, words in ((1, "1 process"), (2, "2 processes")):
        rival = at("bdb-tuned", p)
        lmdb = max((row for row in (at("lmdb", p), at("lmdb-writemap", p)) if row),
                   key=lambda row: row[key],
                   default=None)
        for tree in all_trees:
            rows.append(
                wish(f"{OURS[tree]}, {words}: inserts/s of Berkeley DB's",
                     ratio(at(tree, p), rival, key), 1.0, False))
        for tree in ["tmh-bptree"] + [f"tmh-{kind}-bptree" for kind in kinds]:
            rows.append(
                wish(f"{OURS[tree]}, {words}: inserts/s of the better LMDB's",
                     ratio(at(tree, p), lmdb, key), 1.0, False))
        for name, tree in (
            (f"tmh-{kind}-{tree}", tree) for kind in kinds for tree in ("bptree", "cobtree")):
            rows.append(
                wish(f"{OURS[name]}, {words}: inserts/s of pages only",
                     ratio(at(name, p), at("tmh-" + tree, p), key), 1.0, False))
    for tree in all_trees:
        rows.append(
            wish(f"{OURS[tree]}: inserts/s of 2 processes, of 1's",
                 ratio(at(tree, 2), at(tree, 1), key), 1.0, False))
    return table(["wish", "bound", "measured", ""], rows)


def policies(results):
    rows = []
    for row in results.rows("policies", "bank", processes=2):
        rows.append([
            f"{row['mode']}, {row['policy'] or '-'}, {row['backoff'] or '-'}",
            row["commits_per_s_median"], row["aborts_per_commit_median"],
            str(row["attempts_max"])
        ])
    return table([
        "2 processes: detection by, policy, backoff", "commits/s", "aborts per commit",
        "most attempts"
    ], rows)


def transfers(results):
    rows = []
    found = results.rows("transfers", "search-transfers")
    for tree in dict.fromkeys(row["tree"] for row in found):
        mine = {row["block_bytes"]: row for row in found if row["tree"] == tree}
        rows.append([tree] + [
            value(mine.get(block), "transfers_per_search")
            for block in sorted({row["block_bytes"] for row in found})
        ])
    return table(["blocks moved per search, by block bytes"] +
                 [f"{block:,}" for block in sorted({row["block_bytes"] for row in found})], rows)


def lines_changed(results):
    return table([
        "tree", "lines of the serial program", "added", "removed", "library calls", "the thesis's"
    ], [[
        row["tree"],
        str(row["serial_lines"]),
        str(row["lines_added"]),
        str(row["lines_removed"]),
        str(row["calls_added"]),
        str(row["calls_of_the_thesis"])
    ] for row in results.rows("lines-changed", "lines")])


WRITERS = {
    "setup": setup, "page-touch": page_touch, "concurrency": concurrency,
    "durable-page-touch": durable_page_touch,
    "serial-trees": serial_trees, "lines-changed": lines_changed,
    "durable-inserts": lambda results: inserts(results, "trees-durable"),
    "durable-wishes": wishes_durable,
    "nondurable-inserts": lambda results: inserts(results, "trees-nondurable"),
    "nondurable-wishes": wishes_nondurable, "policies": policies, "transfers": transfers
}


def results_in(here, folder):
    """Experiment name -> result, of the run in results/<folder>. NoResults: the full run lacks one;
    of another run, it is not there."""
    results = {}
    for each in EXPERIMENTS:
        path = os.path.join(here, "results", folder, each.name + ".json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                results[each.name] = json.load(file)
        elif folder == "full":
            raise NoResults(f"results/full lacks {each.name}")
    if not results:
        raise NoResults(f"results/{folder} is not there")
    return results


def rewritten(text, results_of):
    """The text with its blocks as the results have them. results_of(folder): experiment name ->
    result. An unknown block's name is a KeyError."""
    return BLOCK.sub(
        lambda block: block[1] + WRITERS[block[2]]
        (Results(results_of(block[3] or "full"))) + block[5], text)


def files(root, here):
    """The documents that may hold blocks."""
    return [os.path.join(here, "README.md")]
