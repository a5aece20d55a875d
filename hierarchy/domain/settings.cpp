// hierarchy/domain/settings.cpp -- reading, settling and comparing the settings of a domain.
#include "hierarchy/domain/settings.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string_view>

#include "hierarchy/domain/choices.h"
#include "hierarchy/domain/conflict_choice.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"
#include "storage/log/log_format.h"

namespace tmh::hierarchy {

using platform::fail;

namespace {

// A specification of Policy that does not name it says nothing about it.
Isolation isolation_named_in(const std::string &spec) {
  Policy policy;
  const bool is_named = spec.find("isolation=") != std::string::npos;
  return is_named && parse(std::string_view(spec), &policy) == Errc::kOk ? policy.isolation
                                                                         : Isolation{};
}

// The same of the page cache; empty: not named.
std::string page_cache_named_in(const std::string &spec) {
  Policy policy;
  const bool is_named = spec.find("page-cache=") != std::string::npos;
  return is_named && parse(std::string_view(spec), &policy) == Errc::kOk
             ? to_string(policy.page_cache)
             : std::string();
}

// Of one open: what the environment says, and what the options ask for.
class Reader {
 public:
  explicit Reader(const Environment &environment) : environment_(environment) {}

  // TMH_POLICIES.
  [[nodiscard]] Errc read_policies() {
    const char *text = environment_("TMH_POLICIES");
    if (text == nullptr || *text == '\0') return Errc::kOk;
    std::string why;
    const Errc error = parse(std::string_view(text), &policies_, &why);
    return error == Errc::kOk ? error
                              : fail(error, "TMH_POLICIES='" + std::string(text) + "': " + why);
  }
  [[nodiscard]] const Policies &policies() const noexcept { return policies_; }

  // The variable's value, then that of the last of `asked` that is set; *wanted stays where none
  // is. A wrong value is refused with the right ones.
  template <class Value>
  [[nodiscard]] Errc choose(const Choice &choice, std::initializer_list<Value> asked,
                            Value *wanted) const {
    TMH_TRY(from_environment(choice, wanted));
    for (const Value value : asked) {
      if (value == Value{}) continue;
      *wanted = value;
      TMH_TRY(check_value(choice, value));
    }
    return Errc::kOk;
  }
  // The same of specifications; empty: unset.
  template <class Value>
  [[nodiscard]] Errc specify(const Choice &choice,
                             std::initializer_list<std::reference_wrapper<const std::string>> asked,
                             Value *wanted) const {
    TMH_TRY(from_environment(choice, wanted));
    for (const std::string &spec : asked) {
      if (spec.empty() || parse(std::string_view(spec), wanted) == Errc::kOk) continue;
      return fail(choice.wrong, "'" + spec + "'; right values: " + choice.values());
    }
    return Errc::kOk;
  }

 private:
  template <class Value>
  [[nodiscard]] Errc from_environment(const Choice &choice, Value *out) const {
    const char *text = environment_(choice.variable);
    if (text == nullptr || *text == '\0') return Errc::kOk;
    if (parse(std::string_view(text), out) == Errc::kOk) return Errc::kOk;
    return fail(choice.wrong,
                std::string(choice.variable) + "='" + text + "'; right values: " + choice.values());
  }

