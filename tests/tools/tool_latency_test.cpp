// tests/tools/tool_latency_test.cpp -- what a domain records of how long its instances take, by the
// library and by tmh stat.
// Invariants: (1) with `full` every attempt is counted once, by site, level and outcome; the dead's
//             stay. (2) whatever the file's bytes are, readers end by themselves, and the domain
//             opens or says why not.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tmh/lab.hpp>
#include <tmh/tmh.hpp>

#include "programs/json.h"
#include "storage/latency.h"
#include "tests/support/durable_folder.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"

namespace tmh::test {
namespace {

using programs::Json;

DomainOptions timed_options(Latency latency, Levels levels = Levels::kPage) {
  DomainOptions options;
  options.policies.latency = latency;
  options.levels = levels;
  return options;
}

class LatencyOfDomain : public ::testing::Test {
 protected:
  void SetUp() override { unsetenv("TMH_LATENCY"); }
  std::string domain() const { return folder_ / "domain"; }
  std::string file() const { return storage::latency_path(domain()); }
  static std::uint64_t count(const Domain &open, LatencyLevel level, AbortCause outcome,
                             const std::string &site = {}) {
    std::uint64_t sum = 0;
    for (const LatencySeries &one : open.latencies())
      if (one.level == level && one.outcome == outcome && one.site == site)
        sum += one.histogram.count();
    return sum;
  }
  Json stat(int exit_code = 0) {
    const ProgramEnd end = run_tmh({"stat", domain(), "--json"});
    EXPECT_EQ(end.exit_code, exit_code) << end.err;
    const Json document = Json::parse(end.out);
    if (exit_code == 0) expect_valid("stat", document.dump());
    return document;
  }
  MemoryFolder folder_;
};

TEST_F(LatencyOfDomain, FullCountsEveryAttemptByLevelAndOutcome) {
  const Domain open = Domain::open(domain(), timed_options(lab::kEachAttempt));
  const Segment segment = open.map("a.db", raw_pages(64));
  commit(open, segment, 30);
  for (int i = 0; i < 7; ++i) (void)query(open, [&] { return word_of(segment, 1); });
  EXPECT_THROW(atomically(open, [&] { throw std::runtime_error("rolled back"); }),
               std::runtime_error);
  EXPECT_EQ(count(open, LatencyLevel::kPages, AbortCause::kNone), 30u);
  EXPECT_EQ(count(open, LatencyLevel::kQueries, AbortCause::kNone), 7u);
  EXPECT_EQ(count(open, LatencyLevel::kPages, AbortCause::kUser), 1u);
  const Json document = stat();
  EXPECT_EQ(document.at("latency").at("pages").at("count"), 30);
  EXPECT_GT(document.at("latency").at("pages").at("p50_ns"), 0);
  EXPECT_GE(document.at("latency").at("pages").at("max_ns"),
            document.at("latency").at("pages").at("p999_ns"));
  EXPECT_EQ(document.at("latencies").size(), 3u);
  EXPECT_NE(run_tmh({"stat", domain()}).out.find("pages, aborted: user"), std::string::npos);
  EXPECT_NE(run_tmh({"stat", domain(), "--csv"}).out.find(",latency_pages_p99_ns,"),
            std::string::npos);
}

TEST_F(LatencyOfDomain, SitesHaveTheirOwnAtBothLevels) {
  const Domain open = Domain::open(domain(), timed_options(lab::kEachAttempt, Levels::kHybrid));
  const Segment segment = open.map("a.db", raw_pages(64));
  auto &cell = *reinterpret_cast<field<long> *>(segment.data());
  const Site small(open, "small", "never"), large(open, "large", "always");
  for (int i = 0; i < 20; ++i) atomically(small, [&](Fields) { cell += 1; });
  for (int i = 0; i < 5; ++i) atomically(large, [&](Fields) { cell += 1; });
  bool failed = false;
  atomically(small, [&](Fields) {
    cell += 1;
    if (!std::exchange(failed, true)) throw detail::LineAbort{};
  });
  EXPECT_EQ(count(open, LatencyLevel::kLines, AbortCause::kNone, "small"), 21u);
  EXPECT_EQ(count(open, LatencyLevel::kPages, AbortCause::kNone, "large"), 5u);
  EXPECT_EQ(count(open, LatencyLevel::kPages, AbortCause::kNone), 0u) << "of no site";
  EXPECT_EQ(small.report().line_commits, 21u);
  EXPECT_GT(small.report().line_ns, 0u);
}

TEST_F(LatencyOfDomain, TheDeadsStayAndALaterProcessInTheirSlotBeginsAtNothing) {
  const Domain open = Domain::open(domain(), timed_options(lab::kEachAttempt));
  for (const std::uint64_t times : {1u, 2u, 3u}) {
    in_domain(domain(), timed_options(lab::kEachAttempt), Ending::kKilled,
              [](const Domain &d, const Segment &s) { commit(d, s, 50); });
    (void)open.collect();  // reaps it
    EXPECT_EQ(count(open, LatencyLevel::kPages, AbortCause::kNone), 50 * times);
    for (const LatencySeries &one : open.latencies()) EXPECT_EQ(one.slot, LatencySeries::kGone);
  }
  in_domain(domain(), timed_options(lab::kEachAttempt), Ending::kClosed,
            [](const Domain &d, const Segment &s) { commit(d, s, 50); });
  EXPECT_EQ(count(open, LatencyLevel::kPages, AbortCause::kNone), 200u);
  EXPECT_EQ(stat().at("latency").at("pages").at("count"), 200);
}

TEST_F(LatencyOfDomain, DurableWritesOfTheLogAreTimed) {
  const Domain open = Domain::open(domain(), durable_options());
  const Segment segment = open.map("a.db", raw_pages(64));
  commit(open, segment, 10);
  EXPECT_GE(stat().at("latency").at("log").at("count"), 10) << "strict, and alone";
  EXPECT_GE(count(open, LatencyLevel::kLog, AbortCause::kNone), 10u);
}

TEST_F(LatencyOfDomain, CommitsOfLevelOneAreCountedForTheirParticipantAndOutliveIt) {
  const Domain open = Domain::open(domain(), timed_options(lab::kEachAttempt, Levels::kHybrid));
  const Segment segment = open.map("a.db", raw_pages(64));
  const auto work = [](const Domain &d, const Segment &s) {
    const Site site(d, "small", "never");
    auto &cell = *reinterpret_cast<field<long> *>(s.data());
    for (int i = 0; i < 20; ++i) atomically(site, [&](Fields) { cell += 1; });
    EXPECT_THROW(atomically(site, [&](Fields) { throw std::runtime_error("rolled back"); }),
                 std::runtime_error);
  };
  for (const std::uint64_t times : {1u, 2u}) {
    in_domain(domain(), {}, Ending::kKilled, work);
    EXPECT_EQ(open.counters().line_commits, 20 * times);
    EXPECT_EQ(open.counters().line_aborts[static_cast<std::size_t>(AbortCause::kUser)], times);
  }
  const Json before = stat();
  EXPECT_EQ(before.at("total").at("line_commits"), 40);
  work(open, segment);
  const Json after = stat();
  for (const Json &one : after.at("participants")) {
    if (one.at("pid") != getpid()) continue;
    EXPECT_EQ(one.at("counters").at("line_commits"), 20)
        << "and not those of who had the context before";
    EXPECT_EQ(one.at("counters").at("line_aborts").at("user"), 1);
  }
}

TEST_F(LatencyOfDomain, OutlivesTheDeathOfAllAndGoesWithTheLastWhoCloses) {
  in_domain(domain(), timed_options(lab::kEachAttempt), Ending::kKilled,
            [](const Domain &d, const Segment &s) { commit(d, s, 50); });
  EXPECT_EQ(stat().at("latency").at("pages").at("count"), 50);
  in_domain(domain(), timed_options(lab::kEachAttempt), Ending::kClosed,
            [&](const Domain &d, const Segment &s) {
              commit(d, s, 5);
              EXPECT_EQ(count(d, LatencyLevel::kPages, AbortCause::kNone), 55u);
            });
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(LatencyOfDomain, OffRecordsNothingAndWrongValuesAreRefused) {
  {
    const Domain open = Domain::open(domain(), timed_options(Latency::kOff));
    const Segment segment = open.map("a.db", raw_pages(64));
    commit(open, segment, 5);
    EXPECT_TRUE(open.latencies().empty());
    EXPECT_FALSE(std::filesystem::exists(file()));
    EXPECT_EQ(stat().at("latency").at("pages").at("count"), 0);
  }
  setenv("TMH_LATENCY", "always", 1);
  std::error_code ec;
  (void)Domain::open(domain(), {}, ec);
  EXPECT_EQ(ec, make_error_code(Errc::kBadArgument));
  setenv("TMH_LATENCY", "full", 1);
  const Domain open = Domain::open(domain());
  const Segment segment = open.map("a.db", raw_pages(64));
  commit(open, segment, 5);
  EXPECT_EQ(count(open, LatencyLevel::kPages, AbortCause::kNone), 5u);
  unsetenv("TMH_LATENCY");
}

TEST_F(LatencyOfDomain, AnotherVersionIsRefusedWhileInUseAndElseMadeAnew) {
  in_domain(domain(), timed_options(lab::kEachAttempt), Ending::kKilled,
            [](const Domain &d, const Segment &s) { commit(d, s, 50); });
  patch_file(file(), 8, std::string(1, 'x'));
  EXPECT_EQ(stat(3).value("error", ""), "kForeignVersion");
  {
    const Domain open = Domain::open(domain(), timed_options(lab::kEachAttempt));
    EXPECT_TRUE(open.latencies().empty()) << "nobody used it";
    patch_file(file(), 8, std::string(1, 'x'));
    in_domain(folder_ / "other", {}, Ending::kClosed, [&](const Domain &, const Segment &) {
      std::error_code ec;
      (void)Domain::open(domain(), {}, ec);
      EXPECT_EQ(ec, make_error_code(Errc::kForeignVersion));
      (void)Domain::open(domain(), timed_options(Latency::kOff), ec);
      EXPECT_FALSE(ec) << "who records nothing needs none";
    });
    patch_file(file(), 8, std::string(1, static_cast<char>(storage::kLatencyVersion)));
  }
}

TEST_F(LatencyOfDomain, HostileBytesStopNobody) {
  in_domain(domain(), timed_options(lab::kEachAttempt), Ending::kKilled,
            [](const Domain &d, const Segment &s) { commit(d, s, 50); });
  const std::string whole = read_file(file());
  std::mt19937_64 random(seed());
  for (int round = 0; round < 12; ++round) {
    std::string bytes = whole.substr(0, round % 3 == 2 ? random() % whole.size() : whole.size());
    const std::size_t to =
        std::min<std::size_t>(bytes.size(), sizeof(storage::LatencyHeaderV1) + 16 * 4096);
    for (int i = 0; i < 4000 && to > 64; ++i)
      bytes[64 + random() % (to - 64)] = static_cast<char>(random());
    write_file(file(), bytes);
    (void)stat();
    in_domain(domain(), timed_options(lab::kEachAttempt), Ending::kKilled,
              [](const Domain &d, const Segment &s) { commit(d, s, 5); });
    EXPECT_GE(stat().at("latency").at("pages").at("count").get<std::uint64_t>(), 5u);
  }
}

}  // namespace
}  // namespace tmh::test
