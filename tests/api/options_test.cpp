// tests/api/options_test.cpp -- spellings of options, and the error category.
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
#include <tmh/lab.hpp>
#include <tmh/options.hpp>

namespace {

using tmh::Backoff;
using tmh::ConflictPolicy;
using tmh::Detection;
using tmh::Durability;
using tmh::Errc;
using tmh::GroupCommit;
using tmh::LineChoice;
using tmh::Policy;
using tmh::Tracking;

const std::vector<std::string> kConflictWords = {"self-abort", "oldest-wins", "selfish-abort",
                                                 "youngest-wins"};
const std::vector<std::string> kAgeWords = {"keep-age", "fresh-age"};
const std::vector<std::string> kBackoffWords = {"backoff=none", "backoff=exponential",
                                                "backoff=adaptive"};

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
        const std::string orders[] = {conflict + "," + age + "," + backoff,
                                      backoff + "," + conflict + "," + age,
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
  const std::set<std::string> prose = {"comma-separated", "one",       "of", "to",
                                       "1000000",         "1048576MiB"};
  for (const auto &word : listed) {
    Policy policy;
    EXPECT_TRUE(prose.count(word) || tmh::parse(word, &policy) == Errc::kOk) << word;
  }
  Policy policy;
  EXPECT_EQ(tmh::parse("backoff-us-max=1000000", &policy), Errc::kOk)
      << "the bound that the list names";
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
  for (int number = 1; number <= 3; ++number) {
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
  for (const char *spec :
       {"", " ", "invalid", "Signal", "signal ", "signal,kernel", "lazy,", "LAZY", "kernel_hot"}) {
    auto tracking = Tracking::kKernelHot;
    EXPECT_EQ(tmh::parse(spec, &tracking), Errc::kBadTracking) << '"' << spec << '"';
    EXPECT_EQ(tracking, Tracking::kKernelHot);
    auto detection = Detection::kEager;
    EXPECT_EQ(tmh::parse(spec, &detection), Errc::kBadDetection) << '"' << spec << '"';
    EXPECT_EQ(detection, Detection::kEager);
  }
}

TEST(DurabilitySpelling, EveryValueSurvivesTheRoundTripAndTheListIsComplete) {
  std::set<std::string> spelled;
  for (int number = 1; number <= 3; ++number) {
    const auto value = static_cast<Durability>(number);
    auto parsed = Durability{};
    ASSERT_EQ(tmh::parse(tmh::to_string(value), &parsed), Errc::kOk);
    EXPECT_EQ(parsed, value);
    spelled.insert(tmh::to_string(value));
  }
  EXPECT_EQ(words_of(tmh::durability_values()), spelled);
  EXPECT_STREQ(tmh::to_string(Durability{}), "invalid");
  EXPECT_STREQ(tmh::to_string(Durability{4}), "invalid");
}

TEST(DurabilitySpelling, WrongOnesAreRefusedAndLeaveTheValueUntouched) {
  for (const char *spec : {"", " ", "invalid", "Strict", "strict ", " strict", "strict,buffered",
                           "none,", "durable", "1"}) {
    auto durability = Durability::kBuffered;
    EXPECT_EQ(tmh::parse(spec, &durability), Errc::kBadDurability) << '"' << spec << '"';
    EXPECT_EQ(durability, Durability::kBuffered);
  }
}

TEST(GroupCommitSpelling, EveryValueSurvivesTheRoundTrip) {
  for (const std::uint32_t active : {1u, 2u, 65'536u}) {
    for (const std::uint32_t waiting : {1u, 50u, 100u}) {
      for (const std::uint32_t bytes : {1u, 65'536u, 1u << 30}) {
        for (const std::uint32_t wait_us : {1u, 60u, 1'000'000u}) {
          const GroupCommit value{active, waiting, bytes, wait_us};
          GroupCommit parsed;
          ASSERT_EQ(tmh::parse(tmh::to_string(value), &parsed), Errc::kOk) << tmh::to_string(value);
          EXPECT_EQ(parsed, value) << tmh::to_string(value);
        }
      }
    }
  }
}

TEST(GroupCommitSpelling, DefaultIsSpelledAsTheHeaderSays) {
  EXPECT_EQ(tmh::to_string(GroupCommit{}), "active=2,waiting=100,bytes=65536,wait=60us");
}

TEST(GroupCommitSpelling, NoneIsNoWaitingAtAll) {
  GroupCommit group{9, 9, 9, 9};
  ASSERT_EQ(tmh::parse("none", &group), Errc::kOk);
  EXPECT_EQ(group.wait_us, 0u);
  EXPECT_EQ(tmh::to_string(group), "none");
  GroupCommit again;
  ASSERT_EQ(tmh::parse(tmh::to_string(group), &again), Errc::kOk);
  EXPECT_EQ(again, group);
}

TEST(GroupCommitSpelling, AnySubsetInAnyOrderKeepsDefaultsForTheRest) {
  const std::vector<std::string> words = {"active=3", "waiting=70", "bytes=100", "wait=5us"};
  GroupCommit all;
  ASSERT_EQ(tmh::parse("wait=5us,bytes=100,active=3,waiting=70", &all), Errc::kOk);
  EXPECT_EQ(all, (GroupCommit{3, 70, 100, 5}));
  for (unsigned chosen = 1; chosen < 16; ++chosen) {
    std::string forward, backward;
    GroupCommit expected;
    for (unsigned i = 0; i < 4; ++i) {
      if ((chosen & (1u << i)) == 0) continue;
      forward += (forward.empty() ? "" : ",") + words[i];
      backward = words[i] + (backward.empty() ? "" : ",") + backward;
    }
    if ((chosen & 1) != 0) expected.active_min = 3;
    if ((chosen & 2) != 0) expected.waiting_percent = 70;
    if ((chosen & 4) != 0) expected.bytes = 100;
    if ((chosen & 8) != 0) expected.wait_us = 5;
    for (const std::string &spec : {forward, backward}) {
      // A specification is a whole value, not a change to the old one.
      GroupCommit group{9, 9, 9, 9};
      ASSERT_EQ(tmh::parse(spec, &group), Errc::kOk) << spec;
      EXPECT_EQ(group, expected) << spec;
    }
  }
}

TEST(GroupCommitSpelling, WrongOnesAreRefusedAndLeaveTheValueUntouched) {
  const std::vector<std::string> wrong = {"",
                                          ",",
                                          "none,",
                                          ",none",
                                          "none,active=2",
                                          "active=2,none",
                                          "None",
                                          "active",
                                          "active=",
                                          "active=0",
                                          "active=65537",
                                          "active=-1",
                                          "active=+1",
                                          "active= 1",
                                          "active=0x2",
                                          "active=2us",
                                          "active=2,active=2",
                                          "waiting=0",
                                          "waiting=101",
                                          "waiting=50%",
                                          "bytes=0",
                                          "bytes=1073741825",
                                          "bytes=4294967296",
                                          "bytes=64k",
                                          "bytes=99999999999999999999",
                                          "wait=60",
                                          "wait=60 us",
                                          "wait=60ms",
                                          "wait=us",
                                          "wait=0us",
                                          "wait=1000001us",
                                          "wait=1us,wait=2us",
                                          " active=2",
                                          "active=2 ",
                                          "active=2,,waiting=50",
                                          "active=2;waiting=50",
                                          "Active=2",
                                          "delay=5",
                                          "=5",
                                          std::string("active=2\0", 9),
                                          std::string("none\0", 5)};
  const GroupCommit before{7, 77, 777, 7777};
  for (const auto &spec : wrong) {
    GroupCommit group = before;
    EXPECT_EQ(tmh::parse(spec, &group), Errc::kBadDurability) << '"' << spec << '"';
    EXPECT_EQ(group, before) << '"' << spec << '"';
  }
}

// "none, or comma-separated: active=1 to 65536, ...": both ends of each range are right, and one
// beyond either is not.
TEST(GroupCommitSpelling, ListForUsersHoldsExactlyTheAcceptedRanges) {
  std::istringstream list(tmh::group_commit_values());
  std::string text = list.str();
  std::set<std::string> keys;
  for (std::size_t equals = text.find('='); equals != std::string::npos;
       equals = text.find('=', equals + 1)) {
    const std::string key = text.substr(text.find_last_of(' ', equals) + 1,
                                        equals - text.find_last_of(' ', equals) - 1);
    std::istringstream range(text.substr(equals + 1));
    std::string first, to, last;
    range >> first >> to >> last;
    if (last.ends_with(',')) last.pop_back();
    ASSERT_EQ(to, "to") << text;
    const std::string unit = last.substr(last.find_first_not_of("0123456789") == std::string::npos
                                             ? last.size()
                                             : last.find_first_not_of("0123456789"));
    GroupCommit group;
    EXPECT_EQ(tmh::parse(key + "=" + first, &group), Errc::kOk) << key;
    EXPECT_EQ(tmh::parse(key + "=" + last, &group), Errc::kOk) << key;
    EXPECT_EQ(tmh::parse(key + "=" + std::to_string(std::stoull(first) - 1) + unit, &group),
              Errc::kBadDurability)
        << key;
    EXPECT_EQ(tmh::parse(key + "=" + std::to_string(std::stoull(last) + 1) + unit, &group),
              Errc::kBadDurability)
        << key;
    keys.insert(key);
  }
  EXPECT_EQ(keys, (std::set<std::string>{"active", "waiting", "bytes", "wait"}));
  EXPECT_EQ(text.substr(0, 5), "none,");
}

TEST(Spelling, LineChoicesAreThoseOfTheList) {
  std::string list;
  for (const LineChoice choice : {LineChoice::kAuto, LineChoice::kSoftware, LineChoice::kRtm}) {
    LineChoice read{};
    EXPECT_EQ(tmh::parse(tmh::to_string(choice), &read), Errc::kOk);
    EXPECT_EQ(read, choice);
    list += (list.empty() ? "" : ", ") + std::string(tmh::to_string(choice));
  }
  EXPECT_EQ(list, tmh::line_values());
  LineChoice untouched = LineChoice::kRtm;
  for (const char *wrong : {"", "hardware", "RTM", "rtm ", "software,rtm"}) {
    EXPECT_EQ(tmh::parse(wrong, &untouched), Errc::kBadLevels) << wrong;
    EXPECT_EQ(untouched, LineChoice::kRtm);
  }
}

TEST(Spelling, ThreadViewUsesAreThoseOfTheList) {
  std::string list;
  for (const auto use :
       {tmh::ThreadViewUse::kAuto, tmh::lab::kOwnViewAlways, tmh::ThreadViewUse::kNever}) {
    tmh::ThreadViewUse read{};
    EXPECT_EQ(tmh::parse(tmh::to_string(use), &read), Errc::kOk);
    EXPECT_EQ(read, use);
    if (use == tmh::lab::kOwnViewAlways) continue;  // understood, and not listed
    list += (list.empty() ? "" : ", ") + std::string(tmh::to_string(use));
  }
  EXPECT_EQ(list, tmh::thread_view_values());
  tmh::ThreadViewUse untouched = tmh::ThreadViewUse::kNever;
  for (const char *wrong : {"", "own", "Always", "never "}) {
    EXPECT_EQ(tmh::parse(wrong, &untouched), Errc::kBadLevels) << wrong;
    EXPECT_EQ(untouched, tmh::ThreadViewUse::kNever);
  }
}

TEST(Spelling, LatenciesAreThoseOfTheList) {
  std::string list;
  for (const auto use : {tmh::Latency::kOff, tmh::Latency::kSampled, tmh::lab::kEachAttempt}) {
    tmh::Latency read{};
    EXPECT_EQ(tmh::parse(tmh::to_string(use), &read), Errc::kOk);
    EXPECT_EQ(read, use);
    if (use == tmh::lab::kEachAttempt) continue;  // as above
    list += (list.empty() ? "" : ", ") + std::string(tmh::to_string(use));
  }
  EXPECT_EQ(list, tmh::latency_values());
  tmh::Latency untouched = tmh::lab::kEachAttempt;
  for (const char *wrong : {"", "own", "Always", "never "}) {
    EXPECT_EQ(tmh::parse(wrong, &untouched), Errc::kBadArgument) << wrong;
    EXPECT_EQ(untouched, tmh::lab::kEachAttempt);
  }
}

TEST(Spelling, NullTargetIsABadArgument) {
  EXPECT_EQ(tmh::parse("oldest-wins", static_cast<Policy *>(nullptr)), Errc::kBadArgument);
  EXPECT_EQ(tmh::parse("auto", static_cast<Tracking *>(nullptr)), Errc::kBadArgument);
  EXPECT_EQ(tmh::parse("lazy", static_cast<Detection *>(nullptr)), Errc::kBadArgument);
  EXPECT_EQ(tmh::parse("strict", static_cast<Durability *>(nullptr)), Errc::kBadArgument);
  EXPECT_EQ(tmh::parse("none", static_cast<GroupCommit *>(nullptr)), Errc::kBadArgument);
}

constexpr int kErrcLast = static_cast<int>(Errc::kNotLocked);

TEST(ErrorCategory, EveryCodeHasOneSentenceOfItsOwn) {
  std::set<std::string> sentences;
  for (int code = 0; code <= kErrcLast; ++code) {
    const char *sentence = tmh::message(static_cast<Errc>(code));
    ASSERT_NE(sentence, nullptr);
    EXPECT_TRUE(sentences.insert(sentence).second) << "code " << code << " repeats: " << sentence;
    EXPECT_STRNE(sentence, tmh::message(static_cast<Errc>(-1)))
        << "code " << code << " has no sentence";
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
  EXPECT_EQ(static_cast<int>(Errc::kLogDamaged), 40);
  EXPECT_EQ(static_cast<int>(Errc::kNotDurable), 43);
  EXPECT_EQ(static_cast<int>(Errc::kDomainInUse), 46);
  EXPECT_EQ(static_cast<int>(Errc::kBadLevels), 47);
  EXPECT_EQ(static_cast<int>(Errc::kLevelsMismatch), 48);
  EXPECT_EQ(static_cast<int>(Errc::kNeedsPages), 49);
  EXPECT_EQ(static_cast<int>(Errc::kRtmUnavailable), 50);
  EXPECT_EQ(static_cast<int>(Errc::kNothingRead), 51);
  EXPECT_EQ(static_cast<int>(Errc::kForeignFile), 52);
  EXPECT_EQ(static_cast<int>(Errc::kControlMissing), 53);
  EXPECT_EQ(static_cast<int>(Errc::kNotHeld), 54);
  EXPECT_EQ(static_cast<int>(Errc::kTooManyMoments), 55);
  EXPECT_EQ(static_cast<int>(Errc::kFileReplaced), 56);
  EXPECT_EQ(static_cast<int>(Errc::kNotLocked), 60);
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
