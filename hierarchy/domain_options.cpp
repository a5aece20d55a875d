// hierarchy/domain_options.cpp -- what the options and the environment want of a domain, and
// whether that goes with what it is.
#include <cstdlib>
#include <utility>

#include "hierarchy/conflict_choice.h"
#include "hierarchy/domain_impl.h"
#include "levels/line/choice.h"
#include "platform/failure.h"
#include "platform/protection_keys.h"
#include "platform/try.h"

namespace tmh::detail {

using platform::fail;

namespace {

// Option, else environment, else nothing. A wrong value is refused with the right ones.
template <class Value>
Errc from_environment(const char *variable, Errc wrong, const char *values, Value *out) {
  const char *text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return Errc::kOk;
  if (parse(std::string_view(text), out) == Errc::kOk) return Errc::kOk;
  return fail(wrong, std::string(variable) + "='" + text + "'; right values: " + values);
}

// The same, then what is asked for in `asked`, unless that is unset; *wanted stays if both are.
// `last`: the greatest right value.
template <class Choice>
Errc choose(const char *variable, Errc wrong, const char *values, Choice asked, Choice last,
            Choice *wanted) {
  TMH_TRY(from_environment(variable, wrong, values, wanted));
  if (asked != Choice{}) *wanted = asked;
  return *wanted <= last ? Errc::kOk : fail(wrong, std::string("right values: ") + values);
}

}  // namespace

Errc DomainImpl::settle_line() {
  LineChoice wanted = LineChoice::kAuto;
  TMH_TRY(from_environment("TMH_LINE", Errc::kBadLevels, line_values(), &wanted));
  line_wanted_ = options_.line != LineChoice::kAuto ? options_.line : wanted;
  return Errc::kOk;
}

// A wrong choice is refused also where level 1 does not run; what RTM can do is looked at only when
// it is demanded.
Errc DomainImpl::check_line() const {
  if (line_wanted_ == LineChoice::kAuto) return Errc::kOk;
  LineChoice chosen{};
  std::string reason;
  return line::choose_line(line_wanted_, &chosen, &reason);
}

namespace {

Errc parse_policy(const DomainOptions &options, Policy *wanted) {
  if (options.policy.empty() || parse(std::string_view(options.policy), wanted) == Errc::kOk)
    return Errc::kOk;
  return fail(Errc::kBadPolicy, std::string("'")
                                    .append(options.policy)
                                    .append("' is no policy; right values: ")
                                    .append(policy_values()));
}

Errc wanted_policy(const DomainOptions &options, Policy *wanted) {
  const Errc error = from_environment("TMH_POLICY", Errc::kBadPolicy, policy_values(), wanted);
  return error != Errc::kOk ? error : parse_policy(options, wanted);
}

// *wanted is unset where nothing is asked for.
Errc wanted_durability(const DomainOptions &options, Durability *wanted) {
  *wanted = Durability{};
  TMH_TRY(from_environment("TMH_DURABILITY", Errc::kBadDurability, durability_values(), wanted));
  if (options.durability != Durability{}) *wanted = options.durability;
  const std::uint64_t file_bytes = options.log_file_bytes;
  const bool is_right =
      file_bytes == 0 || (file_bytes % kPageBytes == 0 && file_bytes >= storage::kLogFileBytesMin &&
                          file_bytes <= storage::kLogFileBytesMax);
  if (*wanted > Durability::kStrict || !is_right || options.flush_interval_ms == 0)
    return fail(Errc::kBadDurability, std::string("right values: ") + durability_values() +
                                          "; log_file_bytes a multiple of 4096 from 1 MiB to 4 "
                                          "GiB; flush_interval_ms at least 1");
  return Errc::kOk;
}

}  // namespace

Errc DomainImpl::check_detection(Detection wanted) const {
  return wanted == Detection{} || wanted == detection_
             ? Errc::kOk
             : fail(Errc::kDetectionMismatch,
                    std::string("the domain is open with ") + to_string(detection_) + " detection");
}
Errc DomainImpl::check_levels(Levels wanted) const {
  return wanted == Levels{} || wanted == levels()
             ? Errc::kOk
             : fail(Errc::kLevelsMismatch,
                    std::string("the domain is open with levels ") + to_string(levels()));
}
Errc DomainImpl::check_durability(Durability wanted) const {
  return wanted == Durability{} || wanted == durability()
             ? Errc::kOk
             : fail(Errc::kDurabilityMismatch,
                    std::string("the domain's durability is ") + to_string(durability()));
}

namespace {
// What a second open() in this process asks for, beside what the domain has here. The first
// difference that is found is the one that is told.
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
}  // namespace

// The domain that this process has open keeps its options: instances may be running. What
// contradicts them is refused. The environment has had its say at the first open.
Errc DomainImpl::check_agreement(const DomainOptions &options) const {
  Policy asked;
  TMH_TRY(parse_policy(options, &asked));
  TMH_TRY(check_detection(options.detection));
  TMH_TRY(check_levels(options.levels));
  TMH_TRY(check_durability(options.durability));
  TMH_TRY(hierarchy::check_conflict(asked, levels(), detection_));
  Agreement agreement(folder_);
  agreement.compare("policy", !options.policy.empty(), asked, policy());
  agreement.compare("tracking",
                    options.tracking != Tracking::kAuto && options.tracking != wanted_tracking_,
                    options.tracking, engine_->tracking().tracking);
  agreement.compare("line", options.line != LineChoice::kAuto, options.line, line_wanted_);
  agreement.compare("cross", options.cross != CrossPolicy{}, options.cross, cross_);
  agreement.compare("thread_views", options.thread_views != ThreadViewUse{}, options.thread_views,
                    thread_view_use_);
  agreement.compare("latency", options.latency != Latency{}, options.latency, latency_use_);
  agreement.compare_spec("escalation", options.escalation, Errc::kBadLevels, escalation_values(),
                         escalation_);
  agreement.compare_spec("capacity", options.capacity, Errc::kBadLevels, line::capacity_values(),
                         capacity_);
  agreement.compare("stray", options.stray != Stray{}, options.stray,
                    memory_->view_key() != platform::kNoKey ? Stray::kFault : Stray::kAllow);
  if (durable_ != nullptr) {
    agreement.compare_spec("group_commit", options.group_commit, Errc::kBadDurability,
                           group_commit_values(), durable_->group());
    // These have no value that says that they are unset: their defaults do.
    const DomainOptions unset;
    const auto compare = [&](const char *option, const auto DomainOptions::*member) {
      agreement.compare(option, options.*member != unset.*member, options.*member,
                        options_.*member);
    };
    compare("early_release", &DomainOptions::early_release);
    compare("flush_interval_ms", &DomainOptions::flush_interval_ms);
    compare("checkpoint_bytes", &DomainOptions::checkpoint_bytes);
    compare("checkpoint_interval_ms", &DomainOptions::checkpoint_interval_ms);
    compare("keep_log", &DomainOptions::keep_log);
  }
  if (agreement.error() != Errc::kOk || options.page_checksums == PageChecksums{})
    return agreement.error();
  platform::FolderLock folder_lock;
  TMH_TRY(folder_lock.acquire(lock_path()));
  return settle_page_checksums(options);
}

Errc DomainImpl::settle_options(bool fresh, Tracking *tracking) {
  Policy policy;
  TMH_TRY(wanted_policy(options_, &policy));
  policy_.store({policy}, std::memory_order_relaxed);
  TMH_TRY(settle_line());
  *tracking = Tracking::kAuto;
  TMH_TRY(choose("TMH_TRACKING", Errc::kBadTracking, tracking_values(), options_.tracking,
                 Tracking::kKernelHot, tracking));
  Detection wanted{};
  TMH_TRY(choose("TMH_DETECTION", Errc::kBadDetection, detection_values(), options_.detection,
                 Detection::kEager, &wanted));
  std::atomic_ref<std::uint32_t> chosen(memory_->control().header.detection);
  if (fresh)  // the folder lock orders it
    chosen.store(static_cast<std::uint32_t>(wanted != Detection{} ? wanted : Detection::kLazy),
                 std::memory_order_relaxed);
  detection_ = static_cast<Detection>(chosen.load(std::memory_order_relaxed));
  return check_detection(wanted);
}

// Which levels, and how they deal with each other. REQUIRES settle_options() before.
Errc DomainImpl::settle_levels(bool fresh) {
  Levels wanted{};
  TMH_TRY(choose("TMH_LEVELS", Errc::kBadLevels, levels_values(), options_.levels, Levels::kHybrid,
                 &wanted));
  TMH_TRY(choose("TMH_CROSS", Errc::kBadLevels, cross_policy_values(), options_.cross,
                 CrossPolicy::kUpperYields, &cross_));
  TMH_TRY(from_environment("TMH_ESCALATION", Errc::kBadLevels, escalation_values(), &escalation_));
  if (!options_.escalation.empty() &&
      parse(std::string_view(options_.escalation), &escalation_) != Errc::kOk)
    return fail(Errc::kBadLevels,
                "'" + options_.escalation + "'; right values: " + escalation_values());
  TMH_TRY(from_environment("TMH_CAPACITY", Errc::kBadLevels, line::capacity_values(), &capacity_));
  if (!options_.capacity.empty() && line::parse(options_.capacity, &capacity_) != Errc::kOk)
    return fail(Errc::kBadLevels,
                "'" + options_.capacity + "'; right values: " + line::capacity_values());
  is_limited_ = capacity_ != line::CapacityModel{};
  std::uint64_t &present = memory_->state().levels;  // the folder lock orders it
  if (fresh) present = static_cast<std::uint64_t>(wanted != Levels{} ? wanted : Levels::kPage);
  TMH_TRY(check_levels(wanted));
  if (!options_.policy.empty()) TMH_TRY(hierarchy::check_conflict(policy(), levels(), detection_));
  if (levels() != Levels::kHybrid) return check_line();
  if (detection_ == Detection::kEager)
    return fail(Errc::kLevelsMismatch,
                "hybrid levels need lazy detection: a snapshot moves on when a page is recalled");
  if (durability() != Durability::kNone) TMH_TRY(settle_durable_lines(fresh));
  return check_line();
}

// Level 1 stores to home before its record is in the log: so home is not the data file
// (docs/design.md D2). An RTM commit cannot leave a record at its commit point that others would
// wait for: refused.
Errc DomainImpl::settle_durable_lines(bool fresh) {
  if (line_wanted_ == LineChoice::kRtm)
    return fail(Errc::kLevelsMismatch,
                "level 1 by RTM needs a volatile domain: its commits leave no redo records; choose "
                "software or auto");
  return fresh ? memory_->separate_homes() : Errc::kOk;
}

Errc DomainImpl::settle_thread_views() {
  ThreadViewUse wanted{};
  TMH_TRY(choose("TMH_THREAD_VIEWS", Errc::kBadLevels, thread_view_values(), options_.thread_views,
                 ThreadViewUse::kNever, &wanted));
  thread_view_use_ = wanted == ThreadViewUse{} ? ThreadViewUse::kAuto : wanted;
  return Errc::kOk;
}

Errc DomainImpl::settle_latency() {
  Latency wanted{};
  TMH_TRY(choose("TMH_LATENCY", Errc::kBadArgument, latency_values(), options_.latency,
                 Latency::kFull, &wanted));
  latency_use_ = wanted == Latency{} ? Latency::kSampled : wanted;
  return Errc::kOk;
}

// Before the engine is made, which has the key from the memory.
Errc DomainImpl::settle_stray() {
  Stray wanted{};
  TMH_TRY(choose("TMH_STRAY", Errc::kBadArgument, stray_values(), options_.stray, Stray::kAllow,
                 &wanted));
  if (wanted == Stray::kAllow) return Errc::kOk;
  platform::DomainKey key = platform::DomainKey::take();
  if (key.number() == platform::kNoKey && wanted == Stray::kFault)
    return fail(Errc::kTrackingUnavailable,
                "TMH_STRAY=fault: " + platform::key_refusal() +
                    "; TMH_TRACKING=signal finds stray accesses without keys");
  memory_->use_view_key(std::move(key));
  return Errc::kOk;
}

namespace {
// *wanted is unset where nothing is asked for.
Errc wanted_page_checksums(const DomainOptions &options, PageChecksums *wanted) {
  *wanted = PageChecksums{};
  return choose("TMH_PAGE_CHECKSUMS", Errc::kBadArgument, page_checksums_values(),
                options.page_checksums, PageChecksums::kOn, wanted);
}
}  // namespace

// REQUIRES the folder lock, after recovery.
Errc DomainImpl::settle_page_checksums(const DomainOptions &options) const {
  PageChecksums wanted{};
  TMH_TRY(wanted_page_checksums(options, &wanted));
  if (durable_ != nullptr) return durable_->use_page_checksums(wanted);
  // The variable is of all domains that the program opens.
  if (options.page_checksums != PageChecksums::kOn) return Errc::kOk;
  return fail(Errc::kNotDurable, folder_ + ": page checksums are of durable domains");
}

Errc DomainImpl::settle_durability(Durability *wanted) const {
  return wanted_durability(options_, wanted);
}

Errc DomainImpl::settle_group_commit(GroupCommit *group) const {
  TMH_TRY(from_environment("TMH_GROUP_COMMIT", Errc::kBadDurability, group_commit_values(), group));
  if (options_.group_commit.empty() ||
      parse(std::string_view(options_.group_commit), group) == Errc::kOk)
    return Errc::kOk;
  return fail(Errc::kBadDurability, std::string("'")
                                        .append(options_.group_commit)
                                        .append("'; right values: ")
                                        .append(group_commit_values()));
}

}  // namespace tmh::detail
