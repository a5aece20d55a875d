// hierarchy/settings.cpp -- reading, settling and comparing the settings of a domain.
#include "hierarchy/settings.h"

#include <string_view>

#include "hierarchy/conflict_choice.h"
#include "levels/storage/log_format.h"
#include "platform/failure.h"
#include "platform/try.h"

namespace tmh::hierarchy {

using platform::fail;

namespace {

class Reader {
 public:
  explicit Reader(const Environment &environment) : environment_(environment) {}

  // A wrong value is refused with the right ones.
  template <class Value>
  [[nodiscard]] Errc from_environment(const char *variable, Errc wrong, const char *values,
                                      Value *out) const {
    const char *text = environment_(variable);
    if (text == nullptr || *text == '\0') return Errc::kOk;
    if (parse(std::string_view(text), out) == Errc::kOk) return Errc::kOk;
    return fail(wrong, std::string(variable) + "='" + text + "'; right values: " + values);
  }

  // The same, then what is asked for in `asked`, unless that is unset; *wanted stays if both are.
  // last: the greatest right value.
  template <class Choice>
  [[nodiscard]] Errc choose(const char *variable, Errc wrong, const char *values, Choice asked,
                            Choice last, Choice *wanted) const {
    TMH_TRY(from_environment(variable, wrong, values, wanted));
    if (asked != Choice{}) *wanted = asked;
    return *wanted <= last ? Errc::kOk : fail(wrong, std::string("right values: ") + values);
  }

  // The same of a specification; empty: unset.
  template <class Value>
  [[nodiscard]] Errc specify(const char *variable, Errc wrong, const char *values,
                             const std::string &asked, Value *wanted) const {
    TMH_TRY(from_environment(variable, wrong, values, wanted));
    if (asked.empty() || parse(std::string_view(asked), wanted) == Errc::kOk) return Errc::kOk;
    return fail(wrong, "'" + asked + "'; right values: " + values);
  }

