// tests/page/semantics_signals_test.cpp -- the library's fault handler as a guest in somebody
// else's process, in every mode.
// Invariants: (1) a fault that is not ours ends in the previous handler, or kills the process by
//             SIGSEGV when there is none, (2) our own faults are invisible: errno, alternate stack,
//             signal mask and other signals' handlers stay as they are, (3) first and last byte of
//             a segment belong to it; the byte behind does not.
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <stdexcept>

#include "tests/support/stage.h"

namespace tmh::test {
namespace {

using SignalTest = ModeTest;

INSTANTIATE_TEST_SUITE_P(Modes, SignalTest, testing::ValuesIn(kModes), mode_name);

bool is_exact(const Mode &mode) { return mode.tracking == Tracking::kSignal; }
using ExactSignalTest = SignalTest;
INSTANTIATE_TEST_SUITE_P(Modes, ExactSignalTest, testing::ValuesIn(modes_where(kModes, is_exact)),
                         mode_name);

// These deaths are wanted: no core file of each.
void leave_no_core() {
  const rlimit none{0, 0};
  ASSERT_EQ(setrlimit(RLIMIT_CORE, &none), 0);
}

// A page of our own that faults when touched.
volatile char *forbidden_page() {
  void *page = mmap(nullptr, kPageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::runtime_error("mmap");
  return static_cast<volatile char *>(page);
}

// As a program does that repairs its own faults. What it saw is compared outside the handler.
std::atomic<int> handled{0};
std::atomic<std::uintptr_t> handled_address{0};
std::atomic<bool> handled_on_other_stack{false};
std::uintptr_t other_stack_begin = 0, other_stack_end = 0;

void repair(int, siginfo_t *info, void *) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const auto stack = reinterpret_cast<std::uintptr_t>(&address);
  handled_on_other_stack = stack >= other_stack_begin && stack < other_stack_end;
  handled_address = address;
  ++handled;
  if (info->si_code > 0)
    mprotect(reinterpret_cast<void *>(address & ~(kPageBytes - 1)), kPageBytes,
             PROT_READ | PROT_WRITE);
}

void install(void (*handler)(int, siginfo_t *, void *), int flags = 0) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
}

void reset_default() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
}

void use_alternate_stack() {
  constexpr std::size_t kBytes = 64 * 1024;
  static const std::unique_ptr<char[]> memory = std::make_unique<char[]>(kBytes);
  other_stack_begin = reinterpret_cast<std::uintptr_t>(memory.get());
  other_stack_end = other_stack_begin + kBytes;
  stack_t stack{};
  stack.ss_sp = memory.get();
  stack.ss_size = kBytes;
  ASSERT_EQ(sigaltstack(&stack, nullptr), 0);
}

// Reads, then writes a few pages in one instance and checks what came of it.
void use_pages(const Actor &self, std::uint64_t value) {
  atomically(self.domain, [&] {
    for (std::uint64_t page = 0; page < 8; ++page) self.set(page, self.get(page + 8) + value);
  });
  query(self.domain, [&] {
    for (std::uint64_t page = 0; page < 8; ++page) EXPECT_EQ(self.get(page), value);
  });
}

void expect_death_by(int signal, const std::function<void()> &body) {
  const ChildEnd end = run_in_child("expected to die", [&] {
    leave_no_core();
    body();
  });
  EXPECT_EQ(end.signal, signal) << "exit code " << end.exit_code;
}

TEST_P(SignalTest, ForeignFaultWithoutHandlerKillsBySigsegv) {
  expect_death_by(SIGSEGV, [&] {
    reset_default();
    const Actor self = actor();
    use_pages(self, 1);
    *forbidden_page() = 1;
  });
}

TEST_P(SignalTest, ForeignFaultInsideAnInstanceKillsToo) {
  expect_death_by(SIGSEGV, [&] {
    reset_default();
    const Actor self = actor();
    self.domain.begin();
    self.set(0, 1);
    *forbidden_page() = 1;
  });
}

TEST_P(SignalTest, SentSigsegvKills) {
  expect_death_by(SIGSEGV, [&] {
    reset_default();
    const Actor self = actor();
    use_pages(self, 1);
    raise(SIGSEGV);
  });
}

TEST_P(SignalTest, IgnoredSigsegvThatIsSentStaysIgnored) {
  expect_child("ignoring", [&] {
    signal(SIGSEGV, SIG_IGN);
    const Actor self = actor();
    use_pages(self, 1);
    raise(SIGSEGV);
    use_pages(self, 2);
  });
}

TEST_P(SignalTest, EarlierHandlerGetsForeignFaultsUnchanged) {
  expect_child("chained", [&] {
    install(repair);
    const Actor self = actor();
    use_pages(self, 1);
    EXPECT_EQ(handled.load(), 0) << "our own faults reached the earlier handler";
    volatile char *page = forbidden_page();
    page[17] = 1;
    EXPECT_EQ(handled.load(), 1);
    EXPECT_EQ(handled_address.load(), reinterpret_cast<std::uintptr_t>(page + 17));
    self.domain.begin();
    self.set(20, 1);
    forbidden_page()[0] = 1;
    self.set(21, 1);
    EXPECT_EQ(self.domain.end(), Status::kCommitted);
    EXPECT_EQ(handled.load(), 2);
    EXPECT_EQ(self.committed(20) + self.committed(21), 2U);
    raise(SIGSEGV);
    EXPECT_EQ(handled.load(), 3) << "a sent signal did not reach the earlier handler";
  });
}

