#!/usr/bin/env python3
"""measurements.py ROOT [--check] | ROOT --feed RUN.json SUBJECT TABLE --fields NAMES
[--where KEY=VALUE]... | --self-test -- makes docs/measurements.md of the files of bench/results.

bench/results/page.txt       the head of the page, then a line {subject NAME} for each subject
bench/results/SUBJECT.txt    what its numbers mean: Markdown, with a line {table NAME} for a table
bench/results/SUBJECT.json   its numbers: for each table setup, columns, rows. The page names the
                             tables that the text does not show
bench/results/machines.json  the machines that setups name

--check  the page is what the files make; no table is shown twice, rows are as wide as their
         columns, machines are known
--feed   puts the rows of what a bench wrote (--json RUN.json) into a table: of each row that has
         the values of --where, the fields NAMES (first,second,...), numbers with three digits. Its
         setup gets rounds, commit, compiler, processor, kernel and file system of the run.
"""
import argparse
import json
import os
import re
import sys
import tempfile
import textwrap

PAGE, RESULTS = "docs/measurements.md", "bench/results"
COLUMNS = 100
# In the order in which a table's setup is told; the others are in the file alone.
TOLD = ("command", "machine", "date", "runs", "remark")
FIRST = {"machine": "Xeon"}  # what the page says once for all


def read(root, name):
    with open(os.path.join(root, RESULTS, name), encoding="utf-8") as file:
        return file.read()


def told(setup, before):
    """The setup of a table as a sentence: where it differs from that of the table before."""
    parts = [f"`{value}`" if key == "command" else f"machine {value}" if key == "machine" else value
             for key in TOLD for value in [setup.get(key)] if value and value != before.get(key)]
    sentence = ", ".join(parts)
    if setup.get("unit"):
        sentence += (": " if parts else "") + setup["unit"]
    if not sentence.startswith(("us ", "ns ")):
        sentence = sentence[:1].upper() + sentence[1:]
    return "\n".join(textwrap.wrap(sentence + ":", COLUMNS, break_on_hyphens=False,
                                   break_long_words=False))


def table_of(table, before):
    rows = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    lines = ["|" + "".join(f" {cell} |" if cell else "  |" for cell in row) for row in rows]
    lines[1] = lines[1].replace(" ", "")
    sentence = told(table["setup"], before)
    return (sentence + "\n\n" if sentence != ":" else "") + "\n".join(lines)


def tables_of(root, subject):
    name = subject + ".json"
    return json.loads(read(root, name)) if os.path.exists(
        os.path.join(root, RESULTS, name)) else {}


def text_of(root, subject, problems):
    tables, placed = tables_of(root, subject), []

    def put(match):
        before = tables.get(placed[-1], {}).get("setup", {}) if placed else FIRST
        placed.append(match[1])
        if match[1] not in tables:
            problems.append(f"{subject}.txt: no table {match[1]} in {subject}.json")
            return match[0]
        return table_of(tables[match[1]], before)

    text = re.sub(r"^\{table (\w+)\}$", put, read(root, subject + ".txt"), flags=re.MULTILINE)
    problems += [f"{subject}.json: {name} is shown {placed.count(name)} times" for name in tables
                 if placed.count(name) > 1]
    others = ", ".join(f"`{name}`" for name in tables if name not in placed)
    if others:
        link = f"[{subject}.json](../{RESULTS}/{subject}.json)"
        text = f"{text.rstrip()}\n\n{link} has more: {others}."
    machines = json.loads(read(root, "machines.json"))
    for name, table in tables.items():
        problems += [f"{subject}.json: {name}: a row of {len(row)} cells, {len(table['columns'])}"
                     " columns" for row in table["rows"] if len(row) != len(table["columns"])]
        if table["setup"].get("machine", "") not in {"", *machines}:
            problems.append(f"{subject}.json: {name}: no machine {table['setup']['machine']}")
    return text.rstrip("\n")


def page_of(root):
    """The page, and what is wrong with its files."""
    problems, used = [], ["page", "machines"]

    def put(match):
        used.append(match[1])
        return text_of(root, match[1], problems)

    page = re.sub(r"^\{subject (\w+)\}$", put, read(root, "page.txt"), flags=re.MULTILINE)
    machines = json.loads(read(root, "machines.json"))
    page = page.replace("{machines}", table_of(
        {"setup": {}, "columns": ["name", "what it is"],
         "rows": [[name, machine["shown"]] for name, machine in machines.items()]}, {}))
    problems += [f"{name}: of no subject that page.txt names"
                 for name in sorted(os.listdir(os.path.join(root, RESULTS)))
                 if os.path.splitext(name)[0] not in used]
    return page, problems


