"""features.py -- no source of the project asks the compiler what is there: CMake does, so that a
build knows what it has (cmake/optional.cmake)."""

from rules.rule import Planted, Rule, Violation

ASKS = "__has_include"


class Features(Rule):
    name = "features"
    demands = "CMake decides which optional parts there are, and no source does."

    def violations(self, tree):
        for name in tree.code:
            text = tree.read(name)
            at = text.find(ASKS)
            if at >= 0:
                yield Violation(name, text.count("\n", 0, at) + 1,
                                f"{ASKS} decides a feature; CMake is to (cmake/optional.cmake)")


Features.right = {"platform/a.cpp": "#if TMH_HAVE_SDT\n#endif\n"}
Features.planted = (
    Planted("a source that asks", {"platform/b.cpp": "\n#if __has_include(<a.h>)\n#endif\n"},
            ("platform/b.cpp:2: __has_include",)),
)
RULE = Features()
