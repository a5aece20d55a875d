#!/usr/bin/env python3
"""json_schema.py <root> --tool PATH | --self-test <root> -- what the tmh command prints
with --json is valid against tools/schema.

Rules: (1) every schema is one (of JSON Schema 2020-12). (2) the output of commands that need no
domain validates: doctor (for a folder that is there and one that is not), policies, perf. Other
tests hold documents of domains against the schemas by tests/support/json_schema.h. Without
python3-jsonschema the test is skipped. --self-test: faults planted in a right document are caught.
"""

import copy
import json
import os
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    jsonschema = None

SKIPPED = 77
RIGHT = {
    "document": "tmh-doctor-1",
    "kernel": "6.1",
    "tracking": "signal",
    "pmu": "",
    "rtm_trial": {
        "made": True,
        "illegal_instruction": False,
        "attempts": 3,
        "commits": 2,
        "aborts": [{"status": 6, "count": 1}],
    },
    "topology": {
        "packages": 1,
        "numa_nodes": 1,
        "cores": 2,
        "threads": 2,
        "line_bytes": 64,
        "l1d_bytes": 32768,
        "l1d_ways": 8,
    },
    "storage": {
        "folder": ".",
        "file_system": "ext4",
        "free_bytes": 1,
        "fdatasync_us": 90.5,
        "direct_us": 0,
    },
    "findings": [
        {"area": "rtm", "subject": "RTM", "verdict": "yes", "found": "works"},
        {
            "area": "pages",
            "subject": "userfaultfd",
            "verdict": "no",
            "found": "EPERM",
            "cause": "sandbox",
            "remedy": "leave it",
        },
    ],
}


def schema_of(root, command):
    with open(
        os.path.join(root, "tools", "schema", command + ".schema.json"), encoding="utf-8"
    ) as file:
        return json.load(file)


def problems_of(schema, document):
    return [
        f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
        for error in jsonschema.Draft202012Validator(schema).iter_errors(document)
    ]


def check(root, tool):
    problems = []
    for name in sorted(os.listdir(os.path.join(root, "tools", "schema"))):
        if name.endswith(".json"):
            jsonschema.Draft202012Validator.check_schema(
                schema_of(root, name.removesuffix(".schema.json"))
            )
    with tempfile.TemporaryDirectory() as folder:
        for words in (
            ["doctor", folder],
            ["doctor", os.path.join(folder, "nowhere")],
            ["policies"],
        ):
            answer = subprocess.run(
                [tool, *words, "--json"], capture_output=True, text=True, check=False
            )
            if answer.returncode != 0:
                problems.append(f"tmh {words}: exit status {answer.returncode}: {answer.stderr}")
                continue
            problems += [
                f"tmh {words}: {problem}"
                for problem in problems_of(schema_of(root, words[0]), json.loads(answer.stdout))
            ]
    # Without counters, too: an unknown event has a cause instead of a value.
    answer = subprocess.run(
        [tool, "perf", "--json", "-e", "software", "-e", "no-such-event", "--", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    problems += [
        f"tmh perf: {problem}"
        for problem in problems_of(schema_of(root, "perf"), json.loads(answer.stderr))
    ]
    return problems


def self_test(root):
    """The right document passes; each fault is caught."""

    def planted(change):
        document = copy.deepcopy(RIGHT)
        change(document)
        return document

    schema = schema_of(root, "doctor")
    faults = {
        "no findings": lambda d: d["findings"].clear(),
        "a key is missing": lambda d: d.pop("tracking"),
        "a key too many": lambda d: d.update(more=1),
        "a number as text": lambda d: d["storage"].update(free_bytes="1"),
        "a negative number": lambda d: d["topology"].update(cores=-1),
        "a topology key that is none": lambda d: d["topology"].update(sockets=1),
        "another verdict": lambda d: d["findings"][0].update(verdict="maybe"),
        "a no without a remedy": lambda d: d["findings"][1].pop("remedy"),
        "a no with an empty cause": lambda d: d["findings"][1].update(cause=""),
        "a yes with a cause": lambda d: d["findings"][0].update(cause="none"),
    }
    problems = [f"a right document: {problem}" for problem in problems_of(schema, RIGHT)]
    return problems + [
        f"{what}: not caught"
        for what, change in faults.items()
        if not problems_of(schema, planted(change))
    ]


def main():
    if jsonschema is None:
        print("SKIPPED: python3-jsonschema is not installed")
        return SKIPPED
    if sys.argv[1] == "--self-test":
        problems = self_test(sys.argv[2])
    else:
        problems = check(sys.argv[1], sys.argv[sys.argv.index("--tool") + 1])
    print("\n".join(problems) or "json_schema: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
