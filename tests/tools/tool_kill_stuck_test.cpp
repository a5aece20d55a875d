// tests/tools/tool_kill_stuck_test.cpp -- tmh kill-stuck on participants that sleep, are stopped,
// query, or cannot abort.
// Invariants: (1) an instance that was asked ends ABORTED, as by a conflict, and leaves nothing; a
//             later one of the same participant is not hit.
//             (2) queries and irrevocable instances are left alone, and told. (3) nothing is killed
//             without --kill; with it others go on, what the process held is free, and nobody else
//             dies. (4) a stopped holder of the domain's lock hangs the command for a bounded time.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tmh/field.hpp>
#include <tmh/lab.hpp>
#include <tmh/site.hpp>
#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "programs/json.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"

namespace tmh::test {
namespace {

using programs::Json;

struct Flags {
  std::atomic<std::uint32_t> stuck, go_on, aborted, committed;
};

class ToolKillStuck : public ::testing::Test {
 protected:
  std::string domain() const { return folder_ / "domain"; }
  Json ask(std::vector<std::string> words, int exit_code, const std::string &grace_s = "0.2") {
    words.insert(words.begin(), {"kill-stuck", domain(), "--json", "--grace", grace_s});
    const ProgramEnd end = run_tmh(words);
    EXPECT_EQ(end.exit_code, exit_code) << end.out << end.err;
    const Json document = Json::parse(end.out, Json::IfBroken::kDiscard);
    if (document.contains("document")) expect_valid("kill-stuck", document.dump());
    return document;
  }
  Json ask_pid(std::size_t child, int exit_code, std::vector<std::string> more = {},
               const std::string &grace_s = "0.2") {
    more.insert(more.begin(), {"--pid", std::to_string(children_.pid(child))});
    return ask(more, exit_code, grace_s);
  }
  static std::string outcome(const Json &document) {
    EXPECT_EQ(document.at("instances").size(), 1u) << document;
    return document.at("instances").empty()
               ? ""
               : document.at("instances")[0].at("outcome").get<std::string>();
  }
  void await(const std::atomic<std::uint32_t> &flag, std::uint32_t value = 1) {
    const auto deadline = std::chrono::steady_clock::now() + hang_deadline();
    while (flag.load() < value) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "hung";
      usleep(1000);
    }
  }
  // A child that is stuck in an instance which has written 7 to word 0 of page 3.
  std::size_t stick(const DomainOptions &options) {
    const std::size_t child = children_.spawn("stuck", [this, options] {
      const Domain open = Domain::open(domain(), options);
      const Segment segment = open.map("a.db", raw_pages(64));
      auto *word = reinterpret_cast<std::uint64_t *>(segment.data() + 3 * kPageBytes);
      open.begin();
      *word = 7;
      flags_->stuck.store(1);
      await(flags_->go_on);
      (open.end() == Status::kAborted ? flags_->aborted : flags_->committed).store(1);
      EXPECT_EQ(query(open, [&] { return *word; }), flags_->committed.load() != 0 ? 7u : 0u);
      atomically(open, [&] { *word = 9; });  // the next instance is not concerned
      EXPECT_EQ(query(open, [&] { return *word; }), 9u);
    });
    await(flags_->stuck);
    return child;
  }
  void stop(std::size_t child) {
    children_.kill(child, SIGSTOP);
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(children_.pid(child)), &info, WSTOPPED | WNOWAIT),
              0);
  }

  MemoryFolder folder_;
  Shared<Flags> flags_;
  Children children_;
};

DomainOptions lazy_pages() { return {}; }
DomainOptions eager_pages() {
  DomainOptions options;
  options.policies.detection = Detection::kEager;
  options.policies.conflict = "self-abort";  // whoever comes later gives way, without end
  return options;
}
DomainOptions hybrid() {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  return options;
}

class ToolKillStuckUpdate : public ToolKillStuck, public ::testing::WithParamInterface<int> {
 protected:
  static DomainOptions options() {
    return GetParam() == 0 ? lazy_pages() : GetParam() == 1 ? eager_pages() : hybrid();
  }
};
INSTANTIATE_TEST_SUITE_P(LazyEagerHybrid, ToolKillStuckUpdate, ::testing::Values(0, 1, 2));

