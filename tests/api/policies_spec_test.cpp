// tests/api/policies_spec_test.cpp -- several policies in one specification, as TMH_POLICIES
// holds it.
// Invariants: (1) each field can be named, once, in any order; what is not named stays unset.
//             (2) parse(to_string(value)) == value. (3) what is no specification is refused with
//             its own Errc, says why, and leaves *out untouched; no bytes are too strange.
//             (4) an option goes before TMH_POLICIES, and that before the variable of the choice.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tmh/lab.hpp>
#include <tmh/options.hpp>

#include "hierarchy/domain/choices.h"
#include "hierarchy/domain/settings.h"
#include "platform/failure.h"

namespace tmh::test {
namespace {

const std::vector<std::string> kWords = {"detection=eager",
                                         "conflict=self-abort,fresh-age,backoff=none",
                                         "isolation=snapshot",
                                         "cross=abort-upper",
                                         "page-cache=scan=50",
                                         "escalation=after-n=3",
                                         "capacity=32KiB/8/64,read=100,nesting=2",
                                         "thread-views=never",
                                         "group-commit=active=3,wait=5us",
                                         "early-release=off",
                                         "latency=full"};

Policies all_set() {
  Policies policies;
  policies.detection = Detection::kEager;
  policies.conflict = "self-abort,fresh-age,backoff=none";
  policies.isolation = Isolation::kSnapshot;
  policies.page_cache = "scan=50";
  policies.cross = CrossPolicy::kAbortUpper;
  policies.escalation = "after-n=3";
  policies.capacity = "32KiB/8/64,read=100,nesting=2";
  policies.thread_views = ThreadViewUse::kNever;
  policies.group_commit = "active=3,wait=5us";
  policies.early_release = EarlyRelease::kOff;
  policies.latency = lab::kEachAttempt;
  return policies;
}

TEST(PoliciesSpec, EachFieldCanBeNamedInAnyOrder) {
  for (std::size_t first = 0; first < kWords.size(); ++first) {
    std::string spec;
    for (std::size_t i = 0; i < kWords.size(); ++i)
      spec += (i == 0 ? "" : ",") + kWords[(first + i) % kWords.size()];
    Policies parsed;
    std::string why;
    ASSERT_EQ(parse(spec, &parsed, &why), Errc::kOk) << spec << ": " << why;
    EXPECT_EQ(parsed, all_set()) << spec;
  }
}

TEST(PoliciesSpec, OneAloneLeavesTheOthersUnset) {
  for (const std::string &word : kWords) {
    Policies parsed;
    ASSERT_EQ(parse(word, &parsed), Errc::kOk) << word;
    EXPECT_EQ(to_string(parsed), word);
  }
  EXPECT_EQ(to_string(Policies{}), "");
}

TEST(PoliciesSpec, EveryRowOfEveryPolicySurvivesTheRoundTrip) {
  unsigned rows = 0;
  std::vector<hierarchy::Listed> all = hierarchy::all_choices();
  for (hierarchy::Listed &listed : hierarchy::lab_choices()) all.push_back(std::move(listed));
  for (const hierarchy::Listed &listed : all) {
    const std::string_view field = listed.choice.field;
    if (!field.starts_with("policies.")) continue;
    std::string name(field.substr(9));
    for (char &c : name)
      if (c == '_') c = '-';
    for (const auto &row : listed.rows) {
      if (row.value == "l1d") continue;  // this machine may not tell
      Policies parsed, again;
      std::string why;
      ASSERT_EQ(parse(name + "=" + row.value, &parsed, &why), Errc::kOk) << why;
      ASSERT_EQ(parse(to_string(parsed), &again), Errc::kOk);
      EXPECT_EQ(parsed, again);
      EXPECT_EQ(to_string(parsed), name + "=" + row.value);
      ++rows;
    }
  }
  EXPECT_GT(rows, 25U);
}

TEST(PoliciesSpec, WrongOnesAreRefusedWithTheirOwnCodeAndSayWhy) {
  const struct {
    const char *spec;
    Errc error;
    const char *says;
  } all[] = {
      {"", Errc::kBadPolicy, "detection, conflict, isolation, page-cache, cross"},
      {"oldest-wins", Errc::kBadPolicy, "'oldest-wins'"},
      {"policy=oldest-wins", Errc::kBadPolicy, "detection, conflict, isolation, page-cache, cross"},
      {" cross=abort-upper", Errc::kBadPolicy, "' cross"},
      {"cross=abort-upper,", Errc::kBadPolicy, "comma"},
      {",cross=abort-upper", Errc::kBadPolicy, "',cross"},
      {"cross", Errc::kBadPolicy, "'cross'"},
      {"cross=", Errc::kBadLevels, "abort-lower, abort-upper"},
      {"cross=never", Errc::kBadLevels, "cross='never'"},
      {"cross=abort-upper,,latency=off", Errc::kBadLevels, "cross='abort-upper,'"},
      {"cross=abort-upper,cross=abort-upper", Errc::kBadPolicy, "cross is named twice"},
      {"cross=abort-upper;latency=off", Errc::kBadLevels, "right values: "},
      {"isolation=none", Errc::kBadPolicy, "serializable, snapshot"},
      {"page-cache=none", Errc::kBadPolicy, "adaptive, all, scan"},
      {"page-cache=scan=0", Errc::kBadPolicy, "scan=1 to 1000000"},
      {"page-cache=0MiB", Errc::kBadPolicy, "page-cache='0MiB'"},
      {"page-cache=64", Errc::kBadPolicy, "1MiB to 1048576MiB"},
      {"page_cache=all", Errc::kBadPolicy, "page-cache"},
      {"conflict=strongest-wins", Errc::kBadPolicy, "right values: "},
      {"detection=never", Errc::kBadDetection, "lazy, eager"},
      {"escalation=own", Errc::kBadLevels, "adaptive"},
      {"capacity=32KiB/7/64", Errc::kBadLevels, "capacity='32KiB/7/64'"},
      {"thread-views=no", Errc::kBadLevels, "auto, never"},
      {"thread_views=never", Errc::kBadPolicy, "thread-views"},
      {"group-commit=active=0", Errc::kBadDurability, "group-commit='active=0'"},
      {"early-release=true", Errc::kBadDurability, "on, off"},
      {"latency=some", Errc::kBadArgument, "sampled"},
  };
  for (const auto &[spec, error, says] : all) {
    Policies policies = all_set();
    std::string why;
    EXPECT_EQ(parse(spec, &policies, &why), error) << spec;
    EXPECT_NE(why.find(says), std::string::npos) << spec << ": " << why;
    EXPECT_EQ(policies, all_set()) << spec;
    EXPECT_EQ(parse(spec, &policies), error) << "the reason is not asked for";
  }
  EXPECT_EQ(parse("cross=abort-upper", static_cast<Policies *>(nullptr)), Errc::kBadArgument);
}

// Right specifications with bytes changed, removed and added: refused, or read as something that
// survives the round trip.
TEST(PoliciesSpec, NoBytesAreTooStrange) {
  std::mt19937_64 random(20260509);
  const auto below = [&random](std::size_t bound) { return random() % bound; };
  for (int round = 0; round < 20'000; ++round) {
    std::string spec;
    for (std::size_t words = 1 + below(3); words != 0; --words)
      spec += (spec.empty() ? "" : ",") + kWords[below(kWords.size())];
    for (std::size_t changes = below(4); changes != 0 && !spec.empty(); --changes) {
      const std::size_t at = below(spec.size());
      const char byte = below(2) == 0 ? static_cast<char>(random()) : ",=-/0a"[below(6)];
      if (below(3) == 0)
        spec.erase(at, 1 + below(3));
      else if (below(2) == 0)
        spec.insert(at, 1, byte);
      else
        spec[at] = byte;
    }
    Policies policies = all_set();
    std::string why;
    if (const Errc error = parse(spec, &policies, &why); error != Errc::kOk) {
      EXPECT_EQ(policies, all_set()) << spec;
      EXPECT_FALSE(why.empty()) << spec;
      continue;
    }
    Policies again;
    ASSERT_EQ(parse(to_string(policies), &again, &why), Errc::kOk) << spec << ": " << why;
    EXPECT_EQ(again, policies) << spec;
  }
}

hierarchy::Settings settings_of(const DomainOptions &options,
                                const std::map<std::string, std::string> &variables, Errc wanted) {
  hierarchy::Settings settings;
  const Errc error = hierarchy::read_settings(
      options,
      [&variables](const char *name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      &settings);
  EXPECT_EQ(error, wanted) << platform::failure_detail();
  return settings;
}

TEST(PoliciesVariable, GoesBeforeTheChoicesOwnVariableAndBehindTheOption) {
  const std::map<std::string, std::string> variables = {
      {"TMH_CROSS", "abort-lower"},
      {"TMH_LATENCY", "off"},
      {"TMH_POLICY", "youngest-wins,backoff=none"},
      {"TMH_POLICIES", "cross=abort-upper,conflict=self-abort,early-release=off"}};
  hierarchy::Settings settings = settings_of({}, variables, Errc::kOk);
  EXPECT_EQ(settings.cross, CrossPolicy::kAbortUpper);
  EXPECT_EQ(settings.latency, Latency::kOff) << "what it does not name its own variable does";
  EXPECT_EQ(settings.policy.conflict, ConflictPolicy::kSelfAbort);
  EXPECT_EQ(settings.policy.backoff, Backoff::kAdaptive) << "a specification is a whole value";
  EXPECT_EQ(settings.early_release, EarlyRelease::kOff);
  DomainOptions options;
  options.policies.cross = lab::kWaitForUpper;
  settings = settings_of(options, variables, Errc::kOk);
  EXPECT_EQ(settings.cross, lab::kWaitForUpper);
  EXPECT_EQ(settings.policy.conflict, ConflictPolicy::kSelfAbort);
}

TEST(PoliciesVariable, AWrongOneIsRefusedAlsoWhereOptionsSayOtherwise) {
  DomainOptions options;
  options.policies.cross = lab::kWaitForUpper;
  (void)settings_of(options, {{"TMH_POLICIES", "cross=sometimes"}}, Errc::kBadLevels);
  const std::string &why = platform::failure_detail();
  EXPECT_NE(why.find("TMH_POLICIES='cross=sometimes'"), std::string::npos) << why;
  EXPECT_NE(why.find("right values: abort-lower"), std::string::npos) << why;
  (void)settings_of({}, {{"TMH_POLICIES", ""}}, Errc::kOk);
}

}  // namespace
}  // namespace tmh::test
