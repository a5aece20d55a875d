"""figures_page.py -- one HTML page from the results: the figures of EXCITE-VM as measured here,
beside what its text says of them."""
import html
import statistics

import compiled_page
import excite
from page import Page, ordered
from svg import bars, lines

NAMES = {
    "plain": "a plain loop, nobody else there", "tmh-snapshot": "tmh, snapshot isolation",
    "tmh-serializable": "tmh, serializable", "libitm": "GCC libitm", "lock": "one lock"
}


def named(contestant):
    return NAMES.get(contestant, contestant)


def contestants(rows):
    return ordered(row["contestant"] for row in rows)


def cell(row, key):
    """What a row has there; empty cells and missing rows are "-"."""
    value = (row or {}).get(key)
    return "-" if value in (None, "") else value


def one(rows, **wanted):
    return next(
        (row for row in rows if all(row.get(key) == value for key, value in wanted.items())), None)


def points(rows, x, y):
    return [(row[x], row[y]) for row in rows if row.get(y) not in (None, "")]


def rates(page, caption, rows, more):
    """Operations by contestant and workers. more: columns of one's own."""
    page.ours(
        caption, [
            "contestant", "workers", *more, "operations/s", "times libitm", "times one lock",
            "retries per operation"
        ], [[
            named(r["contestant"]),
            str(r["workers"]), *(show(r) for show in more.values()),
            cell(r, "operations_per_s_median"),
            cell(r, "times_libitm"),
            cell(r, "times_lock"),
            cell(r, "retries_per_operation")
        ] for r in rows])


def micro(page):
    page.heading("6.1 Micro benchmarks: figure 2")
    page.theirs("Figure 2")
    rows = page.rows("list", "list")
    rates(page, "List of 250 here", rows, {"updates, %": lambda r: str(r["update_percent"])})
    shares = ordered(r["update_percent"] for r in rows)
    for workers in ordered(r["workers"] for r in rows):
        page.plot(
            bars(
                f"Figure 2, list of 250, {workers} worker{'s' if workers > 1 else ''}",
                "operations/s", [f"{share} % updates" for share in shares], {
                    named(c): [
                        (one(rows, contestant=c, workers=workers, update_percent=share) or
                         {}).get("operations_per_s_median") for share in shares
                    ] for c in contestants(rows)
                }))
    rows = page.rows("bank", "bank")
    page.ours("Bank of 1,000,000 here", [
        "contestant", "writers", "readers", "queries/s", "of a plain loop's, in turns",
        "of a plain loop's, alone", "times libitm's", "queries retried", "transfers/s"
    ], [[
        named(r["contestant"]),
        str(r["writers"]),
        str(r["readers"]),
        cell(r, "queries_per_s_median"),
        cell(r, "query_speed"),
        cell(r, "query_rate_of_plain"),
        cell(r, "times_libitm_queries"),
        cell(r, "queries_retried"),
        cell(r, "transfers_per_s_median")
    ] for r in rows])
    mixes = ordered((r["writers"], r["readers"]) for r in rows)
    for key, label in (("queries_per_s_median", "queries/s"), ("transfers_per_s_median",
                                                               "transfers/s")):
        page.plot(
            bars(
                f"Figure 2, bank of 1,000,000: {label}", label,
                [f"{writers} writers, {readers} readers" for writers, readers in mixes], {
                    named(c): [(one(rows, contestant=c, writers=writers, readers=readers) or
                                {}).get(key) for writers, readers in mixes]
                    for c in contestants(rows)
                }, True))
    page.differs("SI-STM is not there. Workers of tmh are processes, those of libitm and of the "
                 "lock threads; the paper's are threads with page tables of their own.")


