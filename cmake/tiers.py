"""tiers.py -- which tests are in the quick tier, that of ./check, and which are in ./check --full
alone.

tests/tiers.txt has a line for each file of tests: "<folder>/<stem> quick" or "<folder>/<stem> full
<why>". A quick file's tests are all in the quick tier; of a test with parameters, one parameter: of
the tests of a suite each takes the next one, so that each parameter is met once. "quick 3": three
parameters of each test, evenly spread. "quick =<regular expression>": only tests with such a name.
A test that is left out has the label "full" and why: "parameters" or "rest". "needs:rtm" or
"needs:keys=<regular expression>": what the machine must have for the file, or for tests with such a
name (tests/support/unavailable_modes.cpp). What stands behind " #" is for the reader.
"""

import re

# As cmake/test_programs.cmake reads it.
LINE = re.compile(r"^[a-z_]+/[a-z0-9_]+ +(quick|full)( |$)")
WORD = re.compile(r"[1-9][0-9]*|=.+|needs:(rtm|keys)(=.+)?")


def read_table(path):
    """{stem: (tier, rest of the line)}"""
    table = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            line = re.sub(r"(^| )#.*", "", line.rstrip("\n"))
            words = line.split()
            if not words:
                continue
            if not LINE.match(line):
                raise SystemExit(f"{path}: not a line of a tier: {line}")
            if words[1] == "full" and (len(words) < 3 or not words[2].isalpha()):
                raise SystemExit(f"{path}: full, but not why, in one word: {line}")
            check_words(words[2 if words[1] == "quick" else 3 :], f"{path}: {line}")
            stem = words[0].partition("/")[2]
            if stem in table:
                raise SystemExit(f"{path}: {stem} stands there twice")
            table[stem] = (words[1], words[2:], words[0].partition("/")[0])
    return table


def check_words(words, where):
    for word in words:
        if not WORD.fullmatch(word):
            raise SystemExit(f"{where}: what is {word}?")
        try:
            re.compile(word.partition("=")[2])
        except re.error as error:
            raise SystemExit(f"{where}: {word} is no regular expression: {error}") from None
    kinds = ["=" if word[0] == "=" else "n" for word in words if not word.startswith("needs:")]
    if len(set(kinds)) < len(kinds):
        raise SystemExit(f"{where}: one number and one regular expression at most")


def needs_of(stem, case, table):
    """What the test needs of the machine."""
    needs = []
    for word in table[stem][1] if stem in table else []:
        if word.startswith("needs:"):
            what, _, pattern = word.removeprefix("needs:").partition("=")
            needs += [what] if re.search(pattern, case) else []
    return needs


def spread(count, wanted, start):
    """`wanted` of range(count), evenly spread, from `start` on."""
    wanted = min(wanted, count)
    return {(start + i * count // wanted) % count for i in range(wanted)}


def labels_of(cases, table):
    """For each (stem, case): the words of its labels that are about the tier."""
    by_test, suites, order = {}, {}, {}
    for stem, case in cases:
        test, _, parameter = case.partition(".")[2].partition("/")
        suite = (stem, case.partition(".")[0])
        key = (*suite, test)
        if key not in order:
            order[key] = suites[suite] = suites.get(suite, -1) + 1
        if parameter:
            by_test.setdefault(key, []).append(case)
    chosen = {}
    for key, variants in by_test.items():
        words = table[key[0]][1] if key[0] in table else []
        wanted = next((int(word) for word in words if word.isdigit()), 1)
        kept = spread(len(variants), wanted, order[key])
        chosen.update({(key[0], case): i in kept for i, case in enumerate(variants)})
    labels = []
    for stem, case in cases:
        if stem not in table:
            raise SystemExit(f"tests/tiers.txt does not say the tier of {stem}")
        tier, words, _ = table[stem]
        pattern = next((word[1:] for word in words if word.startswith("=")), "")
        if tier == "full":
            labels.append(("full", words[0]))
        elif pattern and not re.search(pattern, case):
            labels.append(("full", "rest"))
        elif not chosen.get((stem, case), True):
            labels.append(("full", "parameters"))
        else:
            labels.append(("quick",))
    return labels
