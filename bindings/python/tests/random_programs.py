#!/usr/bin/env python3
"""random_programs.py [--seed S] [--count N] [...] -- random Python programs on tmh and on a model.

Each program runs on both; what it notes, and all that it leaves, must be equal. Programs of a seed
are the same everywhere. One that differs is shortened, and printed with its seed; the exit status
is 1 then.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import pathlib
import sys
import tempfile
import warnings

import numpy as np

import tmh
from program_maker import make_program
from program_model import Model
from program_worlds import Tmh

# Domains that programs run on, in turns, so many at a time: durability, levels, outside.
SETTINGS = [
    ("none", "hybrid", "error"), ("none", "page", "snapshot"), ("buffered", "page", "error"),
    ("none", "page", "error"), ("none", "hybrid", "snapshot"), ("strict", "hybrid", "error"),
    ("buffered", "hybrid", "snapshot"), ("strict", "page", "snapshot"),
]
# Of the strict ones each commit waits for the disk.
PROGRAMS_IN_TURN = {"none": 60, "buffered": 20, "strict": 5}


def run(world, program):
    """The notes of a program, and what it leaves."""
    try:
        exec(program, world.names())
    except Exception as error:
        world.note("the program ends by", error)
    return world.notes, world.content()


def difference(world, outside, blocks):
    """None, or what differs first: on tmh, in the model."""
    program = compile("\n".join(blocks), "program", "exec")
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        world.begin()
        found, wanted = run(world, program), run(Model(outside), program)
    if found == wanted:
        return None
    for number, (one, other) in enumerate(itertools.zip_longest(found[0], wanted[0])):
        if one != other:
            return f"note {number}", one, other
    for name in wanted[1]:
        if found[1][name] != wanted[1][name]:
            return name, found[1][name], wanted[1][name]
    raise AssertionError("nothing differs")


def shortened(world, outside, blocks):
    """As few of the blocks as still differ, and how; None where they differ no more.

    A block alone may miss a name, in both worlds alike.
    """
    last = None
    for size in (4, 2, 1):
        at = 0
        while at < len(blocks):
            fewer = blocks[:at] + blocks[at + size:]
            found = difference(world, outside, fewer)
            if found is not None:
                blocks, last = fewer, found
            else:
                at += size
    return blocks, last


def seeds_in_turns(first, count, settings):
    """Pairs of settings and seeds."""
    seeds = iter(range(first, first + count))
    for chosen in itertools.cycle(settings):
        turn = list(itertools.islice(seeds, PROGRAMS_IN_TURN[chosen[0]]))
        if not turn:
            return
        yield chosen, turn


def failures(first, count, folder, settings=SETTINGS):
    """A text for each program that differs."""
    for number, (chosen, seeds) in enumerate(seeds_in_turns(first, count, settings)):
        durability, levels, outside = chosen
        path = pathlib.Path(folder) / f"domain{number}"
        with tmh.open(path, durability, levels=levels) as domain:
            world = Tmh(domain, outside)
            for seed in seeds:
                blocks = make_program(seed)
                whole = difference(world, outside, blocks)
                if whole is None:
                    continue
                blocks, short = shortened(world, outside, blocks)
                where, found, wanted = short or whole
                text = "\n".join(blocks)
                yield (
                    f"seed {seed}, {', '.join(chosen)}: {where} differs\n  tmh:   {found}\n"
                    f"  model: {wanted}\n{text}\n"
                )
            world.begin()
            kept = world.content()
            del world
            gc.collect()
        # What the last one left is there when the domain is opened again.
        with tmh.open(path, levels=levels) as domain:
            if Tmh(domain, outside).content() != kept and durability != "none":
                yield f"seeds {seeds[0]} to {seeds[-1]}, {', '.join(chosen)}: lost when closed\n"
            gc.collect()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", type=int, default=500, help="of programs")
    parser.add_argument("--levels", choices=["page", "hybrid"], help="only these")
    parser.add_argument("--durability", choices=["none", "buffered", "strict"], help="only this")
    parser.add_argument("--failures", type=int, default=1, help="ends after so many")
    parser.add_argument("--print", action="store_true", help="prints the programs, runs none")
    options = parser.parse_args()
    if options.print:
        for seed in range(options.seed, options.seed + options.count):
            print(f"# seed {seed}", *make_program(seed), sep="\n")
        return 0
    settings = [
        each for each in SETTINGS
        if options.durability in (None, each[0]) and options.levels in (None, each[1])
    ]
    # Not every function is called; some go later than their program.
    warnings.filterwarnings("ignore", ".*was never called")
    with tempfile.TemporaryDirectory() as folder:
        found = failures(options.seed, options.count, folder, settings)
        told = list(itertools.islice(found, options.failures))
        found.close()
        gc.collect()
    print(*told, sep="\n", end="")
    print(f"{options.count} programs from seed {options.seed}: {len(told)} failures")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
