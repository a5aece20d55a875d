// tests/domain/history_rule_test.cpp -- TMH_HISTORY: what it may say, and whose history it sets.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include <tmh/tmh.hpp>

#include "hierarchy/domain/history_rule.h"
#include "tests/support/children.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

TEST(HistoryRuleTest, ATimeBytesOrBothAreRead) {
  const auto read = [](std::string_view spec) {
    History history{std::chrono::milliseconds(7), 7};
    EXPECT_EQ(parse(spec, &history), Errc::kOk) << spec;
    return history;
  };
  using std::chrono::milliseconds;
  EXPECT_EQ(read("off"), History());
  EXPECT_EQ(read("1ms"), (History{milliseconds(1), 0}));
  EXPECT_EQ(read("10s"), (History{milliseconds(10'000), 0}));
  EXPECT_EQ(read("5min"), (History{milliseconds(300'000), 0}));
  EXPECT_EQ(read("24h"), (History{milliseconds(86'400'000), 0}));
  EXPECT_EQ(read("64MiB"), (History{milliseconds(0), 64u << 20}));
  EXPECT_EQ(read("2GiB"), (History{milliseconds(0), std::uint64_t{2} << 30}));
  EXPECT_EQ(read("10s,64MiB"), (History{milliseconds(10'000), 64u << 20}));
  EXPECT_EQ(read("64MiB,10s"), (History{milliseconds(10'000), 64u << 20}));
}

TEST(HistoryRuleTest, AnythingElseIsRefusedAndChangesNothing) {
  for (const char *const wrong : {"", "on", "10", "0s", "-1s", "1.5s", "s", "10 s", "10s,", ",10s",
                                  "10s,20s", "1MiB,2MiB", "10s,64MiB,1s", "64mib", "64MB",
                                  "99999999999s", "99999999999999999999h", "10s64MiB", "OFF"}) {
    History history{std::chrono::milliseconds(7), 7};
    EXPECT_EQ(parse(wrong, &history), Errc::kBadArgument) << wrong;
    EXPECT_EQ(history, (History{std::chrono::milliseconds(7), 7})) << wrong;
  }
}

// In children: the variable is the process's.
void with_variable(const char *value, const std::function<void()> &body) {
  expect_child("with TMH_HISTORY", [&] {
    setenv("TMH_HISTORY", value, 1);
    body();
  });
}

TEST(HistoryRuleTest, TheVariableSetsWhatTheProgramLeavesUnset) {
  const TempFolder folder;
  with_variable("1h,2MiB", [&] {
    const Domain domain = Domain::open(folder / "a");
    EXPECT_EQ(domain.past().history.time, std::chrono::hours(1));
    EXPECT_LE(domain.past().history.bytes, 2u << 20);
    EXPECT_GT(domain.past().history.bytes, 1u << 20);
    const Domain again = Domain::open(folder / "a");
    DomainOptions options;
    options.history.bytes = 4u << 20;
    const Domain own = Domain::open(folder / "b", options);
    EXPECT_EQ(own.past().history.time.count(), 0);
    EXPECT_GT(own.past().history.bytes, 3u << 20);
    // It speaks to all domains that the program opens.
    options = {};
    options.levels = Levels::kHybrid;
    const Domain hybrid = Domain::open(folder / "c", options);
    EXPECT_FALSE(hybrid.past().history.is_set());
  });
  with_variable("off", [&] { EXPECT_FALSE(Domain::open(folder / "d").past().history.is_set()); });
}

TEST(HistoryRuleTest, AWrongVariableIsRefused) {
  const TempFolder folder;
  with_variable("ten seconds", [&] {
    expect_error(
        Errc::kBadArgument, [&] { (void)Domain::open(folder / "a"); },
        "TMH_HISTORY='ten seconds'; right values: off, a time");
  });
  with_variable("1000000000h", [&] {
    expect_error(
        Errc::kBadArgument, [&] { (void)Domain::open(folder / "a"); }, "100 years");
  });
}

}  // namespace
}  // namespace tmh::test
