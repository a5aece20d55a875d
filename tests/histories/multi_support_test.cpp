// tests/histories/multi_support_test.cpp -- the multi-process harness on trial: what it promises
// the other tests.
// Invariants: (1) a child that fails, throws, dies or hangs fails the test that waits for it, (2)
//             what a killed process recorded is complete up to its death, (3) turns order events,
//             (4) what a test leaves behind fails it, and the output of one that dies names it,
//             (5) time in which a process waits for a processor is none of its own.
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "tests/histories/checker.h"
#include "tests/support/children.h"
#include "tests/support/own_time.h"
#include "tests/support/process_state.h"
#include "tests/support/program.h"
#include "tests/support/recorder.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

TEST(ChildrenTest, SuccessFailureExceptionAndDeathAreTold) {
  EXPECT_TRUE(run_in_child("good", [] {}).succeeded());
  EXPECT_FALSE(
      run_in_child("expects too much", [] { EXPECT_EQ(1, 2) << "(on purpose)"; }).succeeded());
  EXPECT_FALSE(
      run_in_child("throws", [] { throw std::runtime_error("(on purpose)"); }).succeeded());
  const ChildEnd killed = run_in_child("dies", [] { kill(getpid(), SIGKILL); });
  EXPECT_FALSE(killed.succeeded());
  EXPECT_EQ(killed.signal, SIGKILL);
}

TEST(ChildrenTest, FailedChildFailsTheTest) {
  // By an exception: the macro below would catch an expectation of the child as well.
  EXPECT_NONFATAL_FAILURE(expect_child("fails", [] { throw std::runtime_error("(on purpose)"); }),
                          "child fails");
}

TEST(ChildrenTest, AFailedChildThatWasSeenToHaveEndedFailsTheTest) {
  Children children;
  const std::size_t child =
      children.spawn("fails", [] { throw std::runtime_error("(on purpose)"); });
  EXPECT_TRUE(poll_until([&] { return !children.running(child); }));
  EXPECT_NONFATAL_FAILURE(children.expect_success(), "child fails");
  children.expect_success();  // told once
}

TEST(ChildrenTest, HungChildIsReportedWithItsPidAndKilled) {
  Children children;
  const std::size_t child = children.spawn("sleeper", [] { pause(); });
  ChildEnd end;
  EXPECT_NONFATAL_FAILURE(end = children.wait(child, std::chrono::milliseconds(50)),
                          std::to_string(children.pid(child)));
  EXPECT_TRUE(end.hung);
  EXPECT_FALSE(children.running(child));
}

TEST(ChildrenTest, EarlierFailuresOfTheParentAreNotTheChilds) {
  testing::TestPartResultArray ignored;
  const testing::ScopedFakeTestPartResultReporter reporter(&ignored);
  ADD_FAILURE() << "(on purpose)";
  EXPECT_TRUE(run_in_child("good", [] {}).succeeded());
}

TEST(ChildrenTest, ChildrenDieWithTheirOwner) {
  pid_t pid = 0;
  {
    Children children;
    pid = children.pid(children.spawn("sleeper", [] { pause(); }));
  }
  EXPECT_NE(kill(pid, 0), 0);
}

TEST(TurnTest, TurnsOrderEventsOfTwoProcesses) {
  struct Log {
    std::atomic<std::uint64_t> text{0};
    void note(std::uint64_t digit) { text = text * 10 + digit; }
  };
  const Shared<Log> log;
  const Shared<Turn> turn;
  Children children;
  children.spawn("odd", [&] {
    log->note(1);
    turn->reach(1);
    turn->await(2);
    log->note(3);
    turn->reach(3);
  });
  children.spawn("even", [&] {
    turn->await(1);
    log->note(2);
    turn->reach(2);
    turn->await(3);
    log->note(4);
  });
  children.expect_success();
  EXPECT_EQ(log->text.load(), 1234U);
}

TEST(TurnTest, AFailedProcessLetsNobodyWait) {
  const Shared<Turn> turn;
  turn->give_up();
  EXPECT_THROW(turn->await(1), std::runtime_error);
}

TEST(RecorderTest, HistoryOfLivingAndKilledProcessesIsReadBack) {
  Recorder recorder(3, 100, 5);
  expect_child("finishes", [&] {
    Lane lane = recorder.open_lane();
    lane.begin(history::Kind::kUpdate);
    lane.read(1, 0);
    lane.write(1, lane.fresh_value());
    lane.end(history::Outcome::kCommitted);
    lane.begin(history::Kind::kQuery);
    lane.read(1, history::unique_value(5, 1));
    lane.end(history::Outcome::kCommitted);
  });
  static_cast<void>(run_in_child("killed", [&] {
    Lane lane = recorder.open_lane();
    lane.begin(history::Kind::kUpdate);
    lane.read(1, history::unique_value(5, 1));
    lane.write(1, lane.fresh_value());
    kill(getpid(), SIGKILL);
  }));
  EXPECT_EQ(recorder.next_process(), 7U);
  const history::History read = recorder.read();
  ASSERT_EQ(read.instances.size(), 3U);
  EXPECT_EQ(read.instances[1].kind, history::Kind::kQuery);
  EXPECT_LE(read.instances[0].end_ns, read.instances[1].begin_ns);
  EXPECT_EQ(read.instances[2].id, (history::InstanceId{6, 0}));
  EXPECT_EQ(read.instances[2].outcome, history::Outcome::kUnknown);
  ASSERT_EQ(read.instances[2].operations.size(), 2U);
  EXPECT_EQ(read.instances[2].operations[1].value, history::unique_value(6, 1));
  EXPECT_TRUE(history::check(read).ok()) << history::check(read).report();
}

