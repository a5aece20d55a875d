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
  // Of DomainOptions; empty: the environment alone.
  const char *field;
  const char *about;
  std::vector<Row> rows;
};

const char *meaning(Latency value) {
  switch (value) {
    case Latency::kOff:
      return "no attempt";
    case Latency::kSampled:
      return "each attempt that begins at least 13 us after the one before; of denser ones one of "
             "up to 256, which counts for as many";
    case Latency::kFull:
      return "each attempt; some 25 ns more per instance";
  }
  return "";
}
const char *meaning(Stray value) {
  switch (value) {
    case Stray::kFault:
      return "the access raises SIGSEGV, and one sentence names it; needs protection keys (tmh "
             "doctor)";
    case Stray::kAllow:
      return "the tracking decides: a store may be lost, or be committed by the process's next "
             "instance";
  }
  return "";
}

const char *meaning(PageChecksums value) {
  switch (value) {
    case PageChecksums::kOff:
      return "only backups have checksums";
    case PageChecksums::kOn:
      return "a clean close writes tmh.checksums; tmh check compares every page with it";
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
      return "it waits a random time, whose bound doubles with each abort";
    case Backoff::kAdaptive:
      return "it waits as exponential, but only while others make no progress";
  }
  return "";
}
const char *meaning(Durability value) {
  switch (value) {
    case Durability::kNone:
      return "a commit survives the death of processes, not a power cut";
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
      return "the instance of level 1 aborts at once; the escalation policy decides what follows";
    case CrossPolicy::kAbortUpper:
      return "the instance of level 2 fails; the instance of level 1 waits for its end";
    case CrossPolicy::kRecallAndWait:
      return "the instance of level 1 looks again and again until level 2 has ended, within a time "
             "budget";
    case CrossPolicy::kWaitForUpper:
      return "the instance of level 1 sleeps with growing pauses until level 2 has ended, within a "
             "time budget";
    case CrossPolicy::kUpperYields:
      return "an update of level 2 that touches a page which level 1 has used aborts instead of "
             "taking it, at most 4 times in a row; level 1 does as under recall-and-wait";
  }
  return "";
}
const char *meaning(EscalationKind value) {
  switch (value) {
    case EscalationKind::kNever:
      return "level 1 only; what level 1 cannot do is an error";
    case EscalationKind::kAlways:
      return "level 2 only";
    case EscalationKind::kOnCapacity:
      return "to level 2 when an instance does not fit level 1";
    case EscalationKind::kAfterAttempts:
      return "as on-capacity, and after so many attempts";
    case EscalationKind::kAfterWasted:
      return "as on-capacity, and when attempts have wasted so much time";
    case EscalationKind::kAdaptive:
      return "after so many attempts or so much wasted time; a site that escalates begins at level "
             "2 for a while, longer each time; an instrumented update that exceeds the capacity "
             "runs at level 1 without the limit, while that succeeds";
    case EscalationKind::kAdaptivePages:
      return "as adaptive, but an update that exceeds the capacity goes to level 2";
  }
  return "";
}

const char *meaning(ThreadViewUse value) {
  switch (value) {
    case ThreadViewUse::kAuto:
      return "as always, from the first time that two threads meet, where tracking keeps pages "
             "mapped; else as never";
    case ThreadViewUse::kAlways:
      return "each thread in a view of its own, all at once";
    case ThreadViewUse::kNever:
      return "all threads in the process's view, one after the other";
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
      {"TMH_POLICY", "policy",
       "conflict: which of two conflicting instances fails; in lazy domains of pages the first "
       "committer wins, and only the default is accepted",
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
         "a retry keeps the age of its first attempt, and gets the domain's turn after 8 aborts: "
         "no instance starves",
         usual.keep_age},
        {with_age(false), "the age of each attempt begins anew", !usual.keep_age}}},
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
       "durable domains: checksums of the data files' pages; stays with the domain until an open "
       "chooses otherwise",
       rows_of(PageChecksums::kOff, PageChecksums::kOff)},
      {"TMH_GROUP_COMMIT",
       "group_commit",
       "whether a writer of the log waits for company",
       {{to_string(GroupCommit{}),
         "it waits when so many participants are active: until so many percent of them wait, so "
         "many bytes are to be written, or so much time has passed",
         true},
        {to_string(no_group), "it writes at once", false}}},
      {"TMH_LEVELS", "levels", "which levels work on the domain's memory; one per domain",
       rows_of(Levels::kPage, Levels::kPage)},
      {"TMH_LINE", "line", "what runs the instances of level 1",
       rows_of(LineChoice::kAuto, LineChoice::kAuto)},
      {"TMH_CAPACITY",
       "capacity",
       "what fits into an instance of level 1",
       {{to_string(line::CapacityModel{}), "any number of lines that level 1 has room for", true},
        {"l1d", "what fits this machine's first-level data cache, as in a best-effort HTM", false},
        {"32KiB/8/64", "what fits a cache of so many bytes, ways and bytes per line", false}}},
      {"TMH_ESCALATION", "escalation", "when an instance of level 1 that aborts goes on at level 2",
       rows_of(EscalationKind::kNever, EscalationKind::kAdaptive,
               [](EscalationKind value) {
                 Escalation escalation;
                 escalation.kind = value;
                 return to_string(escalation);
               })},
      {"TMH_CROSS", "cross", "what the levels do about a page that both want",
       rows_of(CrossPolicy::kAbortLower, CrossPolicy::kRecallAndWait)},
      {"TMH_THREAD_VIEWS", "thread_views",
       "where instrumented instances of level 2 run, when a process has several threads",
       rows_of(ThreadViewUse::kAuto, ThreadViewUse::kAuto)},
      {"TMH_LATENCY", "latency", "which attempts are timed, for the latency histograms",
       rows_of(Latency::kOff, Latency::kSampled)},
      {"TMH_STRAY", "stray", "what an access to a segment does that no instance covers",
       rows_of(Stray::kFault, platform::has_keys() ? Stray::kFault : Stray::kAllow)},
      {"TMH_TRACE",
       "",
       "whether this process records events for tmh trace",
       {{"off", "it records none", true},
        {"on", "it keeps its last 16,384 events in the domain's folder", false}}},
      {"TMH_ASSUME_RTM",
       "",
       "whether RTM is tried where the processor does not list it; for emulators",
       {{"0", "it is not tried there; so is any value but 1", true}, {"1", "it is tried", false}}},
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
    const std::string_view field = choice.field;
    out += fmt::format("{}{} ({}{}) -- {}\n", out.empty() ? "" : "\n", choice.variable,
                       field.empty() ? "environment only" : "DomainOptions::", field, choice.about);
    for (const Row &row : choice.rows)
      out +=
          fmt::format("  {:22} {}{}\n", row.value, row.meaning, row.is_default ? " (default)" : "");
  }
  print(out);
  return Exit::kOk;
}

}  // namespace tmh::tools
