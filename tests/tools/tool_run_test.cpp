// tests/tools/tool_run_test.cpp -- tmh run: every workload at every level, policies, deaths, broken
// content, wrong command lines.
// Invariants: (1) as many operations happen as were asked for, and each workload's invariant holds.
//             (2) a killed worker stops nobody and breaks nothing; a killed parent takes its
//             workers along. (3) content that is broken, before or during a run, is told, and by
//             the exit status. (4) a domain that was named stays and goes on; a temporary one
//             leaves nothing. (5) the distributions are what they are called.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "examples/workloads/random.hpp"
#include "examples/workloads/workload.hpp"
#include "programs/json.h"
#include "tests/support/children.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"
#include "tools/run/latency.h"

namespace tmh::test {
namespace {

using programs::Json;
namespace fs = std::filesystem;

constexpr std::uint64_t kContentAt = (1 + workloads::kWorkersMax) * kPageBytes;

Json run_json(std::vector<std::string> words, int exit_code = 0) {
  words.insert(words.begin(), "run");
  words.emplace_back("--json");
  const ProgramEnd end = run_tmh(words);
  EXPECT_EQ(end.exit_code, exit_code) << end.out << end.err;
  const Json document = Json::parse(end.out, Json::IfBroken::kDiscard);
  if (document.contains("document")) expect_valid("run", document.dump());
  return document;
}

// tmh in a child of this process, so that signals can be sent to it.
std::size_t start(Children &children, std::vector<std::string> words, const std::string &out) {
  words.insert(words.begin(), "run");
  return children.spawn("tmh run", [words, out] { become_tmh(words, out); });
}

// Pids of the workers that have the domain open.
std::vector<pid_t> workers_of(const std::string &domain) {
  std::vector<pid_t> workers;
  const ProgramEnd end = run_tmh({"stat", domain, "--json"});
  if (end.exit_code != 0) return workers;  // not made yet
  const Json document = Json::parse(end.out);
  for (const Json &one : document.at("participants"))
    if (one.at("alive") == true && one.at("name") == "tmh run: worker")
      workers.push_back(one.at("pid"));
  return workers;
}

template <class Condition>
void await(const Condition &condition) {
  const auto deadline = std::chrono::steady_clock::now() + hang_deadline();
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "hung";
    usleep(10'000);
  }
}
void await_workers(const std::string &domain, std::size_t count) {
  await([&] { return workers_of(domain).size() == count; });
}

// The run's content, as another participant sees it.
class Watcher {
 public:
  explicit Watcher(const std::string &domain) : domain_(Domain::open(domain)) {
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    segment_ = domain_.map("run.db", raw);
  }
  // All workers' committed updates.
  [[nodiscard]] std::uint64_t updates() const {
    return query(domain_, [&] {
      std::uint64_t sum = 0;
      for (unsigned i = 0; i < workloads::kWorkersMax; ++i) sum += word(kPageBytes * (1 + i));
      return sum;
    });
  }
  void await_updates(std::uint64_t more) const {
    const std::uint64_t due = updates() + more;
    await([&] { return updates() >= due; });
  }
  void break_word(std::uint64_t at) const {
    atomically(domain_, [&] { ++word(at); });
  }

