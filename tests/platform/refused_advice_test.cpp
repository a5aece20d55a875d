// tests/platform/refused_advice_test.cpp -- processes whose kernel refuses madvise(2): for memory
// that they have locked, or in a sandbox.
// Invariants: (1) with signal tracking what mlock(2) or mlockall(2) has locked rolls back, and
//             follows others' commits, as anything else. (2) with any tracking, so do domains that
//             are opened behind mlockall(MCL_FUTURE), and what they only reserve is not brought
//             into memory. (3) so do those of a process that forbids itself madvise(2) behind the
//             open, at any level.
// Why:       MADV_DONTNEED and guards are refused for locked memory, and locking copies private
//            mappings that may be stored to.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "platform/failure.h"
#include "tests/support/children.h"
#include "tests/support/forbid.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

#include <tmh/tmh.hpp>

namespace tmh::test {
namespace {

constexpr std::uint64_t kPages = 64;
constexpr int kCannot = 77;

std::uint64_t &word(const Segment &segment, std::uint64_t page) {
  return *reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes);
}

Segment map(const Domain &domain) {
  SegmentOptions options;
  options.layout = Layout::kRaw;
  options.size_bytes = kPages * kPageBytes;
  return domain.map("a.db", options);
}

enum class Refusal : std::uint8_t { kOfAll, kOfSegment, kOfSandbox };

struct Play {
  const char *name;
  Tracking tracking;
  Refusal refusal;
  int flags_before = 0;  // of mlockall(), before the open
  int flags_behind = 0;  // behind map()
  Levels levels = Levels::kPage;
};
void PrintTo(const Play &play, std::ostream *out) { *out << play.name; }

constexpr Play kPlays[] = {
    {"SegmentSignal", Tracking::kSignal, Refusal::kOfSegment},
    {"SegmentSignalHot", Tracking::kSignalHot, Refusal::kOfSegment},
    {"AllSignal", Tracking::kSignal, Refusal::kOfAll, 0, MCL_CURRENT | MCL_ONFAULT},
    {"AllSignalHot", Tracking::kSignalHot, Refusal::kOfAll, 0, MCL_CURRENT | MCL_ONFAULT},
    {"FutureSignal", Tracking::kSignal, Refusal::kOfAll, MCL_CURRENT | MCL_FUTURE},
    {"FutureSignalHot", Tracking::kSignalHot, Refusal::kOfAll,
     MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT},
    {"FutureKernel", Tracking::kKernel, Refusal::kOfAll, MCL_CURRENT | MCL_FUTURE},
    {"FutureKernelHot", Tracking::kKernelHot, Refusal::kOfAll, MCL_CURRENT | MCL_FUTURE},
    {"FutureKernelHotOnFault", Tracking::kKernelHot, Refusal::kOfAll,
     MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT},
    {"SandboxSignal", Tracking::kSignal, Refusal::kOfSandbox},
    {"SandboxSignalHot", Tracking::kSignalHot, Refusal::kOfSandbox},
    {"SandboxKernel", Tracking::kKernel, Refusal::kOfSandbox},
    {"SandboxKernelHot", Tracking::kKernelHot, Refusal::kOfSandbox},
    {"SandboxHybridSignal", Tracking::kSignal, Refusal::kOfSandbox, 0, 0, Levels::kHybrid},
    {"SandboxHybridKernelHot", Tracking::kKernelHot, Refusal::kOfSandbox, 0, 0, Levels::kHybrid},
};

void lock_all(int flags) {
  if (flags != 0 && mlockall(flags) != 0) _exit(kCannot);
}

// In MiB.
std::uint64_t resident() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, pages = 0;
  file >> size >> pages;
  return pages * kPageBytes >> 20;
}

class RefusedAdvice : public testing::TestWithParam<Play> {
 protected:
  static Domain open(const std::string &folder) {
    DomainOptions options;
    options.tracking = GetParam().tracking;
    options.levels = GetParam().levels;
    options.line = LineChoice::kSoftware;
    std::error_code error;
    Domain domain = Domain::open(folder, options, error);
    if (error == make_error_code(Errc::kTrackingUnavailable)) _exit(kCannot);
    EXPECT_FALSE(error) << error.message() << ": " << platform::failure_detail();
    return domain;
  }
};

TEST_P(RefusedAdvice, RollsBackAndFollows) {
  const MemoryFolder folder;
  const Shared<Turn> turn;
  Children children;
  const std::size_t other = children.spawn("other", [&] {
    DomainOptions options;
    options.levels = GetParam().levels;
    options.line = LineChoice::kSoftware;
    const Domain domain = Domain::open(folder.path(), options);
    const Segment segment = map(domain);
    for (std::uint32_t round = 0; round < 4; ++round) {
      turn->await(2 * round + 1);
      for (std::uint64_t page = 0; page < kPages; ++page)
        atomically(domain, [&] { ++word(segment, page); });
      turn->reach(2 * round + 2);
    }
  });
  const ChildEnd end = run_in_child("refused", [&] {
    const Play &play = GetParam();
    lock_all(play.flags_before);
    const Domain domain = open(folder.path());
    const Segment segment = map(domain);
    lock_all(play.flags_behind);
    // ENOMEM: locked, but it could not be brought in, for it is inaccessible outside instances.
    if (play.refusal == Refusal::kOfSegment && mlock(segment.data(), kPages * kPageBytes) != 0 &&
        errno != ENOMEM)
      _exit(kCannot);
    if (play.refusal == Refusal::kOfSandbox && !try_forbid(SYS_madvise)) _exit(kCannot);
    EXPECT_LT(resident(), 512U);
    std::uint64_t expected = 0;
    for (std::uint32_t round = 0; round < 4; ++round) {
      turn->reach(2 * round + 1);
      turn->await(2 * round + 2);
      ++expected;
      for (int again = 0; again < 3; ++again) {
        domain.begin();
        for (std::uint64_t page = 0; page < kPages; page += 2) word(segment, page) += 1000;
        domain.abort();
        atomically(domain, [&] {
          for (std::uint64_t page = 0; page < kPages; ++page) ++word(segment, page);
        });
        ++expected;
        query(domain, [&] {
          for (std::uint64_t page = 0; page < kPages; ++page)
            EXPECT_EQ(word(segment, page), expected) << page;
        });
      }
    }
  });
  if (end.exit_code == kCannot) {
    children.bury(other);
    GTEST_SKIP()
        << "needs the right to lock memory (ulimit -l) or to filter system calls, and the tracking";
  }
  EXPECT_TRUE(end.succeeded());
  EXPECT_TRUE(children.wait(other).succeeded());
}

INSTANTIATE_TEST_SUITE_P(Plays, RefusedAdvice, testing::ValuesIn(kPlays),
                         [](const auto &of) { return std::string(of.param.name); });

}  // namespace
}  // namespace tmh::test