  const Environment &environment_;
  Policies policies_;
};

Errc read_skew(const Environment &environment, bool *records) {
  const char *text = environment(kSkew.variable);
  if (text == nullptr || *text == '\0' || std::string_view(text) == "off") return Errc::kOk;
  *records = std::string_view(text) == "record";
  return *records ? Errc::kOk
                  : fail(kSkew.wrong, std::string(kSkew.variable) + "='" + text +
                                          "'; right values: " + kSkew.values());
}

Errc read(const Reader &reader, const DomainOptions &options, Durability *wanted) {
  const std::uint64_t file_bytes = options.log_file_bytes;
  const bool is_right =
      file_bytes == 0 || (file_bytes % kPageBytes == 0 && file_bytes >= storage::kLogFileBytesMin &&
                          file_bytes <= storage::kLogFileBytesMax);
  TMH_TRY(reader.choose(kDurability, {options.durability}, wanted));
  if (is_right && options.flush_interval_ms != 0) return Errc::kOk;
  return fail(Errc::kBadDurability, std::string("right values: ") + durability_values() +
                                        "; log_file_bytes a multiple of 4096 from 1 MiB to 4 "
                                        "GiB; flush_interval_ms at least 1");
}

// *wanted: what the environment asks for.
Errc read(const DomainOptions &options, History *wanted) {
  if (options.history.is_set()) *wanted = options.history;
  if (!wanted->is_set()) return Errc::kOk;
  if (wanted->bytes == 0) wanted->bytes = kHistoryBytes;
  // In nanoseconds, and in slots of the version store, there must be room for it.
  constexpr std::chrono::hours kTimeMax{24 * 365 * 100};
  constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 37;
  const bool is_right = wanted->time.count() >= 0 && wanted->time <= kTimeMax &&
                        wanted->bytes >= kHistoryBytesMin && wanted->bytes <= kBytesMax;
  return is_right ? Errc::kOk
                  : fail(Errc::kBadArgument,
                         "history: right values: a time of at most 100 years, 1 MiB to 128 GiB");
}

// An option whose default says that it is unset.
template <class Value>
void set_unless_asked(Value *value, Value otherwise) {
  if (*value == Value{}) *value = otherwise;
}

template <class Value, std::size_t N>
constexpr Value default_of(const Spelling<Value> (&table)[N]) {
  for (const auto &row : table)
    if (row.is_default) return row.value;
  return Value{};
}
// Each has a row that is what an unset option means.
static_assert(default_of(kDetections) != Detection{} && default_of(kLevels) != Levels{});
static_assert(default_of(kLatencies) != Latency{} && default_of(kCrossPolicies) != CrossPolicy{});
static_assert(default_of(kEarlyReleases) != EarlyRelease{});
static_assert(default_of(kThreadViewUses) != ThreadViewUse{});

Errc check_durability(Durability wanted, Durability present) {
  return wanted == Durability{} || wanted == present
             ? Errc::kOk
             : fail(Errc::kDurabilityMismatch,
                    std::string("the domain's durability is ") + to_string(present));
}
Errc check_detection(Detection wanted, Detection present) {
  return wanted == Detection{} || wanted == present
             ? Errc::kOk
             : fail(Errc::kDetectionMismatch,
                    std::string("the domain is open with ") + to_string(present) + " detection");
}
Errc check_levels(Levels wanted, Levels present) {
  return wanted == Levels{} || wanted == present
             ? Errc::kOk
             : fail(Errc::kLevelsMismatch,
                    std::string("the domain is open with levels ") + to_string(present));
}

}  // namespace

Errc read_durability(const DomainOptions &options, const Environment &environment,
                     Durability *out) {
  TMH_ASSERT(out != nullptr && environment != nullptr);
  return read(Reader(environment), options, out);
}

Errc read_settings(const DomainOptions &options, const Environment &environment, Settings *out) {
  TMH_ASSERT(out != nullptr && environment != nullptr);
  Reader reader(environment);
  TMH_TRY(reader.read_policies());
  const Policies &several = reader.policies(), &asked = options.policies;
  Settings &wanted = *out;
  TMH_TRY(read(reader, options, &wanted.durability));
  TMH_TRY(reader.specify(kHistoryChoice, {}, &wanted.history));
  TMH_TRY(read(options, &wanted.history));
  TMH_TRY(reader.choose(kLatency, {several.latency, asked.latency}, &wanted.latency));
  set_unless_asked(&wanted.latency, default_of(kLatencies));
  TMH_TRY(reader.choose(kStray, {options.stray}, &wanted.stray));
  TMH_TRY(reader.specify(kSlowReader, {}, &wanted.slow_reader));
  TMH_TRY(reader.specify(kGroupCommit, {several.group_commit, asked.group_commit},
                         &wanted.group_commit));
  TMH_TRY(reader.choose(kEarlyRelease, {several.early_release, asked.early_release},
                        &wanted.early_release));
  set_unless_asked(&wanted.early_release, default_of(kEarlyReleases));
  TMH_TRY(reader.choose(kPageChecksumsChoice, {options.page_checksums}, &wanted.page_checksums));
  TMH_TRY(reader.specify(kConflict, {several.conflict, asked.conflict}, &wanted.policy));
  TMH_TRY(reader.choose(kIsolation,
                        {isolation_named_in(several.conflict), several.isolation,
                         isolation_named_in(asked.conflict), asked.isolation},
                        &wanted.policy.isolation));
  const std::string several_cache = page_cache_named_in(several.conflict),
                    asked_cache = page_cache_named_in(asked.conflict);
  TMH_TRY(reader.specify(kPageCache,
                         {several_cache, several.page_cache, asked_cache, asked.page_cache},
                         &wanted.policy.page_cache));
  TMH_TRY(reader.choose(kLine, {options.line}, &wanted.line));
  TMH_TRY(reader.choose(kTracking, {options.tracking}, &wanted.tracking));
  TMH_TRY(reader.choose(kDetection, {several.detection, asked.detection}, &wanted.detection));
  TMH_TRY(reader.choose(kLevelsChoice, {options.levels}, &wanted.levels));
  TMH_TRY(reader.choose(kCross, {several.cross, asked.cross}, &wanted.cross));
  set_unless_asked(&wanted.cross, default_of(kCrossPolicies));
  TMH_TRY(reader.specify(kEscalation, {several.escalation, asked.escalation}, &wanted.escalation));
  TMH_TRY(reader.specify(kCapacity, {several.capacity, asked.capacity}, &wanted.capacity));
  TMH_TRY(reader.choose(kThreadViews, {several.thread_views, asked.thread_views},
                        &wanted.thread_views));
  set_unless_asked(&wanted.thread_views, default_of(kThreadViewUses));
  return read_skew(environment, &wanted.records_skew);
}

Tracking Settings::tracking_to_use() const noexcept {
  if (!records_skew) return tracking;
  const bool is_by_kernel = tracking == Tracking::kKernel || tracking == Tracking::kKernelHot;
  return is_by_kernel ? Tracking::kKernel : Tracking::kSignal;
}

Errc settle(const PresentDomain &present, Settings *settings) {
  TMH_ASSERT(settings != nullptr);
  TMH_TRY(check_durability(settings->durability, present.durability));
  settings->durability = present.durability;
  if (present.is_fresh) {
    set_unless_asked(&settings->detection, default_of(kDetections));
    set_unless_asked(&settings->levels, default_of(kLevels));
  } else {
    TMH_TRY(check_detection(settings->detection, present.detection));
    TMH_TRY(check_levels(settings->levels, present.levels));
    settings->detection = present.detection;
    settings->levels = present.levels;
  }
  if (settings->levels != Levels::kHybrid) return Errc::kOk;
  if (settings->history.is_set())
    return fail(Errc::kLevelsMismatch,
                "a history needs levels page: level 1 keeps nothing of what it replaces");
  if (settings->detection != Detection::kLazy)
    return fail(Errc::kLevelsMismatch,
                "hybrid levels need lazy detection: a snapshot moves on when a page is recalled");
  return Errc::kOk;
}

namespace {

class Agreement {
 public:
  explicit Agreement(const std::string &folder) : folder_(folder) {}
  [[nodiscard]] Errc error() const noexcept { return error_; }

