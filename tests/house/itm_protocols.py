#!/usr/bin/env python3
"""itm_protocols.py [<root>] | --quick | --list | --part <name> | --self-test
| --one "<configuration>" -- spin checks compat/libitm/gate.pml and levels/process/words.pml,
which includes owners.pml.

The modes are those of protocol.py, which explains them.

A configuration of the gate: "gate", and what each thread does ("long" reads until it is asked to
move on, "goes" begins and becomes irrevocable, "closes" privatises in hardware, "shuts" closes the
way, "learns" reads that and then owns, "dirty" stores and then becomes irrevocable). One of words:
the tasks, and of each its phases. "t r0 w1; p w01 @1": a transaction that loads word 0 and stores
to word 1, then plain stores to both words, after task 1 has ended or is buried (@1). "a": alone,
plain stores; "g": a transaction that goes alone; "l": plain loads; "k": a transaction, and plain
stores if word 0 was stored to. "owners", then tasks of words, with own pages: "o": plain stores of
a task that takes the page; "r": plain loads beside all others; a plain store takes a page of which
the task has a copy. Options are the models' macros; "cycles" as for protocol.py.
"""

import os
import sys

import protocol
from protocol import QUICK

GATE = (
    "nothing reads long writes privatises publishes alone goes hardware closes shuts learns"
    " dirty forks awaits twice".split()
)
KINDS = {"t": 1, "p": 2, "a": 3, "g": 4, "l": 5, "k": 6, "r": 7, "o": 8}
# Name, configuration, seconds; the quick mode searches what is marked.
GATE_CHECKS = [
    ("privatisation", "gate reads, writes, privatises", 1.1),
    ("waiters go on", "gate reads, writes, privatises | cycles", 2.9),
    ("a long reader is asked", "gate long, writes, privatises", 1.2),
    ("two become irrevocable", "gate goes, goes, alone", 0.5),
    ("irrevocable beside commits", "gate goes, privatises, writes", 1.3),
    ("irrevocable, with stores", "gate dirty, privatises, writes", 3.2),
    ("two, with stores, waiters go on", "gate dirty, dirty, goes | cycles", 1.5),
    ("all three ways, waiters go on", "gate goes, alone, privatises | cycles", 0.8, QUICK),
    ("publication", "gate reads, publishes, alone | open=0", 0.6),
    ("hardware beside software", "gate hardware, writes, privatises | cycles", 2.9),
    ("hardware privatises", "gate reads, closes, writes", 0.9),
    ("hardware and alone", "gate hardware, alone, goes", 0.6, QUICK),
    ("who has only read", "gate writes, shuts, learns", 1.0, QUICK),
    ("who has only read, waiters go on", "gate reads, shuts, learns | cycles", 1.0),
    ("a fork beside stores", "gate forks, writes, goes | cycles", 1.0),
    ("a fork that an irrevocable one awaits", "gate forks, awaits, dirty | cycles", 1.0),
    ("two forks beside one that is alone twice", "gate forks, twice, forks | cycles", 1.0),
]
WORDS_CHECKS = [
    ("conflicts", "t r1 w0; t r1 w1, t r1 w0; t r0 w0", 1.1, QUICK),
    ("waiters go on", "t r0 w0; t r1, t r0 w0; t r0 w0 | cycles", 1.4, QUICK),
    ("three transactions", "t r01, t r0 w0, t r1 w1", 2.1),
    ("serializable", "t r01 w0, t r01 w1 | pages=2 serializable=1", 1.2),
    ("a holder commits, too", "t r0; t r01, p w1; t r0 w0; p w1", 1.4),
    ("the same on two pages", "t r0; t r01, p w1; t r0 w0; p w1 | pages=2", 1.4),
    ("two holders", "t r0, p w0, p w1", 14.1),
    ("publication", "p w1; t r0 w0, k r0 w1; t r1", 1.2),
    ("alone", "t r0 w0; t r01 w1, a w01", 1.3),
    ("two go alone", "g r0 w0; t r1 w1, g r1 w0", 1.2),
    ("three, one alone", "t r0 w0, t r1 w1, a w1", 2.3),
    ("trimmed", "t r0 w0; t r01, t r01 w01; t r0 w0 | pages=2 trim=2", 2.0),
    ("trimmed, goes alone", "g r01, t r0 w0; p w1 | trim=2", 1.4),
    ("trimmed, holders", "t r01; t r01, p w1; t r1 w0 | pages=2 trim=1", 1.4),
    ("death", "t r0 w0; t r01, t r0 w0; p w1 | deaths=1", 3.9),
    ("joined after a death", "t r01 w01, l r01 @1; t r01 | pages=2 deaths=1", 2.6),
    ("death, stored to afterwards", "t r01 w01, p w0 @1; t r01 | pages=2 deaths=1", 2.5),
    ("death, alone", "t r01 w01; p w0, g r01 w1; t r01 | deaths=1", 4.0),
    ("death of a holder", "p w1; t w0, t r01 w0; t r01 | deaths=1", 7.4),
    ("death, waiters go on", "t r0 w0; t r1, t r0 w0 | deaths=1 cycles", 4.2),
    ("the heir dies, too", "t r01 w01, t r0 w0, t r01 @1 | deaths=2 tries=1", 6.7),
    ("the heir dies, two pages", "t r01 w01, t r01 w01 | pages=2 deaths=2", 4.0),
]
OWNERS_CHECKS = [
    ("beside a transaction", "owners o w0; t w1, t r0 w1", 2.7),
    ("beside plain loads", "owners o w0; t w0, r r0 | tries=1", 2.1, QUICK),
    ("beside a committer", "owners o w0; t w0, t w1 | tries=1", 2.5),
    ("taken where a copy was", "owners t r0; p w0; t w0, t r1 w1 | tries=1 cancels=0", 2.7),
    ("each wants the other's", "owners o w0; p w1, o w1; p w0 | pages=2", 13.5),
    ("asked while another copies", "owners o w0; t w1, t r1, r r0 | tries=1 cancels=0", 18.7),
    ("waiters go on", "owners o w0; p w1, o w1; t r0 | pages=2 tries=1 cycles", 16.9),
    ("two die", "owners o w0; t w0, r r0 | deaths=2 tries=1 cancels=0", 8.2),
    ("death", "owners o w0; t w0, p w1 | deaths=1 mortal=2 tries=1 cancels=0", 23.3),
]
WORDS_LONG = [
    ("death of holders", "p w01; p w01, t r01; t r01 | deaths=1"),
    ("three, one of them twice", "t r01, a w01; t r0 w0, g r01 w1"),
    ("two holders, a commit between", "t r0, t w1; p w0, p w0 | pages=2 tries=1"),
    ("three, death", "t r0 w0, t r1 w1; p w1 @1, g r01 | deaths=1"),
]
# The fault's number, what it is, a configuration that must show it, seconds.
GATE_FAULTS = [
    (1, "a begin looks for a lone thread before it shows itself", "gate reads, alone", 0.8),
    (2, "a lone thread does not wait for others", "gate reads, alone", 0.7),
    (3, "a committer does not wait for readers", "gate reads, privatises", 0.5, QUICK),
    (4, "readers are not asked to move on", "gate long, privatises", 0.6),
    (5, "a lone thread looks at others before it says so", "gate reads, alone", 0.6),
    (6, "of two that become irrevocable, the second waits inside", "gate goes, goes", 0.5, QUICK),
    (7, "a snapshot moves on although a line has changed", "gate reads, privatises", 0.6),
    (8, "an irrevocable one trusts what it has read", "gate goes, privatises", 0.5),
    (9, "one that begins again, alone, waits inside", "gate goes, goes", 0.6),
    (10, "a slot is counted behind its first begin", "gate reads, alone", 0.5),
    (11, "committers wait inside", "gate writes, privatises", 0.6),
    (12, "hardware does not look for a lone thread", "gate hardware, alone", 0.5, QUICK),
    (13, "hardware without barriers beside software", "gate reads, closes", 0.6),
    (14, "hardware does not wait for readers", "gate reads, closes", 0.5),
    (15, "an abort gives words back as they were", "gate writes, shuts, reads", 0.5),
    (16, "an abort gives words back before the bytes", "gate writes, shuts, reads", 0.5),
    (17, "who has only read does not wait", "gate writes, shuts, learns", 0.5, QUICK),
    (18, "one that goes alone waits outside", "gate dirty, privatises", 0.5),
    (19, "an abort restores behind its end", "gate dirty, privatises", 0.5),
    (20, "a fork does not wait for who is alone", "gate forks, alone", 0.5),
    (21, "a fork does not look again who is alone", "gate forks, twice", 0.5),
    (22, "who has been displaced ends being alone for the fork", "gate forks, awaits, alone", 0.5),
    (23, "a fork gives back the name of one that has ended", "gate forks, awaits", 0.5),
]
WORDS_FAULTS = [
    (1, "a holder reads touched before it sets its bit", "t r0; t r01, p w1; t r0 w0", 1.2),
    (2, "a toucher reads the holders behind the copy", "t r0; t r01, p w1; t r0 w0", 1.1, QUICK),
    (3, "home is stored to without the busy bit", "t r01, t r01 w01", 1.1, QUICK),
    (4, "an image says nothing of other holders", "t r0, t w1; p w0, p w0 | pages=2 tries=1", 5.0),
    (5, "a lone task does not look at pins", "t r01, a w01", 1.4),
    (
        6,
        "a chunk is given away before trimmed says so",
        "t r0; t r0, t r0 w0; t r0 w0 | trim=2",
        1.4,
    ),
    (
        7,
        "the heir of the lock repairs nothing",
        "t r01 w01, l r01 @1; t r01 | pages=2 deaths=1",
        2.4,
    ),
    (8, "a toucher does not look at trimmed", "t r0; t r0, t r0 w0; t r0 w0 | trim=2", 1.5),
    (9, "the clock shows a commit before home has it", "t r01, t r01 w01 | pages=2", 1.6),
    (10, "a holder lets go before released says so", "t r1, t w0; p w1 | pages=2", 1.6),
    (11, "a page that is held is clear in any case", "t r1, t w0; p w1 | pages=2", 1.6),
    (12, "the copy of a held page is kept", "t r0; t r01, p w1; t r0 w0; p w1", 2.0),
    (13, "the pin is stored behind the copies", "t r01, a w01", 1.4),
    (14, "a begin looks for a lone task before it pins", "t r01, a w01", 1.5),
    (15, "conflicts are looked for before the lock is taken", "t r0 w0, t r0 w0", 1.5),
    (16, "one that goes alone does not look at trimmed", "g r01, t r0 w0; p w1 | trim=2", 1.8),
    (
        17,
        "a dead task is joined before its commit is whole",
        "t w01, l r01 @1 | pages=2 deaths=1",
        3.3,
    ),
    (18, "a toucher reads the holders before the touched bit", "t r0; t r01, p w1; t r0 w0", 1.5),
]
OWNERS_FAULTS = [
    (
        20,
        "a toucher does not count owners",
        "owners o w0; t w1, t r1, r r0 | tries=1 cancels=0",
        8.4,
    ),
    (21, "an owner does not look at sharers", "owners o w0; t w0, r r0 | tries=1", 2.4),
    (22, "a page is taken without the commit lock", "owners o w0; t w0, t w1 | tries=1", 2.3),
    (23, "it is given away before home has its image", "owners o w0; t w0, r r0 | tries=1", 2.5),
    (
        24,
        "the list loses what has its owner yet",
        "owners o w0; t w1, r r0 | deaths=1 tries=1",
        6.9,
    ),
    (
        25,
        "an image put back behind its end",
        "owners o w0; t w0, p w1 | deaths=1 mortal=2 tries=1",
        18.7,
    ),
    (26, "a committer does not look for an owner", "owners o w0; t w0, t w1 | tries=1", 2.3, QUICK),
    (27, "a waiter does not answer", "owners o w0; p w1, o w1; p w0 | pages=2", 4.5),
    (
        28,
        "an owner counts before its flag",
        "owners o w0; t w1, t r1, r r0 | tries=1 cancels=0",
        8.7,
    ),
    (29, "a toucher does not look for an owner", "owners o w0; t w0, t r0 | tries=1", 2.9),
    (
        30,
        "an image put back over a commit",
        "owners o w0; t w0, p w1 | deaths=1 mortal=2 tries=1",
        7.5,
    ),
]


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
    macros, own = protocol.options_of(options)
    is_gate = what.startswith("gate ")
    if what.startswith("owners "):
        what = what[7:]
        macros["OWN"] = "1"
    macros.update(macros_of_gate(what[5:]) if is_gate else macros_of_words(what))
    macros["PLANT"] = str(plant)
    model = "compat/libitm/gate.pml" if is_gate else "levels/process/words.pml"
    return protocol.search_model(os.path.join(root, model), macros, own, show)


# What the judges of the models assert, by a part of it.
FOUND = [
    ("copy[k]", "a copy does not show what the pin shows"),
    ("last_commit", "two commits to a word overlap"),
    ("inside", "another one is inside"),
    ("is_lone", "another one is inside"),
    ("is_undoable", "a fork sees what may be undone"),
    ("displaced", "a name is left"),
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
    kinds = ("safety", "waiters go on")
    models = [
        protocol.Model("gate", GATE_CHECKS, GATE_FAULTS, kinds=(*kinds, "hardware")),
        # These two are one model in two files; the second takes a compiler seconds each time.
        protocol.Model("words", WORDS_CHECKS, WORDS_FAULTS, WORDS_LONG, kinds, (2, 2)),
        protocol.Model("owners", OWNERS_CHECKS, OWNERS_FAULTS, kinds=("safety",), quick_min=(1, 1)),
    ]
    return protocol.Script("itm_protocols.py", models, search, name_of).main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
