// hierarchy/domain/choices.h -- the one list of what can be chosen: where each choice is asked for,
// what it decides, which values it has.
// Shape:     the values are the rows in tmh/policies.hpp and tmh/options.hpp. The reading of the
//            environment (settings.h), TMH_POLICIES and `tmh policies` work on this list.
// Contexts:  not in handlers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <tmh/options.hpp>

#include "hierarchy/domain/history_rule.h"
#include "hierarchy/watch/watch.h"
#include "platform/failure.h"

namespace tmh::hierarchy {

struct Choice {
  // Of the environment.
  const char *variable;
  // Of DomainOptions; empty: the environment alone.
  const char *field;
  const char *about;
  // What a wrong value is refused with.
  Errc wrong = Errc::kBadArgument;
  // The right values, for messages.
  const char *(*values)() noexcept = nullptr;
};

inline constexpr Choice kDetection{"TMH_DETECTION", "policies.detection",
                                   "when conflicts are found; one per domain", Errc::kBadDetection,
                                   detection_values};
inline constexpr Choice kTracking{"TMH_TRACKING", "tracking",
                                  "how a process learns which pages it touches", Errc::kBadTracking,
                                  tracking_values};
// Three aspects in one specification.
inline constexpr Choice kConflict{
    "TMH_POLICY", "policies.conflict",
    "conflict: which of two conflicting instances fails; in lazy domains of "
    "pages the first committer wins, and only the default is accepted",
    Errc::kBadPolicy, policy_values};
inline constexpr Choice kAge{"TMH_POLICY", "policies.conflict",
                             "age: what an aborted instance keeps", Errc::kBadPolicy,
                             policy_values};
inline constexpr Choice kBackoff{"TMH_POLICY", "policies.conflict",
                                 "backoff: when an aborted instance begins again", Errc::kBadPolicy,
                                 policy_values};
inline constexpr Choice kIsolation{"TMH_ISOLATION", "policies.isolation",
                                   "what an update promises about what it has read",
                                   Errc::kBadPolicy, isolation_values};
inline constexpr Choice kPageCache{
    "TMH_PAGE_CACHE", "policies.page_cache",
    "under snapshot isolation: which of its own copies of pages a participant keeps",
    Errc::kBadPolicy, page_cache_values};
inline constexpr Choice kDurability{
    "TMH_DURABILITY", "durability",
    "when a commit survives a power cut; fixed at the domain's creation", Errc::kBadDurability,
    durability_values};
inline constexpr Choice kPageChecksumsChoice{
    "TMH_PAGE_CHECKSUMS", "page_checksums",
    "durable domains: checksums of the data files' pages; stays with the domain until an open "
    "chooses otherwise",
    Errc::kBadArgument, page_checksums_values};
inline constexpr Choice kGroupCommit{"TMH_GROUP_COMMIT", "policies.group_commit",
                                     "whether a writer of the log waits for company",
                                     Errc::kBadDurability, group_commit_values};
inline constexpr Choice kEarlyRelease{"TMH_EARLY_RELEASE", "policies.early_release",
                                      "durable domains: what instances may read",
                                      Errc::kBadDurability, early_release_values};
inline constexpr Choice kLevelsChoice{"TMH_LEVELS", "levels",
                                      "which levels work on the domain's memory; one per domain",
                                      Errc::kBadLevels, levels_values};
inline constexpr Choice kLine{"TMH_LINE", "line", "what runs the instances of level 1",
                              Errc::kBadLevels, line_values};
inline constexpr Choice kEscalation{"TMH_ESCALATION", "policies.escalation",
                                    "when an instance of level 1 that aborts goes on at level 2",
                                    Errc::kBadLevels, escalation_values};
inline constexpr Choice kCross{"TMH_CROSS", "policies.cross",
                               "what the levels do about a page that both want", Errc::kBadLevels,
                               cross_policy_values};
inline constexpr Choice kThreadViews{
    "TMH_THREAD_VIEWS", "policies.thread_views",
    "where instrumented instances of level 2 run, when a process has several threads",
    Errc::kBadLevels, thread_view_values};
inline constexpr Choice kLatency{"TMH_LATENCY", "policies.latency",
                                 "which attempts are timed, for the latency histograms",
                                 Errc::kBadArgument, latency_values};
inline constexpr Choice kStray{"TMH_STRAY", "stray",
                               "what an access to a segment does that no instance covers",
                               Errc::kBadArgument, stray_values};
[[nodiscard]] inline const char *skew_values() noexcept { return "off, record"; }
inline constexpr Choice kSkew{"TMH_SKEW", "",
                              "whether this process records what its instances of level 2 read and "
                              "write, for tmh skew",
                              Errc::kBadArgument, skew_values};
inline constexpr Choice kSlowReader{
    "TMH_SLOW_READER", "",
    "what is done about participants whose snapshots keep versions for long; on_slow_reader of the "
    "program goes before it",
    Errc::kBadArgument, slow_reader_values};
inline constexpr Choice kHistoryChoice{
    "TMH_HISTORY", "history",
    "how much of its past a domain of pages holds, the most that any participant has asked for",
    Errc::kBadArgument, history_values};
// Its values are those of the level below: line::capacity_values().
extern const Choice kCapacity;

// Unset ({}), or one of the choice's values; else it is refused with the right ones.
template <class Value>
[[nodiscard]] Errc check_value(const Choice &choice, Value value) {
  if (value == Value{} || std::string_view(to_string(value)) != "invalid") return Errc::kOk;
  return platform::fail(choice.wrong, std::string("right values: ") + choice.values());
}

// A choice with all its values, for people.
struct Listed {
  struct Row {
    std::string value;
    std::string meaning;
    bool is_default = false;
  };
  Choice choice;
  std::vector<Row> rows;
};
[[nodiscard]] std::vector<Listed> all_choices();
// The values of tmh/lab.hpp.
[[nodiscard]] std::vector<Listed> lab_choices();

}  // namespace tmh::hierarchy
