// tests/page/semantics_segments_test.cpp -- what segments and their files promise one process, in
// every mode.
// Invariants: (1) a raw file holds its own bytes and nothing of ours, and exactly the committed
//             stores after close, (2) part of a file, several segments, growth and 1 TiB of sparse
//             range behave like one small segment.
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using SegmentSemanticsTest = ModeTest;

INSTANTIATE_TEST_SUITE_P(Modes, SegmentSemanticsTest, testing::ValuesIn(kModes), mode_name);

TEST_P(SegmentSemanticsTest, SeveralSegmentsAreOneInstance) {
  const Actor self = actor();
  atomically(self.domain, [&] {
    self.set(0, 1);
    store(self.second_word(0), std::uint64_t{1});
  });
  self.domain.begin();
  self.set(0, 2);
  store(self.second_word(0), std::uint64_t{2});
  self.domain.abort();
  query(self.domain, [&] {
    EXPECT_EQ(self.get(0), 1U);
    EXPECT_EQ(load(self.second_word(0)), 1U);
  });
}

std::string pattern(std::uint64_t bytes) {
  std::string text(bytes, '\0');
  for (std::uint64_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + i / 512 % 26);
  return text;
}

TEST_P(SegmentSemanticsTest, RawFilesKeepTheirBytesAndTakeCommittedStores) {
  const std::string path = folder_ / "plain.raw";
  const std::string original = pattern(8 * kPageBytes);
  write_file(path, original);
  {
    Domain domain = Domain::open(folder_.path(), options());
    const Segment segment = domain.map("plain.raw", raw_segment(0));
    EXPECT_EQ(segment.size_bytes(), original.size()) << "size 0 means the file's size";
    const bool same = query(domain, [&] {
      return std::equal(original.begin(), original.end(), reinterpret_cast<char *>(segment.data()));
    });
    EXPECT_TRUE(same);
    domain.begin();
    std::fill_n(segment.data(), 2 * kPageBytes, std::byte{'!'});
    domain.abort();
    domain.close();
  }
  EXPECT_TRUE(read_file(path) == original)
      << "mapping, reading or an aborted instance changed the file";
  {
    Domain domain = Domain::open(folder_.path(), options());
    const Segment segment = domain.map("plain.raw", raw_segment(0));
    atomically(domain, [&] { store(segment.data()[3 * kPageBytes - 1], std::byte{'#'}); });
    domain.close();
  }
  std::string expected = original;
  expected[3 * kPageBytes - 1] = '#';
  EXPECT_TRUE(read_file(path) == expected)
      << "close did not bring exactly the committed stores to the file";
}

TEST_P(SegmentSemanticsTest, PartOfAFileLeavesTheRestAlone) {
  const std::string path = folder_ / "part.raw";
  const std::string original = pattern(10 * kPageBytes);
  write_file(path, original);
  Domain domain = Domain::open(folder_.path(), options());
  SegmentOptions part = raw_segment(3 * kPageBytes);
  part.offset_bytes = 4 * kPageBytes;
  part.max_bytes = part.size_bytes;
  const Segment segment = domain.map("part.raw", part);
  EXPECT_EQ(segment.size_bytes(), 3 * kPageBytes);
  atomically(domain, [&] {
    EXPECT_EQ(static_cast<char>(segment.data()[0]), original[4 * kPageBytes]);
    store(segment.data()[0], std::byte{'<'});
    store(segment.data()[3 * kPageBytes - 1], std::byte{'>'});
  });
  domain.close();
  std::string expected = original;
  expected[4 * kPageBytes] = '<';
  expected[7 * kPageBytes - 1] = '>';
  EXPECT_TRUE(read_file(path) == expected);
}

// Where the file goes on there, no fault tells.
TEST_P(SegmentSemanticsTest, WhatIsStoredBehindTheEndIsNotCommitted) {
  const std::string path = folder_ / "part.raw";
  const std::string original = pattern(100 * kPageBytes);
  write_file(path, original);
  Domain domain = Domain::open(folder_.path(), options());
  const Segment segment = domain.map("part.raw", raw_segment(3 * kPageBytes));
  for (const std::uint64_t page : {3U, 4U, 20U, 90U}) {
    SCOPED_TRACE(page);
    const auto run = [&] {
      atomically(domain, [&] {
        store(segment.data()[0], std::byte{'<'});
        store(segment.data()[page * kPageBytes], std::byte{'>'});
      });
    };
    expect_error(Errc::kNotMapped, run, "part.raw");
  }
  atomically(domain, [&] { store(segment.data()[1], std::byte{'!'}); });
  domain.close();
  std::string expected = original;
  expected[1] = '!';
  EXPECT_TRUE(read_file(path) == expected);
}