  // is_asked: the option is set.
  void compare(const char *option, bool is_asked, const auto &asked, const auto &present) {
    if (error_ != Errc::kOk || !is_asked || asked == present) return;
    error_ = fail(Errc::kAlreadyInitialized,
                  folder_ + ": this process has it open with " + option + " " + text_of(present) +
                      ", not " + text_of(asked) + "; leave the option unset, or close it first");
  }
  // Unset where it has the value {}.
  template <class Value>
  void compare(const Choice &choice, Value asked, Value present) {
    compare(choice.field, asked != Value{}, asked, present);
  }
  // A specification; empty: not set.
  template <class Value>
  void compare_spec(const Choice &choice, const std::string &spec, const Value &present) {
    if (error_ != Errc::kOk || spec.empty()) return;
    Value asked;
    if (parse(std::string_view(spec), &asked) != Errc::kOk)
      error_ = fail(choice.wrong, "'" + spec + "'; right values: " + choice.values());
    compare(choice.field, true, asked, present);
  }

 private:
  static std::string text_of(bool value) { return value ? "true" : "false"; }
  static std::string text_of(std::uint32_t value) { return std::to_string(value); }
  static std::string text_of(std::uint64_t value) { return std::to_string(value); }
  static std::string text_of(const auto &value) { return to_string(value); }

