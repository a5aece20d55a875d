"""report.py -- one HTML page from the results of the experiments: the thesis's tables, the same
here, plots."""
import html

import cost_model
from page import Page, ordered
from svg import bars, lines
from thesis import MACHINES, TABLES


def statistics_rows(rows, name):
    return [[
        row[name], row["mean"], row["standard_deviation"], row["min"], row["median"], row["p99"],
        row["max"]
    ] for row in rows]


STATISTICS = ["operation", "mean", "st. dev.", "min", "median", "99 %", "max"]


def machine(page, environment):
    page.heading("4.1 and appendix C: the machine")
    page.theirs("Table 4.1")
    page.ours("Here", ["what", "value"], [[key, str(value)] for key, value in environment.items()])
    page.theirs("Table C.1", "Table C.2")
    page.ours(
        "C.1 and C.2 here, cycles and us", STATISTICS,
        statistics_rows(
            [r for r in page.rows("machine", "machine") if r["table"] in ("C.1", "C.2")],
            "operation"))
    page.theirs("Table C.7")
    page.ours(
        "C.7 here, us", STATISTICS,
        statistics_rows([r for r in page.rows("machine", "machine") if r["table"] == "C.7"],
                        "operation"))
    page.theirs("Table C.8")
    page.ours(
        "C.8 here: CRC32C of a page as the redo log computes it, kilocycles", STATISTICS,
        statistics_rows([r for r in page.rows("machine", "machine") if r["table"] == "C.8"],
                        "operation"))
    page.ours("C.8 here: SHA1 and MD5 of a page by OpenSSL, us", STATISTICS,
              statistics_rows(page.rows("hashes", "hashes"), "operation"))
    page.differs(
        "our log's checksum is CRC32C: it tells torn writes from whole ones; it need not resist an "
        "attacker."
    )


def page_touch(page):
    page.heading("4.2 Page touches, nondurable: figures 4-2, 4-4, C-2 to C-4, tables 4.2 to 4.6")
    touched = page.rows("page-touch", "touch", pattern="hot")
    variants = ordered(row["variant"] for row in touched)
    for what, other in (("read_pages", "write_pages"), ("write_pages", "read_pages")):
        for advice, figure in (("none", "4-2"), ("per-page", "4-4")):
            series = {
                ("thesis's mechanism" if v == "thesis" else "tmh " + v): [
                    (r[what], r["us_per_page_median"])
                    for r in touched
                    if r["variant"] == v and r[other] == 0 and r[what] and r["advice"] == advice
                ] for v in variants
            }
            page.plot(
                lines(
                    f"Figure {figure}: us per page {'read' if what == 'read_pages' else 'written'}"
                    f"{', advised' if advice != 'none' else ''}", "pages in the transaction",
                    "us per page", series, True, True))
    page.theirs("Table 4.2")
    most = max([row["read_pages"] for row in touched] or [0])
    rows = []
    for v in variants:
        cells = [v]
        for what, other in (("read_pages", "write_pages"), ("write_pages", "read_pages")):
            for advice in ("none", "per-page"):
                hit = [
                    r["us_per_page_median"] for r in touched if r["variant"] == v and
                    r[what] == most and r[other] == 0 and r["advice"] == advice
                ]
                cells.append(hit[0] if hit else "-")
        rows.append(cells)
    page.ours(f"4.2 and 4.6 here: us per page, {most:,} pages",
              ["variant", "read", "advised", "write", "advised"], rows)
    page.theirs("Table 4.3", "Table 4.4", "Table 4.5")
    primitives = page.rows("page-touch", "primitive")
    page.ours("4.3 to 4.5, C.3 and C.4 here, us",
              ["operation", "thesis table", "median", "min", "max"], [[
                  r["operation"], r["thesis_table"],
                  r.get("us_median", "-"),
                  r.get("us_min", "-"),
                  r.get("us_max", "-")
              ] for r in primitives])
    page.theirs("Table 4.6", "Table C.3", "Table C.4")
    page.differs(
        "the estimate of table 4.6 is printed by bench/page_touch for the thesis's mechanism; our "
        "engine takes no signal and no mmap for a page."
    )


