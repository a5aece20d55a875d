// tests/line/capacity_test.cpp -- the capacity model as a domain's option.
// Invariants:
//   (1) parse(to_string(model)) == model; what is no spelling is refused and leaves *out untouched.
//   (2) a wrong option or TMH_CAPACITY is refused at open with the right values; the option
//       precedes the variable.
//   (3) an instance at level 1 writes as many lines of one set as it has ways, and not one more.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include <tmh/field.hpp>
#include <tmh/site.hpp>
#include <tmh/tmh.hpp>

#include "levels/line/capacity.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using line::CapacityModel;

TEST(CapacitySpelling, EverySpellingSurvivesTheRoundTrip) {
  for (const char *spec : {"unlimited", "32KiB/8/64", "48KiB/12/64", "2048KiB/8/64",
                           "32KiB/8/64,read=4096,nesting=7,spurious=10"}) {
    CapacityModel model, again;
    ASSERT_EQ(parse(std::string_view(spec), &model), Errc::kOk) << spec;
    EXPECT_EQ(line::to_string(model), spec);
    ASSERT_EQ(parse(std::string_view(line::to_string(model)), &again), Errc::kOk) << spec;
    EXPECT_EQ(again, model) << spec;
  }
}

TEST(CapacitySpelling, GeometryIsSetsTimesWays) {
  CapacityModel model;
  ASSERT_EQ(parse(std::string_view("32KiB/8/64"), &model), Errc::kOk);
  EXPECT_EQ(model.write_sets, 64U);
  EXPECT_EQ(model.write_ways, 8U);
  EXPECT_EQ(model.read_lines_max, 0U);
}

TEST(CapacitySpelling, WrongOnesAreRefusedAndLeaveTheValueUntouched) {
  for (const char *spec : {"",
                           "limited",
                           "unlimited,",
                           "32KiB",
                           "32KiB/8",
                           "32KiB/8/32",
                           "32KiB/8/128",
                           "0/8/64",
                           "32KiB/0/64",
                           "32KiB/65/64",
                           "100/8/64",
                           "4MiB/8/64",
                           "32KB/8/64",
                           "-1/8/64",
                           "32KiB/8/64,",
                           "32KiB/8/64,read=",
                           "32KiB/8/64,read=0",
                           "32KiB/8/64,time=5",
                           "32KiB/8/64,time=1000001us",
                           "32KiB/8/64,spurious=1000001",
                           "32KiB/8/64,read=1,read=2",
                           "32KiB/8/64, read=1",
                           "18446744073709551615KiB/8/64",
                           "L1D"}) {
    CapacityModel model;
    model.seed = 77;
    EXPECT_EQ(parse(std::string_view(spec), &model), Errc::kBadLevels) << spec;
    EXPECT_EQ(model.seed, 77U) << spec;
  }
  EXPECT_EQ(parse(std::string_view("unlimited"), static_cast<CapacityModel *>(nullptr)),
            Errc::kBadArgument);
}

class CapacityTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv("TMH_CAPACITY"); }
  void TearDown() override { unsetenv("TMH_CAPACITY"); }
  void expect_refused(const DomainOptions &options, const char *value) const {
    std::error_code error;
    const Domain domain = Domain::open(folder_.path(), options, error);
    EXPECT_EQ(error, make_error_code(Errc::kBadLevels)) << value;
    try {
      (void)Domain::open(folder_.path(), options);
      FAIL() << value << " was accepted";
    } catch (const Error &refused) {
      const std::string text = refused.what();
      EXPECT_NE(text.find(value), std::string::npos) << text;
      EXPECT_NE(text.find(line::capacity_values()), std::string::npos) << text;
    }
  }
  const MemoryFolder folder_;
};

TEST_F(CapacityTest, WrongValuesAreRefusedWithTheRightOnes) {
  DomainOptions options;
  options.policies.capacity = "32KiB/7/64";  // does not divide
  expect_refused(options, "32KiB/7/64");
  setenv("TMH_CAPACITY", "much", 1);
  expect_refused({}, "TMH_CAPACITY='much'");
}

// Lines of one page fall into different sets of 64; the same line of different pages into the same.
TEST_F(CapacityTest, AsManyLinesOfOneSetAsWays) {
  setenv("TMH_CAPACITY", "32KiB/2/64", 1);  // the option precedes it
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.policies.escalation = "on-capacity";
  options.policies.capacity = "32KiB/8/64";
  Domain domain = Domain::open(folder_.path(), options);
  SegmentOptions raw;
  raw.layout = Layout::kRaw;
  raw.size_bytes = 16 * kPageBytes;
  const Segment segment = domain.map("data", raw);
  const Site site(domain, "site");
  for (const std::size_t lines : {8UL, 9UL}) {
    atomically(site, [&](Fields) {
      for (std::size_t i = 0; i < lines; ++i)
        reinterpret_cast<field<std::uint64_t> *>(segment.data() + i * kPageBytes)->store(lines);
    });
    const SiteReport report = site.report();
    EXPECT_EQ(report.line_commits, 1U);
    EXPECT_EQ(report.page_commits, lines - 8);
    EXPECT_EQ(report.escalations_capacity, lines - 8);
  }
  EXPECT_GE(domain.counters().recalls, 9U);  // more: pages are also taken ahead
  EXPECT_EQ(domain.counters().recalls, site.report().recalls);
  atomically(site,
             [&](Fields) { reinterpret_cast<field<std::uint64_t> *>(segment.data())->store(1); });
  EXPECT_EQ(domain.counters().releases, 1U);
  EXPECT_EQ(site.report().releases, 1U);
  EXPECT_EQ(site.report().line_commits, 2U);
  domain.close();
}

}  // namespace
}  // namespace tmh::test
