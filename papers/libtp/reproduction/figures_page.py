"""figures_page.py -- one HTML page from the results: the figures and tables of LIBTP beside the
same measured here."""
import html

import libtp
from page import Page, ordered
from svg import bars, lines

# Configurations of figure 6: variant of bench/tp, durability.
SINGLE_USER = {
    "LIBTP": ("records", "synced"),
    "LIBTP, log not synced": ("records", "not synced"),
    "LIBTP, no log": ("records", "volatile"),
    "TCL": ("tcl", "synced"),
    "SERVER": ("server", "synced"),
    "NOTP": ("private files", "volatile"),
    "FLOCK": ("flock", "volatile"),
    "FSYNC": ("fsync", "synced"),
    "RDBMS (SQLite)": ("SQLite", "synced"),
    "SQLite, log not synced": ("SQLite", "not synced"),
    "Berkeley DB 5.3": ("Berkeley DB", "synced"),
    "Berkeley DB 5.3, log not synced": ("Berkeley DB", "not synced"),
    "NOTP by 4.4BSD's code": ("4.4BSD", "volatile"),
}
NOT_HERE = "not here"
OPERATIONS = {"lookup": "lookup", "forward": "forward traversal", "backward": "backward traversal",
              "insert": "insert"}


def one(rows, **wanted):
    return next(
        (row for row in rows if all(row.get(key) == value for key, value in wanted.items())), None)


def cell(row, key):
    value = (row or {}).get(key)
    return "-" if value in (None, "") else value


def rate(rows, variant, durability, processes=1):
    row = one(rows, variant=variant, durability=durability, processes=processes)
    return (row or {}).get("per_second")


def command(page):
    page.heading("3.3 One record from a command line: figure 4")
    page.theirs("Figure 4")
    rows = page.rows("command", "command")
    page.ours("Figure 4 here", ["calls", "ms, start to end", "us of the transaction"],
              [[r["way"], r["ms_median"], r["transaction_us_median"]] for r in rows])
    page.plot(bars("Figure 4: one record from a command line", "ms", [r["way"] for r in rows],
                   {"process, start to end": [r["ms_median"] for r in rows]}))
    opens = page.rows("command", "opens")
    page.ours("Private files that are opened often", ["code", "ms", "times 4.4BSD's"],
              [[r["code"], r["ms_median"], cell(r, "times_bsd_median")] for r in opens])
    page.differs("opening and closing an environment of files mapped anew is most of a process's "
                 "time here; the record itself takes what the second column says.")


def latches(page):
    page.heading("4.3 Latches: figure 5")
    page.theirs("Figure 5")
    rows = page.rows("latches", "calls")
    page.ours("Figure 5 here: TPC-B of one process", ["test", "latch", "transactions/s",
                                                     "% of spinning"],
              [[r["what"], r["latch"], r["per_second_median"], 100 * r["of_spinning_median"]]
               for r in rows])
    kinds, tests = ordered(r["latch"] for r in rows), ordered(r["what"] for r in rows)
    page.plot(bars("Figure 5: % of the throughput with spinning", "%", tests, {
        kind: [100 * (one(rows, what=test, latch=kind) or {}).get("of_spinning_median", 0)
               for test in tests] for kind in kinds}))
    contended = page.rows("latches", "contended")
    page.ours("One latch that processes share", ["processes", "latch", "times taken/s",
                                                 "% of spinning"],
              [[r["what"], r["latch"], r["per_second_median"], 100 * r["of_spinning_median"]]
               for r in contended])
    page.differs("the library's latches are instances and cannot be exchanged. This is a model: "
                 "each get and put of a private B-tree takes three latches one after the other.")