TEST_P(ToolKillStuckUpdate, ASleeperAbortsAtItsEnd) {
  const std::size_t child = stick(options());
  EXPECT_EQ(outcome(ask_pid(child, 3)), "failed");
  flags_->go_on.store(1);
  children_.expect_success();
  EXPECT_EQ(flags_->aborted.load(), 1u);
}

TEST_P(ToolKillStuckUpdate, AStoppedOneIsKilledOnlyWhenTold) {
  const std::size_t child = stick(options());
  stop(child);
  const Json asked = ask({"--older-than", "0"}, 3);
  EXPECT_EQ(outcome(asked), "failed");
  EXPECT_EQ(asked.at("instances")[0].at("stopped"), true);
  const Json stat = Json::parse(run_tmh({"stat", domain(), "--json"}).out);
  for (const Json &one : stat.at("participants"))
    EXPECT_EQ(one.at("stopped"), one.at("pid") == asked.at("instances")[0].at("pid"));
  EXPECT_NE(run_tmh({"stat", domain()}).out.find(", stopped: "), std::string::npos);
  EXPECT_NE(
      run_tmh({"top", domain(), "--once", "--interval", "0.01"}).out.find("  stopped, update "),
      std::string::npos);
  EXPECT_TRUE(children_.running(child));
  EXPECT_EQ(outcome(ask({"--older-than", "0", "--kill"}, 0)), "killed");
  EXPECT_EQ(children_.wait(child).signal, SIGKILL);
  const Domain open = Domain::open(domain(), options());
  EXPECT_EQ(open.participants().size(), 1u) << "it was reaped";
  const Segment segment = open.map("a.db", raw_pages(64));
  auto *word = reinterpret_cast<std::uint64_t *>(segment.data() + 3 * kPageBytes);
  EXPECT_EQ(query(open, [&] { return *word; }), 0u);
  atomically(open, [&] { *word = 1; });
}

TEST_F(ToolKillStuck, WhoWasAskedInAnEagerDomainHoldsNothingFromOthers) {
  const std::size_t child = stick(eager_pages());
  const Domain open = Domain::open(domain(), eager_pages());
  const Segment segment = open.map("a.db", raw_pages(64));
  auto *word = reinterpret_cast<std::uint64_t *>(segment.data() + 3 * kPageBytes);
  const auto try_once = [&] {
    open.begin();
    *word = 5;
    return open.end();
  };
  EXPECT_EQ(try_once(), Status::kAborted) << "the sleeper was there first";
  EXPECT_EQ(outcome(ask_pid(child, 3)), "failed");
  EXPECT_EQ(try_once(), Status::kCommitted);
  atomically(open, [&] { *word = 0; });  // what the sleeper expects to find
  flags_->go_on.store(1);
  children_.expect_success();
  EXPECT_EQ(flags_->aborted.load(), 1u);
}

TEST_F(ToolKillStuck, OneThatLooksEndsWithinTheGrace) {
  const std::size_t child = children_.spawn("looking", [this] {
    const Domain open = Domain::open(domain());
    const Segment segment = open.map("a.db", raw_pages(64));
    open.begin();
    *segment.data() = std::byte{1};
    flags_->stuck.store(1);
    while (open.validate() == Status::kPending) usleep(1000);
    EXPECT_EQ(open.end(), Status::kAborted);
    EXPECT_EQ(open.counters().aborts[static_cast<std::size_t>(AbortCause::kConflictOther)], 1u);
    await(flags_->go_on);
  });
  await(flags_->stuck);
  EXPECT_EQ(outcome(ask_pid(child, 0, {}, "60")), "aborted");
  EXPECT_TRUE(ask_pid(child, 0).at("instances").empty()) << "it runs none now";
  flags_->go_on.store(1);
  children_.expect_success();
}

