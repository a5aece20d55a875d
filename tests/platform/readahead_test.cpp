// tests/platform/readahead_test.cpp -- how far a file may be read ahead of, and what its mappings
// are told.
// Invariant: the bytes that may be read ahead of have blocks, and end a window of read-ahead (16
//            MiB) before the first hole.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

#include "platform/files.h"
#include "platform/readahead.h"
#include "tests/support/temp_folder.h"

namespace tmh::platform {
namespace {

constexpr std::uint64_t kMiB = 1u << 20, kWindow = 16 * kMiB;

class ReadaheadTest : public testing::Test {
 protected:
  // 24 MiB with blocks, 8 MiB without, 24 MiB with, 8 MiB without. Skipped where the file system
  // does not list extents.
  void SetUp() override {
    file_ = FileDescriptor(open((folder_ / "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_TRUE(file_);
    ASSERT_EQ(ftruncate(file_.get(), 64 * kMiB), 0);
    if (fallocate(file_.get(), 0, 0, 24 * kMiB) != 0 ||
        fallocate(file_.get(), 0, 32 * kMiB, 24 * kMiB) != 0)
      GTEST_SKIP() << "the temporary folder's file system does not allocate blocks ahead";
    if (readahead_bytes(file_.get(), 0) == kReadaheadAnywhere)
      GTEST_SKIP() << "the temporary folder's file system does not list a file's extents";
  }
  test::TempFolder folder_;
  FileDescriptor file_;
};

TEST_F(ReadaheadTest, EndsAWindowBeforeTheFirstHole) {
  EXPECT_EQ(readahead_bytes(file_.get(), 0), 24 * kMiB - kWindow);
  EXPECT_EQ(readahead_bytes(file_.get(), 4 * kMiB), 20 * kMiB - kWindow)
      << "counted from the offset";
  EXPECT_EQ(readahead_bytes(file_.get(), 24 * kMiB - kWindow - 4096), 4096U);
}

TEST_F(ReadaheadTest, IsNothingNearOrInAHole) {
  EXPECT_EQ(readahead_bytes(file_.get(), 24 * kMiB - kWindow), 0U);
  EXPECT_EQ(readahead_bytes(file_.get(), 23 * kMiB), 0U);
  EXPECT_EQ(readahead_bytes(file_.get(), 28 * kMiB), 0U)
      << "the blocks behind the hole are not the ones asked about";
  EXPECT_EQ(readahead_bytes(file_.get(), 60 * kMiB), 0U);
}

TEST_F(ReadaheadTest, ReachesTheNextHoleWhenOneIsFilled) {
  EXPECT_EQ(readahead_bytes(file_.get(), 32 * kMiB), 24 * kMiB - kWindow);
  ASSERT_EQ(fallocate(file_.get(), 0, 24 * kMiB, 8 * kMiB), 0);
  EXPECT_EQ(readahead_bytes(file_.get(), 0), 56 * kMiB - kWindow);
}

// Of many extents, more than are listed at once.
TEST_F(ReadaheadTest, PassesExtentsThatTouch) {
  constexpr std::uint64_t kPieces = 400, kPiece = kMiB / 16;
  // Written and unwritten ones in turn: never one extent.
  for (std::uint64_t i = 0; i < kPieces; ++i) {
    const std::string bytes(i % 2 == 0 ? kPiece : 0, 'x');
    ASSERT_EQ(pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(i * kPiece)),
              static_cast<ssize_t>(bytes.size()));
  }
  ASSERT_EQ(fallocate(file_.get(), 0, 0, 32 * kMiB), 0);
  ASSERT_EQ(fsync(file_.get()), 0);
  EXPECT_EQ(readahead_bytes(file_.get(), 0), 56 * kMiB - kWindow);
}

TEST(ReadaheadAnywhereTest, WhereExtentsAreNotListed) {
  const FileDescriptor memory(memfd_create("tmpfs", MFD_CLOEXEC));
  ASSERT_TRUE(memory);
  ASSERT_EQ(ftruncate(memory.get(), 64 * kMiB), 0);
  EXPECT_EQ(readahead_bytes(memory.get(), 0), kReadaheadAnywhere);
}

// The kernel's flags of the mapping that holds an address ("rr": read at random, hence nothing
// ahead).
bool is_read_at_random(const void *address) {
  std::ifstream maps("/proc/self/smaps");
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t first = 0, behind = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &behind) == 2 && line.find('-') < 17)
      is_here = reinterpret_cast<std::uint64_t>(address) - first < behind - first;
    else if (is_here && line.starts_with("VmFlags:"))
      return (line + " ").find(" rr ") != std::string::npos;
  }
  ADD_FAILURE() << "not mapped";
  return false;
}

TEST(KeepOffHolesTest, TurnsReadaheadOffFromThereOn) {
  const FileDescriptor memory(memfd_create("mapped", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory.get(), kMiB), 0);
  struct Case {
    // Of the mapping in what was looked at; how far that may be read ahead of.
    std::uint64_t first, ahead;
    bool begin, end;  // at random?
  };
  for (const Case &one : {Case{0, 0, true, true}, Case{0, kMiB / 2, false, true},
                          Case{0, kMiB, false, false}, Case{0, kReadaheadAnywhere, false, false},
                          Case{kMiB, kMiB + 4096, false, true}, Case{2 * kMiB, kMiB, true, true}}) {
    void *at = mmap(nullptr, kMiB, PROT_READ, MAP_SHARED, memory.get(), 0);
    ASSERT_NE(at, MAP_FAILED);
    keep_off_holes(at, one.first, kMiB, one.ahead);
    EXPECT_EQ(is_read_at_random(at), one.begin) << one.first << ", " << one.ahead;
    EXPECT_EQ(is_read_at_random(static_cast<std::byte *>(at) + kMiB - 1), one.end)
        << one.first << ", " << one.ahead;
    munmap(at, kMiB);
  }
}

}  // namespace
}  // namespace tmh::platform
