"""declarations.py -- what a header declares, something names.

Functions, methods, constants, enumerators, types and macros of the headers of ROOMS. A name lives
where a token of it stands in code of the tree that is neither a declaration nor a definition of
that name, nor the body of a function of that name; or in a file of LINKED.
Names are compared, not meanings: two functions of one name live or die together. Not counted are
overrides, operators, constructors, what macros make, and names that the language calls (IMPLICIT).
"""

import collections
import re

from rules import cxx
from rules.rule import Planted, Rule, Violation

ROOMS = ("platform/", "observe/", "storage/", "levels/", "hierarchy/", "compat/", "bindings/",
         "tools/", "bench/", "programs/", "rtm_emulator/", "tests/")
# Other files that name what code declares: symbols of libraries, assembler, gdb's printers.
LINKED = re.compile(r".*\.(map|S)|cmake/.*\.cmake|tools/gdb/.*\.py")
# Names that the language, the standard library or a framework asks for.
IMPLICIT = set("""
begin end rbegin rend lock unlock try_lock value_type pointer reference difference_type
iterator_category iterator_concept is_transparent is_always_equal rebind type main SetUp TearDown
propagate_on_container_copy_assignment propagate_on_container_move_assignment
propagate_on_container_swap size_type element_type what allocate deallocate max_size
SetUpTestSuite TearDownTestSuite PrintTo showValue __cyg_profile_func_enter __cyg_profile_func_exit
""".split())
# Overrides, forward declarations and the names of plain enums may stand alone.
COUNTED = ("function", "constant", "enumerator", "type")
# Headers whose macros and functions generated code uses.
GENERATED = "tests/itm/generated/"
ATTRIBUTES = re.compile(r"\[\[.*?\]\]|\balignas\s*\([^()]*(?:\([^()]*\)[^()]*)*\)"
                        r"|\b__attribute__\s*\(\(.*?\)\)"
                        r"|\bnoexcept\s*\([^()]*(?:\([^()]*\)[^()]*)*\)",
                        re.S)
QUALIFIES = re.compile(r"\s*::\s*~?(\w+)")


def blanked(pattern, text):
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def without_templates(text):
    """`text` with template arguments and parameters blanked, places kept."""
    depth, out = 0, []
    for at, sign in enumerate(text):
        if sign == "<" and re.match(r".*(?:\btemplate\s*|[A-Za-z_]\w*)$", text[:at], re.S):
            depth += 1
        out.append(sign if depth == 0 else " ")
        if sign == ">" and depth > 0 and text[at - 1] != "-":
            depth -= 1
    return "".join(out)


def plain_head(part):
    return re.sub(r"\s+", " ", part.text)


def declared_in(part):
    """(kind, name, place in the part) of what a Part at namespace or class scope declares."""
    text = blanked(cxx.ACCESS, part.text)
    text = blanked(ATTRIBUTES, text)
    if part.scope.kind == "enum":
        depth, start = 0, 0
        for at, sign in enumerate(text + ","):
            depth += (sign in "({[") - (sign in ")}]")
            if sign == "," and depth == 0:
                name = cxx.TOKEN.search(text, start)
                if name and name.start() < at:
                    yield "enumerator", name.group(0), name.start()
                start = at + 1
        return
    if part.scope.kind == "body" or part.sign == "}":
        return
    if part.opens is not None and part.opens.kind in ("class", "enum"):
        name = part.opens.name.split("::")[-1]
        is_plain_enum = re.search(r"\benum\s+(?!class\b|struct\b)", plain_head(part))
        if name:
            yield "enum" if is_plain_enum else "type", name, part.text.rindex(name)
        return
    plain = without_templates(text) if "<" in text else text
    words = plain.split()
    if not words or words[0][0] in "),:=&|~" or words[0] in (
            "namespace", "static_assert", "extern", "typedef", "return", "public:", "template;"):
        if words and words[0] == "extern" and '""' not in plain:
            pass
        else:
            return
    if words[0] == "friend" or words[0] == "using" and "=" not in words:
        return
    alias = re.match(r"\s*(?:template\b\s*)?(?:requires\b.*?)?(?:using|concept)\s+(\w+)\s*=", plain)
    if alias:
        yield "type", alias.group(1), alias.start(1)
        return
    forward = re.fullmatch(r"\s*(?:template\b\s*)?(?:class|struct|union|enum(?:\s+class)?)\s+(\w+)"
                           r"\s*(?::[\w:\s]*)?", plain)
    if forward and part.sign == ";":
        yield "forward", forward.group(1), forward.start(1)
        return
    if "operator" in words or re.search(r"\boperator\b", plain):
        return
    before = re.split(r"(?<![=!<>+*/|&-])=(?!=)", plain, maxsplit=1)[0]
    call = re.search(r"(~?\b[A-Za-z_]\w*)\s*\(", before)
    if call:
        name = call.group(1)
        if re.match(r"[A-Z][A-Z0-9_]*$", name):
            return  # a macro
        owner = part.scope.name.split("::")[-1]
        qualified = re.search(r"(\w+)\s*::\s*$", before[:call.start(1)])
        if name.startswith("~") or name == owner or qualified and qualified.group(1) == name:
            return
        after = plain[call.end():]
        kind = "override" if re.search(r"\b(?:override|final)\b", after) else "function"
        yield kind, name, call.start(1)
        return
    if part.scope.kind == "class" and not re.search(r"\b(?:constexpr|static)\b", before):
        return  # a field
    name = re.search(r"\b([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*$", before.rstrip())
    if name and len(before.split()) > 1:
        yield "constant", name.group(1), name.start(1)


