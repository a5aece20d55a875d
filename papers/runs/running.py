"""running.py -- what the `reproduce` of every paper does: parses its command line, makes the
benches, runs the experiments that an earlier run has not finished, keeps what each wrote.

Written to the output folder: <experiment>.json and .csv as the bench wrote them (commit, compiler,
CPU, kernel, file system, parameters), <experiment>.txt (what it printed), run.json (mode,
configuration hash, times), report.html.
"""

import argparse
import csv
import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


@dataclass
class Paper:
    here: str  # its folder
    experiments: list
    full_means: str  # help of --full
    # (path, results, environment, run) -> {"plots": n, "tables": n}
    write_page: object
    # Experiment name -> (options, experiment) -> rows, of experiments without a bench; None: it
    # cannot run here.
    counted: dict = field(default_factory=dict)
    # (options, results, run): prints, and adds to run.
    finish: object = lambda options, results, run: None

    def by_name(self):
        return {each.name: each for each in self.experiments}


def parser_for(paper, description):
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick",
        dest="mode",
        action="store_const",
        const="quick",
        help="all of it in less than four minutes (default)",
    )
    size.add_argument(
        "--full", dest="mode", action="store_const", const="full", help=paper.full_means
    )
    parser.add_argument(
        "--tiny",
        action="store_true",
        help="with --quick: smallest inputs, what the test suite runs; says nothing about speed",
    )
    parser.add_argument(
        "--build",
        default=os.path.join(ROOT, "build", "release"),
        help="build folder with the benches (default: build/release)",
    )
    parser.add_argument("--out", help="output folder (default: results/<mode> beside this script)")
    parser.add_argument(
        "--dir", help="folder on the file system to measure (default: the temporary folder)"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="forget what an earlier run of the same configuration has finished",
    )
    parser.add_argument("--list", action="store_true", help="print the experiments")
    parser.add_argument(
        "experiments", nargs="*", metavar="EXPERIMENT", help="by name; default: all"
    )
    return parser


def options_of(paper, parser):
    options = parser.parse_args()
    if options.tiny and options.mode == "full":
        parser.error("--tiny goes with --quick")
    options.mode = "tiny" if options.tiny else options.mode or "quick"
    names = paper.by_name()
    unknown = [name for name in options.experiments if name not in names]
    if unknown:
        parser.error(f"no experiment {', '.join(unknown)}: there are {', '.join(names)}")
    return options


def write_json(path, value):
    """Whole or not at all: a run may be interrupted here."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def write_csv(path, rows):
    columns = list(dict.fromkeys(key for row in rows for key in row))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


def bench(options, name):
    return os.path.join(options.build, "bench", name)


def make_benches(options, experiments):
    needed = sorted({each.bench for each in experiments if each.bench})
    if all(os.access(bench(options, name), os.X_OK) for name in needed):
        return
    if os.path.realpath(options.build) != os.path.join(ROOT, "build", "release"):
        sys.exit(f"reproduce: {options.build} holds no benches")
    print("building the benches (build/release) ...", flush=True)
    subprocess.run(
        ["cmake", "--preset", "release", "-DTMH_BUILD_BENCH=ON"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    subprocess.run(
        ["cmake", "--build", "--preset", "release", "--target"]
        + ["bench_" + name for name in needed],
        cwd=ROOT,
        check=True,
    )


def configuration(options, experiment):
    """What makes two runs the same one: arguments, bytes of programs, the file system's folder."""
    digest = hashlib.sha256(
        json.dumps(
            [experiment.name, options.mode, experiment.arguments(options.mode), options.dir or ""]
        ).encode()
    )
    files = [bench(options, experiment.bench)] if experiment.bench else []
    for path in files + [os.path.join(options.build, name) for name in experiment.files]:
        if os.path.exists(path) or path in files:
            with open(path, "rb") as file:
                digest.update(file.read())
    return digest.hexdigest()[:16]


def failures(result):
    """Of an experiment's rows. The others of its rows count."""
    return [
        " ".join(str(row[key]) for key in ("case", "contestant", "threads") if key in row)
        + f" threads: {row['failure']}"
        for row in (result or {}).get("rows", [])
        if row.get("failure")
    ]


