// tests/storage/home_test.cpp -- homes of segments: every mapping shows the file that is home.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <string>

#include "storage/home.h"
#include "storage/page_id.h"
#include "tests/support/temp_folder.h"

namespace tmh::storage {
namespace {

constexpr std::uint64_t kOffset = kPageBytes, kBytes = 2 * kPageBytes;

// A home in a file from its second page on; `is_separate`: moved to a file of its own.
class HomeTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    ASSERT_EQ(home_.open(folder_ / "data", kOffset, kBytes, kBytes, true), Errc::kOk);
    home_.base()[0] = std::byte{'d'};
    if (!GetParam()) return;
    ASSERT_EQ(home_.separate(folder_ / "home"), Errc::kOk);
    EXPECT_EQ(home_.base()[0], std::byte{'d'}) << "it is a copy of the data file";
  }
  [[nodiscard]] char in_data_file() const { return test::read_file(folder_ / "data").at(kOffset); }

  test::TempFolder folder_;
  Home home_;
};

TEST_P(HomeTest, AViewMappedAgainShowsHome) {
  std::byte *view = nullptr;
  ASSERT_EQ(home_.map_view(0, true, &view), Errc::kOk);
  home_.base()[0] = std::byte{'h'};
  EXPECT_EQ(view[0], std::byte{'h'});
  view[0] = std::byte{'p'};
  ASSERT_EQ(home_.map_view_again(view), Errc::kOk);
  ASSERT_EQ(mprotect(view, kBytes, PROT_READ), 0);
  EXPECT_EQ(view[0], std::byte{'h'});
  EXPECT_EQ(in_data_file(), GetParam() ? 'd' : 'h');
  munmap(view, kBytes);
}

TEST_P(HomeTest, AParkedMappingStoresToHome) {
  std::byte *parked = nullptr;
  ASSERT_EQ(home_.map_parked(0, &parked), Errc::kOk);
  parked[0] = std::byte{'h'};
  EXPECT_EQ(home_.base()[0], std::byte{'h'});
  EXPECT_EQ(in_data_file(), GetParam() ? 'd' : 'h');
  munmap(parked, kBytes);
}

std::string home_name(const testing::TestParamInfo<bool> &info) {
  return info.param ? "Separate" : "InTheDataFile";
}
INSTANTIATE_TEST_SUITE_P(Homes, HomeTest, testing::Bool(), home_name);

}  // namespace
}  // namespace tmh::storage
