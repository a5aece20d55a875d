// tests/rtm/rtm_emulation_test.cpp -- one thread under the RTM emulator: what commits, what aborts
// and with which status, and that an abort leaves no trace.
// Invariants: (1) after a commit memory, general and vector registers are as if the code had run
// without a transaction. (2) after an abort they are as before XBEGIN, but for EAX. (3) the status
// is the processor's.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <ctime>

#include <tmh/rtm_emulation.h>

#include "tests/rtm/rtm.h"

namespace {

using tmh::test::attempt;
using tmh::test::kRtmCommitted;
using tmh::test::prefault;
using tmh::test::rtm_abort;

class RtmEmulation : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_GT(tmh_rtm_emulation_start(1), 0); }
  void SetUp() override { tmh_rtm_emulation_get_knobs(&knobs_); }
  void TearDown() override { EXPECT_EQ(tmh_rtm_emulation_set_knobs(&knobs_), 0); }
  static void set(std::uint32_t tmh_rtm_emulation_knobs::*knob, std::uint32_t value) {
    tmh_rtm_emulation_knobs knobs;
    tmh_rtm_emulation_get_knobs(&knobs);
    knobs.*knob = value;
    ASSERT_EQ(tmh_rtm_emulation_set_knobs(&knobs), 0);
  }
  static tmh_rtm_emulation_counters counters() {
    tmh_rtm_emulation_counters now;
    tmh_rtm_emulation_get_counters(&now);
    return now;
  }

 private:
  tmh_rtm_emulation_knobs knobs_{};
};

alignas(4096) unsigned char g_pages[64 * 4096];

TEST_F(RtmEmulation, EmptyTransactionCommits) {
  const auto before = counters();
  EXPECT_EQ(attempt([] {}), kRtmCommitted);
  EXPECT_EQ(counters().commits, before.commits + 1);
}

TEST_F(RtmEmulation, StoresAreThereAfterCommit) {
  volatile long a = 1, b = 2;
  EXPECT_EQ(attempt([&] {
              a = a + 10;
              b = a + b;
            }),
            kRtmCommitted);
  EXPECT_EQ(a, 11);
  EXPECT_EQ(b, 13);
}

TEST_F(RtmEmulation, StoresAreGoneAfterAbort) {
  volatile long a = 1;
  EXPECT_EQ(attempt([&] {
              a = 7;
              rtm_abort<0x42>();
            }),
            0x42u << 24 | 1u);
  EXPECT_EQ(a, 1);
}

