// hierarchy/api/options.cpp -- reading and spelling the values of options and policies.
// Shape:     parse(), to_string() and the lists in error messages read the rows in
//            tmh/policies.hpp and tmh/options.hpp.
// Invariant: parse(to_string(value)) == value for every valid value.
#include <tmh/lab.hpp>
#include <tmh/options.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "platform/assert.h"

namespace tmh {
namespace {

constexpr std::string_view kBackoffMaxKey = "backoff-us-max=";
constexpr std::string_view kIsolationKey = "isolation=";
constexpr std::string_view kPageCacheKey = "page-cache=";
constexpr std::string_view kScanKey = "scan=", kMebibytes = "MiB";
constexpr std::uint32_t kScanInstancesMax = 1'000'000, kCacheMebibytesMax = 1u << 20;
// docs/design.md 8 promises that all go on within a second; a longer sleep would look like
// a hang.
constexpr std::uint32_t kBackoffUsLimit = 1'000'000;

template <class Enum, std::size_t N>
constexpr const Enum *find_value(const Spelling<Enum> (&table)[N], std::string_view text) noexcept {
  for (const auto &entry : table) {
    if (text == entry.text) return &entry.value;
  }
  return nullptr;
}

// In a table, or in that of tmh/lab.hpp.
template <class Enum, std::size_t N, std::size_t M>
constexpr const Enum *find_value(const Spelling<Enum> (&table)[N], const Spelling<Enum> (&lab)[M],
                                 std::string_view text) noexcept {
  const Enum *const value = find_value(table, text);
  return value != nullptr ? value : find_value(lab, text);
}

// "invalid" is no spelling, so that a value which never was one cannot be read back as another.
template <class Enum, std::size_t N>
constexpr const char *spell(const Spelling<Enum> (&table)[N], Enum value) noexcept {
  for (const auto &entry : table) {
    if (value == entry.value) return entry.text;
  }
  return "invalid";
}

template <class Enum, std::size_t N, std::size_t M>
constexpr const char *spell(const Spelling<Enum> (&table)[N], const Spelling<Enum> (&lab)[M],
                            Enum value) noexcept {
  for (const auto &entry : lab) {
    if (value == entry.value) return entry.text;
  }
  return spell(table, value);
}

// What to_string() writes parse() reads back: in each table each text and each value stands once.
template <class Enum, std::size_t N>
constexpr bool goes_both_ways(const Spelling<Enum> (&table)[N]) noexcept {
  for (const auto &entry : table) {
    if (find_value(table, entry.text) != &entry.value) return false;
    if (std::string_view(spell(table, entry.value)) != entry.text) return false;
  }
  return true;
}
static_assert(goes_both_ways(kConflictPolicies) && goes_both_ways(kAges));
static_assert(goes_both_ways(kBackoffs) && goes_both_ways(kIsolations));
static_assert(goes_both_ways(kTrackings) && goes_both_ways(kDetections));
static_assert(goes_both_ways(kLevels) && goes_both_ways(kCrossPolicies));
static_assert(goes_both_ways(kDurabilities) && goes_both_ways(kEarlyReleases));
static_assert(goes_both_ways(kLineChoices) && goes_both_ways(kThreadViewUses));
static_assert(goes_both_ways(kLatencies) && goes_both_ways(kStrays));
static_assert(goes_both_ways(kPageChecksums) && goes_both_ways(kEscalations));

// Decimal digits only, no sign, no leading blanks.
bool parse_number(std::string_view digits, std::uint32_t max, std::uint32_t *out) noexcept {
  TMH_ASSERT(out != nullptr);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *out);
  return error == std::errc() && end == digits.data() + digits.size() && *out <= max;
}
bool parse_backoff_us(std::string_view digits, std::uint32_t *out) noexcept {
  return parse_number(digits, kBackoffUsLimit, out);
}

// Each aspect may be named once: "self-abort,oldest-wins" is a mistake, not a preference.
class PolicyParser {
 public:
  bool word(std::string_view text) noexcept {
    if (const auto *conflict = find_value(kConflictPolicies, text))
      return set(&seen_conflict_, &policy_.conflict, *conflict);
    if (const auto *age = find_value(kAges, text)) return set(&seen_age_, &policy_.keep_age, *age);
    if (const auto *backoff = find_value(kBackoffs, text))
      return set(&seen_backoff_, &policy_.backoff, *backoff);
    if (text.substr(0, kIsolationKey.size()) == kIsolationKey) {
      const auto *isolation = find_value(kIsolations, text.substr(kIsolationKey.size()));
      return isolation != nullptr && set(&seen_isolation_, &policy_.isolation, *isolation);
    }
    if (text.substr(0, kPageCacheKey.size()) == kPageCacheKey) {
      PageCache cache;
      return parse(text.substr(kPageCacheKey.size()), &cache) == Errc::kOk &&
             set(&seen_page_cache_, &policy_.page_cache, cache);
    }
    std::uint32_t us_max = 0;
    if (text.substr(0, kBackoffMaxKey.size()) == kBackoffMaxKey &&
        parse_backoff_us(text.substr(kBackoffMaxKey.size()), &us_max)) {
      return set(&seen_us_max_, &policy_.backoff_us_max, us_max);
    }
    return false;
  }
  [[nodiscard]] const Policy &policy() const noexcept { return policy_; }