TEST(RecorderTest, FullLaneAndMissingLaneAreErrors) {
  Recorder recorder(1, 2);
  Lane lane = recorder.open_lane();
  EXPECT_TRUE(lane.has_room(2));
  EXPECT_FALSE(lane.has_room(3));
  lane.begin(history::Kind::kUpdate);
  lane.read(1, 0);
  EXPECT_THROW(lane.read(1, 0), std::length_error);
  EXPECT_THROW(static_cast<void>(recorder.open_lane()), std::length_error);
}

TEST(TempFolderTest, FilesAreWrittenPatchedAndRemoved) {
  std::string path;
  {
    const TempFolder folder;
    path = folder.path();
    write_file(folder / "f", "abcdef");
    patch_file(folder / "f", 2, "XY");
    EXPECT_EQ(read_file(folder / "f"), "abXYef");
    expect_child("leaves it", [] {});
    EXPECT_EQ(access(path.c_str(), F_OK), 0) << "a child removed its parent's folder";
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

// What the test below does when it is run by itself.
void end_badly(const std::string &how) {
  if (how == "thread") {
    std::thread left([] {
      for (;;) pause();
    });
    pthread_setname_np(left.native_handle(), "left");
    left.detach();
  } else if (how == "child") {
    if (fork() != 0) return;
    prctl(PR_SET_NAME, "left");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  } else if (how == "dead child") {
    if (fork() == 0) _exit(0);
  } else if (how != "nothing") {
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    (void)raise(std::atoi(how.c_str()));
  }
}

TEST(TestItselfTest, WhatItLeavesFailsItAndItsDeathNamesIt) {
  if (const char *const how = std::getenv("TMH_TEST_ENDS"); how != nullptr) return end_badly(how);
  const auto run = [](const std::string &how) {
    setenv("TMH_TEST_ENDS", how.c_str(), 1);
    const std::string self = testing::UnitTest::GetInstance()->current_test_info()->name();
    ProgramEnd end = run_program({"/proc/self/exe", "--gtest_filter=*." + self});
    unsetenv("TMH_TEST_ENDS");
    EXPECT_NE(end.out.find("[ RUN      ] TestItselfTest." + self), std::string::npos) << how;
    return end;
  };
  EXPECT_EQ(run("nothing").exit_code, 0);
  for (const std::string what : {"thread", "child", "dead child"}) {
    const ProgramEnd end = run(what);
    EXPECT_EQ(end.exit_code, 1) << what;
    EXPECT_NE(end.out.find("the test has left behind:\n  " +
                           std::string(what == "thread" ? "thread" : "child")),
              std::string::npos)
        << end.out;
    EXPECT_EQ(end.out.find(": left") == std::string::npos, what == "dead child") << end.out;
  }
  for (const int signal : {SIGSEGV, SIGABRT, SIGUSR1}) {
    const ProgramEnd end = run(std::to_string(signal));
    EXPECT_FALSE(end.exit_code == 0 || end.hung);  // a sanitizer's handler exits
  }
}

TEST(OwnTimeTest, IsSleepAndProcessorTimeButNoWaitForAProcessor) {
  using std::chrono::milliseconds;
  Children children;
  const std::size_t sleeps = children.spawn("sleeps", [] { pause(); });
  OwnTime asleep({children.pid(sleeps)});
  EXPECT_TRUE(poll_until([&] { return asleep.look() > milliseconds(50); }));
  const std::size_t works = children.spawn("works", [] {
    for (std::atomic<int> rounds{0};;) ++rounds;
  });
  OwnTime at_work({children.pid(works)});
  EXPECT_TRUE(poll_until([&] { return at_work.look() > milliseconds(50); }));
  // As one that gets no processor: it neither sleeps nor runs, and the other one may wait for it.
  children.kill(works, SIGSTOP);
  ASSERT_TRUE(poll_until([&] { return is_stopped(children.pid(works)); }));
  std::chrono::nanoseconds before{-1};
  OwnTime stopped({children.pid(sleeps), children.pid(works)});
  EXPECT_TRUE(poll_until([&] { return before == std::exchange(before, stopped.look()); }));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(stopped.look(), before);
  for (const std::size_t each : {sleeps, works}) children.bury(each);
}

}  // namespace
}  // namespace tmh::test