TEST_F(RtmEmulation, EveryExplicitCodeComesBack) {
  EXPECT_EQ(attempt([] { rtm_abort<0>(); }), 1u);
  EXPECT_EQ(attempt([] { rtm_abort<0xFF>(); }), 0xFF00'0001u);
  EXPECT_GE(tmh_rtm_emulation_explicit_aborts(0xFF), 1u);
}

TEST_F(RtmEmulation, XtestKnowsInsideFromOutside) {
  EXPECT_FALSE(tmh::test::rtm_is_inside());
  bool inside = false;
  EXPECT_EQ(attempt([&] { inside = tmh::test::rtm_is_inside(); }), kRtmCommitted);
  EXPECT_TRUE(inside);
}

TEST_F(RtmEmulation, XabortOutsideDoesNothing) { rtm_abort<3>(); }

TEST_F(RtmEmulation, NestedTransactionsAreOne) {
  volatile long a = 0;
  const auto nested = [&] { return attempt([&] { a = a + 1; }); };
  EXPECT_EQ(attempt([&] { (void)nested(); }), kRtmCommitted);
  EXPECT_EQ(a, 1);
}

TEST_F(RtmEmulation, NestedAbortEndsTheOutermostWithBit5) {
  volatile long a = 0;
  EXPECT_EQ(attempt([&] {
              a = 1;
              (void)attempt([&] { rtm_abort<5>(); });
            }),
            5u << 24 | 0x21u);
  EXPECT_EQ(a, 0);
}

template <int kDepth>
std::uint32_t nest() {
  if constexpr (kDepth == 0)
    return kRtmCommitted;
  else
    return attempt([] { (void)nest<kDepth - 1>(); });
}
TEST_F(RtmEmulation, SevenLevelsNestAndEightDoNot) {
  EXPECT_EQ(nest<7>(), kRtmCommitted);
  EXPECT_EQ(nest<8>() & 0x21u, 0x20u);
}

TEST_F(RtmEmulation, Int3GivesTheDebugBit) {
  EXPECT_EQ(attempt([] { asm volatile("int3"); }), 0x10u);
}

TEST_F(RtmEmulation, SystemCallsAbortWithZero) {
  EXPECT_EQ(attempt([] {
              long number = 39;
              asm volatile("syscall" : "+a"(number) : : "rcx", "r11", "memory");
            }),
            0u);
  EXPECT_EQ(attempt([] {
              unsigned a = 0, b = 0, c = 0, d = 0;
              asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
            }),
            0u);
  EXPECT_EQ(attempt([] { asm volatile("pause"); }), 0u);
  EXPECT_EQ(attempt([] { asm volatile("ud2"); }), 0u);
  EXPECT_GE(tmh_rtm_emulation_refused("syscall"), 1u);
}

TEST_F(RtmEmulation, DivisionByZeroAbortsWithZeroAndNoSignal) {
  volatile int zero = 0, one = 1, result = 5;
  EXPECT_EQ(attempt([&] { result = one / zero; }), 0u);
  EXPECT_EQ(result, 5);
}

TEST_F(RtmEmulation, BadPointersAbortWithZeroAndNoSignal) {
  volatile int sink = 0;
  int *volatile null = nullptr;
  EXPECT_EQ(attempt([&] { sink = *null; }), 0u);
  EXPECT_EQ(attempt([&] { *null = 1; }), 0u);
  int *volatile wild = reinterpret_cast<int *>(0x8000'0000'0000'0000);
  EXPECT_EQ(attempt([&] { sink = *wild; }), 0u);
}

TEST_F(RtmEmulation, FirstTouchOfAPageAbortsWithZero) {
  auto *memory = static_cast<volatile char *>(
      ::mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  volatile char sink = 0;
  EXPECT_EQ(attempt([&] { sink = memory[0]; }), 0u);
  EXPECT_EQ(attempt([&] { memory[4096] = 1; }), 0u);
  sink = memory[0];  // the zero page: there to read, to be copied on write
  EXPECT_EQ(attempt([&] { sink = memory[0]; }), kRtmCommitted);
  EXPECT_EQ(attempt([&] { memory[0] = 1; }), 0u);
  memory[0] = 2;
  EXPECT_EQ(attempt([&] { memory[0] = 1; }), kRtmCommitted);
  EXPECT_EQ(memory[0], 1);
  ::munmap(const_cast<char *>(memory), 3 * 4096);
}

TEST_F(RtmEmulation, ProtectedPagesAbortWithZero) {
  auto *memory = static_cast<volatile char *>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  memory[0] = 1;
  volatile char sink = 0;
  ASSERT_EQ(::mprotect(const_cast<char *>(memory), 4096, PROT_READ), 0);
  EXPECT_EQ(attempt([&] { sink = memory[0]; }), kRtmCommitted);
  EXPECT_EQ(attempt([&] { memory[0] = 2; }), 0u);
  ASSERT_EQ(::mprotect(const_cast<char *>(memory), 4096, PROT_NONE), 0);
  EXPECT_EQ(attempt([&] { sink = memory[0]; }), 0u);
  ::munmap(const_cast<char *>(memory), 4096);
}

TEST_F(RtmEmulation, PrivateFilePagesAbortUntilTheyAreCopied) {
  char name[] = "rtm-emulation-XXXXXX";
  const int file = ::mkstemp(name);
  ASSERT_GE(file, 0);
  ::unlink(name);
  ASSERT_EQ(::ftruncate(file, 4096), 0);
  auto *own = static_cast<volatile char *>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0));
  auto *common = static_cast<volatile char *>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  volatile char sink = static_cast<char>(own[0] + common[0]);
  (void)sink;
  EXPECT_EQ(attempt([&] { own[0] = 1; }), 0u);
  common[0] = 2;
  EXPECT_EQ(attempt([&] { common[0] = 3; }), kRtmCommitted);
  EXPECT_EQ(common[0], 3);
  own[0] = 4;
  EXPECT_EQ(attempt([&] { own[0] = 5; }), kRtmCommitted);
  EXPECT_EQ(own[0], 5);
  ::close(file);
}

TEST_F(RtmEmulation, FirstTouchMayBeAllowed) {
  tmh_rtm_emulation_knobs knobs;
  tmh_rtm_emulation_get_knobs(&knobs);
  knobs.strict_first_touch = 0;
  ASSERT_EQ(tmh_rtm_emulation_set_knobs(&knobs), 0);
  auto *memory = static_cast<volatile char *>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT_EQ(attempt([&] { memory[0] = 1; }), kRtmCommitted);
  EXPECT_EQ(memory[0], 1);
  ::munmap(const_cast<char *>(memory), 4096);
}

TEST_F(RtmEmulation, WritesAreBoundedBySetsAndWays) {
  prefault(g_pages, sizeof g_pages);
  volatile unsigned char *pages = g_pages;
  const auto write = [&](int lines, int stride) {
    return attempt([&] {
      for (int i = 0; i < lines; ++i) pages[i * stride] = 1;
    });
  };
  // Sets are chosen by the offset in the page: half a page away from what the attempt stores on the
  // stack.
  const auto stack = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  pages = g_pages + (stack + 2048) % 4096 / 64 * 64;
  EXPECT_EQ(write(8, 4096), kRtmCommitted);
  EXPECT_EQ(write(9, 4096), 8u);
  pages = g_pages;
  EXPECT_EQ(write(200, 64), kRtmCommitted);
  EXPECT_EQ(write(513, 64), 8u);
  set(&tmh_rtm_emulation_knobs::ways, 1);
  EXPECT_EQ(write(2, 4096), 8u);
}

TEST_F(RtmEmulation, ReadsAreBoundedByLines) {
  prefault(g_pages, sizeof g_pages);
  set(&tmh_rtm_emulation_knobs::read_lines, 100);
  volatile unsigned char *pages = g_pages;
  volatile int sum = 0;
  const auto read = [&](int lines) {
    return attempt([&] {
      int total = 0;
      for (int i = 0; i < lines; ++i) total += pages[i * 64];
      sum = total;
    });
  };
  EXPECT_EQ(read(80), kRtmCommitted);
  EXPECT_EQ(read(101), 8u);
}

TEST_F(RtmEmulation, EndlessLoopsEnd) {
  set(&tmh_rtm_emulation_knobs::instructions, 10'000);
  volatile int go = 1;
  const auto before = counters();
  EXPECT_EQ(attempt([&] {
              while (go != 0) {
              }
            }),
            0u);
  EXPECT_EQ(counters().over_budget, before.over_budget + 1);
}

TEST_F(RtmEmulation, InjectionFollowsItsRates) {
  set(&tmh_rtm_emulation_knobs::conflict_ppm, 1'000'000);
  volatile long a = 0;
  EXPECT_EQ(attempt([&] { a = 1; }), 6u);
  set(&tmh_rtm_emulation_knobs::conflict_ppm, 0);
  set(&tmh_rtm_emulation_knobs::capacity_ppm, 1'000'000);
  EXPECT_EQ(attempt([&] { a = 1; }), 8u);
  set(&tmh_rtm_emulation_knobs::capacity_ppm, 0);
  set(&tmh_rtm_emulation_knobs::spurious_ppm, 1'000'000);
  EXPECT_EQ(attempt([&] { a = 1; }), 0u);
  set(&tmh_rtm_emulation_knobs::spurious_ppm, 100'000);
  int committed = 0;
  for (int i = 0; i < 1000; ++i) committed += attempt([&] { a = 1; }) == kRtmCommitted ? 1 : 0;
  EXPECT_GT(committed, 0);
  EXPECT_LT(committed, 1000);
}

TEST_F(RtmEmulation, WrongKnobsAreRefused) {
  tmh_rtm_emulation_knobs knobs;
  tmh_rtm_emulation_get_knobs(&knobs);
  knobs.sets = 63;
  EXPECT_EQ(tmh_rtm_emulation_set_knobs(&knobs), -1);
  knobs.sets = 64;
  knobs.reserved_zero[2] = 1;
  EXPECT_EQ(tmh_rtm_emulation_set_knobs(&knobs), -1);
}

TEST_F(RtmEmulation, AnAbortBringsBackAllRegisters) {
  // Callee-saved and vector registers are changed inside; the compiler does not know.
  std::uint64_t rbx = 0, r12 = 0;
  double xmm = 0;
  std::uint32_t status = 0;
  asm volatile(
      "movq $11, %%rbx\n\t movq $12, %%r12\n\t movq $13, %%rax\n\t movq %%rax, %%xmm9\n\t"
      "xbegin 1f\n\t"
      "movq $99, %%rbx\n\t movq $99, %%r12\n\t pxor %%xmm9, %%xmm9\n\t pushq %%rbx\n\t xabort "
      "$9\n\t"
      "1: movl %%eax, %3\n\t movq %%rbx, %0\n\t movq %%r12, %1\n\t movq %%xmm9, %2"
      : "=m"(rbx), "=m"(r12), "=m"(xmm), "=m"(status)
      :
      : "rax", "rbx", "r12", "xmm9", "memory", "cc");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &xmm, 8);
  EXPECT_EQ(rbx, 11u);
  EXPECT_EQ(r12, 12u);
  EXPECT_EQ(bits, 13u);
  EXPECT_EQ(status, 9u << 24 | 1u);
}

// 13 bytes with prefixes that mean nothing; the emulator's form has a displacement that is three
// bytes longer, and a processor takes 15.
TEST_F(RtmEmulation, InstructionsWithIdlePrefixesDoNotOutgrowTheProcessor) {
  std::uint64_t words[2] = {1, 2};
  EXPECT_EQ(attempt([&] {  // rep rex.b data16 rex.wrxb rex rex.w addq $0x01020304, 8(%rcx)
              asm volatile(
                  ".byte 0xf3, 0x41, 0x66, 0x4f, 0x40, 0x48, 0x81, 0x41, 0x08\n\t.long 0x01020304"
                  :
                  : "c"(words)
                  : "memory", "cc");
            }),
            kRtmCommitted);
  EXPECT_EQ(words[0], 1u);
  EXPECT_EQ(words[1], 0x01020306u);
}

TEST_F(RtmEmulation, VectorRegistersOutliveSeveralTransactions) {
  alignas(32) std::uint64_t in[4] = {1, 2, 3, 4}, out[4] = {};
  asm volatile(
      "vmovdqa %1, %%ymm5\n\t"
      "xbegin 1f\n\t vpaddq %%ymm5, %%ymm5, %%ymm5\n\t xend\n\t 1:"
      "xbegin 2f\n\t vpaddq %%ymm5, %%ymm5, %%ymm5\n\t xend\n\t 2:"
      "vmovdqa %%ymm5, %0"
      : "=m"(out)
      : "m"(in)
      : "rax", "xmm5", "memory", "cc");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], in[i] * 4);
}