 private:
  template <class T>
  static bool set(bool *seen, T *field, T value) noexcept {
    if (*seen) return false;
    *seen = true;
    *field = value;
    return true;
  }

  Policy policy_;
  bool seen_conflict_ = false;
  bool seen_age_ = false;
  bool seen_backoff_ = false;
  bool seen_us_max_ = false;
  bool seen_isolation_ = false;
  bool seen_page_cache_ = false;
};

struct Threshold {
  const char *key;
  std::uint32_t GroupCommit::*field;
  std::uint32_t max;
  const char *unit;
};
constexpr Threshold kThresholds[] = {{"active", &GroupCommit::active_min, 65'536, ""},
                                     {"waiting", &GroupCommit::waiting_percent, 100, ""},
                                     {"bytes", &GroupCommit::bytes, 1u << 30, ""},
                                     {"wait", &GroupCommit::wait_us, 1'000'000, "us"}};
static_assert(std::size(kThresholds) <= 32);  // parse_threshold() has a bit for each

// "key=number" with its unit; each key once.
bool parse_threshold(std::string_view text, GroupCommit *group, unsigned *seen) noexcept {
  TMH_ASSERT(group != nullptr && seen != nullptr);
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return false;
  for (unsigned i = 0; i < std::size(kThresholds); ++i) {
    const Threshold &threshold = kThresholds[i];
    if (text.substr(0, equals) != threshold.key || (*seen & (1u << i)) != 0) continue;
    *seen |= 1u << i;
    std::string_view number = text.substr(equals + 1);
    if (!number.ends_with(threshold.unit)) return false;
    number.remove_suffix(std::string_view(threshold.unit).size());
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || end != number.data() + number.size() || value == 0 ||
        value > threshold.max)
      return false;
    group->*threshold.field = value;
    return true;
  }
  return false;
}

// value: found, or null.
template <class Enum>
Errc give(const Enum *value, Enum *out, Errc wrong) noexcept {
  if (out == nullptr) return Errc::kBadArgument;
  if (value == nullptr) return wrong;
  *out = *value;
  return Errc::kOk;
}
template <class Enum, std::size_t N>
Errc parse_enum(const Spelling<Enum> (&table)[N], std::string_view spec, Enum *out,
                Errc wrong) noexcept {
  return give(find_value(table, spec), out, wrong);
}

}  // namespace

// A specification is a whole value: what it does not name is the default, whatever *out held
// before.
Errc parse(std::string_view spec, Policy *out) noexcept {
  if (out == nullptr) return Errc::kBadArgument;
  PolicyParser parser;
  for (;;) {
    const auto comma = spec.find(',');
    if (!parser.word(spec.substr(0, comma))) return Errc::kBadPolicy;
    if (comma == std::string_view::npos) break;
    spec.remove_prefix(comma + 1);
  }
  *out = parser.policy();
  return Errc::kOk;
}