def model(page):
    page.heading("4.2 and 4.3 The cost model: aR + bW + c")
    page.ours("Fitted here, us (R pages read, W written)", ["transactions", "a", "b", "c"],
              cost_model.rows(page.rows("page-touch", "touch"),
                              page.rows("durable-page-touch", "table-4.7")))


def durable_pages(page):
    page.heading("4.3 Durable page touches: tables 4.7, 4.8, C.5, C.6")
    touched = page.rows("durable-page-touch", "table-4.7")
    page.theirs("Table 4.7", "Table C.5")
    most = max([max(r["read_pages"], r["write_pages"]) for r in touched] or [0])
    page.ours(f"4.7 and C.5 here: {most:,} pages, us per page",
              ["durability", "what", "advice", "us per page", "MAD", "min", "max", "log bytes"], [[
                  r["durability"], "read" if r["read_pages"] else "write", r["advice"],
                  r["us_per_page_median"], r["us_per_transaction_mad"] / most,
                  r["us_per_transaction_min"] / most, r["us_per_transaction_max"] / most,
                  r["log_bytes_per_transaction"]
              ] for r in touched if max(r["read_pages"], r["write_pages"]) == most])
    series = {}
    for durability in ordered(r["durability"] for r in touched):
        series[durability] = [
            (r["write_pages"], r["us_per_transaction_median"])
            for r in touched
            if r["durability"] == durability and r["write_pages"] and r["advice"] == "none"
        ]
    series["device floor"] = [(r["write_pages"], r["floor_us_median"])
                              for r in touched
                              if r["write_pages"] and r["advice"] == "none"]
    page.plot(lines("A transaction that writes n pages", "pages written", "us", series, True, True))
    page.theirs("Table 4.8", "Table C.6")
    page.ours("4.8 and C.6 here, us", ["operation", "mean", "st. dev.", "median", "99 %", "max"], [[
        r["operation"], r["us_mean"], r["us_standard_deviation"], r["us_median"], r["us_p99"],
        r["us_max"]
    ] for r in page.rows("durable-page-touch", "table-4.8")])


def concurrency(page):
    page.heading("4.4 Concurrency, tests A, B, C: tables 4.9, 4.10, C.9, C.10")
    page.theirs("Table 4.9", "Table C.9")
    rows = page.rows("concurrency", "table-4.9")
    page.ours("4.9 and C.9 here, us per transaction",
              ["mode", "advised", "test", "processes", "us", "MAD", "speedup"], [[
                  r["mode"], "yes" if r["advised"] else "no", r["test"],
                  str(r["processes"]), r["us_per_transaction_median"], r["us_per_transaction_mad"],
                  r["speedup_median"]
              ] for r in rows])
    modes = ordered(r["mode"] for r in rows)
    speedups = {
        mode: [
            next((r["speedup_median"]
                  for r in rows
                  if r["mode"] == mode and r["test"] == test and r["processes"] == 2), None)
            for test in "ABC"
        ] for mode in modes
    }
    speedups["thesis, machine 2"] = [1.14, 1.16, 1.98]
    page.plot(bars("Nondurable: 2 processes against 1", "speedup", list("ABC"), speedups))
    page.theirs("Table 4.10", "Table C.10")
    rows = page.rows("durable-page-touch", "table-4.10")
    page.ours("4.10 and C.10 here, us per transaction",
              ["durability", "test", "processes", "us", "MAD", "speedup", "log bytes"], [[
                  r["durability"], r["test"],
                  str(r["processes"]), r["us_per_transaction_median"], r["us_per_transaction_mad"],
                  r["speedup_median"], r["log_bytes_per_transaction"]
              ] for r in rows])
    speedups = {
        d: [
            next((r["speedup_median"]
                  for r in rows
                  if r["durability"] == d and r["test"] == test and r["processes"] == 2), None)
            for test in "ABC"
        ] for d in ordered(r["durability"] for r in rows)
    }
    speedups["thesis, machine 3(a)"] = [0.99, 0.99, 0.95]
    page.plot(bars("Durable: 2 processes against 1", "speedup", list("ABC"), speedups))


