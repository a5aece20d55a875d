// tests/platform/fault_ring_test.cpp -- one instance that touches more pages for the first time
// than the kernel's list of faults holds (32,768): the page tables say which, and must not take for
// touched what is guarded, nor what lies behind the end of the file.
#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>

#include <tmh/tmh.hpp>

#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

class FaultRingTest : public testing::TestWithParam<std::tuple<Levels, std::uint64_t>> {};

TEST_P(FaultRingTest, AnInstanceMayTouchMorePagesThanItHolds) {
  const auto levels = std::get<0>(GetParam());
  const auto pages = std::get<1>(GetParam());
  const MemoryFolder folder;
  DomainOptions options;
  options.levels = levels;
  const Domain domain = Domain::open(folder.path(), options);
  SegmentOptions raw;
  raw.layout = Layout::kRaw;
  raw.size_bytes = pages * kPageBytes;
  raw.max_bytes = (pages + 4096) * kPageBytes;
  const Segment segment = domain.map("a.raw", raw);
  const auto word = [&segment](std::uint64_t page) -> field<std::uint64_t> & {
    return *reinterpret_cast<field<std::uint64_t> *>(segment.data() + page * kPageBytes);
  };
  const auto sum = [&] {
    std::uint64_t all = 0;
    for (std::uint64_t page = 0; page < pages; ++page) all += word(page).load();
    return all;
  };
  EXPECT_EQ(query(domain, sum), 0U);
  atomically(domain, [&] { word(pages - 1).store(1 + sum()); });
  EXPECT_EQ(query(domain, sum), 1U);
  atomically(domain, [&] {
    for (std::uint64_t page = 0; page < pages; ++page) word(page).store(page);
  });
  EXPECT_EQ(query(domain, sum), pages * (pages - 1) / 2);
}

// Not all of a page table's worth (512 pages) belongs to the segment, or all of it.
INSTANTIATE_TEST_SUITE_P(Sizes, FaultRingTest,
                         testing::Combine(testing::Values(Levels::kPage, Levels::kHybrid),
                                          testing::Values(33'001, 34'816)),
                         [](const auto &one) {
                           return std::string(std::get<0>(one.param) == Levels::kPage ? "Pages"
                                                                                      : "Hybrid") +
                                  std::to_string(std::get<1>(one.param));
                         });

}  // namespace
}  // namespace tmh::test