def run_bench(options, experiment, stem):
    command = [
        bench(options, experiment.bench),
        *experiment.arguments(options.mode),
        "--json",
        stem + ".json.part",
        "--csv",
        stem + ".csv",
    ]
    if options.dir:
        command += ["--dir", options.dir]
    with open(stem + ".txt", "w", encoding="utf-8") as log:
        answer = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    if answer.returncode == 77:
        return None
    result = read_json(stem + ".json.part")
    if answer.returncode != 0 and not failures(result):
        with open(stem + ".txt", encoding="utf-8") as log:
            sys.stderr.write("".join(log.readlines()[-15:]))
        sys.exit(
            f"reproduce: {experiment.name} failed with {answer.returncode}: {' '.join(command)}"
        )
    os.remove(stem + ".json.part")
    return result


def run_one(paper, options, experiment, stem):
    start = time.time()
    if experiment.bench:
        result = run_bench(options, experiment, stem)
        if result is None:
            return None
    else:
        rows = paper.counted[experiment.name](options, experiment)
        if rows is None:
            return None
        result = {"rows": rows}
        write_csv(stem + ".csv", result["rows"])
    result["reproduce"] = {
        "experiment": experiment.name,
        "answers": experiment.answers,
        "mode": options.mode,
        "config_hash": configuration(options, experiment),
        "seconds": round(time.time() - start, 1),
    }
    write_json(stem + ".json", result)
    return result


def clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def finished(options, out, experiment):
    """What an earlier run of the same configuration left, or None."""
    result = None if options.again else read_json(os.path.join(out, experiment.name + ".json"))
    is_same = bool(result) and result.get("reproduce", {}).get("config_hash") == configuration(
        options, experiment
    )
    return result if is_same and not failures(result) else None


def run_all(paper, options, out):
    chosen = [paper.by_name()[name] for name in options.experiments] or paper.experiments
    make_benches(options, paper.experiments)
    results = {each.name: result for each in chosen if (result := finished(options, out, each))}
    left = [each for each in chosen if each.name not in results]
    for name in results:
        print(f"{name:<20} done before")
    start, spent = time.time(), 0.0
    for i, experiment in enumerate(left):
        expected = sum(each.seconds[options.mode] for each in left[i:])
        if spent > 0:  # this machine is slower or faster than the one of the estimates
            expected *= (time.time() - start) / spent
        print(
            f"{experiment.name:<20} {i + 1} of {len(left)}, about {clock(expected)} left  "
            f" ({experiment.answers})",
            flush=True,
        )
        result = run_one(paper, options, experiment, os.path.join(out, experiment.name))
        spent += experiment.seconds[options.mode]
        if result is None:
            why = f": see {experiment.name}.txt" if experiment.bench else ""
            print(f"{experiment.name:<20} SKIPPED{why}", flush=True)
            continue
        results[experiment.name] = result
        for sentence in failures(result):
            print(f"{experiment.name:<20} FAILED: {sentence}", flush=True)
    print(f"took {clock(time.time() - start)}")
    return results


def main(paper, options):
    if options.list:
        for each in paper.experiments:
            print(
                f"{each.name:<20} {each.answers}; {each.bench or 'reproduce'}"
                f" {' '.join(each.arguments(options.mode))}"
            )
        return 0
    out = os.path.abspath(options.out or os.path.join(paper.here, "results", options.mode))
    os.makedirs(out, exist_ok=True)
    results = run_all(paper, options, out)
    # Of experiments that were not asked for, what an earlier run of the same mode left here.
    for each in paper.experiments:
        earlier = read_json(os.path.join(out, each.name + ".json"))
        if (
            each.name not in results
            and earlier
            and earlier.get("reproduce", {}).get("mode") == options.mode
        ):
            results[each.name] = earlier
    environment = next((r["environment"] for r in results.values() if "environment" in r), {})
    hashes_of_parts = sorted(r["reproduce"]["config_hash"] for r in results.values())
    run = {
        "mode": options.mode,
        "finished": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "config_hash": hashlib.sha256("".join(hashes_of_parts).encode()).hexdigest()[:16],
        "environment": environment,
        "experiments": {name: r["reproduce"] for name, r in results.items()},
    }
    paper.finish(options, results, run)
    counts = paper.write_page(os.path.join(out, "report.html"), results, environment, run)
    run.update(counts)
    write_json(os.path.join(out, "run.json"), run)
    print(f"{os.path.join(out, 'report.html')}: {counts['plots']} plots, {counts['tables']} tables")
    return 1 if any(failures(result) for result in results.values()) else 0
