"""stems.py -- each .cpp has a header of its stem, beside it or among the public ones.

So a class has one .cpp (docs/style.md 1). A .cpp that is left is a chapter of another one: it is
merged into that one, or its class gets a header of its own. Programs, sources with a main(), are
nobody's class.
"""

import os
import re

from rules.rule import Planted, Rule, Violation

ROOMS = ("platform/", "observe/", "storage/", "levels/", "hierarchy/", "compat/", "bindings/",
         "tools/", "bench/", "programs/", "rtm_emulator/")
PUBLIC = "include/"
MAIN = re.compile(r"^int main\(|^TMH_BENCH_MAIN\(", re.MULTILINE)
LIBC = "defines functions of libc: their headers are the system's"
ABI = "defines functions of the ABI of -fgnu-tm: the compiler knows them"

def listed(folder, names, reason):
    return {f"{folder}/{name}.cpp": reason for name in names.split()}


def stem(path):
    return os.path.splitext(os.path.basename(path))[0]


class Stems(Rule):
    name = "stems"
    demands = "Each source has a header of its stem."
    exceptions = {
        **listed("observe/perf", "counters site_profile", "tmh/perf.hpp has its class"),
        **listed("levels/line", "process_commit", "a part of class ProcessThread"),
        **listed("rtm_emulator", "interpose", LIBC),
        **listed("compat/libitm", "barriers blocks control memory runtime_calls", ABI),
        **listed("compat/libitm", "forks", "a constructor registers what it defines"),
        **listed("compat/libitm", "own_new", "replaces operator new and delete"),
        **listed("compat/libitm/calls",
                 "c11_calls checked_calls file_calls heap_calls input_output_calls library_calls "
                 "map_calls mutex_calls signal_calls stream_calls sync_calls wait_calls", LIBC),
        **listed("compat/libitm/tasks", "process_calls thread_calls", LIBC),
        **listed("compat/libtp", "tp_locks tp_log tp_buffers tp_waits tp_query", "a part of tp.h"),
        **listed("bindings/python/src", "bind_arrays bind_domain bind_instances bind_maps",
                 "a part of the module: bindings/python/src/module.h"),
        **listed("tools", "command_line kill_stuck live locks log log_follow recover rtm_emulate "
                 "skew stat top trace", "a subcommand: tools/commands.h"),
        **listed("tools/doctor", "doctor", "a subcommand: tools/commands.h"),
        **listed("tools/run", "run", "a subcommand: tools/commands.h"),
        **listed("tools/doctor", "ask_hwloc ask_libpfm collect try_pages try_rtm try_storage",
                 "finds facts: tools/doctor/machine.h"),
        **listed("tools/doctor", "judge_machine judge_pages judge_rtm judge_storage",
                 "judges facts: tools/doctor/finding.h"),
        **listed("bench/support", "durable_berkeley_db durable_lmdb durable_sqlite durable_thesis "
                 "durable_tmh", "a contestant: bench/support/durable_contestant.h"),
        **listed("bench/support", "line_plain line_rtm line_software",
                 "a contestant: bench/support/line_work.h"),
        **listed("bench/support", "sets_2plsf sets_plain sets_tinystm sets_tmh",
                 "a contestant: bench/support/sets_work.h"),
        **listed("bench/support", "line_itm_transactions sets_itm_transactions "
                 "snapshots_itm_transactions",
                 "compiled with -fgnu-tm; the header without _transactions declares it"),
        **listed("bench/support", "trees_transfer_runs",
                 "an experiment: bench/support/trees_experiments.h"),
    }

    def violations(self, tree):
        public = {stem(path) for path in tree.code if path.startswith(PUBLIC)}
        for path in tree.code:
            if not path.startswith(ROOMS) or not path.endswith(".cpp"):
                continue
            if path.removesuffix("cpp") + "h" in tree.file_set or stem(path) in public:
                continue
            if not MAIN.search(tree.read(path)):
                yield Violation(path, 1, "no header of its stem", path)


Stems.right = {
    "platform/with.cpp": "", "platform/with.h": "", "hierarchy/shown.cpp": "",
    "include/tmh/shown.hpp": "", "tests/free.cpp": "", "levels/page/excepted.cpp": "",
    "bench/program.cpp": "int main() {}\n",
}
Stems.right_exceptions = {"levels/page/excepted.cpp": "a reason"}
Stems.planted = tuple(
    Planted(f"a source without a header in {room}", {f"{room}chapter.cpp": "int f();\n"},
            (f"{room}chapter.cpp:1: no header",)) for room in ROOMS
) + (
    Planted("a false exception", {}, ("platform/with.cpp needs no exception",),
            {**Stems.right_exceptions, "platform/with.cpp": "a false one"}),
)
RULE = Stems()
