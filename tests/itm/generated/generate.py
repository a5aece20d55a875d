#!/usr/bin/env python3
"""generate.py --seed N --first NUMBER --count N -- random programs of transactions, in C++, to
standard output: a file for generated_main.cpp. A program's number and the seed say all of it.

Each program works on the State of its thread (generated.h), so that its end is known: that of the
same source as a plain program. What it has: functions that are transaction_safe, one of them
recursive; scalars of all sizes, bit fields, packed structs, vectors, complex numbers; local arrays
and structs, passed down, by value and as results; nested blocks, some cancelled; exceptions; new,
delete, malloc, free; memcpy, memmove, memset and loops that g++ makes of them; pointers to
functions; containers in relaxed blocks; cells that lie beside the other thread's.
"""

import argparse
import random

# Kind of function: what follows "State *s", its result.
KINDS = {
    "word": (["U x"], "U"),
    "pair": (["U x", "Pair p"], "U"),
    "big": (["Big b"], "U"),
    "array": (["U *out", "U n"], "U"),
    "makes_pair": (["U x"], "Pair"),
    "makes_big": (["Pair p", "U x"], "Big"),
    "reals": (["double r", "float t"], "U"),
    "bytes": (["unsigned char *bytes", "U n"], "U"),
    "to_big": (["Big *b"], "void"),
    "vector": (["V4 v"], "U"),
    "odd": (["const Odd *o", "Odd *out"], "U"),
    "recursive": (["U x", "U depth"], "U"),
}
STATE_WORDS = (
    [f"s->a[{k}]" for k in range(8)]
    + ["s->p.x", "s->p.y", "s->big.a", "s->big.c", "s->big.e", "s->odd.u", "s->bits.d"]
    + [f"program_shared.cells[{k}][s->me]" for k in range(0, 16, 3)]
)
STATE_SMALL = (
    [f"s->i[{k}]" for k in range(8)]
    + [f"s->h[{k}]" for k in range(8)]
    + [f"s->c[{k}]" for k in range(0, 64, 5)]
    + ["s->bits.a", "s->bits.b", "s->bits.c", "s->odd.s", "s->odd.i", "s->odd.c", "s->odd.t[2]"]
    + ["s->v[0][1]", "s->v[1][3]", "s->q[2]"]
    + [f"program_shared.ints[{k}][s->me]" for k in range(0, 16, 3)]
    + [f"program_shared.bytes[{k}][s->me]" for k in range(0, 32, 5)]
)


class Scope:
    """What a statement may name."""

    def __init__(self, outer=None):
        self.words = list(outer.words) if outer else []
        self.arrays = list(outer.arrays) if outer else []  # (name, elements: a power of two)
        self.bytes = list(outer.bytes) if outer else []  # (name, bytes)
        self.pairs = list(outer.pairs) if outer else ["s->p"]
        self.bigs = list(outer.bigs) if outer else ["s->big"]
        self.odds = list(outer.odds) if outer else ["s->odd"]


