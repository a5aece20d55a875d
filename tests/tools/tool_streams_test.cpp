// tests/tools/tool_streams_test.cpp -- the tmh command where standard output or standard error
// takes nothing: full, or closed.
// Invariants: (1) what was asked for and could not be said is an error, --help too. (2) standard
//             error that takes nothing changes neither what is done nor the exit status, and
//             interrupts no backup.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/program.h"
#include "tests/support/slowdown.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"

namespace tmh::test {
namespace {

using Words = std::vector<std::string>;

// By a shell, with its redirections.
ProgramEnd redirected(const std::string &redirections, Words words) {
  const Words shell = {"/bin/sh", "-c", "exec \"$0\" \"$@\" " + redirections, TMH_TOOL};
  words.insert(words.begin(), shell.begin(), shell.end());
  return run_program(words);
}

TEST(ToolStreams, HelpThatCouldNotBeSaidIsAnError) {
  for (const char *where : {">/dev/full", ">&-"})
    for (const Words &words : std::vector<Words>{{"--help"}, {"--version"}, {"stat", "--help"}})
      EXPECT_EQ(redirected(where, words).exit_code, 3) << where << ::testing::PrintToString(words);
}

TEST(ToolStreams, AnErrorThatNobodyHearsHasItsExitStatus) {
  const MemoryFolder folder;
  for (const char *where : {"2>/dev/full", "2>&-", "2>&- >&- <&-"}) {
    EXPECT_EQ(redirected(where, {"info", folder / "none"}).exit_code, 3) << where;
    EXPECT_EQ(redirected(where, {"checkpoint", folder / "none"}).exit_code, 3) << where;
    EXPECT_EQ(redirected(where, {"perf", "-o", folder / "report", "--", folder / "none"}).exit_code,
              127)
        << where;
    EXPECT_EQ(redirected(where, {"unknown"}).exit_code, 64) << where;
  }
  { const Domain made = Domain::open(folder / "domain"); }
  for (const char *where : {"2>/dev/full", "2>&-"})
    EXPECT_EQ(redirected(where, {"trace", folder / "domain"}).exit_code, 0) << where;
}

// It waits for a stopped process, and says so after three seconds.
TEST(ToolStreams, ANoticeThatNobodyHearsInterruptsNoBackup) {
  const MemoryFolder folder;
  Children children;
  const std::size_t child = children.spawn("writer", [&] {
    DomainOptions options = durable_options();
    options.flush_interval_ms = 1'000'000;  // only commits write the log
    const Domain open = Domain::open(folder / "domain", options);
    const Segment segment = open.map("a.db", raw_pages(64));
    commit(open, segment, 1);
    static std::atomic<bool> is_done;
    observe::set_step_hook([](observe::Step at) {
      if (at == observe::Step::kLogWrite && !is_done.exchange(true)) (void)::raise(SIGSTOP);
    });
    commit(open, segment, 2);
  });
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(children.pid(child)), &info, WSTOPPED | WNOWAIT), 0);
  const std::string notice_s = std::to_string(4 + slowdown());  // the notice comes after 3 s
  const ProgramEnd end = redirected(
      "2>/dev/full", {"backup", folder / "domain", folder / "to", "--timeout", notice_s});
  EXPECT_EQ(end.exit_code, 5) << end.signal;
  EXPECT_FALSE(std::filesystem::exists(folder / "to.incomplete"));
  children.kill(child, SIGCONT);
  children.expect_success();
}

}  // namespace
}  // namespace tmh::test