 private:
  const Environment &environment_;
};

Errc parse_policy(const std::string &asked, Policy *wanted) {
  if (asked.empty() || parse(std::string_view(asked), wanted) == Errc::kOk) return Errc::kOk;
  return fail(Errc::kBadPolicy,
              "'" + asked + "' is no policy; right values: " + std::string(policy_values()));
}

Errc read(const Reader &reader, const DomainOptions &options, Durability *wanted) {
  TMH_TRY(
      reader.from_environment("TMH_DURABILITY", Errc::kBadDurability, durability_values(), wanted));
  if (options.durability != Durability{}) *wanted = options.durability;
  const std::uint64_t file_bytes = options.log_file_bytes;
  const bool is_right =
      file_bytes == 0 || (file_bytes % kPageBytes == 0 && file_bytes >= storage::kLogFileBytesMin &&
                          file_bytes <= storage::kLogFileBytesMax);
  if (*wanted <= Durability::kStrict && is_right && options.flush_interval_ms != 0)
    return Errc::kOk;
  return fail(Errc::kBadDurability, std::string("right values: ") + durability_values() +
                                        "; log_file_bytes a multiple of 4096 from 1 MiB to 4 "
                                        "GiB; flush_interval_ms at least 1");
}

// An option whose default says that it is unset.
template <class Choice>
void set_unless_asked(Choice *choice, Choice otherwise) {
  if (*choice == Choice{}) *choice = otherwise;
}

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
  return read(Reader(environment), options, out);
}

Errc read_settings(const DomainOptions &options, const Environment &environment, Settings *out) {
  const Reader reader(environment);
  Settings &wanted = *out;
  TMH_TRY(read(reader, options, &wanted.durability));
  TMH_TRY(reader.choose("TMH_LATENCY", Errc::kBadArgument, latency_values(), options.latency,
                        Latency::kFull, &wanted.latency));
  set_unless_asked(&wanted.latency, Latency::kSampled);
  TMH_TRY(reader.choose("TMH_STRAY", Errc::kBadArgument, stray_values(), options.stray,
                        Stray::kAllow, &wanted.stray));
  TMH_TRY(reader.specify("TMH_GROUP_COMMIT", Errc::kBadDurability, group_commit_values(),
                         options.group_commit, &wanted.group_commit));
  TMH_TRY(reader.choose("TMH_PAGE_CHECKSUMS", Errc::kBadArgument, page_checksums_values(),
                        options.page_checksums, PageChecksums::kOn, &wanted.page_checksums));
  TMH_TRY(reader.from_environment("TMH_POLICY", Errc::kBadPolicy, policy_values(), &wanted.policy));
  TMH_TRY(parse_policy(options.policy, &wanted.policy));
  TMH_TRY(reader.from_environment("TMH_LINE", Errc::kBadLevels, line_values(), &wanted.line));
  if (options.line != LineChoice::kAuto) wanted.line = options.line;
  TMH_TRY(reader.choose("TMH_TRACKING", Errc::kBadTracking, tracking_values(), options.tracking,
                        Tracking::kKernelHot, &wanted.tracking));
  TMH_TRY(reader.choose("TMH_DETECTION", Errc::kBadDetection, detection_values(), options.detection,
                        Detection::kEager, &wanted.detection));
  TMH_TRY(reader.choose("TMH_LEVELS", Errc::kBadLevels, levels_values(), options.levels,
                        Levels::kHybrid, &wanted.levels));
  TMH_TRY(reader.choose("TMH_CROSS", Errc::kBadLevels, cross_policy_values(), options.cross,
                        CrossPolicy::kUpperYields, &wanted.cross));
  TMH_TRY(reader.specify("TMH_ESCALATION", Errc::kBadLevels, escalation_values(),
                         options.escalation, &wanted.escalation));
  TMH_TRY(reader.specify("TMH_CAPACITY", Errc::kBadLevels, line::capacity_values(),
                         options.capacity, &wanted.capacity));
  TMH_TRY(reader.choose("TMH_THREAD_VIEWS", Errc::kBadLevels, thread_view_values(),
                        options.thread_views, ThreadViewUse::kNever, &wanted.thread_views));
  set_unless_asked(&wanted.thread_views, ThreadViewUse::kAuto);
  return Errc::kOk;
}

Errc settle(const PresentDomain &present, Settings *settings) {
  TMH_TRY(check_durability(settings->durability, present.durability));
  settings->durability = present.durability;
  if (present.is_fresh) {
    set_unless_asked(&settings->detection, Detection::kLazy);
    set_unless_asked(&settings->levels, Levels::kPage);
  } else {
    TMH_TRY(check_detection(settings->detection, present.detection));
    TMH_TRY(check_levels(settings->levels, present.levels));
    settings->detection = present.detection;
    settings->levels = present.levels;
  }
  if (settings->levels != Levels::kHybrid) return Errc::kOk;
  if (settings->detection == Detection::kEager)
    return fail(Errc::kLevelsMismatch,
                "hybrid levels need lazy detection: a snapshot moves on when a page is recalled");
  // An RTM commit cannot leave a record at its commit point that other instances would wait for.
  if (settings->durability != Durability::kNone && settings->line == LineChoice::kRtm)
    return fail(Errc::kLevelsMismatch,
                "level 1 by RTM needs a volatile domain: its commits leave no redo records; choose "
                "software or auto");
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
  // A specification; empty: not set.
  template <class Value>
  void compare_spec(const char *option, const std::string &spec, Errc wrong, const char *values,
                    const Value &present) {
    if (error_ != Errc::kOk || spec.empty()) return;
    Value asked;
    if (parse(std::string_view(spec), &asked) != Errc::kOk)
      error_ = fail(wrong, "'" + spec + "'; right values: " + values);
    compare(option, true, asked, present);
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
  compare("early_release", &DomainOptions::early_release);
  compare("flush_interval_ms", &DomainOptions::flush_interval_ms);
  compare("checkpoint_bytes", &DomainOptions::checkpoint_bytes);
  compare("checkpoint_interval_ms", &DomainOptions::checkpoint_interval_ms);
  compare("keep_log", &DomainOptions::keep_log);
}

}  // namespace

Errc check_agreement(const std::string &folder, const Settings &present, Tracking tracking_in_use,
                     const DomainOptions &first, const DomainOptions &asked) {
  Policy policy;
  TMH_TRY(parse_policy(asked.policy, &policy));
  TMH_TRY(check_detection(asked.detection, present.detection));
  TMH_TRY(check_levels(asked.levels, present.levels));
  TMH_TRY(check_durability(asked.durability, present.durability));
  TMH_TRY(check_conflict(policy, present.levels, present.detection));
  Agreement agreement(folder);
  agreement.compare("policy", !asked.policy.empty(), policy, present.policy);
  agreement.compare("tracking",
                    asked.tracking != Tracking::kAuto && asked.tracking != present.tracking,
                    asked.tracking, tracking_in_use);
  agreement.compare("line", asked.line != LineChoice::kAuto, asked.line, present.line);
  agreement.compare("cross", asked.cross != CrossPolicy{}, asked.cross, present.cross);
  agreement.compare("thread_views", asked.thread_views != ThreadViewUse{}, asked.thread_views,
                    present.thread_views);
  agreement.compare("latency", asked.latency != Latency{}, asked.latency, present.latency);
  agreement.compare_spec("escalation", asked.escalation, Errc::kBadLevels, escalation_values(),
                         present.escalation);
  agreement.compare_spec("capacity", asked.capacity, Errc::kBadLevels, line::capacity_values(),
                         present.capacity);
  agreement.compare("stray", asked.stray != Stray{}, asked.stray, present.stray);
  if (present.durability != Durability::kNone) {
    agreement.compare_spec("group_commit", asked.group_commit, Errc::kBadDurability,
                           group_commit_values(), present.group_commit);
    compare_of_durable(first, asked, &agreement);
  }
  TMH_TRY(agreement.error());
  return asked.page_checksums <= PageChecksums::kOn
             ? Errc::kOk
             : fail(Errc::kBadArgument, std::string("right values: ") + page_checksums_values());
}

}  // namespace tmh::hierarchy
