"""Pretty printers for libtmh: fields, block states, instances, the consistency tree. In gdb: source
tmh.py

Only members are read, no function of the program is called, so that they work on core dumps as
well, as far as these hold the shared memory.
"""

import gdb
import gdb.printing

LOCKED, UPPER = 1 << 63, 1 << 62
RESERVED_STAMP = (1 << 64) - 1
NO_PIN = (1 << 64) - 1
# a long query can hold thousands; gdb's own `set print elements` limits characters, not children
VERSIONS_SHOWN_MAX = 200


def number(value):
    """Of an integer, an enum, or a std::atomic of one."""
    if value.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
        value = value["_M_i"]
    return int(value.cast(gdb.lookup_type("unsigned long")))


def enumerator(value):
    """kPrivate of tmh::page::PageState::kPrivate."""
    return str(value).rsplit("::", maxsplit=1)[-1]


def page_text(page):
    return f"{page >> 40}:{page & ((1 << 40) - 1)}"


def line_word_text(word):
    if word & LOCKED:
        return f"W: locked by context {word & 0xffffffff}"
    if word & UPPER:
        return f"U: level 2 has it, version {word & (UPPER - 1)}"
    return f"unlocked, version {word}"


def status_text(status):
    return f"{('IDLE', 'PENDING', 'FAILED', 'COMMITTED')[status & 3]}, instance {status >> 2}"


def bits_text(mask):
    return ", ".join(str(bit) for bit in range(64) if mask >> bit & 1)


class Text:
    """A printer that is one function from a value to its text."""

    def __init__(self, value, text):
        self.value, self.text = value, text

    def to_string(self):
        return self.text(self.value)


def field(value):
    return value["cell_"]["value"]


def page_id(value):
    return "page " + page_text(number(value))


def where(value):
    at = number(value)
    return f"segment {at >> 48} + {at & ((1 << 48) - 1):#x}"


def local_page(value):
    bits = number(value["lists"])
    lists = [
        name
        for bit, name in ((1, "kept"), (2, "private"), (4, "fresh"), (32, "resident"))
        if bits & bit
    ]
    return f"{enumerator(value['state'])}, twin {int(value['twin'])}, in [{', '.join(lists)}]"


def directory_record(value):
    level = enumerator(value["level"]["_M_i"])
    if level != "kPages":
        return "L: level 1 has it" if level == "kLines" else "H: level 1 has it, in hardware"
    return f"at level 2, residents by slot modulo 64: {{{bits_text(number(value['residents']))}}}"


def page_meta(value):
    newest = number(value["newest"])
    return f"last commit {number(value['stamp'])}, " + (
        f"newest version in slot {newest}" if newest else "home is right for all"
    )


def version_head(value):
    stamp = number(value["stamp"])
    if stamp in (0, RESERVED_STAMP):
        return "free" if stamp == 0 else f"reserved by participant {int(value['owner'])}"
    lines = bin(number(value["lines"])).count("1")
    return (
        f"page {page_text(number(value['page']))}, commit {stamp}, {lines} lines, of participant"
        f" {int(value['owner'])}, older {int(value['older'])}, newer {int(value['newer'])}"
    )


def participant(value):
    if number(value["state"]) == 0:
        return "free"
    pin, instance = number(value["pin"]), number(value["instance"])
    kind = "query" if number(value["is_query"]) else "update"
    running = (
        f"{kind} {instance} at snapshot {pin}" if instance and pin != NO_PIN else "no instance"
    )
    return f"pid {int(value['pid'])} \"{value['name'].string(errors='replace')}\", {running}"


def line_context(value):
    return (
        f"{status_text(number(value['status']))}, age {number(value['age'])}, stamp"
        f" {number(value['stamp'])}, {number(value['lines'])} lines written"
    )


