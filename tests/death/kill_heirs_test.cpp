// tests/death/kill_heirs_test.cpp -- who inherits the domain lock and cannot repair everything,
// because it has not opened every segment. Who cannot see in /proc whether the holder lives.
// Invariants: (1) until somebody has linked a page's versions again, none of them goes home: an
//                 older one would hide a newer one from readers that take no lock. A checkpoint is
//                 no exception.
//             (2) a process without descriptors finds that the holder is dead, also while it is a
//                 zombie,
//             (3) a living process of another user, which /proc hides, is not taken for dead,
//             (4) one that runs another program (exec) is dead.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "observe/steps.h"
#include "platform/process.h"
#include "tests/support/children.h"
#include "tests/support/sanitizers.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

#include <tmh/tmh.hpp>

namespace tmh::test {
namespace {

DomainOptions durable() {
  DomainOptions options;
  options.durability = Durability::kStrict;
  options.tracking = Tracking::kSignal;  // each first touch comes to the handler
  return options;
}

SegmentOptions raw() {
  SegmentOptions options;
  options.layout = Layout::kRaw;
  options.size_bytes = 4 * kPageBytes;
  return options;
}

std::uint64_t &word(const Segment &segment, std::uint64_t page) {
  return *reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes);
}

// Turns: 1 heir runs, 2 owner has committed, 3 reader has a snapshot of that, 4 owner has committed
// again, 5 victim is dead, 6 heir has repaired what it knows, 7 owner has seen its own commit.
TEST(HeirsTest, ACheckpointSendsNoVersionHomeThatIsNotLinkedToItsPage) {
  const MemoryFolder folder;
  const std::string path = folder / "domain";
  const Shared<Turn> turn;
  Children children;
  children.spawn("heir", role(*turn, [&] {
                   const Domain domain = Domain::open(path, durable());
                   const Segment known = domain.map("known.raw", raw());
                   domain.begin_query();
                   turn->reach(1);
                   turn->await(5);
                   // It has a version by now, so the handler takes the lock.
                   EXPECT_EQ(word(known, 0), 0u);
                   domain.end_query();
                   EXPECT_EQ(domain.counters().lock_recoveries, 1u);
                   turn->reach(6);
                   turn->await(7);
                 }));
  children.spawn("owner", role(*turn, [&] {
                   turn->await(1);
                   Domain domain = Domain::open(path, durable());
                   const Segment known = domain.map("known.raw", raw());
                   const Segment later = domain.map("later.raw", raw());
                   atomically(domain, [&] { word(later, 0) = 1; });
                   turn->reach(2);
                   turn->await(3);
                   atomically(domain, [&] { word(later, 0) = 2, word(known, 0) = 1; });
                   turn->reach(4);
                   turn->await(6);
                   domain.checkpoint();
                   atomically(domain, [&] { EXPECT_EQ(word(later, 0)++, 2u); });
                   query(domain, [&] { EXPECT_EQ(word(later, 0), 3u); });
                   turn->reach(7);
                 }));
  children.spawn("reader", role(*turn, [&] {
                   turn->await(2);
                   const Domain domain = Domain::open(path, durable());
                   const Segment later = domain.map("later.raw", raw());
                   domain.begin_query();
                   turn->reach(3);
                   turn->await(7);
                   EXPECT_EQ(word(later, 0), 1u);
                   domain.end_query();
                 }));
  turn->await(4);
  const ChildEnd end = run_in_child("victim", [&] {
    const Domain domain = Domain::open(path, durable());
    const Segment known = domain.map("known.raw", raw());
    domain.begin();
    word(known, 1) = 1;
    observe::crash_at(static_cast<std::uint32_t>(observe::Step::kCommitLocked), 1);
    static_cast<void>(domain.end());
  });
  EXPECT_EQ(end.signal, SIGKILL);
  turn->reach(5);
  children.expect_success();
}

class DescriptorsUsedUp : public testing::TestWithParam<bool> {};

TEST_P(DescriptorsUsedUp, AProcessInheritsFromTheDead) {
  if (const std::string why = why_descriptors_must_stay(); !why.empty()) GTEST_SKIP() << why;
  const MemoryFolder folder;
  DomainOptions options = durable();
  options.durability = Durability::kNone;
  const Shared<Turn> turn;
  Children children;
  const std::size_t heir =
      children.spawn("heir", role(*turn, [&] {
                       const Domain domain = Domain::open(folder / "domain", options);
                       const Segment segment = domain.map("a.raw", raw());
                       atomically(domain, [&] { word(segment, 0) = 1; });
                       turn->reach(1);
                       turn->await(2);
                       rlimit limit{};
                       getrlimit(RLIMIT_NOFILE, &limit);
                       limit.rlim_cur = 3;
                       setrlimit(RLIMIT_NOFILE, &limit);
                       atomically(domain, [&] { ++word(segment, 0); });
                       EXPECT_EQ(query(domain, [&] { return word(segment, 0); }), 2u);
                       EXPECT_EQ(domain.counters().lock_recoveries, 1u);
                     }));
  turn->await(1);
  const std::size_t victim = children.spawn("victim", [&] {
    const Domain domain = Domain::open(folder / "domain", options);
    const Segment segment = domain.map("a.raw", raw());
    domain.begin();
    word(segment, 1) = 1;
    observe::crash_at(static_cast<std::uint32_t>(observe::Step::kCommitLocked), 1);
    static_cast<void>(domain.end());
  });
  const bool is_buried = GetParam();
  siginfo_t death{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(children.pid(victim)), &death, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(death.si_status, SIGKILL);
  if (is_buried) children.bury(victim);
  turn->reach(2);
  EXPECT_TRUE(children.wait(heir).succeeded());
}

INSTANTIATE_TEST_SUITE_P(Dead, DescriptorsUsedUp, testing::Bool(), [](const auto &is_buried) {
  return is_buried.param ? "Buried" : "Zombie";
});

// Whose main thread has ended looks like a zombie.
TEST(HeirsTest, AProcessWithoutItsMainThreadIsAlive) {
  if (const std::string why = why_descriptors_must_stay(); !why.empty()) GTEST_SKIP() << why;
  const Shared<platform::ProcessId> id;
  const Shared<Turn> turn;
  Children children;
  const std::size_t headless = children.spawn("headless", [&] {
    EXPECT_TRUE(platform::this_process(&*id));
    std::thread([&] {
      turn->reach(1);
      turn->await(2);
      _exit(0);
    }).detach();
    syscall(SYS_exit, 0);  // this thread alone
  });
  turn->await(1);
  const std::string stat = "/proc/" + std::to_string(id->pid) + "/stat";
  EXPECT_TRUE(poll_until([&] {
    std::string text;
    std::getline(std::ifstream(stat), text);
    return text.find(") Z ") != std::string::npos;
  }));
  expect_child("without descriptors", [&] {
    for (const bool has_descriptors : {true, false}) {
      rlimit limit{};
      getrlimit(RLIMIT_NOFILE, &limit);
      if (!has_descriptors) limit.rlim_cur = 3;
      setrlimit(RLIMIT_NOFILE, &limit);
      EXPECT_TRUE(platform::alive(*id)) << has_descriptors;
    }
  });
  turn->reach(2);
  EXPECT_TRUE(children.wait(headless).succeeded());
  EXPECT_FALSE(platform::alive(*id));
}

// It has an instance open, whose pin keeps a version from going home.
TEST(HeirsTest, AProcessThatRunsAnotherProgramIsDead) {
  if (const int persona = personality(~0u); persona >= 0 && (persona & ADDR_NO_RANDOMIZE) != 0)
    GTEST_SKIP() << "addresses are not random in this process (setarch -R), so exec may leave the "
                    "stack where it was";
  const MemoryFolder folder;
  const std::string path = folder / "domain";
  const Shared<Turn> turn;
  Children children;
  const std::size_t leaves = children.spawn("leaves by exec", [&] {
    const Domain domain = Domain::open(path);
    const Segment segment = domain.map("words.raw", raw());
    domain.begin_query();
    EXPECT_EQ(word(segment, 0), 0U);
    turn->reach(1);
    execl("/bin/sleep", "sleep", "1000", nullptr);
    ADD_FAILURE() << "execl: " << std::strerror(errno);
  });
  turn->await(1);
  const Domain domain = Domain::open(path);
  const Segment segment = domain.map("words.raw", raw());
  for (int i = 0; i < 3; ++i) atomically(domain, [&] { ++word(segment, 0); });
  EXPECT_TRUE(
      poll_until([&] { return domain.collect() == 0 && domain.participants().size() == 1; }));
  EXPECT_EQ(domain.counters().participants_reaped, 1U);
  EXPECT_TRUE(children.running(leaves));
  children.bury(leaves);
}

TEST(HeirsTest, AProcessThatProcHidesIsAlive) {
  constexpr int kCannot = 77;
  platform::ProcessId self;
  ASSERT_TRUE(platform::this_process(&self));
  const ChildEnd end = run_in_child("another user's", [&] {
    constexpr uid_t kNobody = 65534;
    const bool hides = unshare(CLONE_NEWNS) == 0 &&
                       mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       mount("proc", "/proc", "proc", 0, "hidepid=2") == 0 &&
                       setresgid(kNobody, kNobody, kNobody) == 0 &&
                       setresuid(kNobody, kNobody, kNobody) == 0;
    const std::string stat = "/proc/" + std::to_string(self.pid) + "/stat";
    if (!hides || access(stat.c_str(), F_OK) == 0 || errno != ENOENT) _exit(kCannot);
    EXPECT_TRUE(platform::alive(self));
    const pid_t gone = fork();
    if (gone == 0) _exit(0);
    EXPECT_EQ(waitpid(gone, nullptr, 0), gone);
    EXPECT_FALSE(platform::alive({gone, 1}));
  });
  if (end.exit_code == kCannot)
    GTEST_SKIP() << "needs the right to mount /proc with hidepid=2 and to become another user";
  EXPECT_TRUE(end.succeeded());
}

}  // namespace
}  // namespace tmh::test