def serial_trees(page):
    page.heading("5.2 Serial trees: tables 5.1 to 5.3")
    page.theirs("Table 5.1")
    rows = page.rows("trees-static", "static")
    page.ours(
        f"5.1 here: {rows[0]['records']:,} records of 520 bytes, "
        f"memory for {rows[0]['memory_bytes'] >> 20} MiB"
        if rows else "5.1 here", ["tree", "us per search", "major faults", "bytes read"],
        [[r["tree"], r["us_per_search"], r["major_faults_per_search"], r["read_bytes_per_search"]]
         for r in rows])
    page.plot(
        bars("Table 5.1: random searches that miss memory", "us per search", ["here"],
             {r["tree"]: [r["us_per_search"]] for r in rows}))
    page.differs(
        "records of 8 + 512 bytes; a virtual disk that answers a page in about 0.1 ms and reads "
        "ahead 8 MiB, which is switched off here: each "
        "fault reads one page, so that large blocks gain nothing. Memory is limited by a control "
        "group (rows say 0 MiB where that needs rights)."
    )
    page.theirs("Table 5.2")
    dynamic = page.rows("trees-dynamic", "dynamic")
    columns = ["tree", "us per insert", "us per record scanned", "us per search"]
    cells = lambda rows: [[  # noqa: E731
        r["tree"], r["us_per_insert"],
        r.get("us_per_scanned", "-"),
        r.get("us_per_search", "-")
    ] for r in rows]
    page.ours(f"5.2 here: {dynamic[0]['records']:,} records" if dynamic else "5.2 here", columns,
              cells(dynamic))
    for key, label in (("us_per_insert", "random inserts, us per insert"),
                       ("us_per_scanned", "scan of everything, us per record"),
                       ("us_per_search", "random searches, us per search")):
        page.plot(
            bars("Table 5.2: " + label, "us", ["here"],
                 {r["tree"]: [r.get(key)] for r in dynamic if r.get(key)}))
    page.differs(
        "everything fits memory: what is compared is the processor's caches and the page faults of "
        "a growing file, not a disk's seeks. Rows "
        "\"tmh\" are transactions of one insert or one search each; Berkeley DB, LMDB and SQLite "
        "insert 100 records in a transaction."
    )
    page.theirs("Table 5.3")
    in_order = page.rows("trees-in-order", "in-order")
    page.ours("5.3 here, keys in order", columns, cells(in_order))
    page.plot(
        bars("Table 5.3: inserts in the order of keys", "us per insert", ["here"],
             {r["tree"]: [r["us_per_insert"]] for r in in_order}))


def conversion(page):
    page.heading("5.3 Conversion: table 5.4")
    page.theirs("Table 5.4")
    page.ours("5.4 here, counted in examples/trees/ (lines of code without comments)", [
        "tree", "serial program", "transactional program", "lines added", "lines removed",
        "library calls added", "the thesis's calls"
    ], [[
        r["tree"],
        str(r["serial_lines"]),
        str(r["transactional_lines"]),
        str(r["lines_added"]),
        str(r["lines_removed"]),
        str(r["calls_added"]),
        str(r["calls_of_the_thesis"])
    ] for r in page.rows("lines-changed")])
    page.differs(
        "no line of a tree changes; the lines are those of the program around it, two processes "
        "and durability included."
    )


def find(rows, contestant, processes):
    return next((r for r in rows if r["contestant"] == contestant and r["processes"] == processes),
                None)


INSERT_COLUMNS = [
    "contestant", "processes", "mean us", "median", "99 %", "99.9 %", "max", "inserts/s",
    "log bytes", "aborts per insert"
]


def insert_rows(rows):
    return [[
        r["contestant"],
        str(r["processes"]), r["us_mean"], r["us_median"], r["us_p99"], r["us_p999"],
        r["us_longest"], r["commits_per_s_median"],
        r.get("log_bytes_per_commit", "-"), r["retries_per_commit"]
    ] for r in rows]


def ratio(ours, theirs, key="us_mean"):
    return ours[key] / theirs[key] if ours and theirs and theirs[key] else "-"