Errc parse(std::string_view spec, Tracking *out) noexcept {
  return parse_enum(kTrackings, spec, out, Errc::kBadTracking);
}
Errc parse(std::string_view spec, ThreadViewUse *out) noexcept {
  return give(find_value(kThreadViewUses, lab::kThreadViewUses, spec), out, Errc::kBadLevels);
}
Errc parse(std::string_view spec, EarlyRelease *out) noexcept {
  return parse_enum(kEarlyReleases, spec, out, Errc::kBadDurability);
}
Errc parse(std::string_view spec, Latency *out) noexcept {
  return give(find_value(kLatencies, lab::kLatencies, spec), out, Errc::kBadArgument);
}
Errc parse(std::string_view spec, Stray *out) noexcept {
  return parse_enum(kStrays, spec, out, Errc::kBadArgument);
}
Errc parse(std::string_view spec, PageChecksums *out) noexcept {
  return parse_enum(kPageChecksums, spec, out, Errc::kBadArgument);
}
Errc parse(std::string_view spec, LineChoice *out) noexcept {
  return parse_enum(kLineChoices, spec, out, Errc::kBadLevels);
}
Errc parse(std::string_view spec, Isolation *out) noexcept {
  return parse_enum(kIsolations, spec, out, Errc::kBadPolicy);
}
Errc parse(std::string_view spec, PageCache *out) noexcept {
  if (out == nullptr) return Errc::kBadArgument;
  PageCache cache;
  std::uint32_t max = 0;
  if (spec == "adaptive" || spec == "all") {
    if (spec == "all") cache.kind = PageCacheKind::kAll;
    *out = cache;
    return Errc::kOk;
  }
  if (spec == "scan") {
    *out = {PageCacheKind::kScan, PageCache::kScanInstances};
    return Errc::kOk;
  }
  if (spec.starts_with(kScanKey)) {
    cache.kind = PageCacheKind::kScan;
    max = kScanInstancesMax;
    spec.remove_prefix(kScanKey.size());
  } else if (spec.ends_with(kMebibytes)) {
    cache.kind = PageCacheKind::kBytes;
    max = kCacheMebibytesMax;
    spec.remove_suffix(kMebibytes.size());
  }
  if (!parse_number(spec, max, &cache.limit) || cache.limit == 0) return Errc::kBadPolicy;
  *out = cache;
  return Errc::kOk;
}

Errc parse(std::string_view spec, Detection *out) noexcept {
  return parse_enum(kDetections, spec, out, Errc::kBadDetection);
}

Errc parse(std::string_view spec, Levels *out) noexcept {
  return parse_enum(kLevels, spec, out, Errc::kBadLevels);
}
Errc parse(std::string_view spec, CrossPolicy *out) noexcept {
  return give(find_value(kCrossPolicies, lab::kCrossPolicies, spec), out, Errc::kBadLevels);
}

// A kind, and behind '=' its limit.
Errc parse(std::string_view spec, Escalation *out) noexcept {
  if (out == nullptr) return Errc::kBadArgument;
  Escalation escalation;
  const auto equals = spec.find('=');
  const EscalationKind *kind = find_value(kEscalations, lab::kEscalations, spec.substr(0, equals));
  if (kind == nullptr) return Errc::kBadLevels;
  escalation.kind = *kind;
  if (equals != std::string_view::npos) {
    std::string_view number = spec.substr(equals + 1);
    std::uint32_t *limit = nullptr;
    if (*kind == EscalationKind::kAfterAttempts) limit = &escalation.attempts;
    if (*kind == EscalationKind::kAfterWasted && number.ends_with("us")) {
      limit = &escalation.wasted_us;
      number.remove_suffix(2);
    }
    if (limit == nullptr || !parse_backoff_us(number, limit) || *limit == 0)
      return Errc::kBadLevels;
  }
  *out = escalation;
  return Errc::kOk;
}

Errc parse(std::string_view spec, Durability *out) noexcept {
  return parse_enum(kDurabilities, spec, out, Errc::kBadDurability);
}

Errc parse(std::string_view spec, GroupCommit *out) noexcept {
  if (out == nullptr) return Errc::kBadArgument;
  GroupCommit group;
  if (spec == "none") {
    group.wait_us = 0;
    *out = group;
    return Errc::kOk;
  }
  for (unsigned seen = 0;;) {
    const auto comma = spec.find(',');
    if (!parse_threshold(spec.substr(0, comma), &group, &seen)) return Errc::kBadDurability;
    if (comma == std::string_view::npos) break;
    spec.remove_prefix(comma + 1);
  }
  *out = group;
  return Errc::kOk;
}

std::string to_string(const GroupCommit &group) {
  if (group.wait_us == 0) return "none";
  std::string text;
  for (const Threshold &threshold : kThresholds) {
    if (!text.empty()) text += ',';
    text += threshold.key;
    text += '=';
    text += std::to_string(group.*threshold.field);
    text += threshold.unit;
  }
  return text;
}
const char *to_string(Levels levels) noexcept { return spell(kLevels, levels); }
const char *to_string(CrossPolicy policy) noexcept {
  return spell(kCrossPolicies, lab::kCrossPolicies, policy);
}
std::string to_string(const Escalation &escalation) {
  if (escalation.kind == EscalationKind::kOwn) return "own";
  std::string text = spell(kEscalations, lab::kEscalations, escalation.kind);
  if (escalation.kind == EscalationKind::kAfterAttempts)
    text += '=' + std::to_string(escalation.attempts);
  if (escalation.kind == EscalationKind::kAfterWasted)
    text += '=' + std::to_string(escalation.wasted_us) + "us";
  return text;
}
std::string to_string(const PageCache &cache) {
  if (cache.kind == PageCacheKind::kBytes)
    return std::to_string(cache.limit) + std::string(kMebibytes);
  std::string text = spell(kPageCaches, cache.kind);
  if (cache.kind == PageCacheKind::kScan) text += '=' + std::to_string(cache.limit);
  return text;
}
const char *to_string(Durability durability) noexcept { return spell(kDurabilities, durability); }

