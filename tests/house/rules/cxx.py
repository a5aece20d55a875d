"""cxx.py -- C++ as text: what clang-format has laid out needs no compiler."""

import collections
import re

LITERAL_OR_COMMENT = re.compile(
    r'R"(\w*)\(.*?\)\1"|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.M)
TOKEN = re.compile(r"[A-Za-z_]\w*")
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
NOT_NEWLINE = re.compile(r"[^\n]")
CLASS_HEAD = re.compile(r"(?<!enum )\b(?:class|struct|union)\s+"
                        r"(?:\[\[[^\]]*\]\]\s*|alignas\s*\([^;{]*?\)\s*)*"
                        r"([A-Za-z_][\w:]*)(?:\s*<[^;{()]*>)?(?:\s+final)?\s*(?::(?!:)[^;{]*)?$")
ENUM_HEAD = re.compile(r"\benum\b(?:\s+(?:class|struct))?\s*(?:\[\[[^\]]*\]\]\s*)?(\w*)"
                       r"\s*(?::[^;{]*)?$")
NAMESPACE_HEAD = re.compile(r"\bnamespace\b[\w:\s]*$")
ACCESS = re.compile(r"\b(?:public|private|protected)\s*:(?!:)")


def _blank(match):
    found = match.group(0)
    blank = NOT_NEWLINE.sub(" ", found)
    return f'"{blank[1:-1]}"' if found[0] in "\"'R" and len(found) > 1 else blank


def without_comments(text):
    """`text` with comments, and what strings hold, blanked; every place stays where it is."""
    return LITERAL_OR_COMMENT.sub(_blank, text)


def without_directives(text):
    """`text` with its preprocessor lines blanked."""
    return DIRECTIVE.sub(lambda match: NOT_NEWLINE.sub(" ", match.group(0)), text)


def without_angles(text):
    """`text` without template arguments, so that `function<void()> f` has no parenthesis."""
    while True:
        shorter = re.sub(r"<[^<>;{}]*>", "", text)
        if shorter == text:
            return text
        text = shorter


class Scope:
    """What a brace opens. kind: "file", "namespace", "class", "enum" or "body"."""

    def __init__(self, kind, name, start):
        self.kind, self.name, self.start = kind, name, start
        self.end = None


class Part:
    """Text up to a brace or semicolon, directly inside `scope`. `opens`: the Scope behind it."""

    def __init__(self, scope, text, start, sign):
        self.scope, self.text, self.start, self.sign = scope, text, start, sign
        self.opens = None


def opened(head, scope):
    """(kind, name) of what the brace behind `head` opens."""
    if scope.kind in ("body", "enum"):
        inside_body = True
    else:
        inside_body = False
    plain = ACCESS.sub(" ", head).strip()
    named = CLASS_HEAD.search(plain)
    if named and "(" not in without_angles(plain[:named.start()]):
        return "class", named.group(1)
    enum = ENUM_HEAD.search(plain)
    if enum and "(" not in plain[:enum.start()]:
        return "enum", enum.group(1)
    if not inside_body and (NAMESPACE_HEAD.search(plain) or plain.endswith('extern ""')
                            or re.search(r'extern\s+"\s*"$', plain)):
        return "namespace", ""
    return "body", ""


def parts(text):
    """The Parts of a text without comments and directives, in their order."""
    scopes, start = [Scope("file", "", 0)], 0
    for at in re.finditer(r"[{};]", text):
        sign, place = at.group(0), at.start()
        part = Part(scopes[-1], text[start:place], start, sign)
        start = at.end()
        if sign == "{":
            part.opens = Scope(*opened(part.text, scopes[-1]), at.end())
            scopes.append(part.opens)
        elif sign == "}" and len(scopes) > 1:
            scopes.pop().end = place
        yield part


class File:
    """What a file of code says, once."""

    def __init__(self, text):
        self.plain = without_comments(text)
        self.code = without_directives(self.plain)
        self._parts = self._places = self._named = None

    def named_by_directives(self):
        """What preprocessor lines name, but for the macro that each defines."""
        if self._named is None:
            self._named = set()
            for match in DIRECTIVE.finditer(self.plain):
                names = TOKEN.findall(match.group(0))
                defined = DEFINE.match(match.group(0))
                if defined:
                    names.remove(defined.group(1))
                self._named.update(names)
        return self._named

    def places_of(self, name):
        if self._places is None:
            self._places = collections.defaultdict(list)
            for match in TOKEN.finditer(self.code):
                self._places[match.group(0)].append(match.start())
        return self._places[name]

    def parts(self):
        if self._parts is None:
            self._parts = list(parts(self.code))
        return self._parts


def parsed(tree, name):
    """The File of a file of a tree, made once."""
    key = (parsed, name)
    if key not in tree.memo:
        tree.memo[key] = File(tree.read(name))
    return tree.memo[key]
