#!/usr/bin/env python3
"""lock_protocol.py [<root>] | --quick | --list | --part <name> | --self-test
| --one "<configuration>" -- spin checks levels/lock/lock.pml.

The modes are those of protocol.py, which explains them.

A configuration: what each locker locks, one after the other, before it gives both back; a second
round stands behind ";". "12, 23, 31": a ring of three. "12; 21, 21": the first locks object 1 and
then 2, and later 2 and then 1. Options are the model's macros; "cycles" as for protocol.py.
"""

import os
import sys

import protocol
from protocol import QUICK

# Name, configuration, seconds; the quick mode searches what is marked.
CHECKS = [
    ("a chain, woken", "12, 23, 3 | looks=0", 1.0, QUICK),
    ("a queue, woken", "1, 1, 1 | looks=0", 1.4),
    ("two in a cycle", "12, 21 | victims=1", 0.9),
    ("two in a cycle, all go on", "12, 21 | cycles", 1.0),
    ("three in a cycle", "12, 23, 31 | victims=1", 21.6),
    ("a chain loses none", "12, 23, 3 | victims=0", 4.0),
    ("two rounds", "12; 21, 21; 12", 3.3),
    ("death", "12, 21 | deaths=1", 1.2),
    ("death, all go on", "12, 21 | deaths=1 cycles", 1.5, QUICK),
    ("the heir dies, too", "1, 1, 1 | deaths=2", 13.3),
]
LONG = [("death in a ring", "12, 23, 31 | deaths=1")]
# The fault's number, what it is, a configuration that must show it, seconds.
FAULTS = [
    (1, "who grants wakes nobody", "1, 1 | looks=0", 0.6, QUICK),
    (2, "a waiter looks before it reads the futex's word", "1, 1 | looks=0", 0.6),
    (3, "a cycle is read once", "12; 21, 21; 12", 1.0, QUICK),
    (4, "two look at once", "12, 21", 0.6, QUICK),
    (5, "nobody looks whether a holder lives", "1, 1 | deaths=1", 0.6),
    (6, "an heir does not say so", "1, 1, 1 | deaths=1", 10.0),
    (7, "a victim goes while it is in its queue", "12, 21", 0.6),
]


def macros_of(text):
    lockers = [[round_.strip() for round_ in locker.split(";")] for locker in text.split(",")]
    macros = {"LOCKERS": str(len(lockers))}
    for i, rounds in enumerate(lockers, 1):
        for j, objects in enumerate(rounds, 1):
            macros[f"A{i}{j}"] = objects[0]
            macros[f"B{i}{j}"] = objects[1] if len(objects) > 1 else "0"
    return macros


def search(root, text, plant=0, show=False):
    what, _, options = text.partition("|")
    macros, own = protocol.options_of(options)
    macros.update(macros_of(what))
    macros["PLANT"] = str(plant)
    return protocol.search_model(os.path.join(root, "levels/lock/lock.pml"), macros, own, show)


# What the model asserts, by a part of it.
FOUND = [
    ("j_real", "who is in no cycle fails"),
    ("victims", "more or fewer fail than there are cycles"),
    ("is_heir", "two are heirs of one"),
    ("in_queue", "a request that is in a queue is freed"),
    ("invalid end state", "a waiter is left"),
]


def name_of(verdict):
    return next((name for part, name in FOUND if part in verdict), verdict)


def main():
    models = [protocol.Model("lock", CHECKS, FAULTS, LONG, ("safety", "waiters go on"))]
    return protocol.Script("lock_protocol.py", models, search, name_of).main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
