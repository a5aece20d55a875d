// tests/rtm/rtm_emulation_hardware_test.cpp -- the emulator against the processor's own RTM: the
// same code on both, the same abort statuses.
// Invariant: for every case, the emulator's status is the one that hardware gives most often; what
//            commits on one commits on the other.
// SKIPPED where the processor has no RTM that commits.
#include <cpuid.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <map>

#include <tmh/rtm_emulation.h>

#include "tests/rtm/rtm.h"

namespace {

using tmh::test::attempt;
using tmh::test::kRtmCommitted;
using tmh::test::prefault;
using tmh::test::rtm_abort;

constexpr std::size_t kLargeBytes = 8 << 20;
volatile unsigned char *g_large = nullptr;  // present
volatile int g_word = 0, g_zero = 0, g_one = 1;
int *volatile g_null = nullptr;

// A page that nobody has touched, for each attempt.
volatile unsigned char *fresh_page() {
  static unsigned char *next = nullptr;
  static std::size_t left = 0;
  if (left == 0) {
    left = 4096;
    next = static_cast<unsigned char *>(
        ::mmap(nullptr, left * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::madvise(next, left * 4096, MADV_NOHUGEPAGE);
  }
  --left;
  return next += 4096, next - 4096;
}

template <int kDepth>
std::uint32_t nest() {
  if constexpr (kDepth == 0)
    return kRtmCommitted;
  else
    return attempt([] { (void)nest<kDepth - 1>(); });
}

struct Case {
  const char *name;
  std::uint32_t (*run)();
};

const Case kCases[] = {
    {"empty", [] { return attempt([] {}); }},
    {"one store", [] { return attempt([] { g_word = g_word + 1; }); }},
    {"one hundred lines",
     [] {
       return attempt([] {
         for (std::size_t i = 0; i < 100; ++i) g_large[i * 64] = 1;
       });
     }},
    {"xabort 0", [] { return attempt([] { rtm_abort<0>(); }); }},
    {"xabort 0x5A", [] { return attempt([] { rtm_abort<0x5A>(); }); }},
    {"xabort 255", [] { return attempt([] { rtm_abort<255>(); }); }},
    {"xabort when nested", [] { return attempt([] { (void)attempt([] { rtm_abort<7>(); }); }); }},
    {"xabort behind a nested one",
     [] {
       return attempt([] {
         (void)attempt([] {});
         rtm_abort<8>();
       });
     }},
    {"seven levels", [] { return nest<7>(); }},
    {"eight levels", [] { return nest<8>(); }},
    {"written lines beyond every cache",
     [] {
       return attempt([] {
         for (std::size_t i = 0; i < kLargeBytes; i += 64) g_large[i] = 1;
       });
     }},
    {"a set's ways",
     [] {
       return attempt([] {
         for (std::size_t i = 0; i < 64; ++i) g_large[i * 4096] = 1;
       });
     }},
    {"a page read first",
     [] {
       volatile unsigned char *page = fresh_page();
       return attempt([page] { g_word = page[0]; });
     }},
    {"a page written first",
     [] {
       volatile unsigned char *page = fresh_page();
       return attempt([page] { page[0] = 1; });
     }},
    {"the zero page written",
     [] {
       volatile unsigned char *page = fresh_page();
       g_word = page[0];
       return attempt([page] { page[0] = 1; });
     }},
    {"a null pointer", [] { return attempt([] { g_word = *g_null; }); }},
    {"a page fault when nested",
     [] { return attempt([] { (void)attempt([] { g_word = *g_null; }); }); }},
    {"division by zero", [] { return attempt([] { g_word = g_one / g_zero; }); }},
    {"ud2", [] { return attempt([] { asm volatile("ud2"); }); }},
    {"syscall",
     [] {
       return attempt([] {
         long number = 39;
         asm volatile("syscall" : "+a"(number) : : "rcx", "r11", "memory");
       });
     }},
    {"cpuid",
     [] {
       return attempt([] {
         unsigned a = 0, b = 0, c = 0, d = 0;
         asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
       });
     }},
    {"pause", [] { return attempt([] { asm volatile("pause"); }); }},
    {"int3", [] { return attempt([] { asm volatile("int3"); }); }},
    {"rdtsc", [] { return attempt([] {
                     asm volatile("rdtsc" : : : "rax", "rdx");
                   }); }},
    {"mfence and a locked add",
     [] { return attempt([] { asm volatile("mfence\n\tlock addl $1, %0"
                                           : "+m"(g_word)); }); }},
    {"string instructions",
     [] {
       return attempt([] {
         void *to = const_cast<unsigned char *>(g_large);
         std::size_t count = 500;
         asm volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(1) : "memory");
       });
     }},
};
constexpr std::size_t kCaseCount = std::size(kCases);
constexpr int kAttempts = 300;

// An interrupt may end any attempt, and a commit is proof: committed once, or else what came most
// often.
std::uint32_t usual_status(const Case &tried) {
  std::map<std::uint32_t, int> statuses;
  for (int i = 0; i < kAttempts; ++i) {
    const std::uint32_t status = tried.run();
    if (status == kRtmCommitted) return status;
    ++statuses[status];
  }
  std::uint32_t usual = 0;
  int most = 0;
  for (const auto &[status, times] : statuses)
    if (times > most) usual = status, most = times;
  return usual;
}

bool has_working_rtm() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (b >> 11 & 1) == 0) return false;
  return usual_status(kCases[0]) == kRtmCommitted;
}

TEST(RtmEmulationHardware, GivesTheSameStatuses) {
  if (!has_working_rtm())
    GTEST_SKIP() << "this processor has no RTM that commits: nothing to compare with";
  ASSERT_EQ(tmh_rtm_emulation_state(), TMH_RTM_EMULATION_OFF)
      << "started by the environment: hardware cannot be asked any more";
  void *large =
      ::mmap(nullptr, kLargeBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(large, MAP_FAILED);
  prefault(large, kLargeBytes);
  g_large = static_cast<unsigned char *>(large);
  std::uint32_t hardware[kCaseCount];
  for (std::size_t i = 0; i < kCaseCount; ++i) hardware[i] = usual_status(kCases[i]);
  ASSERT_EQ(tmh_rtm_emulation_start(1), TMH_RTM_EMULATION_FORCED);
  for (std::size_t i = 0; i < kCaseCount; ++i) {
    const std::uint32_t emulated = usual_status(kCases[i]);
    EXPECT_EQ(emulated, hardware[i]) << kCases[i].name;
    std::printf("%-36s hardware %#x, emulator %#x\n", kCases[i].name, hardware[i], emulated);
  }
  ::munmap(large, kLargeBytes);
}

}  // namespace
