// tests/options_test.cpp -- spellings of options, and the error category.
// Invariants:
//   (1) parse(to_string(value)) == value for every valid value.
//   (2) what is not a spelling is refused with its own Errc and leaves *out untouched.
//   (3) the lists shown to users hold exactly the accepted spellings.
//   (4) every Errc number has one sentence of its own; numbers and category name are frozen.
#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

#include <tmh/error.hpp>
#include <tmh/options.hpp>

namespace {

using tmh::Backoff;
using tmh::ConflictPolicy;
using tmh::Detection;
using tmh::Errc;
using tmh::Policy;
using tmh::Tracking;

const std::vector<std::string> kConflictWords = {"self-abort", "oldest-wins", "selfish-abort", "youngest-wins"};
const std::vector<std::string> kAgeWords = {"keep-age", "fresh-age"};
const std::vector<std::string> kBackoffWords = {"backoff=none", "backoff=exponential", "backoff=adaptive"};

// Words of a list such as "a, b; one of c and d".
std::set<std::string> words_of(const char *list) {
  std::string text = list;
  for (char &c : text) {
    if (c == ',' || c == ';' || c == ':') c = ' ';
  }
  std::istringstream stream(text);
  std::set<std::string> words;
  for (std::string word; stream >> word;) words.insert(word);
  return words;
}

TEST(PolicySpelling, EveryValueSurvivesTheRoundTrip) {
  for (int conflict = 1; conflict <= 4; ++conflict) {
    for (int backoff = 1; backoff <= 3; ++backoff) {
      for (bool keep_age : {false, true}) {
        for (std::uint32_t us_max : {0u, 1u, 1000u, 999'999u, 1'000'000u}) {
          Policy value;
          value.conflict = static_cast<ConflictPolicy>(conflict);
          value.backoff = static_cast<Backoff>(backoff);
          value.keep_age = keep_age;
          value.backoff_us_max = us_max;
          Policy parsed;
          ASSERT_EQ(tmh::parse(tmh::to_string(value), &parsed), Errc::kOk) << tmh::to_string(value);
          EXPECT_EQ(parsed, value) << tmh::to_string(value);
        }
      }
    }
  }
}

TEST(PolicySpelling, DefaultIsSpelledAsTheHeaderSays) {
  EXPECT_EQ(tmh::to_string(Policy{}), "oldest-wins,keep-age,backoff=adaptive");
}

TEST(PolicySpelling, AnySubsetInAnyOrderKeepsDefaultsForTheRest) {
  for (const auto &conflict : kConflictWords) {
    for (const auto &age : kAgeWords) {
      for (const auto &backoff : kBackoffWords) {
        const std::string orders[] = {conflict + "," + age + "," + backoff, backoff + "," + conflict + "," + age,
                                      age + "," + backoff + "," + conflict};
        Policy first;
        ASSERT_EQ(tmh::parse(orders[0], &first), Errc::kOk);
        for (const auto &order : orders) {
          Policy policy;
          ASSERT_EQ(tmh::parse(order, &policy), Errc::kOk) << order;
          EXPECT_EQ(policy, first) << order;
        }
      }
    }
    Policy alone;
    ASSERT_EQ(tmh::parse(conflict, &alone), Errc::kOk);
    EXPECT_EQ(alone.backoff, Policy{}.backoff);
    EXPECT_EQ(alone.keep_age, Policy{}.keep_age);
  }
}

TEST(PolicySpelling, IsAWholeValueNotAChangeToTheOldOne) {
  Policy policy;
  ASSERT_EQ(tmh::parse("self-abort,backoff=none,backoff-us-max=5", &policy), Errc::kOk);
  ASSERT_EQ(tmh::parse("fresh-age", &policy), Errc::kOk);
  Policy expected;
  expected.keep_age = false;
  EXPECT_EQ(policy, expected);
}

TEST(PolicySpelling, WrongOnesAreRefusedAndLeaveTheValueUntouched) {
  const std::vector<std::string> wrong = {"",
                                          ",",
                                          "oldest-wins,",
                                          ",oldest-wins",
                                          "oldest-wins,,keep-age",
                                          " oldest-wins",
                                          "oldest-wins ",
                                          "Oldest-Wins",
                                          "oldest",
                                          "oldest-winss",
                                          "invalid",
                                          "backoff",
                                          "backoff=",
                                          "backoff=often",
                                          "oldest-wins,oldest-wins",
                                          "self-abort,oldest-wins",
                                          "keep-age,fresh-age",
                                          "backoff=none,backoff=none",
                                          "backoff-us-max=1,backoff-us-max=1",
                                          "backoff-us-max=",
                                          "backoff-us-max=-1",
                                          "backoff-us-max=+1",
                                          "backoff-us-max= 1",
                                          "backoff-us-max=1us",
                                          "backoff-us-max=0x10",
                                          "backoff-us-max=1000001",
                                          "backoff-us-max=4294967296",
                                          "backoff-us-max=99999999999999999999",
                                          std::string("oldest-wins\0", 12),
                                          std::string("oldest-wins\0,keep-age", 21)};
  Policy before;
  before.conflict = ConflictPolicy::kSelfAbort;
  before.backoff_us_max = 77;
  for (const auto &spec : wrong) {
    Policy policy = before;
    EXPECT_EQ(tmh::parse(spec, &policy), Errc::kBadPolicy) << '"' << spec << '"';
    EXPECT_EQ(policy, before) << '"' << spec << '"';
  }
}

TEST(PolicySpelling, ListForUsersHoldsExactlyTheAcceptedWords) {
  const auto listed = words_of(tmh::policy_values());
  for (const auto *words : {&kConflictWords, &kAgeWords, &kBackoffWords}) {
    for (const auto &word : *words) {
      Policy policy;
      EXPECT_EQ(tmh::parse(word, &policy), Errc::kOk) << word;
      EXPECT_TRUE(listed.count(word)) << word;
    }
  }
  const std::set<std::string> prose = {"comma-separated", "one", "of", "to", "1000000"};
  for (const auto &word : listed) {
    Policy policy;
    EXPECT_TRUE(prose.count(word) || tmh::parse(word, &policy) == Errc::kOk) << word;
  }
  Policy policy;
  EXPECT_EQ(tmh::parse("backoff-us-max=1000000", &policy), Errc::kOk) << "the bound that the list names";
}

TEST(TrackingSpelling, EveryValueSurvivesTheRoundTripAndTheListIsComplete) {
  std::set<std::string> spelled;
  for (int number = 0; number <= 4; ++number) {
    const auto value = static_cast<Tracking>(number);
    auto parsed = Tracking{99};
    ASSERT_EQ(tmh::parse(tmh::to_string(value), &parsed), Errc::kOk);
    EXPECT_EQ(parsed, value);
    spelled.insert(tmh::to_string(value));
  }
  EXPECT_EQ(words_of(tmh::tracking_values()), spelled);
  EXPECT_STREQ(tmh::to_string(Tracking{99}), "invalid");
}

TEST(DetectionSpelling, EveryValueSurvivesTheRoundTripAndTheListIsComplete) {
  std::set<std::string> spelled;
  for (int number = 1; number <= 2; ++number) {
    const auto value = static_cast<Detection>(number);
    auto parsed = Detection{};
    ASSERT_EQ(tmh::parse(tmh::to_string(value), &parsed), Errc::kOk);
    EXPECT_EQ(parsed, value);
    spelled.insert(tmh::to_string(value));
  }
  EXPECT_EQ(words_of(tmh::detection_values()), spelled);
  EXPECT_STREQ(tmh::to_string(Detection{}), "invalid");
}

TEST(TrackingAndDetectionSpelling, WrongOnesAreRefusedAndLeaveTheValueUntouched) {
  for (const char *spec : {"", " ", "invalid", "Signal", "signal ", "signal,kernel", "lazy,", "LAZY", "kernel_hot"}) {
    auto tracking = Tracking::kKernelHot;
    EXPECT_EQ(tmh::parse(spec, &tracking), Errc::kBadTracking) << '"' << spec << '"';
    EXPECT_EQ(tracking, Tracking::kKernelHot);
    auto detection = Detection::kEager;
    EXPECT_EQ(tmh::parse(spec, &detection), Errc::kBadDetection) << '"' << spec << '"';
    EXPECT_EQ(detection, Detection::kEager);
  }
}

TEST(Spelling, NullTargetIsABadArgument) {
  EXPECT_EQ(tmh::parse("oldest-wins", static_cast<Policy *>(nullptr)), Errc::kBadArgument);
  EXPECT_EQ(tmh::parse("auto", static_cast<Tracking *>(nullptr)), Errc::kBadArgument);
  EXPECT_EQ(tmh::parse("lazy", static_cast<Detection *>(nullptr)), Errc::kBadArgument);
}

constexpr int kErrcLast = static_cast<int>(Errc::kDomainInUse);

TEST(ErrorCategory, EveryCodeHasOneSentenceOfItsOwn) {
  std::set<std::string> sentences;
  for (int code = 0; code <= kErrcLast; ++code) {
    const char *sentence = tmh::message(static_cast<Errc>(code));
    ASSERT_NE(sentence, nullptr);
    EXPECT_TRUE(sentences.insert(sentence).second) << "code " << code << " repeats: " << sentence;
    EXPECT_STRNE(sentence, tmh::message(static_cast<Errc>(-1))) << "code " << code << " has no sentence";
    EXPECT_EQ(tmh::category().message(code), sentence);
  }
  EXPECT_STREQ(tmh::message(static_cast<Errc>(kErrcLast + 1)), "unknown tmh error code");
}

TEST(ErrorCategory, NumbersAreFrozen) {  // a released value is never reused: this list only grows
  EXPECT_EQ(static_cast<int>(Errc::kOk), 0);
  EXPECT_EQ(static_cast<int>(Errc::kCorrupt), 8);
  EXPECT_EQ(static_cast<int>(Errc::kSegmentFull), 19);
  EXPECT_EQ(static_cast<int>(Errc::kBadPolicy), 27);
  EXPECT_EQ(static_cast<int>(Errc::kOutOfMemory), 38);
  EXPECT_EQ(static_cast<int>(Errc::kDomainInUse), 46);
}

TEST(ErrorCategory, CodesCompareWithErrcAndWithTheSystemsWords) {
  const std::error_code full = Errc::kDiskFull;
  EXPECT_EQ(full, Errc::kDiskFull);
  EXPECT_STREQ(full.category().name(), "tmh");
  EXPECT_EQ(full, std::errc::no_space_on_device);
  EXPECT_EQ(make_error_code(Errc::kPermission), std::errc::permission_denied);
  EXPECT_EQ(make_error_code(Errc::kOutOfMemory), std::errc::not_enough_memory);
  EXPECT_EQ(make_error_code(Errc::kIo), std::errc::io_error);
  EXPECT_EQ(make_error_code(Errc::kBadArgument), std::errc::invalid_argument);
  EXPECT_NE(make_error_code(Errc::kCorrupt), std::errc::io_error);
  EXPECT_FALSE(static_cast<bool>(make_error_code(Errc::kOk)));
}

TEST(ErrorException, CarriesCodeAndDetail) {
  const tmh::Error error(Errc::kFileShrunk, "/data/index.tmh");
  EXPECT_EQ(error.errc(), Errc::kFileShrunk);
  EXPECT_NE(std::string(error.what()).find("/data/index.tmh"), std::string::npos);
  EXPECT_NE(std::string(error.what()).find(tmh::message(Errc::kFileShrunk)), std::string::npos);
}

}  // namespace