def written(tables):
    """The text of a result file: a line for each row."""
    parts = []
    for name, table in tables.items():
        rows = ",\n".join("      " + json.dumps(row, ensure_ascii=False) for row in table["rows"])
        setup = ",\n".join(f"      {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
                           for key, value in table["setup"].items())
        parts.append(f"  {json.dumps(name)}: {{\n    \"setup\": {{\n{setup}\n    }},\n"
                     f"    \"columns\": {json.dumps(table['columns'], ensure_ascii=False)},\n"
                     f"    \"rows\": [\n{rows}\n    ]\n  }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def shown(value):
    """A value of a run as a cell."""
    if isinstance(value, float):
        digits = f"{value:.3g}"
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{float(digits):g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def feed(root, options):
    path, subject, name = options.feed
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    wanted = dict(one.split("=", 1) for one in options.where)
    fields = options.fields.split(",")
    rows = [[shown(row[field]) for field in fields] for row in run["rows"]
            if all(str(row.get(key)) == value for key, value in wanted.items())]
    if not rows:
        return [f"{path}: no row has {wanted}"]
    tables = tables_of(root, subject)
    before = tables.get(name, {"setup": {"command": f"bench/{run['bench']}"}, "columns": fields})
    if len(before["columns"]) != len(fields):
        before["columns"] = fields
    environment = run["environment"]
    before["setup"].update({key: environment[key] for key in
                            ("commit", "compiler", "flags", "cpu", "kernel", "file_system")
                            if key in environment})
    if "rounds" in run.get("parameters", {}):
        before["setup"]["runs"] = f"{run['parameters']['rounds']} rounds"
    tables[name] = {**before, "rows": rows}
    with open(os.path.join(root, RESULTS, subject + ".json"), "w", encoding="utf-8") as file:
        file.write(written(tables))
    return []


def check(root):
    page, problems = page_of(root)
    with open(os.path.join(root, PAGE), encoding="utf-8") as file:
        if file.read() != page:
            problems.append(f"{PAGE} is not what {RESULTS} makes: python3 bench/measurements.py .")
    for name in sorted(os.listdir(os.path.join(root, RESULTS))):
        subject, kind = os.path.splitext(name)
        if kind == ".json" and subject != "machines" and (
                read(root, name) != written(tables_of(root, subject))):
            problems.append(f"{name}: a line for each row and field, as measurements.py writes it")
    return problems


def self_test():
    """A right page passes; each fault is reported; what a bench wrote becomes rows."""
    table = {"setup": {"command": "bench/a", "machine": "M", "runs": "3 rounds", "unit": "us"},
             "columns": ["what", "us"], "rows": [["x", "1.5"]]}
    right = {"page.txt": "# P\n\n{machines}\n\n{subject a}\n", "a.txt": "## A\n{table one}\n",
             "a.json": written({"one": table}),
             "machines.json": json.dumps({"M": {"shown": "a machine"}, "Xeon": {"shown": "x"}})}
    page = ("# P\n\n| name | what it is |\n|---|---|\n| M | a machine |\n| Xeon | x |\n\n## A\n"
            "`bench/a`, machine M, 3 rounds: us:\n\n| what | us |\n|---|---|\n| x | 1.5 |\n")
    faults = {
        "": ({}, page, None),
        "another page": ({}, page + "x", "is not what"),
        "a text without its table": ({"a.json": written({})}, None, "no table one"),
        "a table that no text shows": ({"a.json": written({"one": table, "two": table})}, page,
                                       "is not what"),
        "a table that is shown twice": ({"a.txt": "{table one}\n{table one}\n"}, None,
                                        "one is shown 2 times"),
        "a short row": ({"a.json": written({"one": {**table, "rows": [["x"]]}})}, None,
                        "a row of 1 cells"),
        "an unknown machine": ({"a.json": written({"one": {**table, "setup": {"machine": "Z"}}})},
                               None, "no machine Z"),
        "a file of no subject": ({"b.json": "{}\n"}, None, "of no subject"),
    }
    problems = []
    for what, (changed, text, said) in faults.items():
        with tempfile.TemporaryDirectory() as root:
            for folder in ("docs", RESULTS):
                os.makedirs(os.path.join(root, folder))
            for name, content in {**right, **changed}.items():
                with open(os.path.join(root, RESULTS, name), "w", encoding="utf-8") as file:
                    file.write(content)
            with open(os.path.join(root, PAGE), "w", encoding="utf-8") as file:
                file.write(text or page_of(root)[0])
            found = check(root)
            if (said is None and found) or (said and not any(said in one for one in found)):
                problems.append(f"{what or 'a right page'}: {found or 'not reported'}")
            run = {"bench": "a", "environment": {"commit": "c"},
                   "rows": [{"s": "t", "n": "y", "us": 2.34567}, {"s": "u", "n": "z", "us": 1}]}
            path = os.path.join(root, "run.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(run, file)
            options = argparse.Namespace(feed=[path, "a", "one"], fields="n,us", where=["s=t"])
            if what == "" and (feed(root, options) or tables_of(root, "a")["one"] != {
                    **table, "setup": {**table["setup"], "commit": "c"}, "rows": [["y", "2.35"]]}):
                problems.append(f"a run is fed as {tables_of(root, 'a')}")
    return problems


def main():
    if sys.argv[1:] == ["--self-test"]:
        problems = self_test()
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("root")
        parser.add_argument("--check", action="store_true")
        parser.add_argument("--feed", nargs=3, metavar=("RUN", "SUBJECT", "TABLE"))
        parser.add_argument("--fields", default="")
        parser.add_argument("--where", action="append", default=[], metavar="KEY=VALUE")
        options = parser.parse_args()
        problems = feed(options.root, options) if options.feed else []
        if options.check:
            problems = check(options.root)
        elif not problems:
            page, problems = page_of(options.root)
            with open(os.path.join(options.root, PAGE), "w", encoding="utf-8") as file:
                file.write(page)
    print("\n".join(problems) or "measurements: as the results say")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