TEST_F(RtmEmulation, StringInstructionsAndBitStrings) {
  alignas(64) static unsigned char from[256], to[256];
  for (int i = 0; i < 256; ++i) from[i] = static_cast<unsigned char>(i);
  prefault(to, sizeof to);
  std::uint64_t bits[4] = {};
  bool carry = true;
  std::uint64_t left = 0;
  EXPECT_EQ(attempt([&] {
              void *d = to;
              const void *s = from;
              std::size_t n = sizeof to;
              asm volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
              d = to;
              n = sizeof to;
              asm volatile("repne scasb" : "+D"(d), "+c"(n) : "a"(100) : "memory", "cc");
              left = n;
              std::int64_t bit = 70;
              asm volatile("btsq %2, %0\n\tsetc %1"
                           : "+m"(bits), "=q"(carry)
                           : "r"(bit)
                           : "cc", "memory");
            }),
            kRtmCommitted);
  EXPECT_EQ(std::memcmp(from, to, sizeof to), 0);
  EXPECT_EQ(left, 256u - 101u);
  EXPECT_EQ(bits[1], 64u);
  EXPECT_FALSE(carry);
}

TEST_F(RtmEmulation, AccessesMayCrossLinesAndPages) {
  prefault(g_pages, sizeof g_pages);
  auto *bytes = g_pages;
  std::memset(bytes, 0, 8192);
  const std::uint64_t value = 0x1122'3344'5566'7788;
  EXPECT_EQ(attempt([&] {
              std::memcpy(bytes + 61, &value, 8);
              std::memcpy(bytes + 4093, bytes + 61, 8);
            }),
            kRtmCommitted);
  EXPECT_EQ(std::memcmp(bytes + 4093, &value, 8), 0);
}

