// tests/support/mixes.cpp -- the values to choose from.
#include "tests/support/mixes.h"

#include <cstddef>

#include <tmh/lab.hpp>

#include "tests/support/slowdown.h"

namespace tmh::test {

namespace {

using Random = std::mt19937_64;

constexpr Tracking kTrackings[] = {Tracking::kAuto, Tracking::kSignal, Tracking::kSignalHot,
                                   Tracking::kKernel, Tracking::kKernelHot};
constexpr const char *kConflicts[] = {"self-abort", "oldest-wins", "selfish-abort",
                                      "youngest-wins"};
constexpr const char *kAges[] = {"keep-age", "fresh-age"};
constexpr const char *kBackoffs[] = {"backoff=none", "backoff=exponential", "backoff=adaptive"};
constexpr CrossPolicy kCrosses[] = {CrossPolicy::kAbortLower, CrossPolicy::kAbortUpper,
                                    CrossPolicy::kRecallAndWait, lab::kWaitForUpper,
                                    lab::kUpperYields};
constexpr const char *kEscalations[] = {"never",     "always",        "on-capacity",
                                        "after-n=1", "after-n=8",     "after-wasted-time=50us",
                                        "adaptive",  "adaptive-pages"};
constexpr const char *kCapacities[] = {
    "unlimited",         "unlimited,spurious=20000", "1KiB/2/64",
    "4KiB/2/64,read=12", "32KiB/8/64,nesting=1",     "32KiB/8/64,time=50us"};
constexpr const char *kGroups[] = {"active=2,waiting=100,bytes=65536,wait=60us", "none",
                                   "active=1,waiting=50,bytes=4096,wait=200us",
                                   "active=2,waiting=100,bytes=65536,wait=1000us"};
constexpr const char *kPageCacheSpecs[] = {"adaptive", "all", "scan=1", "scan=20", "1MiB"};
constexpr LineChoice kLines[] = {LineChoice::kAuto, LineChoice::kSoftware, LineChoice::kRtm,
                                 LineChoice::kRtm};
constexpr std::uint64_t kAtPagesOneIn[] = {8, 40, 200, 1000};
constexpr ThreadViewUse kViews[] = {ThreadViewUse::kAuto, lab::kOwnViewAlways,
                                    ThreadViewUse::kNever};
constexpr Durability kDurabilities[] = {Durability::kNone, Durability::kBuffered,
                                        Durability::kStrict};

bool one_in(Random &random, std::uint64_t count) { return random() % count == 0; }
template <class Value, std::size_t kCount>
const Value &one_of(Random &random, const Value (&values)[kCount]) {
  return values[random() % kCount];
}

}  // namespace

Mixes::Mixes(std::uint64_t seed, bool kernel_tracking, MixKind kind)
    : random_(seed), kernel_tracking_(kernel_tracking), kind_(kind) {
  DomainOptions &options = domain_.options;
  options.levels = one_in(random_, 4) ? Levels::kPage : Levels::kHybrid;
  options.policies.detection =
      options.levels == Levels::kPage && one_in(random_, 3) ? Detection::kEager : Detection::kLazy;
  options.durability = one_of(random_, kDurabilities);
  if (kind_ == MixKind::kDurable && options.durability == Durability::kNone)
    options.durability = Durability::kStrict;
  if (kind_ == MixKind::kHardware) {
    options.levels = Levels::kHybrid;
    options.policies.detection = Detection::kLazy;
    options.durability = Durability::kNone;
    domain_.at_pages_one_in = one_of(random_, kAtPagesOneIn);
    // Those at lines are small.
    domain_.steps_per_thread = domain_.at_pages_one_in < 10 ? 100 : 300;
  }
  options.log_file_bytes = 1u << 20;
  options.keep_log = one_in(random_, 4);
  domain_.processes = 2 + random(3);
  domain_.stalls = one_in(random_, 2);
  domain_.kills = one_in(random_, 2);
  domain_.massacres = one_in(random_, 2);
  domain_.loses = options.durability != Durability::kNone && one_in(random_, 2);
}

ProcessMix Mixes::process() {
  ProcessMix mix;
  DomainOptions &options = mix.options = domain_.options;
  options.tracking = options.policies.detection == Detection::kEager ? Tracking::kSignal
                                                                     : one_of(random_, kTrackings);
  const bool is_by_kernel =
      options.tracking == Tracking::kKernel || options.tracking == Tracking::kKernelHot;
  if (is_by_kernel && !kernel_tracking_) options.tracking = Tracking::kAuto;
  options.policies.conflict = policy(random_, options.levels == Levels::kHybrid ||
                                                  options.policies.detection == Detection::kEager);
  if (one_in(random_, 3)) options.policies.isolation = Isolation::kSnapshot;
  if (options.policies.isolation == Isolation::kSnapshot)
    options.policies.page_cache = one_of(random_, kPageCacheSpecs);
  options.policies.cross = one_of(random_, kCrosses);
  options.policies.escalation = one_of(random_, kEscalations);
  options.policies.capacity = mix.stays_at_lines() ? kCapacities[0] : one_of(random_, kCapacities);
  // A site that escalates for capacity alone never ends an instance that always takes longer: as
  // all do under a sanitizer, and as a thread's first one may that stalls hold at every access.
  if (const auto at = options.policies.capacity.find("time="); at != std::string::npos)
    options.policies.capacity = domain_.stalls
                                    ? kCapacities[0]
                                    : options.policies.capacity.substr(0, at) +
                                          "time=" + std::to_string(50 * slowdown()) + "us";
  options.policies.thread_views = one_of(random_, kViews);
  options.policies.group_commit = one_of(random_, kGroups);
  options.policies.early_release = one_in(random_, 2) ? EarlyRelease::kOn : EarlyRelease::kOff;
  options.checkpoint_bytes = one_in(random_, 2) ? 20'000u : 384u << 10;
  options.checkpoint_interval_ms = one_in(random_, 2) ? 20 : 60'000;
  options.flush_interval_ms = one_in(random_, 2) ? 2 : 50;
  options.policies.latency = one_in(random_, 2) ? lab::kEachAttempt : Latency::kOff;
  mix.threads = one_in(random_, 2) ? 1 : 2 + random(2);
  mix.overrides = one_in(random_, 2);
  mix.prefers_views = one_in(random_, 2);
  if (kind_ == MixKind::kHardware) use_hardware(&mix);
  return mix;
}

void Mixes::use_hardware(ProcessMix *mix) {
  mix->options.line = one_of(random_, kLines);
  mix->plain_sites = one_in(random_, 2);
  // What RTM cannot do, such as a throw, is an error where it may not leave level 1.
  if (mix->options.line == LineChoice::kRtm && mix->stays_at_lines())
    mix->options.policies.escalation = "on-capacity";
}

std::string Mixes::policy(Random &random, bool decides_conflicts) {
  const char *const conflict = one_of(random, kConflicts);
  return std::string(decides_conflicts ? conflict : "oldest-wins") + "," + one_of(random, kAges) +
         "," + one_of(random, kBackoffs);
}

std::string to_string(const DomainMix &mix) {
  const DomainOptions &options = mix.options;
  return std::string(to_string(options.levels)) + " " + to_string(options.policies.detection) +
         " " + to_string(options.durability) + (options.keep_log ? " keep_log" : "") +
         (mix.stalls ? " stalls" : "") + (mix.kills ? " kills" : "") +
         (mix.massacres ? " massacres" : "") + (mix.loses ? " loses" : "") +
         (mix.at_pages_one_in == 1 ? "" : " at_pages=1/" + std::to_string(mix.at_pages_one_in));
}

std::string to_string(const ProcessMix &mix) {
  const DomainOptions &options = mix.options;
  return std::string(to_string(options.tracking)) +
         (options.policies.isolation == Isolation::kSnapshot
              ? " snapshot/" + options.policies.page_cache + " "
              : " ") +
         options.policies.conflict + " " + to_string(options.policies.cross) + " " +
         options.policies.escalation + " " + options.policies.capacity +
         " views=" + to_string(options.policies.thread_views) +
         (mix.prefers_views ? " preferred" : "") + " group=" + options.policies.group_commit +
         (options.policies.early_release == EarlyRelease::kOff ? " early_release=off" : "") +
         " checkpoint=" + std::to_string(options.checkpoint_bytes) + "/" +
         std::to_string(options.checkpoint_interval_ms) +
         "ms flush=" + std::to_string(options.flush_interval_ms) +
         "ms threads=" + std::to_string(mix.threads) + (mix.overrides ? " overrides" : "") +
         " line=" + to_string(options.line) + (mix.plain_sites ? " plain" : "");
}

}  // namespace tmh::test
