"""rule.py -- what every rule of the house is: a sentence, a table of exceptions, a search, and
planted violations that the search must find."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """A place where a rule is broken.

    `key` names it in the table of exceptions; `measure` says how badly, where that counts.
    """

    file: str
    line: int
    what: str
    key: object = None
    measure: object = None


@dataclass(frozen=True)
class Planted:
    """A self-test: `files` are planted in the rule's right tree.

    Each text of `said` must occur in a violation, printed as "file:line: what", and each violation
    must hold one of them.
    """

    what: str
    files: dict
    said: tuple
    exceptions: dict | None = None


class Rule:
    """A rule; subclasses say what it demands and find where it is broken."""

    name = ""
    demands = ""  # one sentence
    # key -> why, or (measure, why), or a measure. The table can only shrink: an exception that
    # nothing needs, or that allows more than there is, is a violation itself.
    exceptions = {}
    right = {}  # a tree that the rule accepts, with the exceptions of `right_exceptions`
    right_exceptions = {}
    planted = ()

    def violations(self, tree):
        """Yields a Violation for each place, without regard to the exceptions."""
        raise NotImplementedError

    def judge(self, tree, exceptions=None):
        """What is left when the exceptions are taken out, those that nobody needs among it."""
        allowed = self.exceptions if exceptions is None else exceptions
        needed, left = set(), []
        for violation in self.violations(tree):
            if violation.key not in allowed:
                left.append(violation)
                continue
            needed.add(violation.key)
            measure = measure_of(allowed[violation.key])
            if measure != violation.measure:
                left.append(Violation(violation.file, violation.line,
                                      f"{violation.what}; the exceptions say {measure}"))
        table = f"tests/house/rules/{self.name}.py"
        left += [Violation(table, 1, f"{key} needs no exception")
                 for key in allowed if key not in needed]
        return left


def measure_of(entry):
    if isinstance(entry, str):
        return None
    return entry[0] if isinstance(entry, tuple) else entry
