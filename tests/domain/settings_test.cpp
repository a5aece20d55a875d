// tests/domain/settings_test.cpp -- what a domain is opened with, as a function of options,
// environment and domain.
// Invariants: (1) an option goes before the environment, and that before the domain and the
//             default. (2) a wrong value is refused with its own code, whichever of the two names
//             it. (3) what contradicts the domain, or itself, is refused. (4) A second open with
//             the options of the first agrees.
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <string>

#include <tmh/lab.hpp>

#include "hierarchy/domain/settings.h"
#include "platform/failure.h"

namespace tmh::test {
namespace {

using hierarchy::PresentDomain;
using hierarchy::Settings;

using Variables = std::map<std::string, std::string>;

Errc read(const DomainOptions &options, const Variables &variables, Settings *out) {
  *out = {};
  return hierarchy::read_settings(
      options,
      [&variables](const char *name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      out);
}

Settings settings_of(const DomainOptions &options, const Variables &variables = {}) {
  Settings settings;
  EXPECT_EQ(read(options, variables, &settings), Errc::kOk) << platform::failure_detail();
  return settings;
}

constexpr PresentDomain kFresh{true, Durability::kNone, Detection{}, Levels{}};
constexpr PresentDomain kPagesHere{false, Durability::kNone, Detection::kLazy, Levels::kPage};

TEST(Settings, DefaultsHoldWhereNothingIsAskedFor) {
  Settings settings = settings_of({});
  EXPECT_EQ(settings.durability, Durability{});
  EXPECT_EQ(settings.detection, Detection{});
  EXPECT_EQ(settings.levels, Levels{});
  EXPECT_EQ(settings.latency, Latency::kSampled);
  EXPECT_EQ(settings.thread_views, ThreadViewUse::kAuto);
  EXPECT_EQ(settings.cross, CrossPolicy::kRecallAndWait);
  EXPECT_FALSE(settings.is_limited());
  ASSERT_EQ(hierarchy::settle(kFresh, &settings), Errc::kOk);
  EXPECT_EQ(settings.detection, Detection::kLazy);
  EXPECT_EQ(settings.levels, Levels::kPage);
  EXPECT_EQ(settings.durability, Durability::kNone);
}

TEST(Settings, AnOptionGoesBeforeTheEnvironment) {
  const Variables variables = {{"TMH_LEVELS", "page"},      {"TMH_DETECTION", "eager"},
                               {"TMH_LATENCY", "off"},      {"TMH_CROSS", "abort-upper"},
                               {"TMH_LINE", "software"},    {"TMH_CAPACITY", "32KiB/8/64"},
                               {"TMH_ESCALATION", "never"}, {"TMH_DURABILITY", "strict"}};
  const Settings by_environment = settings_of({}, variables);
  EXPECT_EQ(by_environment.levels, Levels::kPage);
  EXPECT_EQ(by_environment.detection, Detection::kEager);
  EXPECT_EQ(by_environment.latency, Latency::kOff);
  EXPECT_EQ(by_environment.cross, CrossPolicy::kAbortUpper);
  EXPECT_EQ(by_environment.line, LineChoice::kSoftware);
  EXPECT_EQ(by_environment.escalation.kind, EscalationKind::kNever);
  EXPECT_EQ(by_environment.durability, Durability::kStrict);
  EXPECT_TRUE(by_environment.is_limited());
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.policies.detection = Detection::kLazy;
  options.policies.latency = lab::kEachAttempt;
  options.policies.cross = CrossPolicy::kAbortLower;
  options.line = LineChoice::kRtm;
  options.policies.escalation = "always";
  options.durability = Durability::kBuffered;
  options.policies.capacity = "unlimited";
  const Settings by_options = settings_of(options, variables);
  EXPECT_EQ(by_options.levels, Levels::kHybrid);
  EXPECT_EQ(by_options.detection, Detection::kLazy);
  EXPECT_EQ(by_options.latency, lab::kEachAttempt);
  EXPECT_EQ(by_options.cross, CrossPolicy::kAbortLower);
  EXPECT_EQ(by_options.line, LineChoice::kRtm);
  EXPECT_EQ(by_options.escalation.kind, EscalationKind::kAlways);
  EXPECT_EQ(by_options.durability, Durability::kBuffered);
  EXPECT_FALSE(by_options.is_limited());
}

// By a field, by a variable or inside a specification of the conflict policy.
TEST(Settings, IsolationIsWhatTheNearestThatNamesItSays) {
  const auto isolation_of = [](const DomainOptions &options, const Variables &variables = {}) {
    return settings_of(options, variables).policy.isolation;
  };
  DomainOptions by_field, by_spec, by_other_spec;
  by_field.policies.isolation = Isolation::kSnapshot;
  by_spec.policies.conflict = "fresh-age,isolation=snapshot";
  by_other_spec.policies.conflict = "fresh-age";
  const Variables is_snapshot = {{"TMH_ISOLATION", "snapshot"}},
                  is_serializable = {{"TMH_ISOLATION", "serializable"}};
  EXPECT_EQ(isolation_of({}), Isolation::kSerializable);
  EXPECT_EQ(isolation_of(by_field, is_serializable), Isolation::kSnapshot);
  EXPECT_EQ(isolation_of(by_spec, is_serializable), Isolation::kSnapshot);
  EXPECT_EQ(isolation_of(by_other_spec, is_snapshot), Isolation::kSnapshot);
  EXPECT_EQ(isolation_of({}, {{"TMH_POLICY", "isolation=snapshot"}}), Isolation::kSnapshot);
  EXPECT_EQ(isolation_of({}, {{"TMH_POLICIES", "conflict=isolation=snapshot"},
                              {"TMH_ISOLATION", "serializable"}}),
            Isolation::kSnapshot);
  EXPECT_EQ(isolation_of(by_field, {{"TMH_POLICIES", "isolation=serializable"}}),
            Isolation::kSnapshot);
}

TEST(Settings, ThePageCacheIsWhatTheNearestThatNamesItSays) {
  const auto cache_of = [](const DomainOptions &options, const Variables &variables = {}) {
    return to_string(settings_of(options, variables).policy.page_cache);
  };
  DomainOptions by_field, by_spec, by_other_spec;
  by_field.policies.page_cache = "all";
  by_spec.policies.conflict = "fresh-age,page-cache=12MiB";
  by_other_spec.policies.conflict = "fresh-age";
  const Variables scans = {{"TMH_PAGE_CACHE", "scan"}};
  EXPECT_EQ(cache_of({}), "adaptive");
  EXPECT_EQ(cache_of({}, scans), "scan=10000");
  EXPECT_EQ(cache_of(by_field, scans), "all");
  EXPECT_EQ(cache_of(by_spec, scans), "12MiB");
  EXPECT_EQ(cache_of(by_other_spec, scans), "scan=10000");
  EXPECT_EQ(cache_of({}, {{"TMH_POLICY", "page-cache=scan=7"}}), "scan=7");
  EXPECT_EQ(
      cache_of({}, {{"TMH_POLICIES", "conflict=page-cache=scan=7"}, {"TMH_PAGE_CACHE", "all"}}),
      "scan=7");
  EXPECT_EQ(cache_of({}, {{"TMH_POLICIES", "page-cache=1MiB"}, {"TMH_PAGE_CACHE", "all"}}), "1MiB");
  EXPECT_EQ(cache_of(by_field, {{"TMH_POLICIES", "page-cache=1MiB"}}), "all");
}

// Every spelling, its bounds, and what is none.
TEST(Settings, PageCachesAreSpelledOneWay) {
  for (const char *const spec :
       {"adaptive", "all", "scan=1", "scan=1000000", "1MiB", "1048576MiB"}) {
    PageCache cache;
    EXPECT_EQ(parse(std::string_view(spec), &cache), Errc::kOk) << spec;
    EXPECT_EQ(to_string(cache), spec);
  }
  for (const char *const spec : {"", "none", "scan=", "scan=0", "scan=-1", "scan=1000001",
                                 "scan=4294967297", "0MiB", "MiB", "-1MiB", "1048577MiB", "1 MiB",
                                 "1mib", "64", "64KiB", "all=1", "adaptive=8", "scan=1MiB"}) {
    PageCache cache{PageCacheKind::kScan, 5};
    EXPECT_EQ(parse(std::string_view(spec), &cache), Errc::kBadPolicy) << spec;
    EXPECT_EQ(cache, (PageCache{PageCacheKind::kScan, 5})) << spec << " left a trace";
  }
}

TEST(Settings, AnEmptyVariableIsNone) {
  EXPECT_EQ(settings_of({}, {{"TMH_LEVELS", ""}}).levels, Levels{});
}

TEST(Settings, AWrongVariableIsRefusedWithItsOwnCode) {
  const struct {
    const char *variable;
    Errc error;
  } all[] = {{"TMH_POLICY", Errc::kBadPolicy},         {"TMH_TRACKING", Errc::kBadTracking},
             {"TMH_ISOLATION", Errc::kBadPolicy},      {"TMH_PAGE_CACHE", Errc::kBadPolicy},
             {"TMH_DETECTION", Errc::kBadDetection},   {"TMH_LEVELS", Errc::kBadLevels},
             {"TMH_LINE", Errc::kBadLevels},           {"TMH_CROSS", Errc::kBadLevels},
             {"TMH_ESCALATION", Errc::kBadLevels},     {"TMH_CAPACITY", Errc::kBadLevels},
             {"TMH_THREAD_VIEWS", Errc::kBadLevels},   {"TMH_LATENCY", Errc::kBadArgument},
             {"TMH_STRAY", Errc::kBadArgument},        {"TMH_PAGE_CHECKSUMS", Errc::kBadArgument},
             {"TMH_DURABILITY", Errc::kBadDurability}, {"TMH_GROUP_COMMIT", Errc::kBadDurability}};
  for (const auto &[variable, error] : all) {
    Settings settings;
    EXPECT_EQ(read({}, {{variable, "rubbish"}}, &settings), error) << variable;
    const std::string &why = platform::failure_detail();
    EXPECT_NE(why.find(variable), std::string::npos) << why;
    EXPECT_NE(why.find("right values: "), std::string::npos) << why;
  }
}

TEST(Settings, AWrongOptionIsRefusedWithItsOwnCode) {
  const auto error_of = [](const auto &set) {
    DomainOptions options;
    set(options);
    Settings settings;
    return read(options, {}, &settings);
  };
  EXPECT_EQ(error_of([](DomainOptions &o) { o.policies.conflict = "rubbish"; }), Errc::kBadPolicy);
  EXPECT_EQ(error_of([](DomainOptions &o) { o.policies.isolation = static_cast<Isolation>(9); }),
            Errc::kBadPolicy);
  EXPECT_EQ(error_of([](DomainOptions &o) { o.levels = static_cast<Levels>(9); }),
            Errc::kBadLevels);
  EXPECT_EQ(error_of([](DomainOptions &o) { o.policies.capacity = "rubbish"; }), Errc::kBadLevels);
  EXPECT_EQ(error_of([](DomainOptions &o) { o.log_file_bytes = kPageBytes; }),
            Errc::kBadDurability);
  EXPECT_EQ(error_of([](DomainOptions &o) { o.log_file_bytes = (1u << 20) + 1; }),
            Errc::kBadDurability);
  EXPECT_EQ(error_of([](DomainOptions &o) { o.flush_interval_ms = 0; }), Errc::kBadDurability);
}

TEST(Settings, WhatContradictsTheDomainIsRefused) {
  DomainOptions options;
  Settings unset = settings_of(options);
  ASSERT_EQ(hierarchy::settle(kPagesHere, &unset), Errc::kOk);
  EXPECT_EQ(unset.levels, Levels::kPage);
  EXPECT_EQ(unset.detection, Detection::kLazy);
  options.levels = Levels::kHybrid;
  Settings settings = settings_of(options);
  EXPECT_EQ(hierarchy::settle(kPagesHere, &settings), Errc::kLevelsMismatch);
  options = {};
  options.policies.detection = Detection::kEager;
  settings = settings_of(options);
  EXPECT_EQ(hierarchy::settle(kPagesHere, &settings), Errc::kDetectionMismatch);
  options = {};
  options.durability = Durability::kStrict;
  settings = settings_of(options);
  EXPECT_EQ(hierarchy::settle(kPagesHere, &settings), Errc::kDurabilityMismatch);
}

TEST(Settings, WhatContradictsItselfIsRefused) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.policies.detection = Detection::kEager;
  Settings settings = settings_of(options);
  EXPECT_EQ(hierarchy::settle(kFresh, &settings), Errc::kLevelsMismatch);
  options.policies.detection = Detection::kLazy;
  options.line = LineChoice::kRtm;
  options.durability = Durability::kStrict;
  settings = settings_of(options);
  PresentDomain durable = kFresh;
  durable.durability = Durability::kStrict;
  EXPECT_EQ(hierarchy::settle(durable, &settings), Errc::kOk);
}

TEST(Settings, ASecondOpenAgreesOrIsTold) {
  DomainOptions first;
  first.policies.latency = Latency::kOff;
  first.policies.capacity = "32KiB/8/64";
  Settings present = settings_of(first);
  ASSERT_EQ(hierarchy::settle(kFresh, &present), Errc::kOk);
  const auto error_of = [&](const DomainOptions &asked) {
    return hierarchy::check_agreement("folder", present, Tracking::kSignal, first, asked);
  };
  EXPECT_EQ(error_of({}), Errc::kOk);
  EXPECT_EQ(error_of(first), Errc::kOk);
  DomainOptions other = first;
  other.policies.latency = lab::kEachAttempt;
  EXPECT_EQ(error_of(other), Errc::kAlreadyInitialized);
  EXPECT_NE(platform::failure_detail().find("latency off, not full"), std::string::npos)
      << platform::failure_detail();
  other = first;
  other.policies.capacity = "unlimited";
  EXPECT_EQ(error_of(other), Errc::kAlreadyInitialized);
  other = first;
  other.policies.isolation = Isolation::kSnapshot;
  EXPECT_EQ(error_of(other), Errc::kAlreadyInitialized);
  EXPECT_NE(platform::failure_detail().find("isolation serializable, not snapshot"),
            std::string::npos)
      << platform::failure_detail();
  other = first;
  other.policies.page_cache = "all";
  EXPECT_EQ(error_of(other), Errc::kAlreadyInitialized);
  EXPECT_NE(platform::failure_detail().find("page_cache adaptive, not all"), std::string::npos)
      << platform::failure_detail();
  other.policies.page_cache = "some";
  EXPECT_EQ(error_of(other), Errc::kBadPolicy);
  other = first;
  other.levels = Levels::kHybrid;
  EXPECT_EQ(error_of(other), Errc::kLevelsMismatch);
  other = first;
  other.keep_log = true;  // of durable domains: without effect here
  EXPECT_EQ(error_of(other), Errc::kOk);
}

// What a specification does not name it does not contradict.
TEST(Settings, ASecondOpenAgreesWithAnIsolationThatItsPolicyDoesNotName) {
  DomainOptions first;
  first.policies.conflict = "fresh-age";
  first.policies.isolation = Isolation::kSnapshot;
  Settings present = settings_of(first);
  ASSERT_EQ(hierarchy::settle(kFresh, &present), Errc::kOk);
  const auto error_of = [&](const DomainOptions &asked) {
    return hierarchy::check_agreement("folder", present, Tracking::kSignal, first, asked);
  };
  EXPECT_EQ(error_of(first), Errc::kOk) << platform::failure_detail();
  DomainOptions other;
  other.policies.conflict = "fresh-age";
  EXPECT_EQ(error_of(other), Errc::kOk) << platform::failure_detail();
  other.policies.conflict = "fresh-age,page-cache=adaptive";
  EXPECT_EQ(error_of(other), Errc::kOk) << platform::failure_detail();
  other.policies.conflict = "fresh-age,page-cache=scan";
  EXPECT_EQ(error_of(other), Errc::kAlreadyInitialized);
  other.policies.conflict = "fresh-age,isolation=snapshot";
  EXPECT_EQ(error_of(other), Errc::kOk) << platform::failure_detail();
  for (const char *conflict : {"fresh-age,isolation=serializable", "keep-age"}) {
    other.policies.conflict = conflict;
    EXPECT_EQ(error_of(other), Errc::kAlreadyInitialized) << conflict;
  }
}

}  // namespace
}  // namespace tmh::test