sigjmp_buf escape_point;
void escape(int, siginfo_t *, void *) { siglongjmp(escape_point, 1); }

TEST_P(SignalTest, EarlierHandlerMayJumpOutOfAForeignFault) {
  expect_child("jumping", [&] {
    install(escape);
    const Actor self = actor();
    for (std::uint64_t round = 1; round <= 3; ++round) {
      if (sigsetjmp(escape_point, 1) == 0) {
        forbidden_page()[0] = 1;
        FAIL() << "the store did not fault";
      }
      use_pages(self, round);
    }
  });
}

TEST_P(SignalTest, AlternateStackServesBothHandlers) {
  expect_child("alternate", [&] {
    use_alternate_stack();
    install(repair, SA_ONSTACK);
    const Actor self = actor();
    use_pages(self, 1);
    forbidden_page()[0] = 1;
    EXPECT_EQ(handled.load(), 1);
    EXPECT_TRUE(handled_on_other_stack.load());
    use_pages(self, 2);
    stack_t now{};
    ASSERT_EQ(sigaltstack(nullptr, &now), 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(now.ss_sp), other_stack_begin)
        << "the application's stack was replaced";
  });
}

TEST_P(SignalTest, ErrnoSurvivesFirstTouches) {
  const Actor self = actor();
  self.domain.begin();
  for (std::uint64_t page = 0; page < kStagePages; ++page) {
    errno = 1234;
    const std::uint64_t seen = self.get(page);
    const int after_read = errno;
    self.set(page, seen + 1);
    const int after_write = errno;
    ASSERT_EQ(after_read, 1234) << "page " << page;
    ASSERT_EQ(after_write, 1234) << "page " << page;
  }
  EXPECT_EQ(self.domain.end(), Status::kCommitted);
}

TEST_P(SignalTest, SignalMaskSurvivesFirstTouches) {
  const Actor self = actor();
  sigset_t wanted, before, after;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGUSR2);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &wanted, &before), 0);
  use_pages(self, 1);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
  EXPECT_EQ(sigismember(&after, SIGUSR2), 1);
  EXPECT_EQ(sigismember(&after, SIGSEGV), 0) << "SIGSEGV stayed blocked after a fault";
}

std::atomic<std::uint64_t> alarms{0};
void count_alarm(int) { ++alarms; }

// Interrupts system calls and faults of the library at random places.
TEST_P(SignalTest, StormOfOtherSignalsHarmsNothing) {
  expect_child("stormy", [&] {
    struct sigaction action {};
    action.sa_handler = count_alarm;  // no SA_RESTART: interrupted system calls return EINTR
    ASSERT_EQ(sigaction(SIGALRM, &action, nullptr), 0);
    const itimerval every{{0, 300}, {0, 300}};
    ASSERT_EQ(setitimer(ITIMER_REAL, &every, nullptr), 0);
    Actor self = actor();
    constexpr std::uint64_t kAlarms = 200;
    for (std::uint64_t round = 1; alarms.load() < kAlarms; ++round) use_pages(self, round);
    self.domain.close();
    const itimerval never{};
    setitimer(ITIMER_REAL, &never, nullptr);
  });
}

TEST_P(SignalTest, FirstAndLastByteBelongToTheSegment) {
  const Actor self = actor();
  std::byte &first = self.first.data()[0], &last = self.first.data()[self.first.size_bytes() - 1];
  atomically(self.domain, [&] {
    EXPECT_EQ(load(first), std::byte{0});
    EXPECT_EQ(load(last), std::byte{0});
    store(first, std::byte{1});
    store(last, std::byte{2});
  });
  query(self.domain, [&] {
    EXPECT_EQ(load(first), std::byte{1});
    EXPECT_EQ(load(last), std::byte{2});
  });
}

// Behind the size, but inside the address range that is reserved for growth.
TEST_P(SignalTest, ByteBehindTheSegmentIsAFault) {
  for (const bool writes : {false, true}) {
    const ChildEnd end = run_in_child("beyond", [&] {
      leave_no_core();
      reset_default();
      const Actor self = actor();
      self.domain.begin();
      std::byte &behind = self.first.data()[self.first.size_bytes()];
      if (writes) {
        store(behind, std::byte{1});
      } else {
        static_cast<void>(load(behind));
      }
    });
    EXPECT_TRUE(end.signal == SIGSEGV || end.signal == SIGBUS)
        << "exit code " << end.exit_code << ", signal " << end.signal;
  }
}

// In the exact signal modes nothing is accessible between instances (thesis, section 2.1: a fatal
// program error). Modes that keep pages mapped, or let the kernel resolve touches, cannot notice
// it: they document that such stores are lost or harmful.
TEST_P(ExactSignalTest, AccessOutsideAnInstanceIsFatal) {
  for (const bool touched_before : {false, true}) {
    for (const bool writes : {false, true}) {
      expect_death_by(SIGSEGV, [&] {
        reset_default();
        const Actor self = actor();
        if (touched_before) self.commit(0, 1);
        if (writes) {
          self.set(0, 2);
        } else {
          static_cast<void>(self.get(0));
        }
      });
    }
  }
}

}  // namespace
}  // namespace tmh::test
