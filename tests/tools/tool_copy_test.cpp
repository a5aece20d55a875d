// tests/tools/tool_copy_test.cpp -- tmh copy, and the name of a backup.
// Invariants: (1) a copy is a sound, closed domain with a prefix of the commits that holds all made
//             before it began. (2) the target's name is there only when all of the copy is: after
//             kills at any time, errors and a full disk there is none. (3) nothing that exists is
//             touched, and the source stays as it was.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "programs/json.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"
#include "tools/domain_files.h"

namespace tmh::test {
namespace {

using programs::Json;
namespace fs = std::filesystem;

class ToolCopy : public ::testing::Test {
 protected:
  std::string domain() const { return folder_ / "domain"; }
  std::string copy() const { return folder_ / "copy"; }
  void make() const {
    in_domain(domain(), durable_options(), Ending::kClosed,
              [](const Domain &d, const Segment &s) { commit(d, s, 100); });
  }
  Json run(const std::vector<std::string> &words, int exit_code) const {
    std::vector<std::string> all = {"copy"};
    all.insert(all.end(), words.begin(), words.end());
    all.emplace_back("--json");
    const ProgramEnd end = run_tmh(all);
    EXPECT_EQ(end.exit_code, exit_code) << end.out << end.err;
    return Json::parse(end.out, Json::IfBroken::kDiscard);
  }
  std::vector<std::string> beside() const {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(folder_.path()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  void expect_refused(const std::string &to) const {
    const std::vector<std::string> before = beside();
    EXPECT_EQ(run({domain(), to}, 3).value("error", ""), "kBadArgument") << to;
    EXPECT_EQ(beside(), before);
  }
  MemoryFolder folder_;
};

TEST_F(ToolCopy, AClosedDomain) {
  make();
  const Json report = run({domain(), copy() + "/"}, 0);
  EXPECT_GE(report.at("files"), 4);
  EXPECT_EQ(beside(), (std::vector<std::string>{"copy", "domain"}));
  const Json check = Json::parse(run_tmh({"check", copy(), "--json"}).out);
  EXPECT_EQ(run_tmh({"check", copy()}).exit_code, 0) << check;
  const ProgramEnd verified = run_tmh({"log", "verify", copy()});
  EXPECT_EQ(verified.exit_code, 0) << verified.out;
  in_domain(copy(), {}, Ending::kClosed, [](const Domain &d, const Segment &s) {
    EXPECT_EQ(d.recovery().transactions, 0u) << "it had been recovered";
    EXPECT_EQ(read_word(d, s, 36), 100u);
    commit(d, s, 3);
  });
  in_domain(domain(), {}, Ending::kClosed,
            [](const Domain &d, const Segment &s) { EXPECT_EQ(read_word(d, s, 36), 100u); });
}

TEST_F(ToolCopy, AKilledDomainIsRecoveredFirst) {
  in_domain(domain(), durable_options(), Ending::kKilled,
            [](const Domain &d, const Segment &s) { commit(d, s, 100); });
  (void)run({domain(), copy()}, 0);
  in_domain(copy(), {}, Ending::kClosed,
            [](const Domain &d, const Segment &s) { EXPECT_EQ(read_word(d, s, 36), 100u); });
}

// Pairs of words that are always equal, and count the commits.
TEST_F(ToolCopy, ALiveDomainStaysLiveAndTheCopyIsOneMoment) {
  Shared<std::atomic<std::uint64_t>> acknowledged, stop;
  Children children;
  for (unsigned writer = 0; writer < 2; ++writer)
    children.spawn("writer", [&, writer] {
      const Domain open = Domain::open(domain(), durable_options());
      const Segment segment = open.map("a.db", raw_pages(64));
      while (stop->load() == 0) {
        atomically(open, [&] {
          ++word_of(segment, 1);
          for (std::uint64_t page = 2; page < 10; ++page)
            word_of(segment, page) = word_of(segment, 1);
          ++word_of(segment, 20 + writer);
        });
        acknowledged->fetch_add(1);
      }
    });
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t before = acknowledged->load();
    while (acknowledged->load() < before + 20) usleep(1000);
    const std::uint64_t begun = acknowledged->load();
    const std::string to = copy() + std::to_string(round);
    (void)run({domain(), to}, 0);
    in_domain(to, {}, Ending::kClosed, [&](const Domain &d, const Segment &s) {
      query(d, [&] {
        const std::uint64_t commits = word_of(s, 1);
        EXPECT_GE(commits, begun);
        for (std::uint64_t page = 2; page < 10; ++page) EXPECT_EQ(word_of(s, page), commits);
        EXPECT_EQ(word_of(s, 20) + word_of(s, 21), commits);
      });
    });
  }
  stop->store(1);
  children.expect_success();
}

TEST_F(ToolCopy, TargetsThatWillNotDoAreRefused) {
  make();
  fs::create_directory(folder_ / "there");
  write_file(folder_ / "file", "x");
  fs::create_symlink("nowhere", folder_ / "link");
  fs::create_directory_symlink(domain(), folder_ / "into");
  fs::create_directory(folder_ / "a.copying");
  fs::create_directory(folder_ / "b.copying.incomplete");
  for (const char *name : {"there", "there/", "file", "link", "domain", "domain/copy",
                           "domain/../domain/x", "into/copy", "a", "b"})
    expect_refused(folder_ / name);
  EXPECT_EQ(run_tmh({"backup", domain(), domain() + "/x"}).exit_code, 3);
  EXPECT_EQ(run({domain(), folder_ / "no/such/parent"}, 3).value("error", ""), "kIo");
  EXPECT_EQ(run_tmh({"check", domain()}).exit_code, 0);
}

TEST_F(ToolCopy, DomainsThatWillNotDoAreRefused) {
  EXPECT_EQ(run({domain(), copy()}, 3).value("error", ""), "kNotADomain");
  in_domain(domain(), {}, Ending::kClosed,
            [](const Domain &d, const Segment &s) { commit(d, s, 5); });
  const Json refused = run({domain(), copy()}, 3);
  EXPECT_EQ(refused.value("error", ""), "kNotDurable");
  EXPECT_NE(refused.value("message", "").find("volatile"), std::string::npos);
  EXPECT_EQ(beside(), std::vector<std::string>{"domain"});
}

TEST_F(ToolCopy, AFullDiskLeavesNothing) {
  in_domain(domain(), durable_options(), Ending::kClosed,
            [](const Domain &d, const Segment &s) { commit(d, s, 100); });
  Children children;
  constexpr int kMayNotMount = 77;
  const std::size_t child = children.spawn("copy", [&] {
    const std::string small = folder_ / "small";
    fs::create_directory(small);
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmh-test", small.c_str(), "tmpfs", 0, "size=64k") != 0)
      ::_exit(kMayNotMount);
    EXPECT_EQ(run({domain(), small + "/copy"}, 3).value("error", ""), "kDiskFull");
    EXPECT_TRUE(fs::is_empty(small));
    EXPECT_EQ(run_tmh({"backup", domain(), small + "/copy"}).exit_code, 3);
    EXPECT_TRUE(fs::is_empty(small));
  });
  const ChildEnd end = children.wait(child);
  if (end.exit_code == kMayNotMount) GTEST_SKIP() << "needs the right to mount a small tmpfs";
  EXPECT_TRUE(end.succeeded());
}

TEST_F(ToolCopy, KilledAtAnyTimeItIsThereWholeOrNot) {
  make();
  const auto start = std::chrono::steady_clock::now();
  (void)run({domain(), copy()}, 0);
  const auto whole_us = std::chrono::duration_cast<std::chrono::microseconds>(
                            std::chrono::steady_clock::now() - start)
                            .count();
  fs::remove_all(copy());
  std::mt19937_64 random(seed());
  unsigned whole = 0, interrupted = 0;
  for (int round = 0; round < 16; ++round) {
    Children children;
    const std::size_t tool = children.spawn("tmh copy", [this] {
      const int nothing = ::open("/dev/null", O_WRONLY);
      (void)::dup2(nothing, STDOUT_FILENO);
      const std::string program = TMH_TOOL;
      (void)::execl(program.c_str(), program.c_str(), "copy", domain().c_str(), copy().c_str(),
                    nullptr);
    });
    usleep(static_cast<useconds_t>(random() % static_cast<std::uint64_t>(whole_us + whole_us / 2)));
    children.bury(tool);
    // Its worker dies with it, but for the system call that it is in.
    ASSERT_TRUE(poll_until([this] { return tools::live_participants(domain()).empty(); }));
    if (fs::exists(copy())) {
      ++whole;
      EXPECT_EQ(run_tmh({"check", copy()}).exit_code, 0);
      in_domain(copy(), {}, Ending::kClosed, [](const Domain &d, const Segment &s) {
        EXPECT_EQ(d.recovery().transactions, 0u);
        EXPECT_EQ(read_word(d, s, 36), 100u);
      });
    } else {
      ++interrupted;
    }
    for (const char *left : {"", ".copying", ".incomplete", ".copying.incomplete"})
      fs::remove_all(copy() + left);
  }
  std::printf("%u whole, %u interrupted\n", whole, interrupted);
  (void)run({domain(), copy()}, 0);
}

}  // namespace
}  // namespace tmh::test
