// tests/death/kill_turn_test.cpp -- whose the turn is when its holder has died and another process
// has got the holder's slot.
// Invariant:  an irrevocable instance commits alone, whatever others have thought of its slot's
//             owner before.
// Method:     kill() of this program stands for the kernel's moment: who waits for the turn is held
//             there, between its finding that the holder is dead and what it does about it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>

#include "tests/support/process_state.h"
#include "tests/support/schedule.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

constexpr std::uint32_t kFoundDead = 2;  // mark
constinit std::atomic<pid_t> watched{0};

}  // namespace
}  // namespace tmh::test

// Replaces libc's for this program: platform::alive() asks by it whether there is such a process,
// where /proc shows none.
extern "C" int kill(pid_t process, int signal) noexcept {
  const auto result = static_cast<int>(syscall(SYS_kill, process, signal));
  if (signal == 0 && process != 0 && tmh::test::watched.exchange(0) == process) {
    const int error = errno;
    tmh::test::Schedule::mark(tmh::test::kFoundDead);
    errno = error;
  }
  return result;
}

namespace tmh::test {
namespace {

class KillTurnTest : public ModeTest {};

TEST_P(KillTurnTest, OwnerOfADeadHoldersSlotKeepsTheTurn) {
  const std::string folder = folder_.path();
  const Shared<std::atomic<pid_t>> holder_id, waiter_id;
  Schedule schedule;
  const auto holder = schedule.add("holder", [&] {
    const Actor self(folder, options());
    *holder_id = getpid();
    atomically(self.domain, [&] {
      become_irrevocable();
      Schedule::mark(1);
    });
  });
  schedule.run(holder, to_mark(1));
  const auto waiter = schedule.add("waiter", [&] {
    const Actor self(folder, options());
    *waiter_id = getpid();
    atomically(self.domain, [&] {
      self.set(1, self.get(1) + 1);
      watched = holder_id->load();
    });
  });
  const auto reaper = schedule.add("reaper", [&] {
    const Actor self(folder, options());
    Schedule::mark(1);
    (void)self.domain.collect();
    Schedule::mark(2);
  });
  schedule.run(reaper, to_mark(1));
  EXPECT_EQ(schedule.run(waiter, to_mark(kFoundDead)), Reached::kWaits);
  // It must not look while the holder is dead and still in /proc, which tells it all.
  ASSERT_EQ(kill(*waiter_id, SIGSTOP), 0);
  ASSERT_TRUE(poll_until([&] { return is_stopped(*waiter_id); }));
  schedule.kill(holder);
  ASSERT_EQ(kill(*waiter_id, SIGCONT), 0);
  ASSERT_EQ(schedule.run(waiter, to_mark(kFoundDead)), Reached::kThere);
  schedule.run(reaper, to_mark(2));
  const auto next = schedule.add("next", [&] {
    const Actor self(folder, options());
    EXPECT_EQ(self.domain.participants().front().pid, getpid()) << "not in the dead one's slot";
    atomically(self.domain, [&] {
      become_irrevocable();
      const std::uint64_t seen = self.get(1);
      Schedule::mark(1);
      self.set(1, seen + 1);
    });
  });
  ASSERT_EQ(schedule.run(next, to_mark(1)), Reached::kThere);
  EXPECT_EQ(schedule.run(waiter, kToEnd), Reached::kWaits) << "while somebody is irrevocable";
  schedule.run(next, kToEnd);
  schedule.finish();
  expect_child("auditor", [&] { EXPECT_EQ(Actor(folder, options()).committed(1), 2U); });
}

INSTANTIATE_TEST_SUITE_P(Lazy, KillTurnTest, testing::Values(kModes[0], kModes[3]), mode_name);

}  // namespace
}  // namespace tmh::test