TEST_F(RtmEmulation, RedZoneAndStackAreTheProgramsOwn) {
  // Deep recursion below the frame that the kernel made, and a leaf with a red zone.
  struct Recursion {
    static __attribute__((noinline)) long run(long n) { return n == 0 ? 0 : n + run(n - 1) * 1; }
  };
  volatile char room[32 * 1024];
  for (std::size_t i = 0; i < sizeof room; i += 64) room[i] = 1;
  volatile long n = 40, result = 0;
  EXPECT_EQ(attempt([&] { result = Recursion::run(n); }), kRtmCommitted);
  EXPECT_EQ(result, 820);
}

TEST_F(RtmEmulation, RewrittenCodeIsDecodedAgain) {
  auto *code = static_cast<unsigned char *>(::mmap(
      nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const unsigned char returns[] = {0xB8, 1, 0, 0, 0, 0xC3};  // mov eax, 1; ret
  std::memcpy(code, returns, sizeof returns);
  const auto function = reinterpret_cast<int (*)()>(code);
  volatile int result = 0;
  for (unsigned char i = 1; i < 20; ++i) {
    code[1] = i;
    ASSERT_EQ(attempt([&] { result = function(); }), kRtmCommitted);
    ASSERT_EQ(result, i);
  }
  ::munmap(code, 4096);
}

TEST_F(RtmEmulation, NamedCodeIsPatched) {
  auto *code = static_cast<unsigned char *>(::mmap(
      nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  // xbegin +9; xabort 7 -> fallback; mov eax, 5; ret; fallback: ret
  const unsigned char bytes[] = {0xC7, 0xF8, 9, 0, 0, 0, 0xC6, 0xF8,
                                 7,    0xB8, 5, 0, 0, 0, 0xC3, 0xC3};
  std::memcpy(code, bytes, sizeof bytes);
  const auto before = counters();
  if (tmh_rtm_emulation_state() == TMH_RTM_EMULATION_FORCED) {
    EXPECT_EQ(tmh_rtm_emulation_patch(code, code + sizeof bytes), 1u);
    EXPECT_EQ(tmh_rtm_emulation_patch(code, code + sizeof bytes), 0u);
  }
  std::uint32_t status = 0;
  asm volatile("call *%1" : "=a"(status) : "r"(code) : "memory", "cc");
  EXPECT_EQ(status, 7u << 24 | 1u);
  EXPECT_EQ(counters().explicit_aborts, before.explicit_aborts + 1);
}

TEST_F(RtmEmulation, BytesThatOnlyLookLikeXbeginStay) {
  unsigned char bytes[] = {0xB8, 0xC7, 0xF8, 0, 0, 0xC3};  // mov eax, 0x0000F8C7; ret
  EXPECT_EQ(tmh_rtm_emulation_patch(bytes, bytes + sizeof bytes), 0u);
  EXPECT_EQ(bytes[1], 0xC7);
}

void on_signal(int) {}

TEST_F(RtmEmulation, TimerSignalsComeBetweenTransactions) {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  ASSERT_EQ(::sigaction(SIGALRM, &action, nullptr), 0);
  timer_t timer;
  sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGALRM;
  ASSERT_EQ(::timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  const itimerspec every{{0, 200'000}, {0, 200'000}};
  ASSERT_EQ(::timer_settime(timer, 0, &every, nullptr), 0);
  volatile long sum = 0;
  long committed = 0;
  for (int i = 0; i < 20'000; ++i)
    committed += attempt([&] { sum = sum + 1; }) == kRtmCommitted ? 1 : 0;
  ::timer_delete(timer);
  EXPECT_EQ(sum, committed);
  EXPECT_EQ(committed, 20'000);
}

volatile long g_in_handler = 0;
void transact_in_handler(int) {
  (void)attempt([] { g_in_handler = g_in_handler + 1; });
  // A fault inside, while the alternate stack holds this handler's own frames.
  volatile long mark = 4711;
  int *volatile null = nullptr;
  if (attempt([&] { mark = *null; }) != 0 || mark != 4711) g_in_handler = -1'000;
}

TEST_F(RtmEmulation, TransactionsRunInHandlersAndOnAlternateStacks) {
  static char room[128 * 1024];
  prefault(room, sizeof room);
  stack_t alternate{room, 0, sizeof room}, old{};
  ASSERT_EQ(::sigaltstack(&alternate, &old), 0);
  struct sigaction action = {};
  action.sa_handler = transact_in_handler;
  action.sa_flags = SA_ONSTACK;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, nullptr), 0);
  g_in_handler = 0;
  for (int i = 0; i < 10; ++i) ::raise(SIGUSR1);
  EXPECT_EQ(g_in_handler, 10);
  stack_t now{};
  ASSERT_EQ(::sigaltstack(nullptr, &now), 0);
  EXPECT_EQ(now.ss_sp, room);
  ASSERT_EQ(::sigaltstack(&old, nullptr), 0);
}

TEST_F(RtmEmulation, TheProgramsOwnFaultHandlersGoOn) {
  static volatile sig_atomic_t faults = 0;
  struct sigaction action = {}, old = {};
  action.sa_sigaction = [](int, siginfo_t *info, void *) {
    faults = faults + 1;
    ::mprotect(reinterpret_cast<void *>(reinterpret_cast<std::uintptr_t>(info->si_addr) & ~4095ul),
               4096, PROT_READ | PROT_WRITE);
  };
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(::sigaction(SIGSEGV, &action, &old), 0);
  auto *memory = static_cast<volatile char *>(
      ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT_EQ(attempt([&] { memory[0] = 1; }), 0u);
  EXPECT_EQ(faults, 0) << "a fault inside was delivered";
  memory[0] = 1;
  EXPECT_EQ(faults, 1);
  EXPECT_EQ(attempt([&] { memory[0] = 2; }), kRtmCommitted);
  struct sigaction mine = {};
  ASSERT_EQ(::sigaction(SIGSEGV, &old, &mine), 0);
  EXPECT_EQ(mine.sa_sigaction, action.sa_sigaction) << "the program sees what it installed";
  ::munmap(const_cast<char *>(memory), 4096);
}

TEST_F(RtmEmulation, IllegalInstructionsStayIllegal) {
  EXPECT_EXIT(asm volatile("ud2"), testing::KilledBySignal(SIGILL), "");
}

TEST_F(RtmEmulation, ClockReadingsWork) {
  timespec time{};
  (void)::clock_gettime(CLOCK_MONOTONIC, &time);  // resolves the symbol
  int committed = 0;
  for (int i = 0; i < 20 && committed == 0; ++i)
    committed +=
        attempt([&] { (void)::clock_gettime(CLOCK_MONOTONIC, &time); }) == kRtmCommitted ? 1 : 0;
  EXPECT_EQ(committed, 1) << "twenty attempts met the clock's page";
}

TEST_F(RtmEmulation, NothingOfAllThisWasUnsupported) { EXPECT_EQ(counters().unsupported, 0u); }

}  // namespace
