// tests/tools/tool_run_stop_test.cpp -- tmh run and the signals that end programs.
// Invariants: (1) whichever comes, and whenever: the temporary folder is gone when the command has
//             ended. (2) before the workers began it ends as if the signal had not been caught;
//             afterwards with the report of what was done.
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "programs/json.h"
#include "tests/support/children.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;

// Records whose making takes minutes.
#if defined(__SANITIZE_THREAD__)
constexpr const char *kManyRecords = "400000";  // in 1 GiB, which is all that a segment has there
#else
constexpr const char *kManyRecords = "20000000";
#endif

class ToolRunStop : public ::testing::TestWithParam<int> {
 protected:
  // With its temporary folder in temporary(), its output in the file out().
  std::size_t start(std::vector<std::string> words) {
    fs::create_directory(temporary());
    words.insert(words.begin(), "run");
    return children_.spawn("tmh run", [this, words] {
      (void)::setenv("TMPDIR", temporary().c_str(), 1);
      become_tmh(words, out());
    });
  }
  [[nodiscard]] std::string temporary() const { return folder_ / "temporary"; }
  [[nodiscard]] std::string out() const { return folder_ / "out"; }
  // The domain's folder; empty: not made yet.
  [[nodiscard]] std::string domain() const {
    for (const auto &entry : fs::directory_iterator(temporary())) return entry.path();
    return {};
  }
  [[nodiscard]] bool has_workers(std::size_t count) const {
    const ProgramEnd end = run_tmh({"stat", domain(), "--json"});
    if (end.exit_code != 0) return false;
    std::size_t found = 0;
    const programs::Json document = programs::Json::parse(end.out);
    for (const programs::Json &one : document.at("participants"))
      found += one.at("name") == "tmh run: worker" ? 1u : 0u;
    return found == count;
  }

  MemoryFolder folder_;
  Children children_;
};

TEST_P(ToolRunStop, WhileTheContentIsMadeItEndsAndTheFolderIsGone) {
  const std::size_t tool = start({"ycsb-a", "--size", kManyRecords});
  ASSERT_TRUE(poll_until([&] { return !domain().empty() && fs::exists(domain() + "/run.db"); }));
  children_.kill(tool, GetParam());
  const ChildEnd end = children_.wait(tool);
  EXPECT_EQ(end.signal, GetParam());
  EXPECT_TRUE(fs::is_empty(temporary()));
  EXPECT_EQ(read_file(out()), "");
}

TEST_P(ToolRunStop, WhileWorkersRunItReportsAndTheFolderIsGone) {
  const std::size_t tool = start({"bank", "--seconds", "10000", "--json"});
  ASSERT_TRUE(poll_until([&] { return !domain().empty() && has_workers(2); }));
  children_.kill(tool, GetParam());
  const ChildEnd end = children_.wait(tool);
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_TRUE(fs::is_empty(temporary()));
  const programs::Json document =
      programs::Json::parse(read_file(out()), programs::Json::IfBroken::kDiscard);
  ASSERT_TRUE(document.contains("interrupted")) << read_file(out());
  EXPECT_EQ(document.at("interrupted"), true);
  EXPECT_EQ(document.at("invariant").at("holds"), true);
}

INSTANTIATE_TEST_SUITE_P(Signals, ToolRunStop,
                         ::testing::Values(SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGXFSZ,
                                           SIGPROF, SIGRTMIN, SIGRTMAX),
                         [](const auto &one) {
                           const char *name = sigabbrev_np(one.param);
                           return name != nullptr ? std::string(name)
                                                  : "RT" + std::to_string(one.param);
                         });

class ToolRunPipe : public ToolRunStop {};

TEST_F(ToolRunPipe, NobodyReadsTheReport) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  fs::create_directory(temporary());
  const std::size_t tool = children_.spawn("tmh run", [&] {
    (void)::setenv("TMPDIR", temporary().c_str(), 1);
    (void)::signal(SIGPIPE, SIG_DFL);
    (void)::close(ends[0]);
    (void)::dup2(ends[1], STDOUT_FILENO);
    (void)::close(ends[1]);
    (void)::execl(TMH_TOOL, TMH_TOOL, "run", "bank", "--operations", "10", nullptr);
  });
  (void)::close(ends[0]);
  (void)::close(ends[1]);
  EXPECT_EQ(children_.wait(tool).signal, SIGPIPE);
  EXPECT_TRUE(fs::is_empty(temporary()));
}

}  // namespace
}  // namespace tmh::test
