#!/usr/bin/env python3
"""live_vectors.py <object>... | --self-test -- what runs inside an emulated transaction calls
nothing of libc.

A transaction's vector registers stay in the processor while the emulator works on it. The emulator
is compiled without vector registers; a call into libc, memcpy for a struct copy, say, would spoil
them unseen. Rule: exec, txmem, pages and system have no undefined symbol but those of the emulator
itself (decode uses Zydis, between a save and a restore; domain and publish call libc when a thread
joins, not later).
"""

import re
import subprocess
import sys

INSIDE = re.compile(r"/(exec|txmem|pages|system)\.cpp\.o$")
OURS = re.compile(r"^(_ZNK?3tmh3rtm|tmh_rtm_|_GLOBAL_OFFSET_TABLE_$)")


def foreign(listing):
    return [
        line.split()[-1]
        for line in listing.splitlines()
        if line.split()[:1] == ["U"] and not OURS.match(line.split()[-1])
    ]


def main():
    if sys.argv[1] == "--self-test":
        problems = (
            []
            if foreign("   U _ZN3tmh3rtm8even_seqEv\n   U memcpy\n 0 T main\n") == ["memcpy"]
            else ["memcpy is not reported"]
        )
    else:
        objects = [name for name in sys.argv[1:] if INSIDE.search(name)]
        problems = [] if len(objects) == 4 else [f"looked for 4 objects, found {objects}"]
        for name in objects:
            listing = subprocess.run(
                ["nm", "-u", name], capture_output=True, text=True, check=True
            ).stdout
            problems += [f"{name}: calls {symbol}" for symbol in foreign(listing)]
    print("\n".join(problems) or "live vectors: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
