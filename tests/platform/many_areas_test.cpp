// tests/platform/many_areas_test.cpp -- scattered touches in a process that may have hardly any
// more areas of memory (vm.max_map_count).
// Invariant:  the instance goes on, and what it reads and writes is right: with kernel tracking
//             also where areas that it needs must become parts of larger ones, beside some for all
//             of which there was no memory; with signals where all of a view is open, and its
//             segment grows, then or later.
// Source:     thesis, appendix A.1 item 4.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <tmh/tmh.hpp>

#include "tests/support/stage.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kBlockBytes = 2u << 20, kBlocks = 256;

// Takes areas until there are none, and gives so many back. They go with the process.
void leave_areas(std::uint64_t count) {
  constexpr std::uint64_t kMany = 1u << 22;
  auto *const pages = static_cast<std::byte *>(mmap(
      nullptr, kMany * kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  std::uint64_t i = 0;
  // Two areas each.
  while (i < kMany && mprotect(pages + i * kPageBytes, kPageBytes, PROT_NONE) == 0) i += 2;
  ASSERT_LT(i, kMany) << "vm.max_map_count is larger than this test expects";
  for (std::uint64_t given = 0; given < count; given += 2)
    ASSERT_EQ(mprotect(pages + (i -= 2) * kPageBytes, kPageBytes, PROT_READ), 0);
}

// As in /proc/self/maps: "rw-p".
std::string protection_of(const std::byte *at) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::size_t dash = 0;
    const std::uint64_t begin = std::stoull(line, &dash, 16),
                        end = std::stoull(line.substr(dash + 1), nullptr, 16);
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    if (address >= begin && address < end) return line.substr(line.find(' ') + 1, 4);
  }
  return {};
}

// While it lives the process gets no more memory that can be written than this.
class DataLimit {
 public:
  explicit DataLimit(std::uint64_t bytes_more) {
    getrlimit(RLIMIT_DATA, &before_);
    std::ifstream status("/proc/self/status");
    std::uint64_t used_kib = 0;
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmData:")) used_kib = std::stoull(line.substr(7));
    const rlimit limit{used_kib * 1024 + bytes_more, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
  }
  ~DataLimit() { setrlimit(RLIMIT_DATA, &before_); }
  DataLimit(const DataLimit &) = delete;
  DataLimit &operator=(const DataLimit &) = delete;

 private:
  rlimit before_{};
};

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

class PageByPageTest : public ModeTest {};

TEST_P(PageByPageTest, BlocksBesideBecomePartsOfOneThatIsOpen) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers map memory of their own, and end the program where they cannot";
#endif
  expect_child("few areas", [&] {
    const TempFolder folder(place_for(GetParam()));
    const Domain domain = Domain::open(folder.path(), options());
    const Segment segment = domain.map("large.raw", raw_segment(kBlocks * kBlockBytes));
    const auto word = [&](std::uint64_t block, std::uint64_t page = 0) -> std::uint64_t & {
      return *reinterpret_cast<std::uint64_t *>(segment.data() + block * kBlockBytes +
                                                page * kPageBytes);
    };
    constexpr std::uint64_t kPoor = 10, kOpen = 200;
    atomically(domain, [&] {
      store(word(kOpen), std::uint64_t{1});
      {
        const DataLimit limit(kBlockBytes / 2);
        store(word(kPoor), std::uint64_t{2});
      }
      EXPECT_EQ(protection_of(segment.data() + kPoor * kBlockBytes), "rw-p");
      ASSERT_EQ(protection_of(segment.data() + kPoor * kBlockBytes + 2 * kPageBytes), "---p")
          << "not page by page";
      leave_areas(0);
      store(word(kPoor + 1), std::uint64_t{3});
      // The way to the open one leads across the poor one.
      store(word(kPoor - 1), std::uint64_t{4});
      store(word(kPoor, 2), std::uint64_t{5});
      EXPECT_EQ(load(word(kPoor)), 2U);
    });
    query(domain, [&] {
      EXPECT_EQ(load(word(kOpen)), 1U);
      EXPECT_EQ(load(word(kPoor)), 2U);
      EXPECT_EQ(load(word(kPoor + 1)), 3U);
      EXPECT_EQ(load(word(kPoor - 1)), 4U);
      EXPECT_EQ(load(word(kPoor, 2)), 5U);
      EXPECT_EQ(load(word(kPoor, 1)), 0U);
    });
  });
}

INSTANTIATE_TEST_SUITE_P(Modes, PageByPageTest, testing::Values(kModes[5], kModes[6]), mode_name);

class WholeViewTest : public ModeTest {
 protected:
  // Advice about them is what keeps a view's tail an area of its own.
  static bool knows_huge_pages() {
    return std::filesystem::exists("/sys/kernel/mm/transparent_hugepage");
  }
  // REQUIRES: the segment did not have the page when its view was opened.
  static void expect_whole(const Segment &segment, std::uint64_t page) {
    EXPECT_EQ(protection_of(segment.data()), "rw-p");
    const bool is_tail_closed = GetParam().levels == Levels::kHybrid && knows_huge_pages();
    EXPECT_EQ(protection_of(segment.data() + page * kPageBytes), is_tail_closed ? "---p" : "rw-p");
  }
};
class WholeViewOfQueryTest : public WholeViewTest {};

