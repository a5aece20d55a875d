// tests/tools/perf_counters_test.cpp -- counting in this process: what software events say is
// right, what cannot be counted says why.
// Invariants: (1) a page touched for the first time is a page fault. (2) an event that cannot be
//             counted is named with its cause, and the others go on. (3) values are scaled when a
//             group had the counters for a part of the time only. (4) a site's instances are
//             counted at the level at which they committed.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>

#include <tmh/perf.hpp>
#include <tmh/tmh.hpp>

#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::size_t kPageBytes = 4096;

void touch_new_pages(std::size_t pages) {
  const std::size_t bytes = pages * kPageBytes;
  void *const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
  for (std::size_t i = 0; i < pages; ++i) static_cast<volatile char *>(memory)[i * kPageBytes] = 1;
  ::munmap(memory, bytes);
}

std::map<std::string, perf::Reading> by_name(const std::vector<perf::Reading> &readings) {
  std::map<std::string, perf::Reading> map;
  for (const perf::Reading &reading : readings) map[reading.event] = reading;
  return map;
}

// Where a sandbox forbids perf_event_open, there is nothing to be counted.
std::string software_missing() { return perf::Counters({"page-faults"}).read().front().missing; }

TEST(PerfCounters, PageFaultsAreCountedBetweenStartAndStop) {
  if (const std::string cause = software_missing(); !cause.empty()) GTEST_SKIP() << cause;
  perf::Counters counters({"page-faults,minor-faults", "task-clock"});
  constexpr std::size_t kOutside = 1000;  // many more than inside: TSan adds 2.5 to each page
  touch_new_pages(kOutside);
  EXPECT_EQ(by_name(counters.read())["page-faults"].value(), 0u);
  counters.start();
  touch_new_pages(100);
  counters.stop();
  touch_new_pages(kOutside);
  auto readings = by_name(counters.read());
  EXPECT_GE(readings["page-faults"].value(), 100u);
#if defined(__SANITIZE_THREAD__)
  EXPECT_LT(readings["page-faults"].value(), kOutside);
#else
  EXPECT_LT(readings["page-faults"].value(), 200u);
#endif
  EXPECT_FALSE(readings["page-faults"].is_scaled());
  EXPECT_EQ(readings["page-faults"].group, readings["minor-faults"].group);
  EXPECT_NE(readings["page-faults"].group, readings["task-clock"].group);
  EXPECT_GT(readings["task-clock"].value(), 0u);
  counters.start();  // goes on
  touch_new_pages(100);
  EXPECT_GE(by_name(counters.read())["page-faults"].value(), 200u);
}

TEST(PerfCounters, EveryEventOfTheSetsIsCountedOrExplained) {
  perf::Counters counters;
  counters.start();
  touch_new_pages(10);
  counters.stop();
  const std::vector<perf::Reading> readings = counters.read();
  EXPECT_EQ(readings.size(), 26u);
  for (const perf::Reading &reading : readings)
    EXPECT_TRUE(!reading.missing.empty() || reading.running_ns > 0 || reading.enabled_ns == 0)
        << reading.event;
}

TEST(PerfCounters, AnUnknownEventIsNamedAndTheOthersGoOn) {
  perf::Counters counters({"no-such-event,page-faults"});
  counters.start();
  touch_new_pages(50);
  auto readings = by_name(counters.read());
  EXPECT_NE(readings["no-such-event"].missing.find("libpfm4"), std::string::npos);
  if (readings["page-faults"].missing.empty()) {
    EXPECT_GE(readings["page-faults"].value(), 50u);
  }
}

// In a child without the right to count the kernel's share: an event of the kernel's is not
// counted, or counted there; 0 would be a lie.
TEST(PerfCounters, WhatWasAskedOfTheKernelIsNotCountedWithoutIt) {
  if (const std::string cause = software_missing(); !cause.empty()) GTEST_SKIP() << cause;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(2);
    const perf::Reading reading = perf::Counters({"perf::PAGE-FAULTS:k"}).read().front();
    ::_exit(reading.missing.empty() && reading.user_only ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "exit status " << WEXITSTATUS(status);
}

TEST(PerfCounters, ValuesAreScaledByTheShareOfTime) {
  perf::Reading reading;
  reading.counted = 1000;
  reading.enabled_ns = reading.running_ns = 50;
  EXPECT_FALSE(reading.is_scaled());
  EXPECT_EQ(reading.value(), 1000u);
  reading.enabled_ns = 200;
  EXPECT_TRUE(reading.is_scaled());
  EXPECT_EQ(reading.value(), 4000u);
  reading.counted = 1ull << 62;  // the product needs more than 64 bits
  reading.enabled_ns = (1ull << 40) + 1;
  reading.running_ns = 1ull << 40;
  EXPECT_EQ(reading.value(), (1ull << 62) + (1ull << 22));
  reading.running_ns = 0;
  EXPECT_EQ(reading.value(), 1ull << 62);
}

struct Cell {
  field<long> value;
  char other_line[56];
};

TEST(PerfProfile, InstancesCountAtTheLevelWhereTheyCommit) {
  const MemoryFolder folder;
  DomainOptions options;
  options.levels = Levels::kHybrid;
  const Domain domain = Domain::open(folder / "domain", options);
  const Segment segment = domain.map("cells");
  Cell *const cell = segment.root<Cell>("cell");
  const Site low(domain, "low", "never"), high(domain, "high", "always");
  perf::SiteProfile low_profile(low, {"page-faults"}), high_profile(high, {"page-faults"});
  for (int i = 0; i < 20; ++i) low_profile.atomically([&](Fields) { cell->value += 1; });
  long seen = 0;
  for (int i = 0; i < 5; ++i) {
    seen = high_profile.atomically([&](Fields) -> long {
      cell->value += 1;
      return cell->value;
    });
  }
  EXPECT_EQ(seen, 25);
  EXPECT_EQ(low_profile.at_lines().instances, 20u);
  EXPECT_EQ(low_profile.at_pages().instances, 0u);
  EXPECT_EQ(low_profile.report().line_commits, 20u);
  EXPECT_EQ(low_profile.report().name, "low");
  EXPECT_EQ(high_profile.at_pages().instances, 5u);
  EXPECT_EQ(high_profile.report().page_commits, 5u);
  EXPECT_GT(high_profile.at_pages().ns, 0u);
  EXPECT_EQ(high_profile.at_pages().events.front().event, "page-faults");
  struct Thrown {};
  EXPECT_THROW(low_profile.atomically([](Fields) { throw Thrown(); }), Thrown);
  EXPECT_EQ(low_profile.at_lines().instances, 21u);
  EXPECT_EQ(low_profile.report().line_commits, 20u);
}

}  // namespace
}  // namespace tmh::test