class Program:
    def __init__(self, seed, number):
        self.number = number
        self.random = random.Random(f"{seed}/{number}")
        self.lines = []
        self.names = 0
        self.functions = []  # (name, kind, throws), those that may be called
        self.depth = 0  # blocks of C++ around
        self.loops = 0  # around
        self.has_blocks = True  # nested transactions
        self.in_top = False

    def one_of(self, choices):
        return self.random.choice(choices)

    def chance(self, percent):
        return self.random.randrange(100) < percent

    def name(self, letter):
        self.names += 1
        return f"{letter}{self.names}"

    def emit(self, text):
        self.lines.append("  " * (self.depth + 1) + text)

    # Expressions of type U.

    def index(self, scope, size, depth):
        if self.chance(50):
            return str(self.random.randrange(size))
        return f"({self.word(scope, depth - 1)}) & {size - 1}"

    def place(self, scope, depth=1):
        """An lvalue, and whether it is of type U."""
        kind = self.random.randrange(12)
        if kind < 3 and scope.words:
            return self.one_of(scope.words), True
        if kind < 5 and scope.arrays:
            array, size = self.one_of(scope.arrays)
            return f"{array}[{self.index(scope, size, depth)}]", True
        if kind < 6 and scope.bytes:
            array, size = self.one_of(scope.bytes)
            return f"{array}[{self.index(scope, size, depth)}]", False
        if kind < 7:
            return f"{self.one_of(scope.pairs)}.{self.one_of('xy')}", True
        if kind < 8:
            return f"{self.one_of(scope.bigs)}.{self.one_of('abcde')}", True
        if kind < 10:
            return self.one_of(STATE_WORDS), True
        if kind < 11:
            field, size = self.one_of([("a", 8), ("i", 8), ("h", 8), ("c", 64)])
            return f"s->{field}[{self.index(scope, size, depth)}]", field == "a"
        return self.one_of(STATE_SMALL), False

    def word(self, scope, depth=2):
        kind = self.random.randrange(16)
        if depth <= 0 or kind < 3:
            return str(self.random.randrange(1000)) if self.chance(40) else self.load(scope)
        if kind < 9:
            return self.load(scope)
        if kind < 13:
            sign = self.one_of(["+", "-", "*", "^", "|", "&"])
            return f"({self.word(scope, depth - 1)} {sign} {self.word(scope, depth - 1)})"
        if kind < 14:
            return f"({self.word(scope, depth - 1)} >> {self.random.randrange(1, 20)})"
        if kind < 15:
            return self.real_as_word()
        return f"({self.condition(scope, depth - 1)} ? {self.load(scope)} : {self.load(scope)})"

    def real_as_word(self):
        return self.one_of(
            [
                f"whole(s->d[{self.random.randrange(4)}])",
                f"whole(s->f[{self.random.randrange(4)}])",
                f"whole(s->e[{self.random.randrange(2)}])",
                "whole(__real__ s->z)",
                "whole(__imag__ s->zf)",
                f"whole(s->w[{self.random.randrange(2)}][1])",
            ]
        )

    def load(self, scope):
        place, is_word = self.place(scope, 0)
        return place if is_word else f"static_cast<U>({place})"

    def condition(self, scope, depth=1):
        sign = self.one_of(["<", ">", "!=", "=="])
        if sign in "<>":
            mask = self.one_of([3, 15, 255])
            return f"({self.word(scope, depth)} & {mask}) {sign} {self.random.randrange(1, mask)}"
        return f"{self.word(scope, depth)} % {self.random.randrange(2, 5)} {sign} 0"

    # Statements.

    def assign(self, scope):
        place, _ = self.place(scope)
        if self.chance(30):
            self.emit(f"{place} = static_cast<decltype(+{place})>({self.word(scope)});")
        else:
            sign = self.one_of("+-^|")
            self.emit(
                f"{place} = static_cast<decltype(+{place})>(static_cast<U>({place}) {sign} "
                f"{self.word(scope)});"
            )

    def real(self, scope):
        k, j = self.random.randrange(4), self.random.randrange(2)
        word = f"({self.word(scope, 1)} & 63)"
        self.emit(
            self.one_of(
                [
                    f"s->d[{k}] = bounded(s->d[{(k + 1) % 4}] + static_cast<double>({word}));",
                    f"s->f[{k}] = bounded(s->f[{k}] * 0.5f + static_cast<float>({word}));",
                    f"s->e[{j}] = bounded(s->e[{1 - j}] - static_cast<long double>({word}));",
                    f"s->z = s->z * 0.5 + static_cast<double>({word});",
                    f"s->zf = s->zf * 0.25f + static_cast<float>({word}) * 2.0if;",
                    f"s->v[{j}] = s->v[{1 - j}] ^ static_cast<int>({word});",
                    f"s->w[{j}] = s->w[{1 - j}] * 0.5 + static_cast<double>({word});",
                    f"{{ const short add = static_cast<short>({word}); s->q = s->q + add; }}",
                ]
            )
        )

    def local(self, scope):
        kind = self.random.randrange(6)
        if kind == 0:
            name, size = self.name("l"), self.one_of([4, 8, 16, 32])
            self.emit(f"U {name}[{size}];")
            step = self.word(scope, 1)
            self.emit(f"for (U k = 0; k < {size}; ++k) {name}[k] = k * {step};")
            scope.arrays.append((name, size))
        elif kind == 1:
            name, size = self.name("b"), self.one_of([16, 32, 64, 128])
            self.emit(f"unsigned char {name}[{size}];")
            self.emit(
                self.one_of(
                    [
                        f"for (U k = 0; k < {size}; ++k) {name}[k] = 0;",
                        f"std::memset({name}, {self.random.randrange(256)}, {size});",
                        f"for (U k = 0; k < {size}; ++k) {name}[k] = s->c[k & 63];",
                    ]
                )
            )
            scope.bytes.append((name, size))
        elif kind == 2:
            name = self.name("p")
            self.emit(f"Pair {name} = {{{self.word(scope, 1)}, {self.word(scope, 1)}}};")
            scope.pairs.append(name)
        elif kind == 3:
            name = self.name("g")
            self.emit(f"Big {name} = {self.one_of(scope.bigs)};")
            scope.bigs.append(name)
        elif kind == 4:
            name = self.name("o")
            self.emit(f"Odd {name} = {self.one_of(scope.odds)};")
            self.emit(f"{name}.u = {self.word(scope, 1)};")
            scope.odds.append(name)
        else:
            name = self.name("w")
            self.emit(f"U {name} = {self.word(scope)};")
            scope.words.append(name)

    def branch(self, scope):
        self.emit(f"if ({self.condition(scope)}) {{")
        self.body(Scope(scope), self.random.randrange(1, 3))
        if self.chance(40):
            self.emit("} else {")
            self.body(Scope(scope), self.random.randrange(1, 3))
        self.emit("}")

    def loop(self, scope):
        if self.loops > 0:
            return self.assign(scope)
        inner = Scope(scope)
        name = self.name("k")
        self.emit(f"for (U {name} = 0; {name} < {self.random.randrange(2, 7)}; ++{name}) {{")
        inner.words = inner.words[:]
        self.loops += 1
        self.depth += 1
        place, _ = self.place(inner)
        self.emit(f"{place} = static_cast<decltype(+{place})>({self.word(inner, 1)} + {name});")
        self.depth -= 1
        self.body(inner, self.random.randrange(1, 3))
        self.loops -= 1
        self.emit("}")
        return None

    def blocks_of_bytes(self, scope):
        ranges = [("s->c", 64), ("s->odd.t", 4)] + scope.bytes
        to, to_size = self.one_of(ranges)
        source, source_size = self.one_of(ranges)
        size = self.random.randrange(1, min(to_size, source_size) // 2 + 1)
        at = f"{to} + {self.random.randrange(to_size - size + 1)}"
        off = f"{source} + {self.random.randrange(source_size - size + 1)}"
        name = self.name("k")
        choices = [
            f"std::memmove({at}, {off}, {size});",
            f"std::memset({at}, {self.random.randrange(256)}, {size});",
            f"for (U {name} = 0; {name} < {size}; ++{name}) ({at})[{name}] = 0;",
            f"{{ U {name} = 0; while ({name} < {source_size} && {source}[{name}] != 0) ++{name};"
            f" {self.one_of(STATE_WORDS)} ^= {name}; }}",
        ]
        if to != source:
            choices += [
                f"std::memcpy({at}, {off}, {size});",
                f"for (U {name} = 0; {name} < {size}; ++{name}) ({at})[{name}] = "
                f"static_cast<unsigned char>(({off})[{name}]);",
            ]
        self.emit(self.one_of(choices))

    def whole_struct(self, scope):
        kind = self.random.randrange(3)
        these = (scope.pairs, scope.bigs, scope.odds)[kind]
        to, source = self.one_of(these), self.one_of(these)
        if to != source:
            self.emit(f"{to} = {source};")
        else:
            self.assign(scope)

    def memory(self, scope):
        kind = self.random.randrange(6)
        name = self.name("n")
        if kind < 2:
            self.emit(f"Node *{name} = new Node;")
            self.emit(f"{name}->next = s->list;")
            self.emit(f"{name}->key = {self.word(scope, 1)};")
            self.emit(f"for (U k = 0; k < 3; ++k) {name}->value[k] = k + {self.word(scope, 1)};")
            self.emit(f"s->list = {name};")
        elif kind < 3:
            self.emit(f"if (Node *{name} = s->list; {name} != nullptr) {{")
            self.emit(f"  s->list = {name}->next;")
            self.emit(f"  s->a[2] ^= {name}->key + {name}->value[1];")
            self.emit(f"  delete {name};")
            self.emit("}")
        elif kind < 4:
            self.emit("if (s->heap == nullptr) {")
            self.emit("  s->heap = static_cast<U *>(std::malloc(8 * sizeof(U)));")
            self.emit(f"  for (U k = 0; k < 8; ++k) s->heap[k] = {self.word(scope, 1)};")
            self.emit("} else {")
            self.emit("  s->a[5] += s->heap[3];")
            self.emit("  std::free(s->heap);")
            self.emit("  s->heap = nullptr;")
            self.emit("}")
        elif kind < 5:
            self.emit(f"if (Node *{name} = s->list; {name} != nullptr)")
            self.emit(f"  {name}->value[{self.index(scope, 2, 1)}] ^= {self.word(scope, 1)};")
        else:
            self.emit(f"if (U *{name} = s->heap; {name} != nullptr)")
            self.emit(f"  {name}[{self.index(scope, 8, 1)}] += {self.word(scope, 1)};")

    def nested(self, scope):
        if not self.has_blocks:
            return self.assign(scope)
        may_cancel = self.chance(50)
        self.emit("MAY_CANCEL {" if may_cancel else "TX {")
        inner = Scope(scope)
        self.body(inner, self.random.randrange(1, 4))
        if may_cancel:
            self.emit(f"  if ({self.condition(inner)}) CANCEL;")
            if self.chance(40):
                self.body(inner, 1)
        self.emit("}")
        return None

    def skew(self, _):
        """Each thread's flag is set where the other's is not: never both, in some serial order."""
        mine, other = "program_shared.flags[s->me]", "program_shared.flags[1 - s->me]"
        if self.chance(50):
            self.emit(f"if ({other} == 0) {{")
            self.emit("  pause_here(s->a[1]);")
            self.emit(f"  {mine} = 1;")
            self.emit("}")
        else:
            self.emit(f"s->caught += {mine} & {other};")
            self.emit(f"{mine} = 0;")

    def shared(self, scope):
        place = f"program_shared.totals[{self.random.randrange(4)}]"
        self.emit(f"{place} += {self.word(scope, 1)} & 1023;")
        if self.chance(40):
            self.emit(f"pause_here({self.word(scope, 1)});")

    def call(self, scope):
        """An expression of type U, or a statement."""
        if not self.functions or self.chance(10):
            index = self.random.randrange(4)
            if self.in_top:  # else they would call each other for ever
                self.store(scope, f"s->function[{index}](s, {self.word(scope, 1)})")
            return
        name, kind = self.one_of(self.functions)
        if kind in ("word", "makes_pair"):
            arguments = self.word(scope, 1)
        elif kind == "pair":
            arguments = f"{self.word(scope, 1)}, {self.one_of(scope.pairs)}"
        elif kind == "big":
            arguments = self.one_of(scope.bigs)
        elif kind == "array":
            array, size = self.one_of(scope.arrays + [("s->a", 8)])
            arguments = f"{array}, {size}"
        elif kind == "makes_big":
            arguments = f"{self.one_of(scope.pairs)}, {self.word(scope, 1)}"
        elif kind == "reals":
            arguments = f"static_cast<double>({self.word(scope, 1)} & 255), s->f[1]"
        elif kind == "bytes":
            array, size = self.one_of(scope.bytes + [("s->c", 64)])
            arguments = f"{array}, {size}"
        elif kind == "to_big":
            arguments = f"&{self.one_of(scope.bigs)}"
        elif kind == "vector":
            arguments = f"s->v[{self.random.randrange(2)}]"
        elif kind == "odd":
            arguments = f"&{self.one_of(scope.odds)}, &{self.one_of(scope.odds)}"
        else:
            arguments = f"{self.word(scope, 1)}, {self.random.randrange(1, 5)}"
        self.store(scope, f"{name}(s, {arguments})", KINDS[kind][1])

    def store(self, scope, call, result="U"):
        if result == "void":
            self.emit(call + ";")
        elif result == "Pair" and self.chance(50):
            self.emit(f"{self.one_of(scope.pairs)} = {call};")
        elif result == "Big" and self.chance(50):
            self.emit(f"{self.one_of(scope.bigs)} = {call};")
        else:
            field = {"Pair": ".y", "Big": ".d"}.get(result, "")
            place = self.one_of(STATE_WORDS + scope.words)
            self.emit(f"{place} = {place} * 3 + {call}{field};")

    def throw(self, scope):
        if not self.throws:
            return self.assign(scope)
        self.emit(f"if (({self.word(scope, 1)} & 15) == 7) "
                  f"throw static_cast<U>({self.word(scope, 1)});")
        return None

    def body(self, scope, count):
        self.depth += 1
        if self.depth > 4:
            count = 1
        for _ in range(count):
            kinds = [self.assign] * 5 + [self.real, self.blocks_of_bytes, self.whole_struct]
            kinds += [self.memory, self.memory, self.shared, self.skew, self.throw]
            if self.depth <= 3:
                kinds += [self.local] * 3 + [self.branch, self.branch, self.loop, self.nested]
            if self.loops == 0 or self.chance(30):
                kinds += [self.call, self.call]
            self.one_of(kinds)(scope)
        self.depth -= 1

    def function(self, kind):
        name = f"f{len(self.functions)}_{kind}"
        parameters, result = KINDS[kind]
        scope = Scope()
        scope.words += [each.split()[-1] for each in parameters if each.split()[0] == "U"]
        scope.words = [each for each in scope.words if each in ("x",)]
        if "Pair p" in parameters:
            scope.pairs.append("p")
        if "Big b" in parameters:
            scope.bigs.append("b")
        apart = "APART " if self.chance(70) else ""
        self.emit(f"SAFE {apart}static {result} {name}(State *s, {', '.join(parameters)}) {{")
        if kind == "array":
            self.emit(f"  for (U k = 0; k < n; ++k) out[k] += {self.word(scope, 1)};")
        elif kind == "reals":
            self.emit("  s->d[0] = bounded(s->d[0] + r), s->f[2] = bounded(s->f[2] - t);")
        elif kind == "bytes":
            self.emit("  for (U k = 0; k < n; ++k) bytes[k] = static_cast<unsigned char>(k);")
            self.emit(f"  std::memset(bytes, {self.random.randrange(256)}, n / 2);")
        elif kind == "to_big":
            self.emit(f"  b->a += {self.word(scope, 1)}, b->e = b->c;")
        elif kind == "vector":
            self.emit("  s->v[0] += v, s->v[1][2] ^= v[0];")
        elif kind == "odd":
            self.emit("  out->u = o->u + 1, out->i = o->i ^ 5, out->s = o->s;")
        elif kind == "recursive":
            size = self.one_of([8, 16, 32])
            self.emit(f"  U path[{size}];")
            self.emit(f"  for (U k = 0; k < {size}; ++k) path[k] = x + k;")
            self.emit(f"  if (depth == 0) return path[x & {size - 1}];")
            self.emit(f"  path[1] = {name}(s, x * 3 + path[x & {size - 1}], depth - 1);")
            scope.arrays.append(("path", size))
        # One that is called from a nested block of another may begin one, too.
        self.has_blocks = self.chance(40)
        self.body(scope, self.random.randrange(2, 6))
        self.has_blocks = True
        if result == "Pair":
            self.emit(f"  return {self.one_of(scope.pairs)};")
        elif result == "Big":
            self.emit(f"  return {self.one_of(scope.bigs)};")
        elif result == "U":
            tail = {"array": " + out[n / 2]", "bytes": " + bytes[n / 3]"}.get(kind, "")
            self.emit(f"  return {self.word(scope)}{tail};")
        self.emit("}")
        self.functions.append((name, kind))

    def relaxed(self, scope):
        word = self.word(scope, 1)
        self.emit("RELAXED {")
        self.emit(
            "  "
            + self.one_of(
                [
                    f"s->map[static_cast<long>({word} & 15)] += {self.word(scope, 1)};",
                    f"s->vector.push_back({word});",
                    f"s->string.append(1 + ({word} & 7), 'x');",
                    f"s->map.erase(static_cast<long>({word} & 15));",
                    "if (!s->vector.empty()) s->vector.pop_back();",
                ]
            )
        )
        if self.chance(50):
            self.body(Scope(scope), 1)
        self.emit("}")

    def top(self):
        """A thread's work: transactions, and plain statements between them."""
        self.emit("static void run(State *s, U round) {")
        scope = Scope()
        scope.words.append("round")
        self.depth += 1
        for _ in range(self.random.randrange(0, 3)):
            self.local(scope)
        for _ in range(self.random.randrange(1, 5)):
            kind = self.random.randrange(12)
            if kind == 0:
                self.relaxed(scope)
                continue
            if kind == 1:
                self.emit("dirty_stack();")
            if kind == 2:
                self.assign(scope)
            catches = self.throws
            if catches:
                self.emit("try {")
                self.depth += 1
            may_cancel = self.chance(35)
            self.emit("MAY_CANCEL {" if may_cancel else "TX {")
            inner = Scope(scope)
            self.in_top = True
            self.body(inner, self.random.randrange(2, 6))
            if may_cancel:
                self.emit(f"  if ({self.condition(inner)}) CANCEL;")
            self.in_top = False
            self.emit("}")
            if catches:
                self.depth -= 1
                self.emit("} catch (U caught) {")
                self.emit("  s->caught += caught;")
                self.emit("}")
        self.depth -= 1
        self.emit("}")

    def text(self):
        self.throws = self.chance(25)
        # Those that pointers name: they call no others.
        for kind in ["word"] * 4:
            self.function(kind)
        simple = [name for name, _ in self.functions]
        for kind in self.random.choices(list(KINDS), k=self.random.randrange(2, 7)):
            self.function(kind)
        self.top()
        return "\n".join(
            [f"namespace p{self.number} {{", "static Shared program_shared;"]
            + self.lines
            + [f"static const Function functions[4] = {{{', '.join(simple)}}};", "}  // namespace"]
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    arguments = parser.parse_args()
    numbers = range(arguments.first, arguments.first + arguments.count)
    print("#pragma GCC diagnostic ignored \"-Wunused-function\"")
    print('#include "tests/itm/generated/generated.h"')
    print("namespace generated {")
    for number in numbers:
        print(Program(arguments.seed, number).text())
    print("const Program programs[] = {")
    for number in numbers:
        print(f"  {{{number}, p{number}::run, &p{number}::program_shared, p{number}::functions}},")
    print("};")
    print(f"const unsigned program_count = {len(numbers)};")
    print("}  // namespace generated")


if __name__ == "__main__":
    main()
