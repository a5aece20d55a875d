#!/usr/bin/env python3
"""itm_protocols.py <root> | --self-test | --one "<configuration>" <root> -- spin checks
compat/libitm/gate.pml and compat/libitm/pages/words.pml, which includes owners.pml.

<root>       every configuration below is searched exhaustively, without an error; TMH_LONG=1: the
             large ones too
--self-test  every fault that the models can plant (PLANT=n) is found
--one        one configuration, and the steps of the error that it has, if any

A configuration of the gate: "gate", and what each thread does ("long" reads until it is asked to
move on, "goes" begins and becomes irrevocable, "closes" privatises in hardware). One of words: the
tasks, and of each its phases. "t r0 w1; p w01 @1": a transaction that loads word 0 and stores to
word 1, then plain stores to both words, after task 1 has ended or is buried (@1). "a": alone, plain
stores; "g": a transaction that goes alone; "l": plain loads; "k": a transaction, and plain stores
if word 0 was stored to. "owners", then tasks of words, with own pages: "o": plain stores of a task
that takes the page; "r": plain loads beside all others; a plain store takes a page of which the
task has a copy. Options are the models' macros; "cycles" as for protocol.py.
"""

import os
import sys

import protocol

GATE = "nothing reads long writes privatises publishes alone goes hardware closes".split()
KINDS = {"t": 1, "p": 2, "a": 3, "g": 4, "l": 5, "k": 6, "r": 7, "o": 8}
CHECKS = [
    ("gate: privatisation", "gate reads, writes, privatises"),
    ("gate: waiters go on", "gate reads, writes, privatises | cycles"),
    ("gate: a long reader is asked", "gate long, writes, privatises"),
    ("gate: two become irrevocable", "gate goes, goes, alone"),
    ("gate: irrevocable beside commits", "gate goes, privatises, writes"),
    ("gate: all three ways, waiters go on", "gate goes, alone, privatises | cycles"),
    ("gate: publication", "gate reads, publishes, alone | open=0"),
    ("gate: hardware beside software", "gate hardware, writes, privatises | cycles"),
    ("gate: hardware privatises", "gate reads, closes, writes"),
    ("gate: hardware and alone", "gate hardware, alone, goes"),
    ("words: conflicts", "t r1 w0; t r1 w1, t r1 w0; t r0 w0"),
    ("words: waiters go on", "t r0 w0; t r1, t r0 w0; t r0 w0 | cycles"),
    ("words: three transactions", "t r01, t r0 w0, t r1 w1"),
    ("words: serializable", "t r01 w0, t r01 w1 | pages=2 serializable=1"),
    ("words: a holder commits, too", "t r0; t r01, p w1; t r0 w0; p w1"),
    ("words: the same on two pages", "t r0; t r01, p w1; t r0 w0; p w1 | pages=2"),
    ("words: two holders", "t r0, p w0, p w1"),
    ("words: publication", "p w1; t r0 w0, k r0 w1; t r1"),
    ("words: alone", "t r0 w0; t r01 w1, a w01"),
    ("words: two go alone", "g r0 w0; t r1 w1, g r1 w0"),
    ("words: three, one alone", "t r0 w0, t r1 w1, a w1"),
    ("words: trimmed", "t r0 w0; t r01, t r01 w01; t r0 w0 | pages=2 trim=2"),
    ("words: trimmed, goes alone", "g r01, t r0 w0; p w1 | trim=2"),
    ("words: trimmed, holders", "t r01; t r01, p w1; t r1 w0 | pages=2 trim=1"),
    ("words: death", "t r0 w0; t r01, t r0 w0; p w1 | deaths=1"),
    ("words: joined after a death", "t r01 w01, l r01 @1; t r01 | pages=2 deaths=1"),
    ("words: death, stored to afterwards", "t r01 w01, p w0 @1; t r01 | pages=2 deaths=1"),
    ("words: death, alone", "t r01 w01; p w0, g r01 w1; t r01 | deaths=1"),
    ("words: death of a holder", "p w1; t w0, t r01 w0; t r01 | deaths=1"),
    ("words: death, waiters go on", "t r0 w0; t r1, t r0 w0 | deaths=1 cycles"),
    ("words: the heir dies, too", "t r01 w01, t r0 w0, t r01 @1 | deaths=2 tries=1"),
    ("words: the heir dies, two pages", "t r01 w01, t r01 w01 | pages=2 deaths=2"),
    ("owners: beside a transaction", "owners o w0; t w1, t r0 w1"),
    ("owners: beside plain loads", "owners o w0; t w0, r r0 | tries=1"),
    ("owners: beside a committer", "owners o w0; t w0, t w1 | tries=1"),
    ("owners: taken where a copy was", "owners t r0; p w0; t w0, t r1 w1 | tries=1 cancels=0"),
    ("owners: each wants the other's", "owners o w0; p w1, o w1; p w0 | pages=2"),
    ("owners: asked while another copies", "owners o w0; t w1, t r1, r r0 | tries=1 cancels=0"),
    ("owners: waiters go on", "owners o w0; p w1, o w1; t r0 | pages=2 tries=1 cycles"),
    ("owners: two die", "owners o w0; t w0, r r0 | deaths=2 tries=1 cancels=0"),
    ("owners: death", "owners o w0; t w0, p w1 | deaths=1 mortal=2 tries=1 cancels=0"),
]
LONG = [
    ("words: death of holders", "p w01; p w01, t r01; t r01 | deaths=1"),
    ("words: three, one of them twice", "t r01, a w01; t r0 w0, g r01 w1"),
    ("words: two holders, a commit between", "t r0, t w1; p w0, p w0 | pages=2 tries=1"),
    ("words: three, death", "t r0 w0, t r1 w1; p w1 @1, g r01 | deaths=1"),
]
# The fault's number, and a configuration that must show it.
GATE_FAULTS = [
    (1, "a begin looks for a lone thread before it shows itself", "gate reads, alone"),
    (2, "a lone thread does not wait for others", "gate reads, alone"),
    (3, "a committer does not wait for readers", "gate reads, privatises"),
    (4, "readers are not asked to move on", "gate long, privatises"),
    (5, "a lone thread looks at others before it says so", "gate reads, alone"),
    (6, "of two that become irrevocable, the second waits inside", "gate goes, goes"),
    (7, "a snapshot moves on although a line has changed", "gate reads, privatises"),
    (8, "an irrevocable one trusts what it has read", "gate goes, privatises"),
    (9, "one that begins again, alone, waits inside", "gate goes, goes"),
    (10, "a slot is counted behind its first begin", "gate reads, alone"),
    (11, "committers wait inside", "gate writes, privatises"),
    (12, "hardware does not look for a lone thread", "gate hardware, alone"),
    (13, "hardware without barriers beside software", "gate reads, closes"),
    (14, "hardware does not wait for readers", "gate reads, closes"),
]
WORDS_FAULTS = [
    (1, "a holder reads touched before it sets its bit", "t r0; t r01, p w1; t r0 w0"),
    (2, "a toucher reads the holders behind the copy", "t r0; t r01, p w1; t r0 w0"),
    (3, "home is stored to without the busy bit", "t r01, t r01 w01"),
    (4, "an image says nothing of other holders", "t r0, t w1; p w0, p w0 | pages=2 tries=1"),
    (5, "a lone task does not look at pins", "t r01, a w01"),
    (6, "a chunk is given away before trimmed says so", "t r0; t r0, t r0 w0; t r0 w0 | trim=2"),
    (7, "the heir of the lock repairs nothing", "t r01 w01, l r01 @1; t r01 | pages=2 deaths=1"),
    (8, "a toucher does not look at trimmed", "t r0; t r0, t r0 w0; t r0 w0 | trim=2"),
    (9, "the clock shows a commit before home has it", "t r01, t r01 w01 | pages=2"),
    (10, "a holder lets go before released says so", "t r1, t w0; p w1 | pages=2"),
    (11, "a page that is held is clear in any case", "t r1, t w0; p w1 | pages=2"),
    (12, "the copy of a held page is kept", "t r0; t r01, p w1; t r0 w0; p w1"),
    (13, "the pin is stored behind the copies", "t r01, a w01"),
    (14, "a begin looks for a lone task before it pins", "t r01, a w01"),
    (15, "conflicts are looked for before the lock is taken", "t r0 w0, t r0 w0"),
    (16, "one that goes alone does not look at trimmed", "g r01, t r0 w0; p w1 | trim=2"),
    (17, "a dead task is joined before its commit is whole", "t w01, l r01 @1 | pages=2 deaths=1"),
    (18, "a toucher reads the holders before the touched bit", "t r0; t r01, p w1; t r0 w0"),
]
OWNERS_FAULTS = [
    (20, "a toucher does not count owners", "owners o w0; t w1, t r1, r r0 | tries=1 cancels=0"),
    (21, "an owner does not look at sharers", "owners o w0; t w0, r r0 | tries=1"),
    (22, "a page is taken without the commit lock", "owners o w0; t w0, t w1 | tries=1"),
    (23, "it is given away before home has its image", "owners o w0; t w0, r r0 | tries=1"),
    (24, "the list loses what has its owner yet", "owners o w0; t w1, r r0 | deaths=1 tries=1"),
    (25, "an image put back behind its end", "owners o w0; t w0, p w1 | deaths=1 mortal=2 tries=1"),
    (26, "a committer does not look for an owner", "owners o w0; t w0, t w1 | tries=1"),
    (27, "a waiter does not answer", "owners o w0; p w1, o w1; p w0 | pages=2"),
    (28, "an owner counts before its flag", "owners o w0; t w1, t r1, r r0 | tries=1 cancels=0"),
    (29, "a toucher does not look for an owner", "owners o w0; t w0, t r0 | tries=1"),
    (30, "an image put back over a commit", "owners o w0; t w0, p w1 | deaths=1 mortal=2 tries=1"),
]


