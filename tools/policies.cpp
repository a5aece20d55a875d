// tools/policies.cpp -- tmh policies: every value of every choice, one sentence each.
// Shape:     a value is spelled by the library's own tables (to_string); the sentences are switches
//            without a default, so that a new value does not compile without its sentence.
#include <fmt/format.h>

#include <string_view>
#include <vector>

#include <tmh/options.hpp>

#include "levels/line/capacity.h"
#include "platform/protection_keys.h"
#include "tools/commands.h"
#include "tools/print.h"

namespace tmh::tools {

namespace {

struct Row {
  std::string value;
  std::string meaning;
  bool is_default = false;
};

struct Choice {
  const char *variable;
  // of DomainOptions; "" where only the environment has it
  const char *field;
  const char *about;
  std::vector<Row> rows;
};

const char *meaning(Latency value) {
  switch (value) {
    case Latency::kOff:
      return "none";
    case Latency::kSampled:
      return "each where they begin 13 us apart or more; of more frequent ones one of up to 256, "
             "which counts for so "
             "many";
    case Latency::kFull:
      return "each; some 25 ns more per instance";
  }
  return "";
}
const char *meaning(ThreadViewUse value) {
  switch (value) {
    case ThreadViewUse::kAuto:
      return "with tracking that keeps pages mapped, from the first time on that a thread finds "
             "another one on the process's view";
    case ThreadViewUse::kAlways:
      return "in every thread; with exact tracking slower than one after the other";
    case ThreadViewUse::kNever:
      return "in none: instances of level 2 run one after the other";
  }
  return "";
}
const char *meaning(Stray value) {
  switch (value) {
    case Stray::kFault:
      return "SIGSEGV at its instruction, and a sentence that names it; needs protection keys (tmh "
             "doctor)";
    case Stray::kAllow:
      return "tracking decides: a store may be lost, or belong to the process's next instance";
  }
  return "";
}

const char *meaning(PageChecksums value) {
  switch (value) {
    case PageChecksums::kOff:
      return "none, but for backups";
    case PageChecksums::kOn:
      return "a clean close writes tmh.checksums, with which tmh check compares every page";
  }
  return "";
}

const char *meaning(Detection value) {
  switch (value) {
    case Detection::kLazy:
      return "conflicts are found at the end: the first committer wins";
    case Detection::kEager:
      return "conflicts are found at the first access of each page, and resolved by the conflict "
             "policy";
  }
  return "";
}
const char *meaning(Tracking value) {
  switch (value) {
    case Tracking::kAuto:
      return "the best that this machine permits: kernel-hot, else signal-hot; signal with eager "
             "detection";
    case Tracking::kSignal:
      return "a first touch raises SIGSEGV; exact sets; works everywhere";
    case Tracking::kSignalHot:
      return "the same, but pages stay mapped between instances: cheaper, read sets are supersets";
    case Tracking::kKernel:
      return "the kernel lists first touches, nothing runs at them; exact sets";
    case Tracking::kKernelHot:
      return "the same, but pages stay mapped between instances: cheapest, read sets are supersets";
  }
  return "";
}
const char *meaning(ConflictPolicy value) {
  switch (value) {
    case ConflictPolicy::kSelfAbort:
      return "the instance that discovers a conflict fails";
    case ConflictPolicy::kOldestWins:
      return "the instance with the smallest age wins";
    case ConflictPolicy::kSelfishAbort:
      return "the instance that discovers a conflict wins";
    case ConflictPolicy::kYoungestWins:
      return "the instance with the largest age wins";
  }
  return "";
}
const char *meaning(Backoff value) {
  switch (value) {
    case Backoff::kNone:
      return "an aborted instance begins again at once";
    case Backoff::kExponential:
      return "it waits a random time first, up to twice as long after each abort";
    case Backoff::kAdaptive:
      return "it waits only when others make no progress, then as exponential";
  }
  return "";
}
const char *meaning(Durability value) {
  switch (value) {
    case Durability::kNone:
      return "commits survive processes, not power cuts";
    case Durability::kBuffered:
      return "a commit returns at once and is durable within 100 ms, or after flush()";
    case Durability::kStrict:
      return "a commit returns when it is durable";
  }
  return "";
}
const char *meaning(Levels value) {
  switch (value) {
    case Levels::kPage:
      return "level 2 alone: instances track pages";
    case Levels::kHybrid:
      return "sites run at cache lines while they are small, at pages when they are not";
  }
  return "";
}
const char *meaning(LineChoice value) {
  switch (value) {
    case LineChoice::kAuto:
      return "software lines for instrumented bodies, RTM for plain ones where it works";
    case LineChoice::kSoftware:
      return "software lines, on every machine";
    case LineChoice::kRtm:
      return "RTM is demanded: an error where it does not work (see tmh doctor)";
  }
  return "";
}
const char *meaning(CrossPolicy value) {
  switch (value) {
    case CrossPolicy::kAbortLower:
      return "the instance of level 1 aborts at once; its site decides whether it goes on at level "
             "2";
    case CrossPolicy::kAbortUpper:
      return "the instance of level 2 fails; level 1 waits until it has ended";
    case CrossPolicy::kRecallAndWait:
      return "level 1 looks again and again until it has ended, within its budget";
    case CrossPolicy::kWaitForUpper:
      return "level 1 sleeps with growing pauses until it has ended, within its budget";
  }
  return "";
}
const char *meaning(EscalationKind value) {
  switch (value) {
    case EscalationKind::kNever:
      return "level 1 only; what it cannot do is an error";
    case EscalationKind::kAlways:
      return "level 2 only";
    case EscalationKind::kOnCapacity:
      return "to level 2 only when an instance does not fit level 1";
    case EscalationKind::kAfterAttempts:
      return "also after so many attempts";
    case EscalationKind::kAfterWasted:
      return "also when attempts have wasted so much time";
    case EscalationKind::kAdaptive:
      return "by either limit; a site that escalates begins at level 2 for a while, longer each "
             "time; "
             "instrumented updates that exceed the capacity run at level 1 without it while that "
             "succeeds";
    case EscalationKind::kAdaptivePages:
      return "as adaptive, but what exceeds the capacity goes to level 2";
  }
  return "";
}

// The word of a policy that tells one aspect: conflict, age, backoff.
std::string word(const Policy &policy, unsigned index) {
  std::string text = to_string(policy);
  for (; index != 0; --index) text.erase(0, text.find(',') + 1);
  return text.substr(0, text.find(','));
}

// Every value from `first` on that has a spelling.
template <class Enum, class Spell>
std::vector<Row> rows_of(Enum first, Enum usual, Spell spell) {
  std::vector<Row> rows;
  for (auto number = static_cast<unsigned>(first);; ++number) {
    const auto value = static_cast<Enum>(number);
    const std::string text = spell(value);
    if (text.starts_with("invalid")) return rows;
    rows.push_back({text, meaning(value), value == usual});
  }
}
template <class Enum>
std::vector<Row> rows_of(Enum first, Enum usual) {
  return rows_of(first, usual, [](Enum value) { return std::string(to_string(value)); });
}

std::vector<Choice> all_choices() {
  const Policy usual;
  const auto with_age = [&](bool keeps) {
    Policy policy;
    policy.keep_age = keeps;
    return word(policy, 1);
  };
  GroupCommit no_group;
  no_group.wait_us = 0;
  return {
      {"TMH_DETECTION", "detection", "when conflicts are found; one per domain",
       rows_of(Detection::kLazy, Detection::kLazy)},
      {"TMH_TRACKING", "tracking", "how a process learns which pages it touches",
       rows_of(Tracking::kAuto, Tracking::kAuto)},
      {"TMH_POLICY", "policy", "conflict: who fails when two instances conflict",
       rows_of(ConflictPolicy::kSelfAbort, usual.conflict,
               [](ConflictPolicy value) {
                 Policy policy;
                 policy.conflict = value;
                 return word(policy, 0);
               })},
      {"TMH_POLICY",
       "policy",
       "age: what an aborted instance keeps",
       {{with_age(true),
         "a retry keeps its first attempt's age, and after 8 aborts gets the domain's turn: nobody "
         "starves",
         usual.keep_age},
        {with_age(false), "each attempt is as old as itself", !usual.keep_age}}},
      {"TMH_POLICY", "policy", "backoff: when an aborted instance begins again",
       rows_of(Backoff::kNone, usual.backoff,
               [](Backoff value) {
                 Policy policy;
                 policy.backoff = value;
                 return word(policy, 2);
               })},
      {"TMH_DURABILITY", "durability",
       "when a commit survives a power cut; fixed at the domain's creation",
       rows_of(Durability::kNone, Durability::kNone)},
      {"TMH_PAGE_CHECKSUMS", "page_checksums",
       "durable domains: checksums of the data files' pages; stays with the domain until somebody "
       "opens it otherwise",
       rows_of(PageChecksums::kOff, PageChecksums::kOff)},
      {"TMH_GROUP_COMMIT",
       "group_commit",
       "whether a writer of the log waits for company",
       {{to_string(GroupCommit{}),
         "until so many are active, so many of them wait, so much is to be written, or so long",
         true},
        {to_string(no_group), "it writes at once", false}}},
      {"TMH_LEVELS", "levels", "which levels work on the domain's memory; one per domain",
       rows_of(Levels::kPage, Levels::kPage)},
      {"TMH_LINE", "line", "what runs the instances of level 1",
       rows_of(LineChoice::kAuto, LineChoice::kAuto)},
      {"TMH_CAPACITY",
       "capacity",
       "what fits into an instance of level 1",
       {{to_string(line::CapacityModel{}), "everything", true},
        {"l1d", "what fits this machine's first-level data cache, as in a best-effort HTM", false},
        {"32KiB/8/64", "the same for a cache of so many bytes, ways and bytes per line", false}}},
      {"TMH_ESCALATION", "escalation", "when an instance of level 1 that aborts goes on at level 2",
       rows_of(EscalationKind::kNever, EscalationKind::kAdaptive,
               [](EscalationKind value) {
                 Escalation escalation;
                 escalation.kind = value;
                 return to_string(escalation);
               })},
      {"TMH_CROSS", "cross", "what level 1 does about a page that level 2 uses",
       rows_of(CrossPolicy::kAbortLower, CrossPolicy::kRecallAndWait)},
      {"TMH_THREAD_VIEWS", "thread_views",
       "which threads run instrumented instances of level 2 on views of their own",
       rows_of(ThreadViewUse::kAuto, ThreadViewUse::kAuto)},
      {"TMH_LATENCY", "latency", "which attempts are timed, for the latency histograms",
       rows_of(Latency::kOff, Latency::kSampled)},
      {"TMH_STRAY", "stray", "what an access to a segment does that no instance covers",
       rows_of(Stray::kFault, platform::has_keys() ? Stray::kFault : Stray::kAllow)},
      {"TMH_TRACE",
       "",
       "whether the library keeps its last events, for tmh trace",
       {{"off", "it keeps none", true},
        {"on", "each participant keeps its last 16,384 events in tmh.trace.N", false}}},
      {"TMH_ASSUME_RTM",
       "",
       "whether RTM is tried where the processor does not list it; for emulators",
       {{"0", "it is not tried there", true}, {"1", "it is tried there", false}}},
  };
}

}  // namespace

Exit run(const PoliciesCommand &command) {
  const std::vector<Choice> choices = all_choices();
  if (command.json) {
    Json list = Json::array();
    for (const Choice &choice : choices)
      for (const Row &row : choice.rows)
        list.push_back({{"variable", choice.variable},
                        {"option", choice.field},
                        {"value", row.value},
                        {"default", row.is_default},
                        {"meaning", row.meaning}});
    print(Json{{"document", "tmh-policies-1"}, {"policies", std::move(list)}});
    return Exit::kOk;
  }
  std::string out;
  for (const Choice &choice : choices) {
    const std::string field =
        *choice.field == 0 ? "no option" : fmt::format("DomainOptions::{}", choice.field);
    out += fmt::format("{}{} ({}) -- {}\n", out.empty() ? "" : "\n", choice.variable, field,
                       choice.about);
    for (const Row &row : choice.rows)
      out +=
          fmt::format("  {:22} {}{}\n", row.value, row.meaning, row.is_default ? " (default)" : "");
  }
  print(out);
  return Exit::kOk;
}

}  // namespace tmh::tools