def declares_more(file, part):
    """Does `struct Name {...} variable;` name its type itself?"""
    if part.opens is None or part.opens.kind not in ("class", "enum") or part.opens.end is None:
        return False
    return not file.code[part.opens.end + 1:].lstrip().startswith(";")


def declarations(file):
    for part in file.parts():
        for kind, name, place in declared_in(part):
            yield kind, name, part.start + place, part


def is_use(file, place, name):
    """Is the token at this place neither its declaration nor its definition, nor inside it?"""
    inside = None
    for part in file.parts():
        if part.start <= place < part.start + len(part.text):
            found = [spot for kind, other, spot in declared_in(part)
                     if other == name and part.start + spot == place]
            if found:
                return False
            inside = part
        if part.opens is not None and part.opens.end is not None and \
                part.opens.start <= place < part.opens.end:
            if part.opens.kind == "class" and part.opens.name.split("::")[-1] == name:
                return False
            if part.opens.kind == "body" and any(
                    other == name for _, other, _ in declared_in(part)):
                return False
            if part.opens.kind == "enum" and part.opens.name == name:
                return False
    if inside is not None and inside.scope.kind in ("file", "namespace"):
        # Type::function(...) of a definition names no use of Type.
        if file.code[inside.start:place].endswith((f"{name}::", f"{name}::~")):
            return False  # the second one of Type::Type
        behind = QUALIFIES.match(file.code, place + len(name))
        declared = [spot for _, _, spot in declared_in(inside)]
        if behind and inside.opens is not None and any(
                inside.start + spot >= place for spot in declared):
            return False
        if behind and behind.group(1) == name:
            return False  # a constructor
    return True


class Declarations(Rule):
    name = "declarations"
    demands = "Each name that a header declares is named by something else, too."
    exceptions = {
        ("bindings/python/src/python.h", "NO_IMPORT_ARRAY"): "NumPy's headers ask for it",
        ("bindings/python/src/python.h", "PY_ARRAY_UNIQUE_SYMBOL"): "NumPy's headers ask for it",
        ("bindings/tcl/package.h", "Tp_Init"): "Tcl calls it",
        ("bindings/tcl/script.h", "tp_tcl_make"): "the server finds it in the library",
        ("bindings/tcl/script.h", "tp_tcl_run"): "the server finds it in the library",
        ("bindings/tcl/script.h", "tp_tcl_end"): "the server finds it in the library",
        ("platform/files.h", "at_fork_"): "its initializer acts",
    }

    def violations(self, tree):
        files = {name: cxx.parsed(tree, name) for name in tree.code}
        tokens = {name: cxx.TOKEN.findall(file.plain) for name, file in files.items()}
        total = collections.Counter()
        for found in tokens.values():
            total.update(found)
        for name in tree.files:
            if LINKED.fullmatch(name):
                total.update(cxx.TOKEN.findall(tree.read(name)))
        candidates = collections.defaultdict(list)
        declared = collections.Counter()
        for path, file in files.items():
            if not path.startswith(ROOMS) or not path.endswith((".h", ".hpp")):
                continue
            if path.startswith(GENERATED):
                continue
            for kind, name, place, part in declarations(file):
                declared[name] += 1
                if kind in COUNTED and name not in IMPLICIT and not declares_more(file, part):
                    candidates[name].append((path, place, kind))
            for match in cxx.DEFINE.finditer(file.plain):
                declared[match.group(1)] += 1
                candidates[match.group(1)].append((path, match.start(1), "macro"))
        self.suspects = {name: places for name, places in candidates.items()
                         if self.may_be_dead(name, places, total[name] - declared[name])}
        where = collections.defaultdict(list)
        for path, found in tokens.items():
            for name in set(found) & self.suspects.keys():
                where[name].append(path)
        for name, places in sorted(self.suspects.items()):
            if any(self.uses(files[path], name) for path in where[name]):
                continue
            if any(name in tree.read(path) for path in tree.files if LINKED.fullmatch(path)):
                continue
            for path, place, kind in places:
                line = tree.read(path).count("\n", 0, place) + 1
                yield Violation(path, line, f"nothing names the {kind} {name}", (path, name))

    @staticmethod
    def may_be_dead(name, places, others):
        """Worth a look? A type's own members name it often."""
        return others <= (20 if places[0][2] == "type" else 6)

    @staticmethod
    def uses(file, name):
        if name in file.named_by_directives():
            return True
        return any(is_use(file, place, name) for place in file.places_of(name))