def page_cache(page):
    page.heading("6.2.2 Memory overhead: figures 4 and 5")
    page.theirs("Figure 4", "Figure 5")
    rows = page.rows("page-cache", "page-cache")
    for processes in ordered(r["processes"] for r in rows) or [1]:
        words = f"{processes} process{'es' if processes > 1 else ''}"
        mine = [r for r in rows if r["processes"] == processes]
        page.ours(
            f"Figure {4 if processes == 1 else 5} here, {words}: per transaction", [
                "page cache", "us", "MiB held, most", "mean", "copies replayed", "evicted",
                "first touches", "retries"
            ], [[
                r["policy"], r["us_per_transaction_median"], r["mib_held_most_median"],
                r["mib_held_mean_median"], r["replays_per_transaction"],
                r["evictions_per_transaction"], r["faults_per_transaction"],
                r["retries_per_transaction"]
            ] for r in mine])
        names = [r["policy"] for r in mine]
        page.plot(
            bars(f"Figure {4 if processes == 1 else 5}: execution time, {words}",
                 "us per transaction", names,
                 {"time": [r["us_per_transaction_median"] for r in mine]}))
        page.plot(
            bars(f"Figure {4 if processes == 1 else 5}: memory of own copies, {words}", "MiB",
                 names, {
                     "most": [r["mib_held_most_median"] for r in mine],
                     "mean": [r["mib_held_mean_median"] for r in mine]
                 }))
    page.differs(
        "STAMP is not there: a hot window that moves stands for Genome. A scan goes by stores, as "
        "an unprivileged process cannot clear accessed bits; pages that were only read take no "
        "memory of the process. \"adaptive\" is ours and the default.")


def ablation(page):
    page.heading("6.2.3 Optimization techniques: figure 6")
    page.theirs("Figure 6")
    rows = page.rows("ablation", "ablation")
    page.ours(
        "Figure 6 here: an instance with the technique and without it", [
            "technique", "pages", "lines of each", "processes", "rival", "isolation", "us with",
            "us without", "gain, %"
        ], [[
            r["mechanism"],
            str(r["pages"]),
            str(r["lines"]),
            str(r["processes"]), r["rival"], r["isolation"],
            cell(r, "us_with_median"),
            cell(r, "us_without_median"),
            cell(r, "gain_percent_median")
        ] for r in rows])
    mechanisms = ordered(r["mechanism"] for r in rows)
    gains = {
        mechanism: [
            r["gain_percent_median"]
            for r in rows
            if r["mechanism"] == mechanism and cell(r, "gain_percent_median") != "-"
        ] for mechanism in mechanisms
    }
    page.plot(
        bars(
            "Figure 6: what a technique gains, here and there", "%",
            ["median of the cases", "best case"], {
                **{f"{m}, here": [statistics.median(gains[m]), max(gains[m])]
                   for m in mechanisms if gains[m]},
                **{f"{m}, paper": [gain, gain] for m, gain in excite.GAINS.items()}
            }))
    page.note("Method pages of libitm compares pages with vector instructions, reads ahead in "
              "runs, and keeps copies between transactions, without options: it has nothing to "
              "switch off, so this figure is not repeated with programs of -fgnu-tm.")
    page.differs("an instance's own time, where the paper has STAMP's from begin to end; no walk "
                 "over a log is shortened here, because there is none.")


def analytics(page):
    page.heading("6.2.4 Analytical processing: figures 7 to 9")
    page.theirs("Figure 7", "Figure 8", "Figure 9")
    rows = page.rows("reservations", "reservations")
    page.ours("Figure 7 here: updates, alone and beside scans", [
        "contestant", "rows scanned", "updates/s", "slowed by", "of a busy neighbour's", "mean us",
        "st. dev.", "99 %", "retries"
    ], [[
        named(r["contestant"]),
        f"{r['scan_rows']:,}",
        cell(r, "oltp_per_s_median"),
        cell(r, "oltp_slowdown"),
        cell(r, "oltp_slowdown_of_neighbour"),
        cell(r, "oltp_us_mean"),
        cell(r, "oltp_us_sd"),
        cell(r, "oltp_us_p99"),
        cell(r, "oltp_retries")
    ] for r in rows])
    scans = [r for r in rows if r["scan_rows"]]
    page.ours("Figures 8 and 9 here: scans", [
        "contestant", "rows scanned", "scans/s", "mean us", "st. dev.", "99 %", "retries"
    ], [[
        named(r["contestant"]), f"{r['scan_rows']:,}",
        cell(r, "olap_per_s_median"),
        cell(r, "olap_us_mean"),
        cell(r, "olap_us_sd"),
        cell(r, "olap_us_p99"),
        cell(r, "olap_retries")
    ] for r in scans])
    for figure, key, label in ((7, "oltp_slowdown", "updates slowed by, times"),
                               (8, "olap_us_mean", "us per scan"),
                               (9, "olap_us_sd", "standard deviation of a scan, us"),
                               (9, "olap_us_p99", "99 % of scans, us")):
        page.plot(
            lines(f"Figure {figure}: {label}", "rows scanned", label, {
                named(c): points([r for r in scans if r["contestant"] == c], "scan_rows", key)
                for c in contestants(scans)
            }, True, True))
    page.differs("two cores: one worker updates and one scans, where the paper has seven and one. "
                 "\"Of a busy neighbour's\": against updates whose neighbour processor runs a "
                 "plain loop, because two virtual processors may share a core.")