  const std::string &folder_;
  Errc error_ = Errc::kOk;
};

// These have no value that says that they are unset: their defaults do.
void compare_of_durable(const DomainOptions &first, const DomainOptions &asked,
                        Agreement *agreement) {
  const DomainOptions unset;
  const auto compare = [&](const char *option, const auto DomainOptions::*member) {
    agreement->compare(option, asked.*member != unset.*member, asked.*member, first.*member);
  };
  compare("flush_interval_ms", &DomainOptions::flush_interval_ms);
  compare("checkpoint_bytes", &DomainOptions::checkpoint_bytes);
  compare("checkpoint_interval_ms", &DomainOptions::checkpoint_interval_ms);
  compare("keep_log", &DomainOptions::keep_log);
}

// Functions cannot be compared: where both have one, the first one's stays.
void compare_of_slow_readers(const DomainOptions &first, const DomainOptions &asked,
                             Agreement *agreement) {
  const DomainOptions unset;
  agreement->compare("on_slow_reader set:", asked.on_slow_reader != nullptr, true,
                     first.on_slow_reader != nullptr);
  agreement->compare("slow_reader_ms", asked.slow_reader_ms != unset.slow_reader_ms,
                     asked.slow_reader_ms, first.slow_reader_ms);
  agreement->compare("slow_reader_bytes", asked.slow_reader_bytes != unset.slow_reader_bytes,
                     asked.slow_reader_bytes, first.slow_reader_bytes);
}

}  // namespace

Errc check_agreement(const std::string &folder, const Settings &present, Tracking tracking_in_use,
                     const DomainOptions &first, const DomainOptions &options) {
  const Policies &asked = options.policies;
  Policy policy;
  if (!asked.conflict.empty() && parse(std::string_view(asked.conflict), &policy) != Errc::kOk)
    return fail(kConflict.wrong, "'" + asked.conflict + "'; right values: " + kConflict.values());
  TMH_TRY(check_detection(asked.detection, present.detection));
  TMH_TRY(check_levels(options.levels, present.levels));
  TMH_TRY(check_durability(options.durability, present.durability));
  TMH_TRY(check_conflict(policy, present.levels, present.detection));
  Agreement agreement(folder);
  if (isolation_named_in(asked.conflict) == Isolation{})
    policy.isolation = present.policy.isolation;
  if (page_cache_named_in(asked.conflict).empty()) policy.page_cache = present.policy.page_cache;
  agreement.compare(kConflict.field, !asked.conflict.empty(), policy, present.policy);
  agreement.compare(kIsolation, asked.isolation, present.policy.isolation);
  agreement.compare_spec(kPageCache, asked.page_cache, present.policy.page_cache);
  agreement.compare(kTracking.field,
                    options.tracking != Tracking::kAuto && options.tracking != present.tracking,
                    options.tracking, tracking_in_use);
  agreement.compare(kLine, options.line, present.line);
  agreement.compare(kCross, asked.cross, present.cross);
  agreement.compare(kThreadViews, asked.thread_views, present.thread_views);
  agreement.compare(kLatency, asked.latency, present.latency);
  agreement.compare_spec(kEscalation, asked.escalation, present.escalation);
  agreement.compare_spec(kCapacity, asked.capacity, present.capacity);
  agreement.compare(kStray, options.stray, present.stray);
  compare_of_slow_readers(first, options, &agreement);
  History history;
  TMH_TRY(read(options, &history));
  agreement.compare("history.time in ms", options.history.is_set(),
                    static_cast<std::uint64_t>(history.time.count()),
                    static_cast<std::uint64_t>(present.history.time.count()));
  agreement.compare("history.bytes", options.history.is_set(), history.bytes,
                    present.history.bytes);
  if (present.durability != Durability::kNone) {
    agreement.compare_spec(kGroupCommit, asked.group_commit, present.group_commit);
    agreement.compare(kEarlyRelease, asked.early_release, present.early_release);
    compare_of_durable(first, options, &agreement);
  }
  TMH_TRY(agreement.error());
  return options.page_checksums <= PageChecksums::kOn
             ? Errc::kOk
             : fail(Errc::kBadArgument, std::string("right values: ") + page_checksums_values());
}

}  // namespace tmh::hierarchy
