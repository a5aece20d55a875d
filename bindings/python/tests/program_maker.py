"""Random programs in Python, as text: the same text runs on tmh and on a model (program_model.py).

A program is a list of blocks, each of which stands for itself: functions that are transactions or
queries, calls of them, attempts, queries, accesses outside, threads and children. What it finds it
notes. No body has an effect outside of its world but by note(), which takes back what an attempt
has noted that runs again.
"""

from __future__ import annotations

import random
import textwrap

# Name, indices, numbers that it takes without an error.
ARRAYS = {"a": 16, "u": 40, "big": 2048, "f": 12}
KEYS = ["0", "1", "-3", "2**70", "'x'", "'y'", "''", "b'x'", "b''", "np.int64(5)", "True"]
BAD_KEYS = ["None", "1.5", "(1,)"]
VALUES = [
    "0", "1", "-7", "3.5", "None", "True", "'text'", "b'bytes'", "2**80", "np.float32(1.5)",
    "np.int8(-1)", "np.timedelta64(3, 's')", "np.arange(3)", "np.zeros((2, 2))", "np.str_('n')",
]
CAUGHT = ["Boom", "KeyError", "(IndexError, ValueError)", "Exception"]


class Maker:
    """Makes one program from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.functions: list[str] = []
        self.adders: list[str] = []
        self.parts: list[str] = []
        self.count = 0
        # Both in one instance are an error, whose words are the library's.
        self.retries = self.chance(0.5)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def choice(self, of):
        return self.random.choice(of)

    def number(self) -> str:
        return self.choice(["0", "1", "2", "3", "-1", "7", "100", "300", "-129", "2**40"])

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    # Expressions

    def index(self, name: str) -> str:
        size = ARRAYS[name]
        if self.chance(0.03):
            return str(size + 2)
        return str(self.random.randrange(-size, size))

    def slice(self, name: str) -> str:
        size = min(ARRAYS[name], 64)
        low = self.random.randrange(size)
        high = low + self.random.randrange(1, 9)
        return self.choice(
            [f"{low}:{high}", f"{low}:{high}:2", f"{high}:{low}:-1", f":{high}", ":"]
        )

    def array(self) -> str:
        return self.choice(["a", "a", "a", "u", "big", "f"])

    def key(self) -> str:
        return self.choice(BAD_KEYS if self.chance(0.02) else KEYS)

    def mapping(self) -> str:
        return self.choice(["d", "e"])

    def value(self) -> str:
        """What a number's place in an array may be given."""
        name = self.array()
        return self.choice([
            self.number(), self.number(), "x", f"{name}[{self.index(name)}]",
            f"int({name}[{self.index(name)}])", f"{name}[{self.index(name)}] + {self.number()}",
            f"len({self.mapping()})", f"np.int64({self.number()})", "np.float64(2.75)", "True",
        ])

    def reading(self) -> str:
        name, mapping = self.array(), self.mapping()
        return self.choice([
            f"{name}[{self.index(name)}]", f"{name}[{self.slice(name)}].sum()",
            f"np.sum({name})", f"{name}.copy()[{self.index(name)}]", f"raw({name})[3:5].copy()",
            f"{name}[{self.slice(name)}].copy()", f"({name}[{self.slice(name)}] * 2).max()",
            f"[int(each) for each in {name}[:3]]", f"{name}[[1, 3]].tolist()",
            f"({name}[:8] > 1).any()", f"{self.index(name)} in {name}", f"len({name})",
            "r[1]['x']", "r['y'][2]", "r['z'][0].copy()", "s.x", "s.y", "s.z.copy()", "m[1, 2]",
            "m[1].sum()", "m.T[2].copy()", "(m @ m)[0]", "m.reshape(-1)[5]",
            f"{mapping}.get({self.key()}, 'none')", f"{self.key()} in {mapping}",
            f"len({mapping})", f"list({mapping})", f"list({mapping}.items())[:3]",
            f"list({mapping}.irange(0, 'x'))", f"list(reversed({mapping}))[:2]", "len(q)",
            "c.value",
            f"{mapping}.peekitem({self.choice(['True', 'False'])})", f"{mapping}[{self.key()}]",
            *([f"{part}[{self.random.randrange(3)}]" for part in self.parts[-2:]]),
        ])

    # Statements of a body

    def store(self) -> str:
        name, mapping = self.array(), self.mapping()
        kind = self.random.randrange(27)
        simple = [
            f"{name}[{self.index(name)}] = {self.value()}",
            f"{name}[{self.index(name)}] += {self.number()}",
            f"{name}[{self.index(name)}] = {self.reading()}",
            f"{name}[{self.slice(name)}] = {self.number()}",
            f"{name}[{self.slice(name)}] += {self.choice(['1', '2', '7'])}",
            f"{name}[[1, 4, -1]] = {self.number()}",
            f"{name}[{name}[:] > {self.number()}] = {self.choice(['1', '5'])}",
            f"raw({name})[{self.index(name)}] = {self.number()}",
            f"raw({name})[{self.slice(name)}] += 1",
            f"{name}.fill({self.choice(['0', '3'])})",
            f"{name}[:8].sort()",
            f"np.add({name}, 1, out={name})",
            f"{name}[2:6] = {name}[1:5]",
            f"m[{self.random.randrange(4)}, {self.random.randrange(4)}] = {self.number()}",
            f"m[{self.random.randrange(4)}] = {self.number()}",
            f"m.T[1, 2:] += {self.number()}",
            f"r[{self.random.randrange(4)}]['x'] = {self.number()}",
            f"r['y'][{self.random.randrange(4)}] = 1.5",
            f"r[{self.random.randrange(4)}] = ({self.number()}, 2.5, (1, 2))",
            f"s.x = {self.number()}",
            f"s.x += {self.number()}",
            f"s.z[{self.random.randrange(2)}] = {self.choice(['1', '5'])}",
            f"c.add({self.choice(['1', '5', '-3', '2**63'])})",
            f"c.value = {self.choice(['0', '9'])}",
            f"q.put({self.choice(VALUES)})",
            "note(q.get(block=False))",
        ]
        if kind < len(simple) and self.chance(0.7):
            return simple[kind]
        return self.choice([
            f"{mapping}[{self.key()}] = {self.choice(VALUES)}",
            f"{mapping}[{self.key()}] = {self.value()}",
            f"{mapping}[{self.key()}] = {name}[{self.slice(name)}].copy()",
            f"note({mapping}.pop({self.key()}, 'none'))",
            f"note({mapping}.pop({self.key()}))",
            f"note({mapping}.setdefault({self.key()}, {self.choice(VALUES)}))",
            f"del {mapping}[{self.key()}]",
            f"{mapping}.update({{1: {self.number()}, 'u': 2}})",
            f"note({mapping}.popitem({self.choice(['True', 'False'])}))",
            f"{mapping}.clear()" if self.chance(0.3) else f"{mapping}[1] = 1",
        ])

    def statement(self, depth: int) -> list[str]:
        kind = self.random.random()
        if kind < 0.5:
            return [self.store()]
        if kind < 0.66:
            return [f"note({self.reading()})"]
        if kind < 0.69:
            return [f"if {self.reading()} is None:", *self.nested(depth), "else:",
                    *self.nested(depth)]
        if kind < 0.69 + 0.03:
            name = self.array()
            return [f"if {name}[1] > {self.number()}:", *self.nested(depth)]
        if kind < 0.75:
            return [f"for x in range({self.random.randrange(1, 4)}):", *self.nested(depth)]
        if kind < 0.84:
            lines = ["try:", *self.nested(depth), f"except {self.choice(CAUGHT)} as error:",
                     "    note(error)"]
            return lines + (["finally:", *self.nested(depth)] if self.chance(0.3) else [])
        if kind < 0.87:
            return [f"raise Boom({self.number()})"]
        if kind < 0.92 and self.functions and depth < 3:
            return [f"note({self.choice(self.functions)}({self.number()}))"]
        if kind < 0.93:
            return ["with querying():", *self.nested(depth)]
        if kind < 0.94:
            return ["for attempt in attempts():", "    with attempt:",
                    *textwrap.indent("\n".join(self.nested(depth)), "    ").splitlines()]
        if kind < 0.955:
            return [f"on_commit(lambda: note('committed', {self.number()}))"]
        if kind < 0.965:
            retry = ["a[0]", f"retry_once({self.fresh('t')!r})"]
            return retry if self.retries else ["irrevocable()"]
        if kind < 0.975:
            part, name = self.fresh("p"), self.array()
            return [f"{part} = {name}[1:6]", f"{part}[2] = {self.number()}", f"{part} += 1",
                    f"note({part}.sum())"]
        if kind < 0.982:
            name = self.array()
            return [f"leak(raw({name})[{self.random.randrange(3)}:])"]
        if kind < 0.988:
            return [f"raise Boom(raw({self.array()})[1:4])"]
        if kind < 0.994:
            name = self.array()
            return ["def numbers():", f"    for each in {name}[:4]:", "        yield int(each)",
                    f"{name}[5] = max(numbers())"]
        return [f"return {self.reading()}"]

    def nested(self, depth: int) -> list[str]:
        return ["    " + line for line in self.block(depth + 1)]

    def block(self, depth: int) -> list[str]:
        lines = []
        for _ in range(self.random.randrange(1, 3 if depth > 2 else 5)):
            lines += self.statement(depth) if depth < 4 else [self.store()]
        return lines

    # Blocks of the program

    def function(self) -> list[str]:
        name = self.fresh("f")
        lines = [f"@{self.choice(['atomically', 'atomically', 'atomically', 'query'])}",
                 f"def {name}(x=0):", *self.nested(0), f"    return {self.reading()}"]
        self.functions.append(name)
        return lines

    def adder(self) -> list[str]:
        """A function that may run beside others in any order: it only adds."""
        name = self.fresh("g")
        adds = ["a[{0}] += 1", "big[{0}00] += 2", "u[{0}:{1}] += 1", "m[1, 1:] += 3", "c.add(1)",
                "d['n'] = d.get('n', 0) + 1", "e[{0}] = e.get({0}, 0) + 1", "raw(a)[{0}] += 5",
                "s.x += 1", "r['x'][1] += 1"]
        lines = [f"def {name}():"]
        for _ in range(self.random.randrange(1, 5)):
            at = self.random.randrange(1, 12)
            lines.append("    " + self.choice(adds).format(at, at + 3))
        self.adders.append(name)
        return lines

    def call(self) -> str:
        return f"{self.choice(self.functions)}({self.number()})"

    def top(self) -> list[str]:
        kind = self.random.random()
        if not self.functions or kind < 0.22:
            return self.function()
        if kind < 0.55:
            return [f"call(lambda: {self.call()})"]
        if kind < 0.62:
            return [f"call(lambda: {self.reading()})"]
        if kind < 0.68:
            name = self.fresh("h")
            return ["x = 0", f"def {name}():", f"    x = {self.number()}",
                    f"    {self.store()}", f"call({name})"]
        if kind < 0.74:
            return ["x = 1", "mark = here()", "try:", "    for attempt in attempts():",
                    "        with attempt:", "            back(mark)",
                    *["        " + line for line in self.without_return(self.nested(1))],
                    "except Exception as error:", "    note(error)", "    error = None"]
        if kind < 0.79:
            return ["x = 1", "try:", "    with querying():",
                    *["    " + line for line in self.without_return(self.nested(1), block=True)],
                    "except Exception as error:", "    note(error)", "    error = None"]
        if kind < 0.84:
            name = self.fresh("h")
            return [f"def {name}(x, y=2):", *self.nested(1), "    return x, y",
                    f"call(lambda: run({name}, {self.number()}, y={self.number()}))"]
        if kind < 0.88:
            part = self.fresh("v")
            self.parts.append(part)
            return [f"{part} = {self.choice(['a[2:9]', 'u[::3]', 'm[1]', 'big[1000:1010]'])}"]
        if kind < 0.93 or not self.adders:
            lines = self.adder()
            return lines + [f"call(lambda: run({self.adders[-1]}))"]
        if kind < 0.96:
            return [f"threads({', '.join(self.random.choices(self.adders, k=3))})"]
        if kind < 0.978:
            return [f"fork({self.choice(self.functions)}, {self.number()})"]
        if kind < 0.99:
            return [f"children({', '.join(self.random.choices(self.adders, k=2))})"]
        return [f"die({self.choice(self.functions)}, {self.number()})"]

    @staticmethod
    def without_return(lines: list[str], block: bool = False) -> list[str]:
        kept = []
        for line in lines:
            words = line.strip()
            leaves = words.startswith("return ") or (block and words.startswith("retry_once"))
            kept.append(line.replace(words, "pass") if leaves else line)
        return kept

    def program(self) -> list[str]:
        """Blocks of text."""
        return ["\n".join(self.top()) for _ in range(self.random.randrange(6, 16))]


def make_program(seed: int) -> list[str]:
    """The blocks of the program of this seed."""
    return Maker(seed).program()