def durable_inserts(page, write_cache):
    page.heading("5.4 Durable inserts: tables 5.5, 5.6, C.12, figure 5-3")
    page.theirs("Table 5.5")
    rows = page.rows("trees-durable", "commit")
    inserts = page.results.get("trees-durable", {}).get("parameters", {}).get("durable_inserts", 0)
    page.ours(f"5.5 here, {inserts:,} inserts", INSERT_COLUMNS, insert_rows(rows))
    processes = ordered(r["processes"] for r in rows)
    groups = [f"{p} process{'es' if p > 1 else ''}" for p in processes]
    page.plot(
        bars(
            "Table 5.5: durable inserts", "mean us per insert", groups, {
                c: [(find(rows, c, p) or {}).get("us_mean") for p in processes]
                for c in ordered(r["contestant"] for r in rows)
            }))
    page.theirs("Table 5.6")
    comparison = []
    for tree in ("tmh-bptree", "tmh-cobtree", "tmh-fields-bptree", "tmh-fields-cobtree",
                 "thesis-bptree", "thesis-cobtree"):
        for opponent in ("bdb-thesis", "bdb-tuned"):
            for p in processes:
                ours, theirs = find(rows, tree, p), find(rows, opponent, p)
                if ours and theirs:
                    faster = 100 * (1 - ours["us_mean"] / theirs["us_mean"])
                    comparison.append([
                        f"{tree} against {opponent}",
                        str(p), f"{faster:.0f} %",
                        ratio(ours, theirs, "commits_per_s_median"),
                        ratio(ours, theirs, "us_p999"),
                        ratio(ours, theirs, "log_bytes_per_commit")
                    ])
    page.ours("5.6 here", [
        "trees", "processes", "less time per insert", "inserts/s, ratio", "99.9 %, ratio",
        "log bytes, ratio"
    ], comparison)
    wanted = []
    floor = next((r for r in rows if r["is_floor"] and r["processes"] == 1), None)
    for tree in ("tmh-bptree", "tmh-cobtree", "tmh-fields-bptree", "tmh-fields-cobtree"):
        if not find(rows, tree, 1):
            continue
        one, two, rival, rival_two = find(rows, tree,
                                          1), find(rows, tree,
                                                   2), find(rows, "bdb-tuned",
                                                            1), find(rows, "bdb-tuned", 2)
        wanted.append([
            tree,
            ratio(one, floor, "us_median"),
            ratio(one, rival, "us_median"),
            ratio(two, rival_two, "commits_per_s_median"),
            ratio(two, one, "commits_per_s_median"),
            ratio(one, rival, "us_p999"),
            ratio(two, rival_two, "us_p999"),
            ratio(one, rival, "log_bytes_per_commit")
        ])
    page.ours("Against the device floor and tuned Berkeley DB", [
        "tree", "median of floor's", "of BDB's", "2 processes: inserts/s of BDB's",
        "of 1 process's", "99.9 % of BDB's", "2 processes", "log bytes of BDB's"
    ], wanted if rows else [])
    kth = page.rows("trees-durable", "kth", processes=1)
    page.plot(
        lines(
            "Figure 5-3: the k-th most expensive durable insert, 1 process", "k", "us", {
                c: [(r["k"], r["us"]) for r in kth if r["contestant"] == c]
                for c in ordered(r["contestant"] for r in kth)
            }, True, True))
    kth = page.rows("trees-durable", "kth", processes=2)
    page.plot(
        lines(
            "Figure 5-3: the same, 2 processes", "k", "us", {
                c: [(r["k"], r["us"]) for r in kth if r["contestant"] == c]
                for c in ordered(r["contestant"] for r in kth)
            }, True, True))
    page.theirs("Table C.12")
    page.ours("C.12 here", ["what", "value"],
              [["write cache of the measured folder's device, as the kernel says", write_cache]])
    page.differs(
        "table C.12 is the same experiment with the drives' write caches on. The cache of a "
        "virtual disk is its host's: what fdatasync waits for "
        "there cannot be switched here, so 5.5 here stands for both.")