TEST_F(ToolKillStuck, AQueryIsLeftAloneAndToldAndFreedByDeath) {
  const auto read = [this] {
    const Domain open = Domain::open(domain());
    const Segment segment = open.map("a.db", raw_pages(64));
    query(open, [&] {
      EXPECT_EQ(word_of(segment, 1), 0u);
      flags_->stuck.fetch_add(1);
      await(flags_->go_on);
      EXPECT_EQ(word_of(segment, 1), 0u) << "its snapshot";
    });
  };
  const std::size_t first = children_.spawn("reader", read),
                    second = children_.spawn("reader to be killed", read);
  await(flags_->stuck, 2);
  const Domain open = Domain::open(domain());
  const Segment segment = open.map("a.db", raw_pages(64));
  atomically(open, [&] { word_of(segment, 1) = 1; });
  EXPECT_EQ(outcome(ask_pid(first, 3)), "query");
  EXPECT_EQ(ask({"--older-than", "0"}, 3).at("instances").size(), 2u);
  EXPECT_EQ(outcome(ask_pid(second, 0, {"--kill"})), "killed");
  EXPECT_EQ(children_.wait(second).signal, SIGKILL);
  EXPECT_GT(open.counters().versions_live, 0u) << "the first one still reads";
  flags_->go_on.store(1);
  EXPECT_TRUE(children_.wait(first).succeeded());
  EXPECT_EQ(open.collect(), 0u);
}

TEST_F(ToolKillStuck, AnIrrevocableInstanceCommits) {
  const std::size_t child = children_.spawn("irrevocable", [this] {
    const Domain open = Domain::open(domain());
    const Segment segment = open.map("a.db", raw_pages(64));
    open.begin();
    word_of(segment, 1) = 5;
    become_irrevocable();
    flags_->stuck.store(1);
    await(flags_->go_on);
    EXPECT_EQ(open.end(), Status::kCommitted);
  });
  await(flags_->stuck);
  EXPECT_EQ(outcome(ask_pid(child, 3)), "irrevocable");
  flags_->go_on.store(1);
  children_.expect_success();
}

TEST_F(ToolKillStuck, AStoppedHolderOfTheLockIsToldInABoundedTime) {
  // Held where it is about to commit, with the domain lock.
  const std::size_t child = children_.spawn("holder", [this] {
    const Domain open = Domain::open(domain());
    const Segment segment = open.map("a.db", raw_pages(64));
    open.begin();
    word_of(segment, 1) = 5;
    observe::set_step_hook([](observe::Step step) {
      if (step == observe::Step::kCommitLocked) (void)::raise(SIGSTOP);
    });
    (void)open.end();
  });
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(children_.pid(child)), &info, WSTOPPED | WNOWAIT), 0);
  const Json asked = ask_pid(child, 3);
  EXPECT_EQ(outcome(asked), "unasked");
  EXPECT_EQ(asked.at("answered"), false);
  EXPECT_EQ(outcome(ask_pid(child, 0, {"--kill"})), "killed");
  EXPECT_EQ(children_.wait(child).signal, SIGKILL);
  const Domain open = Domain::open(domain());
  EXPECT_EQ(open.participants().size(), 1u);
}

// Stopped with its line locked: before its commit point it FAILs, behind it, it cannot. Either way
// its death lets the others go on.
TEST_F(ToolKillStuck, OneThatIsStoppedInItsCommitAtLines) {
  const std::pair<observe::Step, std::string> steps[] = {
      {observe::Step::kLineLock, "failed"}, {observe::Step::kLineCommitPoint, "committed"}};
  for (const auto &[step, expected] : steps) {
    SCOPED_TRACE(expected);
    static observe::Step stop_at;
    stop_at = step;
    const std::size_t child = children_.spawn("committer", [this] {
      const Domain open = Domain::open(domain(), hybrid());
      const Segment segment = open.map("a.db", raw_pages(64));
      auto &field = *reinterpret_cast<tmh::field<std::uint64_t> *>(segment.data());
      const Site site(open, "committer", "never");
      observe::set_step_hook([](observe::Step at) {
        if (at == stop_at) (void)::raise(SIGSTOP);
      });
      atomically(site, [&](Fields) { ++field; });
    });
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(children_.pid(child)), &info, WSTOPPED | WNOWAIT),
              0);
    const Json asked = ask_pid(child, 3);
    EXPECT_EQ(outcome(asked), expected);
    EXPECT_EQ(asked.at("instances")[0].at("level"), "line");
    EXPECT_EQ(outcome(ask_pid(child, 0, {"--kill"})), "killed");
    EXPECT_EQ(children_.wait(child).signal, SIGKILL);
    const Domain open = Domain::open(domain(), hybrid());
    const Segment segment = open.map("a.db", raw_pages(64));
    EXPECT_EQ(query(open, [&] { return word_of(segment, 0); }), expected == "committed" ? 1u : 0u);
  }
}