def single_user(page):
    page.heading("5.1.1 Single-user tests: figure 6")
    page.theirs("Figure 6")
    for experiments, caption in ((["single-user"], "CPU bound"),
                                 (["disk-bound", "disk-bound-unprotected"],
                                  "memory for a tenth of the data")):
        rows = [row for name in experiments for row in page.rows(name, "tp")]
        libtp_rate = rate(rows, *SINGLE_USER["LIBTP"])
        told, names, rates = [], [], []
        for name, (variant, durability) in SINGLE_USER.items():
            row = one(rows, variant=variant, durability=durability, processes=1)
            if row is None:
                if rows and experiments == ["single-user"]:
                    told.append([name, NOT_HERE, "-", "-"])
                continue
            told.append([name, row["per_second"],
                         row["per_second"] / libtp_rate if libtp_rate else "-",
                         cell(row, "p99_us_median")])
            names.append(name)
            rates.append(row["per_second"])
        page.ours(f"Figure 6 here, {caption}",
                  ["configuration", "transactions/s", "of LIBTP's", "99 %, us"], told)
        page.plot(bars(f"Figure 6: {caption}", "transactions/s", [n[:14] for n in names],
                       {"here": rates}, True))
    page.differs("a sync of the log costs as much as many random reads, where the paper's disk "
                 "sought for both, and NOTP's writes wait for no disk: what a transaction with a "
                 "synced log loses to NOTP is that sync. \"Log not synced\" is as durable as NOTP. "
                 "FLOCK's and NOTP's records are those of private files; 4.4BSD's own code runs "
                 "where libdb1.so.2 is installed (Debian: libdb1-compat).")


def multi_user(page):
    page.heading("5.1.2 Multi-user tests: figures 7 to 9")
    page.theirs("Figure 7", "Figure 8", "Figure 9")
    for figure, experiment, caption in (
        (7, "multi-user", "large database, log synced"),
        (8, "read-only", "small database, READ-ONLY"),
        (8, "no-fsync", "small database, NO-FSYNC")):
        rows = page.rows(experiment, "tp")
        names = ordered(r["variant"] for r in rows)
        page.ours(f"Figure {figure} here: {caption}, transactions/s", ["processes", *names], [
            [str(n), *(cell(one(rows, variant=name, processes=n), "per_second") for name in names)]
            for n in ordered(r["processes"] for r in rows)])
        page.plot(lines(f"Figure {figure}: {caption}", "processes", "transactions/s", {
            name: [(r["processes"], r["per_second"]) for r in rows if r["variant"] == name]
            for name in names}))
    small, large = page.rows("no-fsync", "tp"), page.rows("multi-user", "tp")
    names = ordered(r["variant"] for r in small + large)
    page.ours("Figure 9 here: aborts per 500",
              ["processes", *(f"{name}, {size}" for name in names for size in ("SMALL", "LARGE"))],
              [[str(n), *(cell(one(rows, variant=name, processes=n), "aborts_per_500")
                          for name in names for rows in (small, large))]
               for n in ordered(r["processes"] for r in small + large)])
    page.plot(lines("Figure 9: aborts per 500 transactions", "processes", "aborts", {
        "paper, SMALL": list(zip(libtp.PROCESSES, libtp.ABORTS_SMALL)),
        "paper, LARGE": list(zip(libtp.PROCESSES, libtp.ABORTS_LARGE)),
        **{f"{name}, {size}": [(r["processes"], r["aborts_per_500"]) for r in rows
                               if r["variant"] == name]
           for name in names for size, rows in (("SMALL", small), ("LARGE", large))}}))
    page.differs("all transactions lock account, teller, branch and history in one order, for "
                 "changes from the beginning on, so no cycle arises; the paper's read first and "
                 "upgraded. SQLite's aborts are looks at a lock that was not free. More than two "
                 "processes share two processors. The large database is not disk bound here, but "
                 "its log is.")


def engineering(page):
    page.heading("5.2 OO1: tables 2 and 3")
    page.theirs("Table 2", "Table 3")
    rows = page.rows("oo1", "oo1")
    for parts in ordered(r["parts"] for r in rows):
        mine = [r for r in rows if r["parts"] == parts]
        names = ordered(r["contestant"] for r in mine)
        for table, key, words in (("Table 2", "cold_ms_median", "cold"),
                                  ("Table 3", "warm_ms_median", "warm")):
            page.ours(f"{table} here: {parts:,} parts, {words}, ms", ["measure", *names], [
                [name, *(cell(one(mine, operation=operation, contestant=each), key)
                         for each in names)] for operation, name in OPERATIONS.items()])
        page.plot(bars(f"OO1, {parts:,} parts, warm", "ms", list(OPERATIONS.values()), {
            each: [(one(mine, operation=operation, contestant=each) or {}).get("warm_ms_median")
                   for operation in OPERATIONS] for each in names}, True))
    if not rows:
        page.ours("Table 2 here", [], [])
    page.differs("cold: the files are forgotten, the process is new. Remote is not built: a server "
                 "is no part of the library yet. Pointers lie in a segment, each transaction is an "
                 "instance without locks: the link that the paper misses. Private B-trees have no "
                 "transactions and are synced after inserts.")


