"""classes.py -- no class is larger than 40 methods or 25 fields (docs/style.md).

A record, with at most 5 methods, may have more fields: layouts of shared memory, counters,
reports. Reads headers and sources as text. Counts the members that a class declares itself, by
name: overloads are one method, constructors, destructor and assignments none. Types inside a class
count for themselves.
"""
import re

from rules import cxx
from rules.rule import Planted, Rule, Violation

ROOMS = ("platform", "observe", "storage", "levels", "hierarchy", "include", "compat", "bindings",
         "tools", "bench", "programs", "examples", "rtm_emulator")
METHODS, FIELDS = 40, 25
METHODS_OF_RECORD = 5


class Counted:
    """The members of one class."""

    def __init__(self, name, line):
        self.name = name
        self.line = line
        self.methods = set()
        self.fields = []
        self.bools = 0

    def add(self, declaration, name):
        """Counts one member declaration, without its body."""
        text = re.sub(r"\b(public|private|protected)\s*:", " ", declaration)
        text = re.sub(r"\[\[.*?\]\]|\balignas\s*\([^()]*(?:\([^()]*\)[^()]*)*\)", " ", text)
        text = re.sub(r"^\s*template\s*<.*?>\s*(?=\w)", " ", text, flags=re.S)
        text = re.sub(r"\boperator\s*(\(\)|\S+?)\s*(?=\()", r"operator_call", text)
        text = cxx.without_angles(text).strip()
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


def classes(file):
    """The classes that a cxx.File defines, each as a Counted."""
    counted_of = {}
    for part in file.parts():
        if part.opens is not None and part.opens.kind == "class":
            line = file.code.count("\n", 0, part.opens.start) + 1
            counted_of[part.opens] = Counted(part.opens.name, line)
        elif part.scope in counted_of and part.sign != "}":
            counted_of[part.scope].add(part.text, part.scope.name)
    return list(counted_of.values())


def is_large(counted):
    return len(counted.methods) > METHODS or (
        len(counted.fields) > FIELDS and len(counted.methods) > METHODS_OF_RECORD)


class Classes(Rule):
    name = "classes"
    demands = f"No class has more than {METHODS} methods or {FIELDS} fields."
    exceptions = {
        ("programs/json.h", "Json"): (
            (43, 2), "the interface of nlohmann::json, without its templates"),
    }

    def violations(self, tree):
        for name in tree.code:
            if not name.startswith(ROOMS):
                continue
            for counted in filter(is_large, classes(cxx.parsed(tree, name))):
                methods, fields = len(counted.methods), len(counted.fields)
                yield Violation(name, counted.line,
                                f"{counted.name} has {methods} methods and {fields} fields",
                                (name, counted.name), (methods, fields))


# A class that holds one of everything: 2 methods, 6 fields.
SAMPLE = """
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
METHODS_OF_SAMPLE = "".join(f"  int m{i}();\n" for i in range(METHODS - 2))
FIELDS_OF_SAMPLE = "".join(f"  int f{i}_ = 0;\n" for i in range(FIELDS - 6))
MARK = "  friend class Other;\n"


def sample_with(members):
    return SAMPLE.replace(MARK, MARK + members)


A_RECORD = "struct R {\n" + "".join(f"  int f{i};\n" for i in range(2 * FIELDS)) + "};\n"
FIVE = "  void a();\n  void b();\n  void c();\n  void d();\n"
Classes.right = {
    "platform/a.h": sample_with(METHODS_OF_SAMPLE + FIELDS_OF_SAMPLE),
    "bindings/python/src/a.h": A_RECORD,
    "tests/a.h": sample_with(METHODS_OF_SAMPLE + "  int more();\n"),
}
Classes.planted = tuple(
    Planted(f"{members.strip()} in {file}", {file: sample_with(members)}, (f"{file}:3: Small",))
    for members in (METHODS_OF_SAMPLE + "  int more();\n", FIELDS_OF_SAMPLE + FIVE + "  int g_;\n")
    for file in ("storage/b.h", "compat/libxac/b.cpp", "tools/b.h", "bench/support/b.h")
) + (
    Planted("an exception of another size",
            {"tools/b.h": sample_with(FIELDS_OF_SAMPLE + FIVE + "  int g_;\n")},
            ("tools/b.h:3: Small has 6 methods and 26 fields; the exceptions say (6, 27)",),
            {("tools/b.h", "Small"): ((6, 27), "")}),
    Planted("an exception that is not large", {}, ("needs no exception",),
            {("platform/a.h", "Small"): ((40, 25), "")}),
)
RULE = Classes()
