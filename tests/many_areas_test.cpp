// tests/many_areas_test.cpp -- scattered touches in a process that may have hardly any more areas of memory (vm.max_map_count).
// Invariant:  kernel tracking: the instance goes on, and what it reads and writes is right, also where areas that it needs must become parts of larger ones.
// Source:     thesis, appendix A.1 item 4.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>

#include <tmh/tmh.hpp>

#include "tests/support/stage.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kBlockBytes = 2u << 20, kBlocks = 256;

// Takes areas until there are none, and gives so many back. They go with the process.
void leave_areas(std::uint64_t count) {
  constexpr std::uint64_t kMany = 1u << 22;
  auto *const pages = static_cast<std::byte *>(
      mmap(nullptr, kMany * kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  std::uint64_t i = 0;
  while (i < kMany && mprotect(pages + i * kPageBytes, kPageBytes, PROT_NONE) == 0) i += 2;  // two areas each
  ASSERT_LT(i, kMany) << "vm.max_map_count is larger than this test expects";
  for (std::uint64_t given = 0; given < count; given += 2)
    ASSERT_EQ(mprotect(pages + (i -= 2) * kPageBytes, kPageBytes, PROT_READ), 0);
}

class ManyAreasTest : public ModeTest {};

TEST_P(ManyAreasTest, InstanceGoesOnWhereThereAreNoMore) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers map memory of their own, and end the program where they cannot";
#endif
  for (const bool has_touched : {true, false}) {  // before: is there an area to become part of?
    expect_child("few areas", [&] {
      const TempFolder folder(place_for(GetParam()));
      const Domain domain = Domain::open(folder.path(), options());
      const Segment segment = domain.map("large.raw", raw_segment(kBlocks * kBlockBytes));
      const auto word = [&](std::uint64_t block) -> std::uint64_t & {
        return *reinterpret_cast<std::uint64_t *>(segment.data() + block * kBlockBytes);
      };
      if (has_touched) atomically(domain, [&] { store(word(kBlocks / 2), std::uint64_t{0}); });
      leave_areas(40);
      for (std::uint64_t round = 0; round < 3; ++round) {
        // From the middle outwards, every other block; then the ones in between, too.
        const std::uint64_t step = round == 2 ? 1 : 2;
        atomically(domain, [&] {
          for (std::uint64_t i = 0; i < kBlocks; i += step) {
            const std::uint64_t block = (i * 37 + kBlocks / 2) % kBlocks;
            store(word(block), load(word(block)) + 1);
          }
        });
      }
      query(domain, [&] {
        for (std::uint64_t i = 0; i < kBlocks; ++i)
          ASSERT_EQ(load(word((i * 37 + kBlocks / 2) % kBlocks)), i % 2 == 0 ? 3U : 1U) << i;
      });
    });
  }
}

// Kernel tracking. With signals each page that is touched may need areas, and an instance that finds none ends the program and says so.
INSTANTIATE_TEST_SUITE_P(Modes, ManyAreasTest, testing::Values(kModes[0], kModes[1], kModes[5], kModes[6]), mode_name);

}  // namespace
}  // namespace tmh::test