std::string to_string(const Policy &policy) {
  std::string text = spell(kConflictPolicies, policy.conflict);
  text += ',';
  text += spell(kAges, policy.keep_age);
  text += ',';
  text += spell(kBackoffs, policy.backoff);
  if (policy.backoff_us_max != Policy{}.backoff_us_max) {
    text += ',';
    text += kBackoffMaxKey;
    text += std::to_string(policy.backoff_us_max);
  }
  if (policy.isolation != Policy{}.isolation) {
    text += ',';
    text += kIsolationKey;
    text += to_string(policy.isolation);
  }
  if (policy.page_cache != Policy{}.page_cache) {
    text += ',';
    text += kPageCacheKey;
    text += to_string(policy.page_cache);
  }
  return text;
}

const char *to_string(Tracking tracking) noexcept { return spell(kTrackings, tracking); }
const char *to_string(ThreadViewUse use) noexcept {
  return spell(kThreadViewUses, lab::kThreadViewUses, use);
}
const char *to_string(EarlyRelease use) noexcept { return spell(kEarlyReleases, use); }
const char *to_string(PageChecksums use) noexcept { return spell(kPageChecksums, use); }
const char *to_string(Latency latency) noexcept {
  return spell(kLatencies, lab::kLatencies, latency);
}
const char *to_string(Stray stray) noexcept { return spell(kStrays, stray); }
const char *to_string(LineChoice line) noexcept { return spell(kLineChoices, line); }
const char *to_string(Isolation isolation) noexcept { return spell(kIsolations, isolation); }
const char *to_string(Detection detection) noexcept { return spell(kDetections, detection); }

namespace {

// "a, b, c", made when this file is compiled: these functions may not fail.
template <const auto &kTable>
struct Listed {
  static constexpr std::size_t length() noexcept {
    std::size_t length = 0;
    for (const auto &row : kTable) length += std::string_view(row.text).size() + 2;
    return length - 1;
  }
  static constexpr auto kText = [] {
    std::array<char, length()> text{};
    std::size_t at = 0;
    for (const auto &row : kTable) {
      if (at != 0) {
        text[at++] = ',';
        text[at++] = ' ';
      }
      for (const char c : std::string_view(row.text)) text[at++] = c;
    }
    return text;
  }();
};

template <const auto &kTable>
const char *list() noexcept {
  return Listed<kTable>::kText.data();
}

}  // namespace

// Literals where there is more than a table says; options_test compares them word by word.
const char *policy_values() noexcept {
  return "comma-separated: one of self-abort, oldest-wins, selfish-abort, youngest-wins; one of "
         "keep-age, fresh-age; "
         "one of backoff=none, backoff=exponential, backoff=adaptive; backoff-us-max=0 to 1000000; "
         "one of isolation=serializable, isolation=snapshot; one of page-cache=adaptive, "
         "page-cache=all, page-cache=scan, page-cache=scan=1 to 1000000, page-cache=1MiB to "
         "1048576MiB";
}
const char *page_cache_values() noexcept {
  return "adaptive, all, scan, scan=1 to 1000000, 1MiB to 1048576MiB";
}
const char *escalation_values() noexcept {
  return "never, always, on-capacity, after-n, after-n=1 to 1000000, after-wasted-time, "
         "after-wasted-time=1us to "
         "1000000us, "
         "adaptive";
}
const char *group_commit_values() noexcept {
  return "none, or comma-separated: active=1 to 65536, waiting=1 to 100, bytes=1 to 1073741824, "
         "wait=1us to 1000000us";
}
const char *tracking_values() noexcept { return list<kTrackings>(); }
const char *isolation_values() noexcept { return list<kIsolations>(); }
const char *detection_values() noexcept { return list<kDetections>(); }
const char *line_values() noexcept { return list<kLineChoices>(); }
const char *thread_view_values() noexcept { return list<kThreadViewUses>(); }
const char *page_checksums_values() noexcept { return list<kPageChecksums>(); }
const char *latency_values() noexcept { return list<kLatencies>(); }
const char *stray_values() noexcept { return list<kStrays>(); }
const char *levels_values() noexcept { return list<kLevels>(); }
const char *cross_policy_values() noexcept { return list<kCrossPolicies>(); }
const char *durability_values() noexcept { return list<kDurabilities>(); }
const char *early_release_values() noexcept { return list<kEarlyReleases>(); }

}  // namespace tmh
