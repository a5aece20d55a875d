#!/usr/bin/env python3
"""No class is larger than 40 methods or 25 fields (docs/style.md).

    classes.py ROOT            fails when a class is larger, but for EXCEPTIONS, and lists it
    classes.py ROOT --list N   prints the N largest: methods, fields, bools, class, file
    classes.py --self-test     counts a class that holds one of everything

A record, with at most 5 methods, may have more fields: layouts of shared memory, counters,
reports. Reads headers and sources as text: what clang-format has laid out needs no compiler. Counts
the members that a class declares itself, by name: overloads are one method, constructors,
destructor and assignments none. Types inside a class count for themselves.
"""
import os
import re
import sys

ROOMS = ("platform", "observe", "storage", "levels", "hierarchy", "include", "compat", "bindings",
         "tools", "bench", "programs", "examples", "rtm_emulator")
METHODS, FIELDS = 40, 25
METHODS_OF_RECORD = 5

# Larger classes: methods, fields, and why. One that gets smaller says so here; none grows.
EXCEPTIONS = {
    ("programs/json.h", "Json"): (44, 2, "the interface of nlohmann::json, without its templates"),
}

HEAD = re.compile(r"(?<!enum )\b(class|struct|union)\s+"
                  r"(?:\[\[[^\]]*\]\]\s*|alignas\s*\([^;{]*?\)\s*)*"
                  r"([A-Za-z_][\w:]*)(?:\s*<[^;{()]*>)?(?:\s+final)?\s*(?::[^;{]*)?$")


def without_comments(text):
    """`text` with comments, strings and preprocessor lines blanked."""
    text = re.sub(r'R"(\w*)\(.*?\)\1"', '""', text, flags=re.S)
    text = re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'",
                  lambda m: '""' if m.group(0)[0] in "\"'" else " ", text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.)*(?:\\\n[^\n]*)*", "", text, flags=re.M)


def without_angles(text):
    """`text` without template arguments, so that `function<void()> f` has no parenthesis."""
    while True:
        shorter = re.sub(r"<[^<>;{}]*>", "", text)
        if shorter == text:
            return text
        text = shorter


class Counted:
    """The members of one class."""

    def __init__(self, name):
        self.name = name
        self.methods = set()
        self.fields = []
        self.bools = 0

    def add(self, declaration, name):
        """Counts one member declaration, without its body."""
        text = re.sub(r"\b(public|private|protected)\s*:", " ", declaration)
        text = re.sub(r"\[\[.*?\]\]|\balignas\s*\([^()]*(?:\([^()]*\)[^()]*)*\)", " ", text)
        text = re.sub(r"^\s*template\s*<.*?>\s*(?=\w)", " ", text, flags=re.S)
        text = re.sub(r"\boperator\s*(\(\)|\S+?)\s*(?=\()", r"operator_call", text)
        text = without_angles(text).strip()
        if not text or text[0] in "),:" or re.match(
            r"(friend|using|typedef|static_assert|enum|class|struct|union|TMH_\w+\s*\(|concept|"
            r"extern)\b", text):
            return
        before = text.split("=", 1)[0] if "=" in text else text
        short = name.split("::")[-1]
        call = re.search(r"(~?[A-Za-z_]\w*)\s*\(", before)
        if call:
            if call.group(1).lstrip("~") != short and call.group(1) != "operator_call":
                self.methods.add(call.group(1))
            return
        if re.match(r"(static\s+)?(inline\s+)?(static\s+)?constexpr\b|static\s+const\b", text):
            return
        for one in re.sub(r"\([^()]*\)", "", text).split(","):
            words = re.sub(r"\[[^\]]*\]", "", one.split("=", 1)[0]).split(" : ")[0].split()
            self.fields += words[-1:]
        self.bools += 1 if re.match(r"(mutable\s+)?bool\b", text) else 0


def classes(text):
    """The classes that `text` defines, each as a Counted."""
    text = without_comments(text)
    found, scopes, start = [], [], 0
    # A scope is the class it belongs to, or None: a function, a namespace, an initializer.
    for at in re.finditer(r"[{};]", text):
        sign = at.group(0)
        head = text[start:at.start()]
        inside = scopes[-1] if scopes else None
        if sign == "{":
            plain = re.sub(r"\b(public|private|protected)\s*:(?!:)", " ", head)
            named = HEAD.search(plain.strip())
            if named and "(" not in without_angles(plain[:named.start()] if named.start() else ""):
                counted = Counted(named.group(2))
                found.append(counted)
                scopes.append(counted)
            else:
                if inside is not None:
                    inside.add(head, inside.name)
                scopes.append(None)
            start = at.end()
        elif sign == "}":
            if scopes:
                scopes.pop()
            start = at.end()
        else:
            if inside is not None:
                inside.add(head, inside.name)
            start = at.end()
    return found


def all_of(root):
    """Every class with its file."""
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(root, room)):
            path = os.path.relpath(folder, root)
            for name in sorted(names):
                if name.endswith((".h", ".hpp", ".cpp")):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        for counted in classes(file.read()):
                            yield os.path.join(path, name), counted


def self_test():
    text = """
namespace a {
class [[nodiscard]] Small final : public Base<int> {  // a comment; with { signs
 public:
  Small();
  ~Small() { done(); }
  Small &operator=(const Small &) = delete;
  int one() const { return two(); }
  int one(int) { if (x) { y(); } return 0; }
  template <typename T>
  static T two(std::function<void(int)> f = {});
  friend class Other;
  using Word = unsigned;
  static constexpr int kNone = 3;
  enum class Kind { kA, kB };
  struct Inner {
    int field = 0;
  };

 private:
  int a_ = 0, b_ = 1;
  std::function<void()> f_;
  bool is_{false};
  alignas(64) std::atomic<bool> c_;
  mutable bool d_ = f(3);
};
}
void free_function() { int local; struct Local { int x; } l; }
"""
    small, inner, local = classes(text)
    assert (small.name, sorted(small.methods)) == ("Small", ["one", "two"]), small.methods
    assert (small.fields, small.bools) == (["a_", "b_", "f_", "is_", "c_", "d_"], 2), small.fields
    assert inner.fields == ["field"] and local.fields == ["x"], (inner.fields, local.fields)


def main():
    self_test()
    if sys.argv[1:] == ["--self-test"]:
        return 0
    found = sorted(all_of(sys.argv[1]), key=lambda one: -len(one[1].methods) - len(one[1].fields))
    if len(found) < 100:
        print(f"only {len(found)} classes found: is this the root of the tree?")
        return 1
    if "--list" in sys.argv:
        for path, one in found[:int(sys.argv[-1])]:
            print(f"{len(one.methods):4} {len(one.fields):4} {one.bools:4}  {one.name}  {path}")
        return 0
    failed, large_ones = 0, set()
    for path, one in found:
        large = len(one.methods) > METHODS or (
            len(one.fields) > FIELDS and len(one.methods) > METHODS_OF_RECORD)
        known = EXCEPTIONS.get((path, one.name))
        if large and (known is None or known[:2] != (len(one.methods), len(one.fields))):
            print(f"{path}: {one.name} has {len(one.methods)} methods and {len(one.fields)} fields;"
                  f" {METHODS} and {FIELDS} are the most" + (f", EXCEPTIONS says {known}" if known
                                                             else ""))
            failed = 1
        large_ones.update({(path, one.name)} if large else ())
    for path, name in EXCEPTIONS.keys() - large_ones:
        print(f"classes.py: the exception {name} of {path} is not large")
        failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
