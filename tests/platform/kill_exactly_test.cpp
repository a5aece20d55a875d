// tests/platform/kill_exactly_test.cpp -- killing a process that is named by pid and start time.
// Invariants: (1) it dies, and the call says so. (2) a process that only has its pid lives on.
//             (3) no pid is no process: not this one, nor all.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "platform/process.h"
#include "tests/support/children.h"
#include "tests/support/shared.h"

namespace tmh::test {
namespace {

TEST(KillExactly, TheProcessDiesAndNoOtherOneWithItsPid) {
  const Shared<platform::ProcessId> id;
  const Shared<Turn> turn;
  Children children;
  const std::size_t child = children.spawn("child", [&] {
    EXPECT_TRUE(platform::this_process(&*id));
    turn->reach(1);
    turn->await(2);
  });
  turn->await(1);
  platform::ProcessId before = *id, other_program = *id;
  --before.start_time;
  ++other_program.stack_start;
  EXPECT_TRUE(platform::kill_exactly(before));
  EXPECT_TRUE(platform::kill_exactly(other_program));
  EXPECT_TRUE(platform::alive(*id));
  EXPECT_TRUE(platform::kill_exactly(*id));
  EXPECT_EQ(children.wait(child).signal, SIGKILL);
  EXPECT_FALSE(platform::alive(*id));
  EXPECT_TRUE(platform::kill_exactly(*id));
}

TEST(KillExactly, NoPidIsNoProcess) {
  for (const std::int32_t pid : {0, -1, -getpid()}) {
    platform::ProcessId id;
    ASSERT_TRUE(platform::this_process(&id));
    id.pid = pid;
    EXPECT_TRUE(platform::kill_exactly(id));
  }
}

}  // namespace
}  // namespace tmh::test
