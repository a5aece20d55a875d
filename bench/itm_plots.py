#!/usr/bin/env python3
"""itm_plots.py RESULTS.json PAGE.html -- bars of what `bench/itm --json RESULTS.json` has measured:
rates as multiples of GCC's ml_wt by case, their geometric means, aborts by cause.

Plots need matplotlib (Debian: python3-matplotlib); without it the page has the titles alone and
says so. Exit status 2: the file is no result of bench/itm.
"""
import argparse
import html
import json
import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "papers", "plots"))
from svg import bars, why_none  # noqa: E402

BASELINE, OURS = "gcc ml_wt", "lines"
CASES_IN_A_PLOT = 6
COUNTED = "counted_"
ABORTS = COUNTED + "aborts_"
ALONE = (COUNTED + "alone", COUNTED + "irrevocable")


def ordered(values):
    return list(dict.fromkeys(values))


def read(path):
    """Rows by section, and the environment."""
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        if result["bench"] != "itm":
            raise ValueError
        rows, environment = result["rows"], result["environment"]
        return {s: [r for r in rows if r["section"] == s] for s in ("rates", "means")}, environment
    except (OSError, ValueError, KeyError, TypeError):
        sys.stderr.write(f"itm_plots.py: {path} is no result of bench/itm --json\n")
        sys.exit(2)


def words(threads):
    return f"{threads} thread" + ("s" if threads > 1 else "")


def labels(cases):
    return [case.replace("/", "\n") for case in cases]


def portions(cases):
    return [cases[i:i + CASES_IN_A_PLOT] for i in range(0, len(cases), CASES_IN_A_PLOT)]


def rates(rows):
    """Times ml_wt: a plot for some cases on one number of threads."""
    value = {(r["case"], r["threads"], r["contestant"]): r.get("times_ml_wt") for r in rows}
    contestants = [c for c in ordered(r["contestant"] for r in rows) if c != BASELINE]
    for threads in ordered(r["threads"] for r in rows):
        for cases in portions(ordered(r["case"] for r in rows)):
            series = {c: [value.get((case, threads, c)) for case in cases] for c in contestants}
            shown = {c: each for c, each in series.items() if any(each)}
            yield bars(f"Operations per second, {words(threads)}", f"times {BASELINE}",
                       labels(cases), shown, True)


def means(rows):
    value = {(r["contestant"], r["threads"]): r["geometric_mean_times_ml_wt"] for r in rows}
    threads = ordered(r["threads"] for r in rows)
    series = {c: [value.get((c, t)) for t in threads]
              for c in ordered(r["contestant"] for r in rows)}
    yield bars("Geometric mean of all cases", f"times {BASELINE}", [words(t) for t in threads],
               series)


def aborts(rows):
    """Per 1,000 transactions, of `lines`."""
    for threads in ordered(r["threads"] for r in rows):
        ours = {r["case"]: r for r in rows
                if (r["contestant"], r["threads"]) == (OURS, threads) and r.get("transactions")}
        causes = ordered(key for row in ours.values() for key in row
                         if key.startswith(ABORTS) or key in ALONE)
        for cases in portions(list(ours)):
            series = {
                cause.removeprefix(ABORTS).removeprefix(COUNTED).replace("_", " "): [
                    1000 * ours[case].get(cause, 0) / ours[case]["transactions"] for case in cases
                ] for cause in causes
            }
            shown = {cause: each for cause, each in series.items() if any(each)}
            if shown:
                yield bars(f"Aborts of {OURS} by cause, and transactions alone, {words(threads)}",
                           "per 1,000 transactions", labels(cases), shown, True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results")
    parser.add_argument("page")
    options = parser.parse_args()
    rows, environment = read(options.results)
    drawn = [plot for plot in (*means(rows["means"]), *rates(rows["rates"]),
                               *aborts(rows["rates"])) if plot]
    about = ", ".join(f"{key}: {value}" for key, value in environment.items())
    missing = f"<p><b>{html.escape(why_none())}</b></p>" if why_none() else ""
    with open(options.page, "w", encoding="utf-8") as file:
        file.write('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
                   "<title>bench/itm</title></head><body><h1>bench/itm</h1>"
                   f"<p>{html.escape(about)}</p>{missing}"
                   f"{''.join(f'<p>{plot}</p>' for plot in drawn)}</body></html>\n")
    why = f" ({why_none()})" if why_none() else ""
    print(f"{options.page}: {sum(plot.startswith('<svg') for plot in drawn)} plots{why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
