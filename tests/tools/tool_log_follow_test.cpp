// tests/tools/tool_log_follow_test.cpp -- tmh log follow: transactions printed as they become
// durable.
// Invariants: (1) each durable transaction is printed once, in order, while the domain is open;
//             none that is not durable. (2) signals, --count, --until and a reader that goes end
//             it, with status 0 and a last document that says how much it was. (3) gaps are told.
//             (4) "tmh log --follow" is the same.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <sstream>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "programs/json.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/log_follower.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"

namespace tmh::test {
namespace {

using Words = std::vector<std::string>;
using Json = programs::Json;

std::vector<Json> documents(const std::string &text) {
  std::vector<Json> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(Json::parse(line));
  return all;
}

std::vector<std::uint64_t> stamps(const std::string &text) {
  std::vector<std::uint64_t> all;
  for (const Json &one : documents(text))
    if (one.value("type", "") == "transaction") all.push_back(one["stamp"]);
  return all;
}

class ToolLogFollow : public testing::Test {
 protected:
  void SetUp() override {
    in_domain(domain(), durable_options(), Ending::kClosed,
              [](const Domain &d, const Segment &s) { commit(d, s, 10); });
  }
  [[nodiscard]] ProgramEnd follow(Words more) const {
    Words words{"log", "follow", domain(), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return run_tmh(words);
  }
  [[nodiscard]] std::string domain() const { return folder_ / "domain"; }
  MemoryFolder folder_;
};

TEST_F(ToolLogFollow, PrintsWhatIsDurableUntilASignal) {
  std::size_t wanted = 10;
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string out = folder_ / "out";
    write_file(out, "");
    Children children;
    const Domain open = Domain::open(domain(), durable_options());
    const Segment segment = open.map("a.db", raw_pages(64));
    children.spawn("follower", [&] {
      become_tmh({"log", "follow", domain(), "--json", "--from", "0", "--pages"}, out);
    });
    // Whole lines only: the rest is being written.
    const auto printed = [&] {
      const std::string text = read_file(out);
      return text.substr(0, text.rfind('\n') + 1);
    };
    for (int i = 0; i < 5; ++i) {
      count_up(open, segment, Durability::kStrict);
      ++wanted;
      EXPECT_TRUE(poll_until([&] { return stamps(printed()).size() == wanted; })) << printed();
    }
    children.kill(0, signal);
    EXPECT_TRUE(children.wait(0).succeeded());
    const std::vector<Json> all = documents(read_file(out));
    ASSERT_FALSE(all.empty());
    const auto transactions = stamps(read_file(out));
    EXPECT_TRUE(std::is_sorted(transactions.begin(), transactions.end()));
    EXPECT_EQ(all.back()["type"], "end");
    EXPECT_EQ(all.back()["transactions"], wanted);
    EXPECT_EQ(all.back()["gaps"], 0);
    // The same as what the log's dump says, but for the end.
    const ProgramEnd dump = run_tmh({"log", "dump", domain(), "--json", "--from", "0", "--pages"});
    const std::string followed = read_file(out);
    EXPECT_EQ(dump.out.substr(0, dump.out.rfind("{\"type\":\"end\"")),
              followed.substr(0, followed.rfind("{\"type\":\"end\"")));
  }
}

TEST_F(ToolLogFollow, EndsByItself) {
  const std::string all = follow({"--from", "0", "--count", "10"}).out;
  const std::vector<Json> lines = documents(all);
  ASSERT_EQ(stamps(all).size(), 10u);
  for (const Json &one : lines) {
    if (one["type"] != "transaction") continue;
    const std::string stamp = std::to_string(one["stamp"].get<std::uint64_t>());
    const std::string end = std::to_string(one["end"].get<std::uint64_t>());
    const std::string lsn = std::to_string(one["lsn"].get<std::uint64_t>());
    EXPECT_EQ(stamps(follow({"--from", "0", "--until", end}).out).back(), one["stamp"]);
    EXPECT_EQ(stamps(follow({"--from", lsn, "--count", "1"}).out).front(), one["stamp"]);
    if (one["stamp"] == stamps(all).back()) continue;
    EXPECT_GT(stamps(follow({"--from-stamp", stamp, "--count", "1"}).out).front(), one["stamp"]);
  }
  const Words same{domain(), "--from", "0", "--count", "10"};
  Words one{"log", "follow"}, other{"log", "--follow"};
  one.insert(one.end(), same.begin(), same.end());
  other.insert(other.end(), same.begin(), same.end());
  const ProgramEnd text = run_tmh(one);
  EXPECT_EQ(text.out, run_tmh(other).out);
  EXPECT_NE(text.out.find("10 transactions"), std::string::npos) << text.out;
  EXPECT_EQ(text.exit_code, 0);
}

TEST_F(ToolLogFollow, EndsWhenNoReaderIsLeft) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Children children;
  children.spawn("follower", [&] {
    ::close(ends[0]);
    become_tmh({"log", "follow", domain(), "--from", "0"},
               "/proc/self/fd/" + std::to_string(ends[1]));
  });
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  ::close(ends[0]);
  EXPECT_TRUE(children.wait(0).succeeded());
}

TEST_F(ToolLogFollow, TellsAGap) {
  in_domain(domain(), durable_options(), Ending::kClosed, [](const Domain &d, const Segment &s) {
    for (int i = 0; i < 8; ++i) {
      for (int k = 0; k < 5; ++k) count_up(d, s, Durability::kStrict, 30'000);
      d.checkpoint();
    }
  });
  const std::vector<Json> all = documents(follow({"--from", "5000", "--count", "1"}).out);
  ASSERT_GE(all.size(), 3u);
  EXPECT_EQ(all[0]["type"], "skipped");
  EXPECT_EQ(all[0]["from"], 5000);
  EXPECT_EQ(all[0]["to"], all[1]["lsn"]);
  EXPECT_EQ(all.back()["gaps"], 1);
}

TEST_F(ToolLogFollow, RefusesWhatIsNotThere) {
  const ProgramEnd behind = follow({"--from", "99999999"});
  EXPECT_EQ(behind.exit_code, 3);
  EXPECT_NE(behind.err.find("behind the end of the log"), std::string::npos) << behind.err;
  EXPECT_EQ(follow({"--from", "1", "--from-stamp", "1"}).exit_code, 64);
  EXPECT_EQ(run_tmh({"log", "follow", folder_ / "none"}).exit_code, 3);
}

}  // namespace
}  // namespace tmh::test