// Threads with views of their own have a slot each.
TEST_F(ToolKillStuck, EveryThreadOfAProcessIsMeant) {
  const std::size_t child = children_.spawn("threads", [this] {
    DomainOptions options = lazy_pages();
    options.policies.thread_views = lab::kOwnViewAlways;
    const Domain open = Domain::open(domain(), options);
    const Segment segment = open.map("a.db", raw_pages(64));
    auto *fields = reinterpret_cast<field<std::uint64_t> *>(segment.data());
    const Site site(open, "stuck", "always");
    const auto work = [&](std::uint64_t page) {
      bool is_first = true;
      atomically(site, [&](Fields) {
        ++fields[page * kPageBytes / sizeof(std::uint64_t)];
        flags_->stuck.fetch_add(is_first ? 1 : 0);
        if (!std::exchange(is_first, false)) flags_->aborted.fetch_add(1);  // once more
        await(flags_->go_on);
      });
    };
    std::thread other(work, 1);
    work(2);
    other.join();
    EXPECT_EQ(query(open, [&] { return word_of(segment, 1) + word_of(segment, 2); }), 2u);
  });
  await(flags_->stuck, 2);
  const Json asked = ask_pid(child, 3);
  ASSERT_EQ(asked.at("instances").size(), 2u) << asked;
  for (const Json &one : asked.at("instances")) EXPECT_EQ(one.at("outcome"), "failed");
  flags_->go_on.store(1);
  children_.expect_success();
  EXPECT_EQ(flags_->aborted.load(), 2u);
}

TEST_F(ToolKillStuck, WhoIsNoParticipantIsRefusedAndNotKilled) {
  EXPECT_EQ(run_tmh({"kill-stuck", domain()}).exit_code, 3) << "no domain";
  const std::size_t stranger = children_.spawn("stranger", [this] { await(flags_->go_on); });
  {
    const Domain open = Domain::open(domain());
    EXPECT_EQ(ask_pid(stranger, 3, {"--kill"}).at("error"), "kBadArgument");
    EXPECT_EQ(ask({"--pid", "4194304", "--kill"}, 3).at("error"), "kBadArgument");
    EXPECT_TRUE(ask({"--older-than", "0", "--kill"}, 0).at("instances").empty())
        << "nobody runs one";
    EXPECT_NE(run_tmh({"kill-stuck", domain()}).out.find("no such instance runs"),
              std::string::npos);
    EXPECT_TRUE(ask({"--pid", std::to_string(getpid()), "--kill"}, 0).at("instances").empty())
        << "this process is idle";
  }
  EXPECT_TRUE(ask({"--kill"}, 0).at("instances").empty()) << "closed: nobody is stuck";
  EXPECT_NE(run_tmh({"kill-stuck", domain()}).out.find("nobody has it open"), std::string::npos);
  EXPECT_EQ(ask({"--pid", std::to_string(getpid())}, 3).at("error"), "kBadArgument")
      << "closed, and this one was meant";
  flags_->go_on.store(1);
  children_.expect_success();
}

TEST_F(ToolKillStuck, WrongCommandLinesAreRefused) {
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"d", "--pid", "0"},
                                                       {"d", "--pid", "-1"},
                                                       {"d", "--pid", "x"},
                                                       {"d", "--pid", "99999999999"},
                                                       {"d", "--older-than", "-1"},
                                                       {"d", "--older-than", "nan"},
                                                       {"d", "--grace", "nan"},
                                                       {"d", "--grace", "1e9"},
                                                       {"d", "--pid", "5", "--older-than", "1"}};
  for (std::vector<std::string> words : wrong) {
    words.insert(words.begin(), "kill-stuck");
    EXPECT_EQ(run_tmh(words).exit_code, 64) << words.back();
  }
}

}  // namespace
}  // namespace tmh::test