def options_of(text):
    """(macros, words that are protocol.search_model()'s)."""
    macros, own = {}, {"steps", "large"}
    for word in text.split():
        name, _, value = word.partition("=")
        if name == "cycles":
            own.add(name)
        else:
            macros[name.upper()] = value or "1"
    return macros, own


def macros_of_gate(text):
    programs = [GATE.index(name.strip()) for name in text.split(",")]
    macros = {f"PROGRAM{i}": str(program) for i, program in enumerate(programs, 1)}
    macros["THREADS"] = str(len(programs))
    if max(programs) >= GATE.index("hardware"):
        macros["HAS_HARDWARE"] = "1"
    return macros


def macros_of_words(text):
    tasks = [[phase.split() for phase in task.split(";")] for task in text.split(",")]
    macros = {"TASKS": str(len(tasks)), "PHASES": str(max(len(phases) for phases in tasks))}
    for i in (1, 2, 3):
        phases = tasks[i - 1] if i <= len(tasks) else []
        macros[f"AFTER{i}"] = "0"
        for j in (1, 2, 3):
            words = phases[j - 1] if j <= len(phases) else []
            sets = {word[0]: sum(1 << int(digit) for digit in word[1:]) for word in words[1:]}
            macros[f"KIND{i}{j}"] = str(KINDS[words[0]] if words else 0)
            macros[f"R{i}{j}"] = str(sets.get("r", 0))
            macros[f"W{i}{j}"] = str(sets.get("w", 0))
            if "@" in sets:
                macros[f"AFTER{i}"] = str(sets["@"])
    return macros