 private:
  [[nodiscard]] std::uint64_t &word(std::uint64_t at) const {
    return *reinterpret_cast<std::uint64_t *>(segment_.data() + at);
  }
  Domain domain_;
  Segment segment_;
};

class ToolRunWorkload : public ::testing::TestWithParam<std::string> {};

TEST_P(ToolRunWorkload, HoldsAtEveryLevel) {
  for (const std::string level : {"line", "page", "hybrid"}) {
    SCOPED_TRACE(level);
    const Json document =
        run_json({GetParam(), "--operations", "501", "--level", level, "--threads", "2"});
    EXPECT_EQ(document.at("operations"), 501);
    EXPECT_EQ(document.at("invariant").at("holds"), true);
    const Json &commits = document.at("commits");
    EXPECT_GE(commits.at("line").get<int>() + commits.at("page").get<int>() +
                  commits.at("query").get<int>(),
              501)
        << "each is one instance";
    if (level != "hybrid") {
      EXPECT_EQ(commits.at(level == "line" ? "page" : "line"), 0);
    }
    EXPECT_EQ(document.at("latency_ns").at("samples"), 501);
    EXPECT_GE(document.at("latency_ns").at("max"), document.at("latency_ns").at("p99_9"));
    EXPECT_GE(document.at("latency_ns").at("p99_9"), document.at("latency_ns").at("p50"));
    EXPECT_GT(document.at("latency_ns").at("p50"), 0);
  }
}

// What each workload's check is there for.
TEST_P(ToolRunWorkload, BrokenContentIsTold) {
  const MemoryFolder folder;
  const std::string domain = folder / "domain";
  (void)run_json({GetParam(), "--operations", "100", "--domain", domain});
  const bool is_set = GetParam() == "list" || GetParam() == "tree" || GetParam() == "hash";
  // Sets: their first worker's tally claims a key. YCSB: a word of a field. Others: a balance or
  //       word.
  Watcher(domain).break_word(is_set ? kPageBytes + 8
                                    : kContentAt + (GetParam().starts_with("ycsb") ? 72 : 0));
  const Json document = run_json({GetParam(), "--operations", "100", "--domain", domain}, 2);
  EXPECT_EQ(document.at("error"), "kCorrupt");
}

TEST_P(ToolRunWorkload, ContentThatClaimsMorePortionsThanThereAreIsTold) {
  const MemoryFolder folder;
  const std::string domain = folder / "domain";
  (void)run_json({GetParam(), "--operations", "100", "--domain", domain});
  Watcher(domain).break_word(24);  // the header's count of portions made
  const Json document = run_json({GetParam(), "--operations", "100", "--domain", domain}, 2);
  EXPECT_EQ(document.at("error"), "kCorrupt");
}

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const workloads::Description &one : workloads::descriptions()) names.emplace_back(one.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, ToolRunWorkload, ::testing::ValuesIn(workload_names()),
                         [](const auto &one) {
                           std::string name = one.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(ToolRun, HoldsUnderPolicies) {
  const std::vector<std::vector<std::string>> choices = {
      {"--level", "page", "--detection", "eager", "--tracking", "signal", "--conflict",
       "youngest-wins,fresh-age"},
      {"--durability", "strict", "--processes", "3"},
      {"--durability", "buffered", "--level", "line"},
      {"--capacity", "32KiB/8/64", "--escalation", "on-capacity", "--cross", "abort-upper"},
      {"--escalation", "after-n=2", "--conflict", "selfish-abort", "--backoff", "exponential",
       "--skew", "0.9"},
      {"--level", "page", "--threads", "3", "--thread-views", "always", "--backoff", "none"},
      {"--line-mode", "software", "--cross", "wait-for-upper", "--reads", "50", "--size", "300",
       "--seed", "7"}};
  for (const std::string workload : {"mixed", "bank"}) {
    for (std::vector<std::string> words : choices) {
      SCOPED_TRACE(words[1]);
      words.insert(words.begin(), {workload, "--operations", "400"});
      const Json document = run_json(words);
      EXPECT_EQ(document.at("operations"), 400);
      EXPECT_EQ(document.at("invariant").at("holds"), true);
    }
  }
  const Json tight = run_json({"mixed", "--operations", "2000", "--reads", "0", "--capacity",
                               "4KiB/8/64", "--escalation", "on-capacity"});
  EXPECT_GT(tight.at("escalations").at("capacity"), 0) << "huge updates do not fit";
  EXPECT_GT(tight.at("aborts").at("capacity"), 0);
}

TEST(ToolRun, RtmSaysWhetherItWorks) {
  const ProgramEnd end = run_tmh({"run", "bank", "--line-mode", "rtm", "--operations", "100"});
  if (end.exit_code == 0) return;
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_NE(end.err.find("kRtmUnavailable"), std::string::npos) << end.err;
}

TEST(ToolRun, ADomainThatWasNamedStaysAndGoesOn) {
  const MemoryFolder folder;
  const std::string domain = folder / "domain";
  for (int round = 0; round < 2; ++round)
    EXPECT_EQ(run_json({"ycsb-d", "--operations", "300", "--reads", "0", "--size", "100",
                        "--domain", domain})
                  .at("domain"),
              domain);
  EXPECT_EQ(run_tmh({"check", domain}).exit_code, 0);
  EXPECT_EQ(run_json({"ycsb-a", "--operations", "10", "--size", "100", "--domain", domain})
                .at("operations"),
            10)
      << "the same content";
  EXPECT_EQ(run_json({"ycsb-a", "--operations", "10", "--domain", domain}, 3).at("error"),
            "kBadArgument");
  EXPECT_EQ(run_json({"bank", "--operations", "10", "--domain", domain}, 3).at("error"),
            "kBadArgument");
  EXPECT_EQ(run_json({"tpcb", "--operations", "10", "--domain", domain}, 3).at("error"),
            "kBadArgument");
}

TEST(ToolRun, ATemporaryDomainLeavesNothing) {
  const MemoryFolder folder;
  ASSERT_EQ(::setenv("TMPDIR", folder.path().c_str(), 1), 0);
  (void)run_json({"hash", "--operations", "10"});
  (void)run_json({"hash", "--operations", "10", "--tracking", "kernel", "--detection", "eager"}, 3);
  ASSERT_EQ(::unsetenv("TMPDIR"), 0);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(ToolRun, WrongCommandLinesAreRefused) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"ycsb-g"},
      {"bank", "--processes", "0"},
      {"bank", "--processes", "257"},
      {"bank", "--processes", "16", "--threads", "17"},
      {"bank", "--seconds", "1", "--operations", "1"},
      {"bank", "--seconds", "0"},
      {"bank", "--seconds", "nan"},
      {"bank", "--operations", "-1"},
      {"bank", "--operations", "0"},
      {"bank", "--size", "0"},
      {"bank", "--size", "18446744073709551616"},
      {"bank", "--size", "100000001"},
      {"bank", "--skew", "1"},
      {"bank", "--skew", "-0.5"},
      {"bank", "--skew", "nan"},
      {"bank", "--reads", "101"},
      {"tpcb", "--reads", "10"},
      {"tpcb", "--skew", "0.5"},
      {"bank", "--level", "extent"},
      {"bank", "--level", "line", "--escalation", "adaptive"},
      {"bank", "--level", "page", "--line-mode", "software"},
      {"bank", "--level", "page", "--cross", "abort-lower"},
      {"bank", "--level", "page", "--capacity", "l1d"},
      {"bank", "--capacity", "bogus"},
      {"bank", "--capacity", ""},
      {"bank", "--domain", ""},
      {"bank", "--conflict", "keep-age,keep-age"},
      {"bank", "--conflict", "backoff=none", "--backoff", "adaptive"},
      {"bank", "--durability", "paranoid"},
      {"bank", "--conflict", "strongest-wins"},
      {"bank", "--backoff", "backoff=none"},
      {"bank", "--escalation", "sometimes"},
      {"bank", "--tracking", "guess"},
      {"bank", "--json", "--csv"}};
  for (std::vector<std::string> words : wrong) {
    std::string line = "run";
    for (const std::string &word : words) line += " " + word;
    words.insert(words.begin(), "run");
    EXPECT_EQ(run_tmh(words).exit_code, 64) << line;
  }
}

TEST(ToolRun, AWrongValueIsToldWithTheRightOnes) {
  const auto expect_told = [](const std::string &option, const std::string &value,
                              const std::string &right) {
    const ProgramEnd end = run_tmh({"run", "bank", option, value});
    const std::string said = end.out + end.err;
    EXPECT_EQ(end.exit_code, 64) << said;
    EXPECT_NE(said.find(right), std::string::npos) << said;
    EXPECT_LT(said.size(), 500u) << said;
  };
  expect_told("--operations", "0", "--operations: 0 is no number from 1 to 18446744073709551615");
  expect_told("--size", "-1", "--size: -1 is no number from 1 to 18446744073709551615");
  expect_told("--capacity", "bogus",
              "--capacity: 'bogus'; right values: unlimited, l1d, or <size>KiB");
  expect_told("--conflict", "oldest-wins,oldest-wins", "one of self-abort, oldest-wins");
  expect_told("--domain", "", "--domain: the folder has an empty name");
}

TEST(ToolRun, AFolderForTemporaryFilesThatWillNotDoIsNamed) {
  const MemoryFolder folder;
  write_file(folder / "file", "x");
  for (const std::string &value : {folder / "missing", folder / "file"}) {
    for (const std::string command : {"run bank --operations 1", "doctor"}) {
      const ProgramEnd end =
          run_program({"/bin/sh", "-c", "TMPDIR='" + value + "' exec " TMH_TOOL " " + command});
      EXPECT_NE((end.out + end.err).find("TMPDIR=" + value), std::string::npos)
          << end.out << end.err;
      EXPECT_EQ(end.exit_code, command == "doctor" ? 0 : 3);
    }
  }
}

TEST(ToolRun, FoldersThatWillNotDoAreRefused) {
  const MemoryFolder folder;
  write_file(folder / "file", "x");
  EXPECT_EQ(run_json({"bank", "--domain", folder / "file"}, 3).at("error"), "kNotADomain");
  EXPECT_EQ(run_json({"bank", "--domain", folder.path()}, 3).at("error"), "kNotADomain");
  EXPECT_EQ(run_json({"bank", "--domain", folder / "a/b", "--detection", "eager"}, 3).at("error"),
            "kLevelsMismatch");
}

TEST(ToolRun, CsvIsAHeaderAndARow) {
  const std::string out = run_tmh({"run", "tree", "--operations", "50", "--csv"}).out;
  const auto commas = [](const std::string &line) {
    bool quoted = false;
    int count = 0;
    for (const char letter : line) {
      quoted = quoted != (letter == '"');
      count += !quoted && letter == ',' ? 1 : 0;
    }
    return count;
  };
  const std::string header = out.substr(0, out.find('\n')), row = out.substr(out.find('\n') + 1);
  EXPECT_EQ(commas(header), commas(row));
  EXPECT_NE(header.find(",latency_ns_p99_9,"), std::string::npos) << header;
  EXPECT_EQ(row.substr(0, 20), "\"tmh-run-1\",\"tree\",\"");
  EXPECT_NE(run_tmh({"run", "tree", "--operations", "50"})
                .out.find("invariant    holds: the tree is whole"),
            std::string::npos);
}

class ToolRunWatched : public ::testing::Test {
 protected:
  std::string domain() const { return folder_ / "domain"; }
  // What the tool printed, once it has ended.
  Json end_of(std::size_t child, int exit_code) {
    const ChildEnd end = children_.wait(child);
    EXPECT_EQ(end.exit_code, exit_code) << read_file(out_);
    return Json::parse(read_file(out_), Json::IfBroken::kDiscard);
  }
  MemoryFolder folder_;
  const std::string out_ = folder_ / "out";
  Children children_;
};

class ToolRunDeath : public ToolRunWatched,
                     public ::testing::WithParamInterface<std::vector<std::string>> {
 protected:
  static std::vector<std::string> with(const std::vector<std::string> &words) {
    std::vector<std::string> all = GetParam();
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  void expect_goes_on() const {
    EXPECT_EQ(
        run_json(with({"--domain", domain(), "--operations", "100"})).at("invariant").at("holds"),
        true);
  }
};

TEST_P(ToolRunDeath, AKilledWorkerStopsNobodyAndBreaksNothing) {
  const std::size_t tool =
      start(children_,
            with({"--seconds", "10000", "--processes", "3", "--domain", domain(), "--json"}), out_);
  await_workers(domain(), 3);
  {
    const Watcher watcher(domain());
    watcher.await_updates(100);
    ASSERT_EQ(::kill(workers_of(domain())[1], SIGKILL), 0);
    await_workers(domain(), 2);
    watcher.await_updates(100);  // the others go on
  }
  EXPECT_EQ(run_json(with({"--domain", domain()}), 3).at("error"), "kDomainInUse")
      << "a second run";
  children_.kill(tool, SIGINT);
  const Json document = end_of(tool, 0);
  expect_valid("run", document.dump());
  EXPECT_EQ(document.at("interrupted"), true);
  EXPECT_EQ(document.at("invariant").at("holds"), true) << document.at("invariant").at("text");
  int killed = 0;
  for (const Json &worker : document.at("workers"))
    killed += worker.at("signal") == SIGKILL ? 1 : 0;
  EXPECT_EQ(killed, 1);
  expect_goes_on();
}

TEST_P(ToolRunDeath, AKilledParentTakesItsWorkersAlong) {
  const std::size_t tool =
      start(children_, with({"--seconds", "10000", "--domain", domain()}), out_);
  await_workers(domain(), 2);
  Watcher(domain()).await_updates(100);
  children_.bury(tool);
  await_workers(domain(), 0);
  expect_goes_on();
}
INSTANTIATE_TEST_SUITE_P(Some, ToolRunDeath,
                         ::testing::Values(std::vector<std::string>{"bank"},
                                           std::vector<std::string>{"tree", "--level", "line"},
                                           std::vector<std::string>{"tpcb", "--level", "page",
                                                                    "--durability", "buffered"}));

TEST_F(ToolRunWatched, WhatBreaksDuringTheRunIsTold) {
  const std::size_t tool =
      start(children_, {"bank", "--seconds", "10000", "--domain", domain(), "--json"}, out_);
  await_workers(domain(), 2);
  Watcher(domain()).break_word(kContentAt);
  const Json document = end_of(tool, 2);  // a read sees the sum
  EXPECT_EQ(document.at("invariant").at("holds"), false);
  expect_valid("run", document.dump());
}

TEST(ToolRunLatency, QuantilesAreExactBelowTheLimitAndWeightedBeyond) {
  const auto samples = std::make_unique<tools::LatencySamples[]>(2);
  workloads::Random random(1);
  for (std::uint64_t i = 1000; i > 0; --i) samples[0].add(i, random);
  tools::LatencySummary summary = tools::summarize({&samples[0]});
  EXPECT_EQ(summary.samples, 1000u);
  EXPECT_EQ(summary.p50_ns, 500u);
  EXPECT_EQ(summary.p90_ns, 900u);
  EXPECT_EQ(summary.p99_ns, 990u);
  EXPECT_EQ(summary.p999_ns, 999u);
  EXPECT_EQ(summary.max_ns, 1000u);
  // Of so many that half of them are kept: as often 1 as 3, and the other worker's weigh as many as
  // they are.
  constexpr std::uint64_t kMany = 2 * tools::LatencySamples::kKeptMax;
  for (std::uint64_t i = 0; i < kMany; ++i) samples[1].add(i % 2 == 0 ? 1001 : 3000, random);
  summary = tools::summarize({&samples[0], &samples[1]});
  EXPECT_EQ(summary.operations, kMany + 1000);
  EXPECT_EQ(summary.samples, tools::LatencySamples::kKeptMax + 1000);
  EXPECT_EQ(summary.p90_ns, 3000u);
  EXPECT_EQ(summary.max_ns, 3000u);
  EXPECT_EQ(tools::summarize({}).max_ns, 0u);
}

TEST(ToolRunDistribution, ZipfianRanksAreAsOftenAsTheySay) {
  constexpr std::uint64_t kItems = 1000, kDraws = 1'000'000;
  const workloads::Zipfian zipfian(kItems, workloads::Zipfian::kYcsbTheta);
  workloads::Random random(42);
  std::vector<double> counts(kItems);
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const std::uint64_t rank = zipfian.next(random);
    ASSERT_LT(rank, kItems);
    ++counts[rank];
  }
  double zeta = 0;
  for (std::uint64_t i = 1; i <= kItems; ++i)
    zeta += 1 / std::pow(static_cast<double>(i), workloads::Zipfian::kYcsbTheta);
  EXPECT_NEAR(counts[0] / kDraws, 1 / zeta, 0.005);
  EXPECT_NEAR(counts[1] / kDraws, std::pow(0.5, workloads::Zipfian::kYcsbTheta) / zeta, 0.005);
  double upper_half = 0;
  for (std::uint64_t i = kItems / 2; i < kItems; ++i) upper_half += counts[i];
  EXPECT_NEAR(upper_half / kDraws, std::log(2) / zeta, 0.02);
  // The YCSB's constant is the zeta of ten billion: here of the first terms, and an integral for
  // the others.
  double sum = 0;
  constexpr double kTerms = 1e6, kExponent = 1 - workloads::Zipfian::kYcsbTheta;
  for (double i = 1; i <= kTerms; ++i) sum += std::pow(i, -workloads::Zipfian::kYcsbTheta);
  sum += (std::pow(static_cast<double>(workloads::Zipfian::kYcsbItems), kExponent) -
          std::pow(kTerms, kExponent)) /
         kExponent;
  EXPECT_NEAR(sum, workloads::Zipfian::kYcsbZeta, 1e-4);
}

TEST(ToolRunDistribution, SmallOnesStayInside) {
  workloads::Random random(1);
  for (const std::uint64_t items : {1ull, 2ull, 3ull}) {
    for (const double theta : {0.0, 0.5, 0.99}) {
      const workloads::Zipfian ranks(items, theta);
      const workloads::ScrambledZipfian scrambled(items, theta);
      for (int i = 0; i < 1000; ++i) {
        ASSERT_LT(ranks.next(random), items);
        ASSERT_LT(scrambled.next(random), items);
      }
    }
  }
}

}  // namespace
}  // namespace tmh::test
