// tests/open_without_memory_test.cpp -- opens of a domain in which one allocation fails.
// Invariants: (1) what an open without memory has made of a new folder is no domain: the next open gets what it asks for. (2) it leaves no participant
//             behind: the next one is the first, and finds what the dead have left.
// Steps:      the n-th allocation of kBytesMin or more fails, for each n until the open needs no more: those are its objects and buffers; the names of
//             files are thousands. Where the library may not throw, the process ends: those n are left to the tests of deaths.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <string>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

constexpr std::size_t kBytesMin = 512;
// How many allocations of kBytesMin or more by this thread succeed before one fails; 0: the next one does, less: none.
constinit thread_local int allocations_left = -1;

void *operator new(std::size_t bytes) {
  const bool fails = bytes >= kBytesMin && allocations_left >= 0 && allocations_left-- == 0;
  void *const memory = fails ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept { return std::malloc(bytes); }
// Not inlined: g++ would warn of an object that is made by `new` and freed by free().
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, const std::nothrow_t &) noexcept { std::free(memory); }

namespace tmh::test {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

enum class Opened : std::uint8_t { kYes, kNo, kDied };

// Opens with the n-th allocation failing; then, in the same process if it did not open, `after`.
Opened open_at(int n, const std::string &folder, const DomainOptions &options, const std::function<void()> &after) {
  const Shared<bool> has_opened;
  const ChildEnd end = run_in_child("without memory", [&] {
    signal(SIGABRT, [](int) { _exit(7); });  // std::terminate(): no core, and nothing said
    allocations_left = n;
    std::error_code error;
    const Domain domain = Domain::open(folder, options, error);
    allocations_left = -1;
    *has_opened = !error;
    if (!error) return;
    EXPECT_EQ(error, make_error_code(Errc::kOutOfMemory)) << n << ": " << error.message();
    after();
  });
  if (end.exit_code == 7) return Opened::kDied;
  EXPECT_TRUE(end.succeeded()) << n;
  return *has_opened ? Opened::kYes : Opened::kNo;
}

DomainOptions strict_hybrid(std::uint64_t log_file_bytes) {
  DomainOptions options = durable_options();
  options.log_file_bytes = log_file_bytes;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;
  return options;
}

TEST(OpenWithoutMemoryTest, MakesNoDomain) {
  int refused = 0, n = 0;
  for (Opened opened = Opened::kNo; opened != Opened::kYes; ++n) {
    SCOPED_TRACE(n);
    const TempFolder parent;
    const std::string folder = parent.path() + "/new";
    opened = open_at(n, folder, strict_hybrid(2 * kMiB), [&] {
      Domain domain = Domain::open(folder, strict_hybrid(kMiB));
      EXPECT_EQ(std::filesystem::file_size(folder + "/tmh.log.0000000000"), kMiB);
      domain.close();
    });
    refused += opened == Opened::kNo ? 1 : 0;
  }
  EXPECT_GT(refused, 2) << "of " << n;
}

TEST(OpenWithoutMemoryTest, LeavesNoParticipantBehind) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  options.line = LineChoice::kSoftware;
  int refused = 0, n = 0;
  for (Opened opened = Opened::kNo; opened != Opened::kYes; ++n) {
    SCOPED_TRACE(n);
    const TempFolder folder;
    in_domain(folder.path(), options, Ending::kKilled,
              [](const Domain &domain, const Segment &segment) { commit(domain, segment, 10); });
    opened = open_at(n, folder.path(), options, [&] {
      const Domain domain = Domain::open(folder.path(), options);
      EXPECT_EQ(domain.participants().size(), 1U);
      const Segment segment = domain.map("a.db", raw_pages(64));
      EXPECT_EQ(query(domain, [&] { return word_of(segment, 9); }), 9U);
    });
    refused += opened == Opened::kNo ? 1 : 0;
  }
  EXPECT_GT(refused, 2) << "of " << n;
}

}  // namespace
}  // namespace tmh::test