Declarations.right = {
    "platform/a.h": """#pragma once
// The comment names dead_one, which is no use.
namespace tmh {
enum class Kind : int { kFirst = 1, kSecond };
inline constexpr int kWords = 3;
struct Point {
  struct Corner {
    int x;
  } corners[kWords];
  int unused_field = 0;
  Point();
  ~Point();
  Point &operator=(const Point &) = delete;
  [[nodiscard]] int size(int scale = kWords) const noexcept { return scale; }
  virtual void run() = 0;
};
struct Line : Point {
  void run() override;
};
template <typename T>
[[nodiscard]] std::vector<T> copies_of(const T &value);
extern "C" void tmh_exported();
using Words = int[kWords];
}
#define TMH_TWICE(x) ((x) * 2)
""",
    "platform/a.cpp": """#include "platform/a.h"
int use(Line &a, Kind b, Words) {
  a.run();
  return a.size() + (b == Kind::kFirst || b == Kind::kSecond) + copies_of(1)[0] + TMH_TWICE(1);
}
""",
    "platform/a.map": "{ global: tmh_exported; };",
    "include/tmh/a.hpp": "int for_users();\n",
}
DEAD = {
    "a function": ("int dead_one(int dead_one_too);\n", "int dead_one(int x) { return x; }\n",
                   "function dead_one"),
    "one that calls itself": ("int dead_one(int);\n",
                              "int dead_one(int x) { return x ? dead_one(x - 1) : 0; }\n",
                              "function dead_one"),
    "a method": ("class A {\n public:\n  int dead_one() const;\n};\nA a(A);\n",
                 "int A::dead_one() const { return 1; }\nint y = a(1);\n", "function dead_one"),
    "a template": ("template <class T>\nstd::map<T, int> dead_one();\n", "", "function dead_one"),
    "a constant": ("inline constexpr std::uint64_t kDead = 1;\n", "", "constant kDead"),
    "a constant of a class": ("struct P {\n  static constexpr int kDead[2] = {1, 2};\n};\n",
                              "P p;\n", "constant kDead"),
    "an enumerator": ("enum class E { kA, kDead };\n", "E e = E::kA;\n", "enumerator kDead"),
    "a type": ("struct Dead {\n  Dead();\n  int size();\n};\n",
               "Dead::Dead() = default;\nint Dead::size() { return 1; }\n", "type Dead"),
    "an alias": ("using Dead = int;\n", "", "type Dead"),
    "a macro": ("#define TMH_DEAD(x) x\n", "", "macro TMH_DEAD"),
}
Declarations.planted = tuple(
    Planted(what, {f"{room}/b.h": declared, f"{room}/b.cpp": defined},
            (f"{room}/b.h:{1 + declared[:declared.lower().index('dead')].count(chr(10))}: "
             f"nothing names the {said}",))
    for (what, (declared, defined, said)), room in zip(
        DEAD.items(), ("platform", "compat/libxac", "tools", "bench/support", "programs",
                       "bindings/python/src", "rtm_emulator", "levels/page", "tests/support",
                       "storage"))
)
RULE = Declarations()