TEST_P(SegmentSemanticsTest, ReopeningKeepsDataAndAddress) {
  const std::byte *address = nullptr;
  for (std::uint64_t round = 0; round < 3; ++round) {
    Actor self = actor();
    if (address == nullptr) address = self.first.data();
    EXPECT_EQ(self.first.data(), address);
    EXPECT_EQ(self.committed(kStagePages - 1), round);
    self.commit(kStagePages - 1, round + 1);
    self.domain.close();
    EXPECT_FALSE(segment_of(address)) << "still mapped after close";
  }
}

TEST_P(SegmentSemanticsTest, OpeningTwiceGivesTheSameDomain) {
  const Actor self = actor();
  self.commit(0, 5);
  const Domain again = Domain::open(folder_.path(), options());
  again.begin();
  EXPECT_EQ(self.domain.depth(), 1U);
  EXPECT_EQ(self.get(0), 5U);
  EXPECT_EQ(again.end(), Status::kCommitted);
  EXPECT_EQ(self.domain.participants().size(), 1U);
}

TEST_P(SegmentSemanticsTest, UnmappedSegmentCanBeMappedAgain) {
  const Actor self = actor();
  self.commit(0, 5);
  const std::byte *address = self.first.data();
  self.domain.unmap(self.first);
  EXPECT_FALSE(segment_of(address));
  const Segment again = self.domain.map("first.raw", raw_segment());
  EXPECT_EQ(again.data(), address);
  EXPECT_EQ(
      query(self.domain, [&] { return load(*reinterpret_cast<std::uint64_t *>(again.data())); }),
      5U);
}

TEST_P(SegmentSemanticsTest, SegmentOfFindsFirstAndLastByteAndNothingElse) {
  const Actor self = actor();
  EXPECT_EQ(segment_of(self.first.data()).name(), self.first.name());
  EXPECT_EQ(segment_of(self.first.data() + self.first.size_bytes() - 1).name(), self.first.name());
  EXPECT_FALSE(segment_of(self.first.data() - 1));
  int local = 0;
  EXPECT_FALSE(segment_of(&local));
}

TEST_P(SegmentSemanticsTest, GrowingKeepsAddressAndDataAndEvenAnAbortKeepsTheSize) {
  Actor self = actor();
  self.commit(0, 5);
  const std::byte *address = self.first.data();
  self.first.grow((kStagePages + 8) * kPageBytes);
  EXPECT_EQ(self.first.size_bytes(), (kStagePages + 8) * kPageBytes);
  EXPECT_EQ(self.first.data(), address);
  self.commit(kStagePages + 7, 6);
  self.domain.begin();
  self.set(0, 9);
  self.first.grow((kStagePages + 16) * kPageBytes);
  EXPECT_EQ(self.get(0), 9U);
  self.set(kStagePages + 15, 9);
  self.domain.abort();
  EXPECT_EQ(self.first.size_bytes(), (kStagePages + 16) * kPageBytes);
  EXPECT_EQ(self.committed(0), 5U);
  EXPECT_EQ(self.committed(kStagePages + 7), 6U);
  EXPECT_EQ(self.committed(kStagePages + 15), 0U);
  self.domain.close();
  struct stat status {};
  ASSERT_EQ(stat((folder_ / "first.raw").c_str(), &status), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), (kStagePages + 16) * kPageBytes);
}

