// tests/death/kill_containers_test.cpp -- the containers of docs/what_may_lie_in_a_segment.md, each
// in three processes that are killed at any time.
// Shape:      every process is a program of its own (containers/worker), not a fork: the system
//             puts
//             its statics elsewhere, which is what the containers that do not work die of.
// Invariants: (1) what works: after the kills the container holds exactly what the committed steps
//                 of every worker make of it, read by yet another process.
//             (2) what does not: the process that makes it can use it, and the next one cannot.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/death/containers/rows.h"
#include "tests/death/containers/worker.h"
#include "tests/support/children.h"
#include "tests/support/program.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr int kKills = 5;

class KillContainersTest : public testing::TestWithParam<Row> {
 protected:
  [[nodiscard]] ProgramEnd run(const std::string &what,
                               const std::vector<std::string> &more = {}) const {
    std::vector<std::string> command{TMH_CONTAINER_WORKER, what, std::string(GetParam().id),
                                     folder_.path()};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command);
  }
  const MemoryFolder folder_;
};

// A worker, and both ends of what it reads and writes.
class Workers {
 public:
  Workers(std::string row, std::string folder, std::uint64_t seed)
      : row_(std::move(row)), folder_(std::move(folder)), seed_(seed) {
    for (long number = 0; number < kWorkers; ++number) start(number);
  }
  ~Workers() {
    for (const One &one : workers_) hang_up(one);
  }
  Workers(const Workers &) = delete;
  Workers &operator=(const Workers &) = delete;

  // It has made another few steps.
  void await_progress(long number) {
    char byte = 0;
    ASSERT_EQ(::read(workers_[number].output, &byte, 1), 1) << "worker " << number << " has ended";
  }
  void kill_and_start(long number) {
    children_.bury(workers_[number].child);
    hang_up(workers_[number]);
    start(number);
  }
  void stop() {
    for (One &one : workers_) {
      ::close(one.input);
      one.input = -1;
    }
    for (const One &one : workers_) EXPECT_TRUE(children_.wait(one.child).succeeded());
  }

 private:
  struct One {
    std::size_t child = 0;
    int input = -1, output = -1;
  };
  static void hang_up(const One &one) {
    if (one.input >= 0) ::close(one.input);
    ::close(one.output);
  }
  void start(long number) {
    int input[2], output[2];
    ASSERT_EQ(::pipe2(input, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(output, O_CLOEXEC), 0);
    const std::string name = std::to_string(number), seed = std::to_string(seed_);
    workers_[number].child = children_.spawn(row_ + " " + name, [&] {
      (void)::dup2(input[0], STDIN_FILENO);
      (void)::dup2(output[1], STDOUT_FILENO);
      (void)::execl(TMH_CONTAINER_WORKER, "worker", "work", row_.c_str(), folder_.c_str(),
                    name.c_str(), seed.c_str(), nullptr);
    });
    ::close(input[0]);
    ::close(output[1]);
    workers_[number].input = input[1];
    workers_[number].output = output[0];
  }

  const std::string row_, folder_;
  const std::uint64_t seed_;
  Children children_;
  One workers_[kWorkers];
};

TEST_P(KillContainersTest, IsAsTheTableSays) {
  const Row &row = GetParam();
  const ProgramEnd made = run("make");
  if (made.exit_code == kAbsent)
    GTEST_SKIP() << "built without Abseil (Debian: apt install libabsl-dev)";
  ASSERT_EQ(made.exit_code, 0) << made.err << ": one process alone can use it";
  if (row.verdict != Verdict::kWorks) {
    const std::vector<std::string> address{TMH_CONTAINER_WORKER, "address"};
    if (run_program(address).out == run_program(address).out)
      GTEST_SKIP() << "this system puts the statics of a program to one address: "
                      "kernel.randomize_va_space is off";
    const ProgramEnd used = run("use");
    if (row.verdict == Verdict::kFindsNothing)
      EXPECT_EQ(used.exit_code, kNotFound) << used.err;
    else  // or a sanitizer tells it
      EXPECT_TRUE(used.signal == SIGSEGV || used.err.find("SEGV") != std::string::npos)
          << "signal " << used.signal << ", exit code " << used.exit_code << ": " << used.err;
    return;
  }
  EXPECT_EQ(run("use").exit_code, 0) << "the next process can use it";
  const std::uint64_t seed = test::seed() % 1'000'000;
  std::mt19937_64 random(seed);
  Workers workers(std::string(row.id), folder_.path(), seed);
  for (int kill = 0; kill <= kKills; ++kill) {
    for (long number = 0; number < kWorkers; ++number) workers.await_progress(number);
    if (HasFatalFailure()) return;
    if (kill < kKills) workers.kill_and_start(static_cast<long>(random() % kWorkers));
  }
  workers.stop();
  const ProgramEnd found = run("check", {std::to_string(seed)});
  EXPECT_EQ(found.exit_code, 0) << found.err;
}

INSTANTIATE_TEST_SUITE_P(Rows, KillContainersTest, testing::ValuesIn(kRows),
                         [](const testing::TestParamInfo<Row> &row) {
                           return std::string(row.param.id);
                         });

}  // namespace
}  // namespace tmh::test