def nondurable_inserts(page):
    page.heading("C.6 Nondurable inserts: table C.11")
    page.theirs("Table C.11")
    rows = page.rows("trees-nondurable", "commit")
    inserts = page.results.get("trees-nondurable", {}).get("parameters", {}).get("inserts", 0)
    page.ours(f"C.11 here, {inserts:,} inserts", INSERT_COLUMNS, insert_rows(rows))
    processes = ordered(r["processes"] for r in rows)
    names = ordered(r["contestant"] for r in rows)
    page.plot(
        bars(
            "Table C.11: nondurable inserts", "us per insert of all processes together",
            [f"{p} processes" if p > 1 else "1 process" for p in processes], {
                c: [
                    1e6 / r["commits_per_s_median"] if (r := find(rows, c, p)) else None
                    for p in processes
                ] for c in names
            }, True))
    page.plot(
        bars(
            "Table C.11: aborts per insert, 2 processes", "aborts per insert", ["2 processes"], {
                c: [(find(rows, c, 2) or {}).get("retries_per_commit")]
                for c in names
                if c.startswith("tmh")
            }))


def open_questions(page):
    page.heading("6.1 Open questions: policies and backoff (item 5), cache-obliviousness (item 6)")
    bank = page.rows("policies", "bank")
    page.ours("Item 5: policies, backoff and detection on a bank of few pages", [
        "detection by", "policy", "backoff", "processes", "commits/s", "aborts per commit",
        "most attempts"
    ], [[
        r["mode"], r["policy"], r["backoff"],
        str(r["processes"]), r["commits_per_s_median"], r["aborts_per_commit_median"],
        str(r["attempts_max"])
    ] for r in bank])
    two = [r for r in bank if r["processes"] == 2 and r["policy"]]
    page.plot(
        bars(
            "Item 5: 2 processes, commits/s by policy and backoff", "commits/s",
            ordered(r["policy"] for r in two) or ["-"], {
                f"{mode}, {backoff}": [
                    next((r["commits_per_s_median"]
                          for r in two
                          if (r["mode"], r["backoff"], r["policy"]) == (mode, backoff, policy)),
                         None)
                    for policy in ordered(r["policy"]
                                          for r in two)
                ] for mode in ordered(r["mode"]
                                     for r in two)
                for backoff in ordered(r["backoff"] for r in two)
            }))
    found = page.rows("transfers", "search-transfers")
    sizes = ordered(r["block_bytes"] for r in found)
    page.ours(
        "Item 6: block transfers of a search, by size of block",
        ["tree"] + [f"{s:,} B" for s in sizes] + ["private pages"], [[tree] + [
            next(r["transfers_per_search"]
                 for r in found
                 if r["tree"] == tree and r["block_bytes"] == s)
            for s in sizes
        ] + [next(r["private_pages_share"]
                  for r in found
                  if r["tree"] == tree)]
                                                                     for tree in ordered(
                                                                         r["tree"] for r in found)])
    page.plot(
        lines(
            "Item 6: block transfers of a search", "bytes of a block", "transfers", {
                tree: [(r["block_bytes"], r["transfers_per_search"])
                       for r in found
                       if r["tree"] == tree] for tree in ordered(r["tree"] for r in found)
            }, True))
    page.ours("Item 6: pages and lines of an insert",
              ["tree", "pages touched", "pages written", "lines written"],
              [[r["tree"], r["pages_touched"], r["pages_written"], r["lines_written"] or "-"]
               for r in page.rows("transfers", "insert-transfers")])


def write(path, results, environment, run):
    page = Page(results, TABLES, "thesis")
    machine(page, environment)
    page_touch(page)
    durable_pages(page)
    model(page)
    concurrency(page)
    serial_trees(page)
    conversion(page)
    durable_inserts(page, run.get("write_cache", "not noted"))
    nondurable_inserts(page)
    open_questions(page)
    return page.write(
        path, "Memory-Mapped Transactions", f"Thesis's machines: {html.escape(MACHINES)} "
        "Tables on this ground are the thesis's; the others were measured here. \"thesis\" among "
        "the rows is the thesis's mechanism, written again "
        "and run here (bench/support/thesis_mechanism.h).", run)
