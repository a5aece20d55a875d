// tests/storage/segment_files_test.cpp -- which files of a folder go when those of its segments are
// removed.
// Invariants: (1) those of every segment, and nothing that has another name. (2) also without a
//             descriptor to list the folder with.
#include "storage/segment_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <set>
#include <string>

#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;

class SegmentFilesTest : public testing::Test {
 protected:
  void make(const std::set<std::string> &names) const {
    for (const std::string &name : names) write_file(folder_.path() + "/" + name, name);
  }

  [[nodiscard]] std::set<std::string> left() const {
    std::set<std::string> names;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder_.path()))
      names.insert(entry.path().filename());
    return names;
  }

  const std::set<std::string> segments_{"tmh.home.0", "tmh.home.7", "tmh.home.10", "tmh.home.255"};
  const std::set<std::string> others_{
      "tmh.home.",    "tmh.home.256",        "tmh.home.07",  "tmh.home.00", "tmh.home.-1",
      "tmh.home.1x",  "tmh.home.1.ne",       "tmh.home.new", "tmh.home",    "tmh.pages.1",
      "a.tmh.home.1", "tmh.home.4294967296", "tmh.home. 1"};
  MemoryFolder folder_;
};

TEST_F(SegmentFilesTest, ThoseOfEverySegmentGoAndNoOthers) {
  make(segments_);
  make(others_);
  make({"tmh.home.3.new"});
  storage::remove_segment_files(folder_.path(), {"tmh.home."});
  std::set<std::string> expected = others_;
  expected.insert("tmh.home.3.new");
  EXPECT_EQ(left(), expected);
  storage::remove_segment_files(folder_.path(), {"tmh.home.", ".new"});
  EXPECT_EQ(left(), others_);
}

TEST_F(SegmentFilesTest, ManyOfThemGoAtOnce) {
  for (int i = 0; i < 256; ++i) make({"tmh.pages." + std::to_string(i)});
  storage::remove_segment_files(folder_.path(), {"tmh.pages."});
  EXPECT_EQ(left(), std::set<std::string>{});
}

TEST_F(SegmentFilesTest, WithoutDescriptorsToo) {
  make(segments_);
  make(others_);
  expect_child("without descriptors", [&] {
    const rlimit none{0, 0};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    storage::remove_segment_files(folder_.path(), {"tmh.home."});
  });
  EXPECT_EQ(left(), others_);
}

TEST_F(SegmentFilesTest, WhereNoFolderIsNothingHappens) {
  storage::remove_segment_files(folder_.path() + "/missing", {"tmh.home."});
  EXPECT_EQ(left(), std::set<std::string>{});
}

}  // namespace
}  // namespace tmh::test