def everyone(page):
    page.heading("TPC-B by every means")
    rows = page.rows("everyone", "tp")
    page.ours("No table of the paper: 1,000 accounts, 10 branches", [
        "by", "log", "processes", "transactions/s", "times Berkeley DB's", "aborts per 500",
        "99 %, us", "log bytes"
    ], [[
        r["variant"], r["durability"],
        str(r["processes"]), r["per_second"],
        cell(r, "times_berkeley_db_median"), r["aborts_per_500"],
        cell(r, "p99_us_median"),
        cell(r, "log_bytes_median")
    ] for r in rows])
    counts = ordered(r["processes"] for r in rows)
    for log in ordered(r["durability"] for r in rows):
        mine = [r for r in rows if r["durability"] == log]
        page.plot(bars(f"TPC-B, log {log}", "transactions/s",
                       [f"{n} process{'es' if n > 1 else ''}" for n in counts], {
                           name: [rate(mine, name, log, n) for n in counts]
                           for name in ordered(r["variant"] for r in mine)}, True))
    page.note("records: dbopen(), leaves locked. steps, one step: tp.h, records locked. pages: "
              "plain code, an instance each, by how level 2 detects conflicts; lines: the same by "
              "fields at level 1. Neither has locks to the end of a transaction of many instances.")


def wishes(results):
    """[what, bound, measured, met] of what was wanted of this run; nothing where its rows are not
    there."""
    found = []

    def wish(what, value, bound):
        if value:
            found.append([what, f">= {bound}", value, "met" if value >= bound else "missed"])

    def rows_of(*names):
        return [row for name in names for row in results.get(name, {}).get("rows", [])]

    def of(rows, fast, slow):
        fast, slow = rate(rows, *fast), rate(rows, *slow)
        return fast / slow if fast and slow else None

    for rows, where in ((rows_of("single-user"), "CPU bound"),
                        (rows_of("disk-bound", "disk-bound-unprotected"), "disk bound")):
        for log in ("synced", "not synced"):
            wish(f"{where}, log {log}: LIBTP/NOTP",
                 of(rows, ("records", log), SINGLE_USER["NOTP"]), libtp.OF_NOTP_MIN)
        wish(f"{where}: LIBTP/FSYNC", of(rows, SINGLE_USER["LIBTP"], SINGLE_USER["FSYNC"]),
             libtp.OF_FSYNC_MIN)
        wish(f"{where}: NOTP/4.4BSD's code",
             of(rows, SINGLE_USER["NOTP"], SINGLE_USER["NOTP by 4.4BSD's code"]),
             libtp.OF_BSD_MIN)
    wish("opens: private files/4.4BSD's code",
         (one(rows_of("command"), section="opens", code="private files") or
          {}).get("times_bsd_median"), libtp.OF_BSD_MIN)
    for row in rows_of("oo1"):
        if row.get("contestant") == "B-trees":
            wish(f"OO1, {row['parts']:,} parts, warm {row['operation']}: LIBTP/Berkeley DB",
                 row.get("times_berkeley_db_median"), libtp.OF_BERKELEY_OO1_MIN)
    return found


def write(path, results, environment, run):
    page = Page(results, libtp.FIGURES, "paper")
    page.heading("The machine, and what was wanted")
    page.ours("Here", ["what", "value"], [[key, str(value)] for key, value in environment.items()])
    wanted = wishes(results)
    if wanted:
        page.ours("Wanted of this project", ["what", "bound", "measured", ""], wanted)
    command(page)
    latches(page)
    single_user(page)
    multi_user(page)
    engineering(page)
    everyone(page)
    return page.write(
        path, "LIBTP", f"The paper's machines: {html.escape(libtp.MACHINE)} Tables on this ground "
        "are the paper's; the others were measured here.", run)
