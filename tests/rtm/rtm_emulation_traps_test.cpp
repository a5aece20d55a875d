// tests/rtm/rtm_emulation_traps_test.cpp -- the emulator where XBEGIN is an illegal instruction.
// Invariants: (1) every transaction is emulated: commits and aborts are as many as were begun. (2)
//             sums add up. (3) code of this process alone traps by SIGILL once, and then by what it
//             was replaced with; code that other processes may run stays as it is.
// Skipped:    without ptrace or debug registers.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include <tmh/rtm_emulation.h>

#include "tests/rtm/elision.h"
#include "tests/rtm/without_rtm.h"
#include "tests/support/shared.h"

// std::uint32_t begin(): XBEGIN's status. Position-independent, so that it can be copied.
asm(R"(
  .text
  .globl tmh_test_begin
  .type tmh_test_begin, @function
tmh_test_begin:
  movl $-1, %eax
tmh_test_xbegin:
  xbegin 1f
1:
  ret
tmh_test_begin_end:
  .size tmh_test_begin, .-tmh_test_begin
)");
extern "C" {
std::uint32_t tmh_test_begin();
extern const char tmh_test_xbegin[], tmh_test_begin_end[];
}

namespace tmh::test {
namespace {

using Begin = std::uint32_t (*)();

struct Memory {
  ElidedLock lock;
  alignas(64) std::atomic<long> value;
  alignas(64) std::atomic<std::uint64_t> begun, commits, aborts;
};

// A child's own stack, and its page of code, before a transaction needs them.
__attribute__((noinline)) void touch_stack() {
  volatile char room[16 * 1024];
  for (std::size_t i = 0; i < sizeof room; i += 1024) room[i] = 0;
}

void add_elided(Begin begin, Memory *memory, long times) {
  touch_stack();
  for (long i = 0; i < times; ++i) {
    bool done = false;
    for (int attempts = 0; attempts < 8 && !done; ++attempts) {
      memory->begun.fetch_add(1);
      if (begin() == kRtmCommitted) {
        if (memory->lock.word.load(std::memory_order_relaxed) != 0) rtm_abort<kLockBusy>();
        memory->value.store(memory->value.load(std::memory_order_relaxed) + 1,
                            std::memory_order_relaxed);
        rtm_end();
        done = true;
      }
    }
    if (done) continue;
    lock_natively(&memory->lock);
    memory->value.store(memory->value.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
    unlock_natively(&memory->lock);
  }
}

// Each trap of shared code takes two switches between processes.
constexpr long kTimes = 250;

// They go on counting over the tests of one program: children share them.
tmh_rtm_emulation_counters counters_now() {
  tmh_rtm_emulation_counters counters;
  tmh_rtm_emulation_get_counters(&counters);
  return counters;
}

int add_in_two_threads(Begin begin, Memory *memory) {
  if (tmh_rtm_emulation_start(0) != TMH_RTM_EMULATION_TRAPS) return 1;
  const tmh_rtm_emulation_counters before = counters_now();
  std::thread other(add_elided, begin, memory, kTimes);
  add_elided(begin, memory, kTimes);
  other.join();
  const tmh_rtm_emulation_counters after = counters_now();
  memory->commits = after.commits - before.commits;
  memory->aborts = after.aborts - before.aborts;
  return 0;
}

void expect_all_emulated(const WithoutRtm &ran, const Memory &memory) {
  EXPECT_EQ(ran.exit_status, 0);
  EXPECT_EQ(memory.value, 2 * kTimes);
  EXPECT_EQ(memory.commits + memory.aborts, memory.begun) << memory.commits << " commits";
  EXPECT_GT(memory.commits, 0U);
}

TEST(RtmEmulationTraps, CodeOfItsOwnTrapsOnceByIllegalInstruction) {
  Shared<Memory> memory;
  const WithoutRtm ran = run_without_rtm(reinterpret_cast<std::uintptr_t>(tmh_test_xbegin), [&] {
    return add_in_two_threads(tmh_test_begin, &*memory);
  });
  if (!ran.unavailable.empty()) GTEST_SKIP() << ran.unavailable;
  expect_all_emulated(ran, *memory);
  EXPECT_GE(ran.traps, 1U);
  EXPECT_LE(ran.traps, 8U) << "two threads may come at once; then it is HLT";
}

TEST(RtmEmulationTraps, SharedCodeTrapsEachTime) {
  Shared<Memory> memory;
  const auto *first = reinterpret_cast<const char *>(tmh_test_begin);
  const SharedBytes code(4096);
  std::memcpy(code.get(), first, static_cast<std::size_t>(tmh_test_begin_end - first));
  ASSERT_EQ(::mprotect(code.get(), code.bytes(), PROT_READ | PROT_EXEC), 0);
  const auto begin = reinterpret_cast<Begin>(code.get());
  const WithoutRtm ran = run_without_rtm(reinterpret_cast<std::uintptr_t>(code.get()) +
                                             static_cast<std::uintptr_t>(tmh_test_xbegin - first),
                                         [&] { return add_in_two_threads(begin, &*memory); });
  if (!ran.unavailable.empty()) GTEST_SKIP() << ran.unavailable;
  expect_all_emulated(ran, *memory);
  EXPECT_EQ(ran.traps, memory->begun);
}

// SIGSEGV of the program's own, and in its handler SIGSEGV of a replaced XBEGIN: blocked, it would
// kill.
volatile long g_counted = 0;
char *g_page = nullptr;
[[noreturn]] void transact_in_fault_handler() {
  if (tmh_rtm_emulation_start(1) <= 0) ::_exit(1);
  const std::uint64_t commits_before = counters_now().commits;
  g_page =
      static_cast<char *>(::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  struct sigaction action = {};
  sigfillset(&action.sa_mask);
  action.sa_handler = [](int) {
    touch_stack();
    for (int i = 0; i < 100 && g_counted == 0; ++i)
      (void)attempt([] { g_counted = g_counted + 1; });
    (void)::mprotect(g_page, 4096, PROT_READ | PROT_WRITE);
  };
  if (::sigaction(SIGSEGV, &action, nullptr) != 0) ::_exit(2);
  *static_cast<volatile char *>(g_page) = 1;
  ::_exit(g_counted == 1 && counters_now().commits - commits_before == 1 ? 0 : 3);
}

TEST(RtmEmulationTraps, TransactionsRunInFaultHandlersThatBlockAllSignals) {
  EXPECT_EXIT(transact_in_fault_handler(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tmh::test