TEST_P(SegmentSemanticsTest, OneTebibyteSparseSegmentTouchedFarApart) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "with TSan's shadow memory a segment of 1 TiB finds no place (kAddressInUse)";
#endif
  constexpr std::uint64_t kTebibyte = std::uint64_t{1} << 40;
  Domain domain = Domain::open(folder_.path(), options());
  const Segment segment = domain.map("huge.raw", raw_segment(kTebibyte));
  ASSERT_EQ(segment.size_bytes(), kTebibyte);
  std::vector<std::uint64_t> offsets{0, kPageBytes, kTebibyte / 2,
                                     kTebibyte - sizeof(std::uint64_t)};
  for (std::uint64_t shift = 20; shift < 40; ++shift)
    offsets.push_back((std::uint64_t{1} << shift) + 8 * shift);
  const auto word = [&](std::uint64_t offset) -> std::uint64_t & {
    return *reinterpret_cast<std::uint64_t *>(segment.data() + offset);
  };
  atomically(domain, [&] {
    for (const std::uint64_t offset : offsets) store(word(offset), offset + 1);
  });
  domain.begin();
  for (const std::uint64_t offset : offsets) store(word(offset), std::uint64_t{0});
  domain.abort();
  query(domain, [&] {
    for (const std::uint64_t offset : offsets) EXPECT_EQ(load(word(offset)), offset + 1);
    EXPECT_EQ(load(word(kTebibyte / 4 * 3)), 0U);
  });
  domain.close();
  struct stat status {};
  ASSERT_EQ(stat((folder_ / "huge.raw").c_str(), &status), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), kTebibyte);
  EXPECT_LT(status.st_blocks * 512, 64 << 20) << "the file is not sparse any more";
}

TEST_P(SegmentSemanticsTest, ManyPagesInOneInstance) {
  // Every second one of 10,000: more than one mapping each could bear with guards.
  constexpr std::uint64_t kPages = 5'000;
  Domain domain = Domain::open(folder_.path(), options());
  const Segment segment = domain.map("many.raw", raw_segment(2 * kPages * kPageBytes));
  const auto word = [&](std::uint64_t page) -> std::uint64_t & {
    return *reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes);
  };
  for (const bool commit : {true, false}) {
    domain.begin();
    for (std::uint64_t i = 0; i < kPages; ++i)
      store(word(2 * i), load(word(2 * i + 1)) + i + 1 + (commit ? 0 : 1));
    if (commit) {
      ASSERT_EQ(domain.end(), Status::kCommitted);
    } else {
      domain.abort();
    }
  }
  query(domain, [&] {
    for (std::uint64_t i = 0; i < kPages; ++i) ASSERT_EQ(load(word(2 * i)), i + 1);
  });
}

// Recovery refuses a log that names a page which no segment has.
TEST(DurableSegmentsTest, WhatIsStoredBehindTheEndIsNotLogged) {
  for (const Levels levels : {Levels::kPage, Levels::kHybrid}) {
    const TempFolder folder;
    DomainOptions options = durable_options();
    options.levels = levels;
    options.line = LineChoice::kSoftware;
    write_file(folder / "a.db", pattern(100 * kPageBytes));
    const auto map = [](const Domain &domain) {
      return domain.map("a.db", raw_segment(3 * kPageBytes));
    };
    const ChildEnd end = run_in_child("strays", [&] {
      const Domain domain = Domain::open(folder.path(), options);
      const Segment segment = map(domain);
      auto *const words = reinterpret_cast<field<std::uint64_t> *>(segment.data());
      const auto at = [&](std::uint64_t page) -> field<std::uint64_t> & {
        return words[page * kPageBytes / sizeof *words];
      };
      const Site lines(domain, "lines", levels == Levels::kHybrid ? "never" : "");
      const auto stray = [&] { at(0) = 1, at(50) = 2; };
      expect_error(
          Errc::kNotMapped, [&] { atomically(lines, [&](Fields) { return stray(); }); }, "a.db");
      expect_error(
          Errc::kNotMapped, [&] { atomically(domain, stray); }, "a.db");
      atomically(lines, [&](Fields) { at(0) = 3; });
      atomically(domain, [&] { at(1) = 4; });
      die_unless_failed();
    });
    EXPECT_EQ(end.signal, SIGKILL);
    lose_shared_memory(folder.path());
    const Domain domain = Domain::open(folder.path(), options);
    const Segment segment = map(domain);
    query(domain, [&] {
      EXPECT_EQ(word_of(segment, 0), 3U);
      EXPECT_EQ(word_of(segment, 1), 4U);
    });
  }
}

}  // namespace
}  // namespace tmh::test