TEST_P(WholeViewTest, FindsWhatIsStoredWhereTheSegmentHasGrown) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers map memory of their own, and end the program where they cannot";
#endif
  expect_child("no area", [&] {
    const TempFolder folder(place_for(GetParam()));
    const Domain domain = Domain::open(folder.path(), options());
    const Segment segment = domain.map("grows.raw", raw_segment());
    const auto word = [&](std::uint64_t page) -> std::uint64_t & {
      return *reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes);
    };
    constexpr std::uint64_t kInMiddle = kStagePages / 2, kGrown = kStagePages + kInMiddle;
    leave_areas(0);
    atomically(domain, [&] {
      store(word(kInMiddle), std::uint64_t{1});  // all of the view is accessible then
      segment.grow(2 * kStagePages * kPageBytes);
      expect_whole(segment, kGrown);
      store(word(kGrown), std::uint64_t{2});
    });
    query(domain, [&] { EXPECT_EQ(load(word(kInMiddle)) + load(word(kGrown)), 3U); });
  });
}

struct Left {};

// The view stays open with the pages that it has kept; what another process stores behind the end
// that it had then is not home, for a reader's sake.
TEST_P(WholeViewTest, IsNotOpenToALaterInstanceWhereTheSegmentHasGrown) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers map memory of their own, and end the program where they cannot";
#endif
  constexpr std::uint64_t kInMiddle = kStagePages / 2, kGrown = kStagePages + kInMiddle;
  const Shared<Turn> turn;
  const auto word = [](const Segment &segment, std::uint64_t page) -> std::uint64_t & {
    return *reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes);
  };
  const auto play = [&](const std::function<void(const Domain &, const Segment &)> &body) {
    return role(*turn, [&, body] {
      const Domain domain = Domain::open(folder_.path(), options());
      body(domain, domain.map("grows.raw", raw_segment()));
    });
  };
  Children children;
  children.spawn(
      "no area", play([&](const Domain &domain, const Segment &segment) {
        leave_areas(0);
        const auto leaves = [&] {
          EXPECT_EQ(load(word(segment, kInMiddle)), 0U);
          expect_whole(segment, kGrown);
          throw Left{};
        };
        EXPECT_THROW(atomically(domain, leaves), Left);
        turn->reach(1);
        turn->await(3);
        atomically(domain, [&] { store(word(segment, kGrown), load(word(segment, kGrown)) + 1); });
        query(domain, [&] { EXPECT_EQ(load(word(segment, kGrown)), 3U); });
        turn->reach(4);
      }));
  children.spawn("reader", play([&](const Domain &domain, const Segment &segment) {
                   turn->await(1);
                   query(domain, [&] {
                     EXPECT_EQ(load(word(segment, 0)), 0U);
                     turn->reach(2);
                     turn->await(4);
                   });
                 }));
  children.spawn("grows", play([&](const Domain &domain, const Segment &segment) {
                   turn->await(2);
                   segment.grow(2 * kStagePages * kPageBytes);
                   atomically(domain, [&] { store(word(segment, kGrown), std::uint64_t{2}); });
                   turn->reach(3);
                   turn->await(4);
                 }));
  children.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Modes, WholeViewTest,
                         testing::Values(kModes[2], kModes[3], kModes[4], kModes[7]), mode_name);

// What is behind the end that the segment had when all of the view was opened is level 1's, whose
// commits go home whatever snapshots there are.
TEST_P(WholeViewOfQueryTest, ShowsItsSnapshotWhereTheSegmentHasGrown) {
  if (!knows_huge_pages()) GTEST_SKIP() << "this kernel has no transparent huge pages";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers map memory of their own, and end the program where they cannot";
#endif
  constexpr std::uint64_t kInMiddle = kStagePages / 2, kGrown = kStagePages + kInMiddle;
  const Shared<Turn> turn;
  const auto word = [](const Segment &segment, std::uint64_t page) -> field<std::uint64_t> & {
    return *reinterpret_cast<field<std::uint64_t> *>(segment.data() + page * kPageBytes);
  };
  const auto play = [&](const std::function<void(const Domain &, const Segment &)> &body) {
    return role(*turn, [&, body] {
      const Domain domain = Domain::open(folder_.path(), options());
      body(domain, domain.map("grows.raw", raw_segment()));
    });
  };
  Children children;
  children.spawn("no area", play([&](const Domain &domain, const Segment &segment) {
                   leave_areas(0);
                   query(domain, [&] {
                     EXPECT_EQ(word(segment, kInMiddle), 0U);
                     expect_whole(segment, kGrown);
                     turn->reach(1);
                     turn->await(2);
                     EXPECT_EQ(word(segment, kGrown), 0U);
                     EXPECT_EQ(word(segment, kInMiddle), 0U);
                   });
                   query(domain,
                         [&] { EXPECT_EQ(word(segment, kGrown) + word(segment, kInMiddle), 5U); });
                 }));
  children.spawn("grows", play([&](const Domain &domain, const Segment &segment) {
                   const Site site(domain, "lines", "never");
                   turn->await(1);
                   segment.grow(2 * kStagePages * kPageBytes);
                   // So that no later snapshot will do.
                   atomically(domain, [&] { word(segment, kInMiddle) = 3; });
                   atomically(site, [&](Fields) { word(segment, kGrown) = 1; });
                   atomically(site, [&](Fields) { word(segment, kGrown) = 2; });
                   turn->reach(2);
                 }));
  children.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Modes, WholeViewOfQueryTest,
                         testing::Values(kModes[7], Mode{"HybridSignal", Detection::kLazy,
                                                         Tracking::kSignal, Levels::kHybrid}),
                         mode_name);

// Kernel tracking. With signals each page that is touched may need areas, and an instance that
// finds none ends the program and says so.
INSTANTIATE_TEST_SUITE_P(Modes, ManyAreasTest,
                         testing::Values(kModes[0], kModes[1], kModes[5], kModes[6]), mode_name);

}  // namespace
}  // namespace tmh::test
