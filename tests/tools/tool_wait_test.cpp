// tests/tools/tool_wait_test.cpp -- tmh commands that join a domain while a participant is stopped
// with a lock that they need.
// Invariants: (1) whoever is waited for is named, with what may be done. (2) --timeout ends the
//             wait, with a status of its own, and leaves nothing behind. (3) the domain is whole:
//             when the stopped process goes on, everybody does.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "programs/json.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/slowdown.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;

class ToolWait : public ::testing::TestWithParam<std::pair<observe::Step, const char *>> {
 protected:
  // Commits once, and stops itself in the middle of the second commit.
  void SetUp() override {
    child_ = children_.spawn("writer", [this] {
      DomainOptions options = durable_options();
      options.name = "writer";
      options.flush_interval_ms = 1'000'000;  // only commits write the log
      const Domain open = Domain::open(domain(), options);
      const Segment segment = open.map("a.db", raw_pages(64));
      commit(open, segment, 1);
      static observe::Step stop_at;
      static std::atomic<bool> is_done;
      stop_at = GetParam().first;
      observe::set_step_hook([](observe::Step at) {
        if (at == stop_at && !is_done.exchange(true)) (void)::raise(SIGSTOP);
      });
      commit(open, segment, 2);  // the second is new
    });
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(children_.pid(child_)), &info, WSTOPPED | WNOWAIT),
              0);
  }
  [[nodiscard]] std::string domain() const { return folder_ / "domain"; }

  MemoryFolder folder_;
  Children children_;
  std::size_t child_ = 0;
};

TEST_P(ToolWait, NamesTheStoppedHolderAndGivesUpInTime) {
  const std::string pid = std::to_string(children_.pid(child_));
  // The notice comes after 3 s.
  const std::string notice_s = std::to_string(4 + slowdown());
  const ProgramEnd end = run_tmh({"checkpoint", domain(), "--timeout", notice_s});
  EXPECT_EQ(end.exit_code, 5) << end.err;
  EXPECT_NE(end.err.find("waiting for process " + pid + " (writer), which is stopped and holds " +
                         GetParam().second),
            std::string::npos)
      << end.err;
  EXPECT_NE(end.err.find("kill -CONT " + pid), std::string::npos) << end.err;
  EXPECT_NE(end.err.find("kill-stuck " + domain() + " --pid " + pid), std::string::npos) << end.err;
  EXPECT_EQ(end.out, "");
  for (const char *command : {"archive", "backup", "copy"}) {
    const ProgramEnd other =
        run_tmh({command, domain(), folder_ / "to", "--timeout", "0.3", "--json"});
    EXPECT_EQ(other.exit_code, 5) << command << other.err;
    EXPECT_EQ(programs::Json::parse(other.out).at("error"), "timeout");
    fs::remove(folder_ / "to");  // archive makes the folder first
    for (const char *left : {"to", "to.incomplete", "to.copying", "to.copying.incomplete"})
      EXPECT_FALSE(fs::exists(folder_ / left)) << command << " " << left;
  }
  children_.kill(child_, SIGCONT);
  children_.expect_success();
  EXPECT_EQ(run_tmh({"check", domain()}).exit_code, 0);
  EXPECT_EQ(
      run_tmh({"copy", domain(), folder_ / "to", "--timeout", std::to_string(60 * slowdown())})
          .exit_code,
      0);
  in_domain(folder_ / "to", {}, Ending::kClosed, [](const Domain &d, const Segment &segment) {
    EXPECT_EQ(read_word(d, segment, 2), 2u);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Locks, ToolWait,
    ::testing::Values(std::pair{observe::Step::kLogWrite, "the redo log's lock"},
                      std::pair{observe::Step::kCommitLocked, "the domain's lock"}),
    [](const auto &one) { return one.index == 0 ? "Log" : "Domain"; });

// Daemons may ignore SIGCHLD, and what they start inherits that: the kernel then keeps no exit
// status.
TEST(ToolWaitStatus, AFailureIsToldAlsoUnderAParentThatIgnoresSigchld) {
  const MemoryFolder folder;
  for (const char *command : {"checkpoint", "archive", "backup", "copy"}) {
    std::vector<std::string> words = {"/usr/bin/env", "--ignore-signal=CHLD", TMH_TOOL, command,
                                      folder / "none"};
    if (words[3] != "checkpoint") words.push_back(folder / "to");
    EXPECT_EQ(run_program(words).exit_code, 3) << command;
  }
}

TEST(ToolWaitOptions, ATimeoutIsANumberOfSeconds) {
  for (const char *wrong : {"0", "-1", "nan", "soon"})
    EXPECT_EQ(run_tmh({"checkpoint", "domain", "--timeout", wrong}).exit_code, 64) << wrong;
}

}  // namespace
}  // namespace tmh::test