def key_value(page):
    page.heading("6.2.6 Yahoo Cloud Server Benchmark: figures 11 and 12")
    page.theirs("Figure 11", "Figure 12")
    rows = page.rows("ycsb", "ycsb")
    rates(page, "Figures 11 and 12 here", rows, {"workload": lambda r: r["workload"].upper()})
    workers = ordered(r["workers"] for r in rows)
    for figure, workload in ((11, "a"), (12, "e")):
        page.plot(
            bars(
                f"Figure {figure}: YCSB {workload.upper()}", "operations/s",
                [f"{w} worker{'s' if w > 1 else ''}" for w in workers], {
                    named(c): [(one(rows, workload=workload, contestant=c, workers=w) or
                                {}).get("operations_per_s_median") for w in workers]
                    for c in contestants(rows)
                }))
    page.differs("workers of tmh are processes. An ordered index, as workload E scans; the paper "
                 "does not name its store.")


def wishes(results):
    """[what, bound, measured, met] of what was wanted of this run; nothing where its rows are not
    there."""
    found = []

    def wish(what, row, key, bound, is_least):
        value = cell(row, key)
        if value == "-":
            return
        is_met = value >= bound if is_least else value <= bound
        found.append([
            what, f"{'>=' if is_least else '<='} {bound:,}", value, "met" if is_met else "missed"
        ])

    bank = results.get("bank", {}).get("rows", [])
    ours = one(bank, contestant="tmh-snapshot", writers=1, readers=1)
    wish("bank, queries beside a writer: speed of a plain loop's", ours, "query_speed",
         excite.QUERY_SPEED_MIN, True)
    wish("bank, queries beside a writer: times libitm's", ours, "times_libitm_queries",
         excite.QUERIES_OF_LIBITM_MIN, True)
    wish("bank, queries beside a writer: retried", ours, "queries_retried", 0, False)
    oltp = results.get("reservations", {}).get("rows", [])
    scans = [r["scan_rows"] for r in oltp]
    wish(f"reservations beside scans of {max(scans, default=0):,} rows: updates slowed by",
         one(oltp, contestant="tmh-snapshot", scan_rows=max(scans, default=0)), "oltp_slowdown",
         excite.OLTP_SLOWDOWN_MAX, False)
    return found


def write(path, results, environment, run):
    page = Page(results, excite.FIGURES, "paper")
    page.heading("The machine, and what was wanted")
    page.ours("Here", ["what", "value"], [[key, str(value)] for key, value in environment.items()])
    wanted = wishes(results)
    if wanted:
        page.ours("Wanted of this project", ["what", "bound", "measured", ""], wanted)
    micro(page)
    compiled_page.stamp(page)
    page_cache(page)
    ablation(page)
    analytics(page)
    compiled_page.cache_server(page)
    key_value(page)
    compiled_page.key_value(page)
    return page.write(
        path, "EXCITE-VM", f"The paper's machine: {html.escape(excite.MACHINE)} Tables on this "
        "ground are what the paper's text says of its figures; the others were measured here. "
        "Figure 1 is a drawing.", run)
