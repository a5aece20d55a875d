// tests/platform/file_mappings_test.cpp -- the sentence about a place that a file has nothing for.
#include "platform/file_mappings.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::platform {
namespace {

constexpr std::uint64_t kFileBytes = 3 * 4096;

// A file of three pages, the second of which is a hole; nothing is mapped but in the table.
class FileMappingsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GE(fd_, 0);
    ASSERT_EQ(ftruncate(fd_, kFileBytes), 0);
    ASSERT_EQ(pwrite(fd_, "x", 1, 0), 1);
    note_mapping({kAt, kMappedBytes, fd_, 0});
  }
  void TearDown() override {
    forget_mapping(reinterpret_cast<void *>(kAt));
    close(fd_);
  }
  // What is said; empty: nothing.
  [[nodiscard]] std::string report(std::uintptr_t address, bool is_write = false) const {
    testing::internal::CaptureStderr();
    const bool is_known = report_missing(address, is_write);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(is_known, !said.empty()) << said;
    return said;
  }

  static constexpr std::uintptr_t kAt = 1ull << 44;
  static constexpr std::uint64_t kMappedBytes = 1ull << 30;
  const test::TempFolder folder_;
  const int fd_ = open((folder_ / "a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
};

TEST_F(FileMappingsTest, BehindItsEndAFileWasCut) {
  const std::string said = report(kAt + kFileBytes + 5, true);
  EXPECT_NE(said.find(folder_ / "a" + " was cut to 12288 bytes"), std::string::npos) << said;
  EXPECT_NE(said.find("store to byte 12293"), std::string::npos) << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1);
}

TEST_F(FileMappingsTest, AHoleHasNoBlock) {
  const std::string said = report(kAt + 4096);
  EXPECT_NE(said.find("has no disk block at byte 4096"), std::string::npos) << said;
  EXPECT_NE(said.find("a load there"), std::string::npos) << said;
}

TEST_F(FileMappingsTest, WhatIsThereCannotBeRead) {
  EXPECT_NE(report(kAt).find("cannot be read or written at byte 0"), std::string::npos);
}

TEST_F(FileMappingsTest, OtherAddressesAreNoFilesOfOurs) {
  EXPECT_EQ(report(kAt - 1), "");
  EXPECT_EQ(report(kAt + kMappedBytes), "");
  forget_mapping(reinterpret_cast<void *>(kAt));
  EXPECT_EQ(report(kAt), "");
}

TEST_F(FileMappingsTest, AMappingTakesThePlaceOfOneThatWasNotForgotten) {
  const int other = open((folder_ / "b").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  note_mapping({kAt, 4096, other, 8192});
  EXPECT_NE(report(kAt).find("/b was cut to 0 bytes"), std::string::npos);
  EXPECT_NE(report(kAt).find("byte 8192"), std::string::npos) << "the mapping begins there";
  EXPECT_EQ(report(kAt + 4096), "");
  close(other);
}

TEST_F(FileMappingsTest, AnyNumberOfMappingsIsKnown) {
  constexpr std::uint64_t kMany = 1000;
  const auto at = [](std::uint64_t i) { return kAt + kMappedBytes + i * 4096; };
  for (std::uint64_t i = 0; i < kMany; ++i) note_mapping({at(i), 4096, fd_, i << 20});
  EXPECT_NE(report(at(kMany - 1)).find("byte 1047527424"), std::string::npos);
  for (std::uint64_t i = 0; i < kMany; ++i) forget_mapping(reinterpret_cast<void *>(at(i)));
  EXPECT_EQ(report(at(kMany - 1)), "");
}

TEST_F(FileMappingsTest, AForkedChildHasNoneOfItsParents) {
  test::expect_child("child", [&] {
    EXPECT_EQ(report(kAt), "");
    note_mapping({kAt + kMappedBytes, 4096, fd_, 0});
    EXPECT_EQ(report(kAt), "");
    EXPECT_NE(report(kAt + kMappedBytes), "");
  });
}

}  // namespace
}  // namespace tmh::platform