def search(root, text, plant=0, show=False):
    what, _, options = text.partition("|")
    macros, own = options_of(options)
    is_gate = what.startswith("gate ")
    if what.startswith("owners "):
        what = what[7:]
        macros["OWN"] = "1"
    macros.update(macros_of_gate(what[5:]) if is_gate else macros_of_words(what))
    macros["PLANT"] = str(plant)
    model = "compat/libitm/gate.pml" if is_gate else "compat/libitm/pages/words.pml"
    return protocol.search_model(os.path.join(root, model), macros, own, show)


# What the judges of the models assert, by a part of it.
FOUND = [
    ("copy[k]", "a copy does not show what the pin shows"),
    ("last_commit", "two commits to a word overlap"),
    ("inside", "another one is inside"),
    ("is_lone", "another one is inside"),
    ("wanted", "home lacks a store"),
    ("reused", "garbage is used"),
    ("has_owner", "a dead task owns a page"),
    ("owner", "what is private is used"),
    ("early", "what is not committed is seen"),
    ("invalid end state", "deadlock"),
]


def name_of(verdict):
    return next((name for part, name in FOUND if part in verdict), verdict)


def main():
    faults = [(number, "gate: " + name, text) for number, name, text in GATE_FAULTS]
    faults += [(number, "words: " + name, text) for number, name, text in WORDS_FAULTS]
    faults += [(number, "owners: " + name, text) for number, name, text in OWNERS_FAULTS]
    return protocol.run_tests(CHECKS, LONG, faults, search, name_of, "itm_protocols.py")


if __name__ == "__main__":
    sys.exit(main())
