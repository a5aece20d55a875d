// hierarchy/domain/choices.cpp -- every choice with its values; several policies in one
// specification.
#include "hierarchy/domain/choices.h"

#include <functional>
#include <utility>

#include <tmh/lab.hpp>

#include "levels/line/capacity.h"
#include "platform/protection_keys.h"

namespace tmh {
namespace hierarchy {

const Choice kCapacity{"TMH_CAPACITY", "policies.capacity", "what fits into an instance of level 1",
                       Errc::kBadLevels, line::capacity_values};

namespace {

template <class Value, std::size_t N>
std::vector<Listed::Row> rows_of(const Spelling<Value> (&table)[N]) {
  std::vector<Listed::Row> rows;
  for (const Spelling<Value> &row : table) rows.push_back({row.text, row.meaning, row.is_default});
  return rows;
}

// A kind is spelled with its limit.
template <std::size_t N>
std::vector<Listed::Row> rows_of_escalation(const Spelling<EscalationKind> (&table)[N]) {
  std::vector<Listed::Row> rows;
  for (const auto &row : table) {
    Escalation escalation;
    escalation.kind = row.value;
    rows.push_back({to_string(escalation), row.meaning, row.is_default});
  }
  return rows;
}

std::vector<Listed::Row> rows_of_page_cache() {
  std::vector<Listed::Row> rows = rows_of(kPageCaches);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (kPageCaches[i].value == PageCacheKind::kScan)
      rows[i].value = to_string(PageCache{PageCacheKind::kScan, PageCache::kScanInstances});
  }
  return rows;
}

// The default depends on the machine.
std::vector<Listed::Row> rows_of_stray() {
  std::vector<Listed::Row> rows;
  const Stray usual = platform::has_keys() ? Stray::kFault : Stray::kAllow;
  for (const auto &row : kStrays) rows.push_back({row.text, row.meaning, row.value == usual});
  return rows;
}

}  // namespace

std::vector<Listed> lab_choices() {
  return {
      {kEscalation, rows_of_escalation(lab::kEscalations)},
      {kCross, rows_of(lab::kCrossPolicies)},
      {kThreadViews, rows_of(lab::kThreadViewUses)},
      {kLatency, rows_of(lab::kLatencies)},
  };
}

std::vector<Listed> all_choices() {
  return {
      {kDetection, rows_of(kDetections)},
      {kTracking, rows_of(kTrackings)},
      {kConflict, rows_of(kConflictPolicies)},
      {kAge, rows_of(kAges)},
      {kBackoff, rows_of(kBackoffs)},
      {kIsolation, rows_of(kIsolations)},
      {kPageCache, rows_of_page_cache()},
      {kDurability, rows_of(kDurabilities)},
      {kPageChecksumsChoice, rows_of(kPageChecksums)},
      {kGroupCommit,
       {{to_string(GroupCommit{}),
         "it waits when so many participants are active: until so many percent of them wait, so "
         "many bytes are to be written, or so much time has passed",
         true},
        {"none", "it writes at once", false}}},
      {kEarlyRelease, rows_of(kEarlyReleases)},
      {kLevelsChoice, rows_of(kLevels)},
      {kLine, rows_of(kLineChoices)},
      {kCapacity,
       {{to_string(line::CapacityModel{}), "any number of lines that level 1 has room for", true},
        {"l1d", "what fits this machine's first-level data cache, as in a best-effort HTM", false},
        {"32KiB/8/64", "what fits a cache of so many bytes, ways and bytes per line", false}}},
      {kEscalation, rows_of_escalation(kEscalations)},
      {kCross, rows_of(kCrossPolicies)},
      {kThreadViews, rows_of(kThreadViewUses)},
      {kLatency, rows_of(kLatencies)},
      {kStray, rows_of_stray()},
      {kSlowReader, rows_of(kSlowReaders)},
      {kHistoryChoice,
       {{"off", "only moments that have a name", true},
        {"10s", "the last 10 seconds, as far as 64 MiB suffice; ms, min and h are units, too",
         false},
        {"64MiB", "as much as 64 MiB hold; GiB is a unit, too", false},
        {"10s,64MiB", "the last 10 seconds, as far as 64 MiB suffice", false}}},
      {{"TMH_POLICIES", "policies", "several policies at once, by their names"},
       {{"escalation=adaptive,cross=recall-and-wait",
         "a comma-separated list of name=value; a name is that of a field of tmh::Policies",
         true}}},
      {{"TMH_TRACE", "", "whether this process records events for tmh trace"},
       {{"off", "it records none", true},
        {"on", "it keeps its last 16,384 events in the domain's folder", false}}},
      {kSkew,
       {{"off", "it records nothing", true},
        {"record", "it does, in the domain's folder; no page stays mapped between instances",
         false}}},
      {{"TMH_ASSUME_RTM", "",
        "whether RTM is tried where the processor does not list it; for emulators"},
       {{"0", "it is not tried there; so is any value but 1", true}, {"1", "it is tried", false}}},
  };
}

namespace {

// A policy in a specification of several.
struct Named {
  // The field's, with '-' for '_'.
  const char *name;
  const Choice &choice;
  Errc (*set)(std::string_view value, Policies *policies);
};

template <auto kField>
Errc set_value(std::string_view value, Policies *policies) {
  return parse(value, &(policies->*kField));
}
template <auto kField, class Value>
Errc set_spec(std::string_view value, Policies *policies) {
  Value parsed;
  const Errc error = parse(value, &parsed);
  if (error == Errc::kOk) policies->*kField = value;
  return error;
}

const Named kNames[] = {
    {"detection", kDetection, set_value<&Policies::detection>},
    {"conflict", kConflict, set_spec<&Policies::conflict, Policy>},
    {"isolation", kIsolation, set_value<&Policies::isolation>},
    {"page-cache", kPageCache, set_spec<&Policies::page_cache, PageCache>},
    {"cross", kCross, set_value<&Policies::cross>},
    {"escalation", kEscalation, set_spec<&Policies::escalation, Escalation>},
    {"capacity", kCapacity, set_spec<&Policies::capacity, line::CapacityModel>},
    {"thread-views", kThreadViews, set_value<&Policies::thread_views>},
    {"group-commit", kGroupCommit, set_spec<&Policies::group_commit, GroupCommit>},
    {"early-release", kEarlyRelease, set_value<&Policies::early_release>},
    {"latency", kLatency, set_value<&Policies::latency>},
};
// parse() has a bit for each.
static_assert(std::size(kNames) <= 32);

std::string names() {
  std::string all;
  for (const Named &named : kNames) all += (all.empty() ? "" : ", ") + std::string(named.name);
  return all;
}

const Named *find_name(std::string_view word) noexcept {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return nullptr;
  for (const Named &named : kNames)
    if (word.substr(0, equals) == named.name) return &named;
  return nullptr;
}

}  // namespace

}  // namespace hierarchy

