#!/usr/bin/env python3
"""symbols.py REFERENCE OURS | --self-test -- each symbol that GCC's libitm defines, ours defines
under the same version.

`nm -D --with-symbol-versions --defined-only` of both libraries is compared: name, version, whether
the version is the default one, and the kind (code, data, weak). Symbols that only ours has are
counted, not refused. Exit code 1: something is missing.
"""

import subprocess
import sys

VERSIONS = ("LIBITM_1.0", "LIBITM_1.1")


def symbols_of(text):
    """Names with versions, as _ITM_malloc@@LIBITM_1.0, and the nodes themselves; each with its
    kind."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2:
            continue
        found[words[-1]] = words[-2]
    return found


def is_code(kind):
    return kind in "TtWwi"


def compare(reference, ours):
    """Problems, and one line that counts."""
    problems = []
    for version in VERSIONS:
        for name, symbols in (("the reference", reference), ("ours", ours)):
            if not any(symbol.split("@")[-1] == version for symbol in symbols):
                problems.append(f"{name} has no symbol of version {version}")
    for symbol, kind in sorted(reference.items()):
        if symbol not in ours:
            name, _, version = symbol.partition("@")
            others = [other for other in ours if other.partition("@")[0] == name]
            instead = f"; ours has {', '.join(sorted(others))}" if others else ""
            problems.append(f"missing: {name} {version.strip('@') or '(a version)'}{instead}")
        elif kind != "A" and is_code(kind) != is_code(ours[symbol]):
            problems.append(f"{symbol} is {ours[symbol]!r} in ours and {kind!r} in the reference")
    both = len(reference.keys() & ours.keys())
    extra = len(ours.keys() - reference.keys())
    return problems, f"{both} of {len(reference)} symbols, {extra} that only ours has"


def read(path):
    answer = subprocess.run(
        ["nm", "-D", "--with-symbol-versions", "--defined-only", path],
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        sys.exit(answer.stderr.strip() or f"nm refuses {path}")
    return symbols_of(answer.stdout)


def self_test():
    text = (
        "0000000000000000 A LIBITM_1.0\n"
        "0000000000000000 A LIBITM_1.1\n"
        "000000000000a980 T _ITM_malloc@@LIBITM_1.0\n"
        "000000000000a990 T _ZGTtdlPvm@@LIBITM_1.1\n"
    )
    reference = symbols_of(text)
    assert len(reference) == 4 and reference["_ITM_malloc@@LIBITM_1.0"] == "T"
    assert compare(reference, symbols_of(text)) == ([], "4 of 4 symbols, 0 that only ours has")
    more = symbols_of(text + "000000000000b000 T _ITM_more@@LIBITM_1.0\n")
    assert compare(reference, more) == ([], "4 of 4 symbols, 1 that only ours has")
    for bad, told in (
        (text.replace("_ITM_malloc", "_ITM_mallok"), "missing: _ITM_malloc LIBITM_1.0"),
        (text.replace("malloc@@LIBITM_1.0", "malloc@@LIBITM_1.1"), "ours has _ITM_malloc@@"),
        (text.replace("malloc@@LIBITM_1.0", "malloc"), "missing: _ITM_malloc LIBITM_1.0"),
        (text.replace("malloc@@", "malloc@"), "ours has _ITM_malloc@LIBITM_1.0"),
        (text.replace("a980 T", "a980 D"), "is 'D' in ours"),
        ("", "ours has no symbol of version LIBITM_1.1"),
    ):
        problems, _ = compare(reference, symbols_of(bad))
        assert any(told in problem for problem in problems), (told, problems)
    print("self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    problems, count = compare(read(sys.argv[1]), read(sys.argv[2]))
    print("\n".join([*problems, count]))
    return sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