class Engine:
    """The instance of level 2 in one process, and the pages that it uses."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        instance = self.value["mine_"]["instance"]
        if not instance["is_running"]:
            return f"no instance; {int(instance['number'])} so far"
        kind = "query" if instance["is_query"] else "update"
        failed = ""
        if int(instance["failed_cause_"]) != 0:
            failed = f", failed: {enumerator(instance['failed_cause_'])}"
        snapshot = int(self.value["touching_"]["snapshot"]["at_"])
        return f"{kind} {int(instance['number'])} at snapshot {snapshot}{failed}"

    def children(self):
        for name, member in (("read or kept", "pages_"), ("own copies", "privates_")):
            pages = self.value["mine_"]["kept"][member]
            data = pages["memory_"]["base_"].cast(gdb.lookup_type("unsigned long").pointer())
            count = int(pages["count_"])
            shown = [page_text(int(data[i])) for i in range(min(count, VERSIONS_SHOWN_MAX))]
            yield name, f"{count} [{', '.join(shown)}{', ...' if count > len(shown) else ''}]"


def software_thread(value):
    if not value["is_running_"]:
        return (
            f"no instance; context {int(value['number_'])}, last cause"
            f" {enumerator(value['ending_']['cause'])}"
        )
    kind = "query" if value["is_query_"] else "update"
    writes = int(value["commit_"]["writes_"]["count_"])
    first = value["log_"]["words_"]["_M_impl"]["_M_start"]  # a mark that names no line
    is_logged = int(value["log_top"]) != 0
    reads = f"{int(value['log_top'] - first)} lines read" if is_logged else "reads not logged"
    doomed = f", doomed: {enumerator(value['ending_']['cause'])}" if value["is_doomed_"] else ""
    return (
        f"{kind} in context {int(value['number_'])}, attempt {int(value['attempt_'])}, snapshot"
        f" {int(value['rv'])}, {reads}, {writes}"
        f" written{doomed}"
    )


class ConsistencyTree:
    """Versions that are not home: a child per version, by participant slot, in commit order."""

    def __init__(self, value):
        self.memory = value["memory_"].referenced_value()
        self.slots = number(self.memory["state_"]["participants_high"])

    def to_string(self):
        return f"clock {number(self.memory['state_']['clock'])}, versions by participant"

    def children(self):
        shown = 0
        for slot in range(self.slots):
            version = int(self.memory["participants_"][slot]["versions"]["oldest"])
            while version != 0 and shown < VERSIONS_SHOWN_MAX:
                head = self.memory["version_heads_"][version]
                yield f"participant {slot}, slot {version}", version_head(head)
                shown += 1
                version = int(head["list_newer"])
        if shown == VERSIONS_SHOWN_MAX:
            yield "...", "more"


class LineWord(gdb.Function):
    """$tmh_line_word(WORD): what the word of a cache line says."""

    def __init__(self):
        super().__init__("tmh_line_word")

    def invoke(self, word):
        return line_word_text(number(word))


class LineContext(gdb.Function):
    """$tmh_line_context(POINTER): status and instance of a context. No printer: its redo log makes
    it larger than gdb's max-value-size."""

    def __init__(self):
        super().__init__("tmh_line_context")

    def invoke(self, pointer):
        return line_context(pointer.dereference())


def make():
    printers = gdb.printing.RegexpCollectionPrettyPrinter("tmh")
    for name, text in (
        ("storage::PageId", page_id),
        ("line::Where", where),
        ("page::LocalPage", local_page),
        ("hierarchy::DirectoryRecord", directory_record),
        ("page::PageMeta", page_meta),
        ("page::VersionHead", version_head),
        ("storage::Participant", participant),
        ("line::SoftwareThread", software_thread),
    ):
        printers.add_printer(name, f"^tmh::{name}$", lambda value, text=text: Text(value, text))
    printers.add_printer("field", "^tmh::field<.*>$", lambda value: Text(value, field))
    printers.add_printer("page::Engine", "^tmh::page::Engine$", Engine)
    printers.add_printer("page::ConsistencyTree", "^tmh::page::ConsistencyTree$", ConsistencyTree)
    return printers


gdb.printing.register_pretty_printer(None, make(), replace=True)
LineWord()
LineContext()