Errc parse(std::string_view spec, Policies *out, std::string *why) {
  using hierarchy::Named;
  if (out == nullptr) return Errc::kBadArgument;
  Policies policies;
  const auto refuse = [&](Errc code, std::string text) {
    if (why != nullptr) *why = std::move(text);
    return code;
  };
  std::uint32_t seen = 0;
  while (!spec.empty()) {
    const Named *named = hierarchy::find_name(spec);
    if (named == nullptr)
      return refuse(Errc::kBadPolicy, "'" + std::string(spec) +
                                          "' begins with no policy; right "
                                          "is name=value, with one of the names " +
                                          hierarchy::names());
    // Up to the next word that has a name.
    std::size_t end = spec.find(',');
    while (end != std::string_view::npos && hierarchy::find_name(spec.substr(end + 1)) == nullptr &&
           end + 1 < spec.size())
      end = spec.find(',', end + 1);
    const std::string_view word = spec.substr(0, end);
    const std::string_view value = word.substr(std::string_view(named->name).size() + 1);
    const std::uint32_t bit = 1u << (named - std::begin(hierarchy::kNames));
    if ((seen & bit) != 0)
      return refuse(Errc::kBadPolicy, std::string(named->name) + " is named twice");
    seen |= bit;
    if (const Errc error = named->set(value, &policies); error != Errc::kOk)
      return refuse(error, std::string(named->name) + "='" + std::string(value) +
                               "'; right values: " + named->choice.values());
    if (end == std::string_view::npos) break;
    spec.remove_prefix(end + 1);
    if (spec.empty()) return refuse(Errc::kBadPolicy, "a comma stands at the end");
  }
  if (seen == 0)
    return refuse(Errc::kBadPolicy, "no policy is named; names: " + hierarchy::names());
  *out = std::move(policies);
  return Errc::kOk;
}

std::string to_string(const Policies &policies) {
  std::string text;
  const auto add = [&text](const char *name, bool is_set, const std::string &value) {
    if (!is_set) return;
    text += (text.empty() ? "" : ",") + std::string(name) + '=' + value;
  };
  add("detection", policies.detection != Detection{}, to_string(policies.detection));
  add("conflict", !policies.conflict.empty(), policies.conflict);
  add("isolation", policies.isolation != Isolation{}, to_string(policies.isolation));
  add("page-cache", !policies.page_cache.empty(), policies.page_cache);
  add("cross", policies.cross != CrossPolicy{}, to_string(policies.cross));
  add("escalation", !policies.escalation.empty(), policies.escalation);
  add("capacity", !policies.capacity.empty(), policies.capacity);
  add("thread-views", policies.thread_views != ThreadViewUse{}, to_string(policies.thread_views));
  add("group-commit", !policies.group_commit.empty(), policies.group_commit);
  add("early-release", policies.early_release != EarlyRelease{}, to_string(policies.early_release));
  add("latency", policies.latency != Latency{}, to_string(policies.latency));
  return text;
}

}  // namespace tmh
