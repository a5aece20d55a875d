"""compiled_page.py -- the part of the page about programs of -fgnu-tm: figures 3 and 10, planted
faults, figures 11 and 12 once more."""
from figures import STAMP
from page import ordered
from svg import bars

NAMES = {
    "gcc ml_wt": "GCC libitm (ml_wt)", "pages": "tmh, method pages",
    "pages-serializable": "tmh, method pages-serializable", "mutex": "one lock"
}
WHY_NONE = ("needs the programs of examples/itm, which a build has where g++ compiles -fgnu-tm and "
            "no sanitizer takes part")
SETTING = ("threads are tasks with page tables of their own under Linux, made by clone(2) without "
           "CLONE_VM, first touches are signals of userfaultfd and protection keys (or "
           "mprotect(2)); the paper's are Dune's, in ring 0. Transactions run the code without "
           "barriers; in the paper a store calls the library, and a load calls an empty function. "
           "Two cores, the paper's machine has 8.")


def named(contestant):
    return NAMES.get(contestant, contestant)


def words(threads):
    return f"{threads} thread" + ("s" if threads > 1 else "")


def rows_of(page, experiment, section):
    """Empty, and the page says why."""
    rows = page.rows(experiment, section)
    if not rows:
        page.note(f"{experiment}: no rows. It {WHY_NONE}.")
    for row in rows:
        if row.get("failure"):
            page.note(f"Failed: {row.get('case', experiment)}, {words(row['threads'])}, "
                      f"{named(row['contestant'])}: {row['failure']}")
    return [row for row in rows if not row.get("failure")]


def show(row, key):
    return "-" if row.get(key) in (None, "") else row[key]


def lock_alone(rows, case):
    """Operations per second of one lock's build on the fewest threads; None: it was not run."""
    of_lock = [r for r in rows if (r["case"], r["contestant"]) == (case, "mutex")]
    return min(of_lock, key=lambda r: r["threads"], default={}).get("operations_per_s_median")


def with_times(rows):
    """Each row with its time as a multiple of the lock's on one thread, for the same work."""
    alone = {case: lock_alone(rows, case) for case in ordered(r["case"] for r in rows)}
    return [{**r, "time": alone[r["case"]] and alone[r["case"]] / r["operations_per_s_median"]}
            for r in rows]


def times_table(page, caption, rows, name_of):
    page.ours(caption, [
        "program", "threads", "on", "operations/s", "times GCC's ml_wt",
        "execution time, one lock on 1 thread: 1", "attempts per transaction"
    ], [[
        name_of(r["case"]),
        str(r["threads"]),
        named(r["contestant"]),
        r["operations_per_s_median"],
        show(r, "times_ml_wt"),
        show(r, "time"),
        show(r, "attempts_per_transaction")
    ] for r in rows])


def series(rows, cases, threads, key):
    value = {(r["case"], r["threads"], r["contestant"]): r.get(key) for r in rows}
    return {named(c): [value.get((case, threads, c)) for case in cases]
            for c in ordered(r["contestant"] for r in rows)}


def stamp(page):
    page.heading("6.2.1 STAMP: figure 3")
    page.theirs("Figure 3")
    rows = with_times(rows_of(page, "stamp", "rates"))
    if not rows:
        return

    def name_of(case):
        return f"{case} ({STAMP.get(case, '-')})"

    times_table(page, "Figure 3 here, in brackets what it is after", rows, name_of)
    cases = ordered(r["case"] for r in rows)
    for threads in ordered(r["threads"] for r in rows):
        page.plot(
            bars(f"Figure 3: execution time, {words(threads)}", "one lock on 1 thread: 1",
                 [STAMP.get(case, case).replace(", ", "\n") for case in cases],
                 series(rows, cases, threads, "time")))
    page.differs("these are our own programs after STAMP's descriptions, with inputs of their own "
                 "size, without Bayes and with Yada. Vacation, Intruder and Yada need "
                 "serializability here, so they do not run on method pages, whose transactions "
                 f"are snapshots. Also, {SETTING}")


def cache_server(page):
    page.heading("6.2.5 Elastic Memcached: figure 10")
    page.theirs("Figure 10")
    rows = with_times(rows_of(page, "cache-server", "rates"))
    if rows:
        mixes = {"cache/gets": "95 % gets", "cache/sets": "half gets, half sets"}
        times_table(page, "Figure 10 here", rows, lambda case: mixes.get(case, case))
        cases = ordered(r["case"] for r in rows)
        for threads in ordered(r["threads"] for r in rows):
            page.plot(
                bars(f"Figure 10: execution time of the cache server, {words(threads)}",
                     "one lock on 1 thread: 1", [mixes.get(case, case) for case in cases],
                     series(rows, cases, threads, "time")))
        page.differs("the server is examples/itm/cache, written for transactions, and its load is "
                     "cache_client with 16 connections, both on the same two cores. Also, "
                     f"{SETTING}")
    faults(page)


def faults(page):
    rows = rows_of(page, "faults", "faults")
    if not rows:
        return
    page.ours("Planted faults here: each tears an item and its list in a transaction, then raises "
              "SIGSEGV, SIGFPE or SIGABRT", [
                  "on", "faults", "threads that died", "server ended by", "values torn", "lost",
                  "outdated", "other connections that ended", "slowest recovery, ms",
                  "slowest answer, ms", "operations/s meanwhile"
              ], [[
                  named(r["contestant"]),
                  *(str(show(r, key)) for key in ("faults", "thread_deaths")),
                  "its user" if r["server"] == "0" else r["server"],
                  *(str(show(r, key)) for key in ("torn", "lost", "outdated", "disconnects")),
                  show(r, "recovery_ms_max"),
                  show(r, "slowest_answer_ms"),
                  show(r, "operations_per_second")
              ] for r in rows])
    page.differs("one server lives through all faults, where the paper starts it anew for each; "
                 "the client looks at every value and misses none. A dead thread is replaced, as "
                 "the paper plans; recovery is from the fault to the answer to a get on a new "
                 "connection.")


def key_value(page):
    rows = with_times(rows_of(page, "ycsb-compiled", "rates"))
    if not rows:
        return
    times_table(page, "Figures 11 and 12 here, compiled with -fgnu-tm", rows, str)
    threads = ordered(r["threads"] for r in rows)
    for figure, case in ((11, "ycsb/A"), (12, "ycsb/E")):
        value = {(r["threads"], r["contestant"]): r["operations_per_s_median"]
                 for r in rows if r["case"] == case}
        page.plot(
            bars(f"Figure {figure}: {case.upper()}, compiled", "operations/s",
                 [words(t) for t in threads],
                 {named(c): [value.get((t, c)) for t in threads]
                  for c in ordered(r["contestant"] for r in rows)}))
    page.differs(f"examples/itm's own B+-tree; {SETTING}")
