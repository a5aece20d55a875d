// tests/page/multi_page_cache_test.cpp -- the page cache of level 2: which own copies stay in a
// process's views between instances under snapshot isolation.
// Invariants: (1) a page whose copy was evicted shows what is committed, whoever has committed
//             meanwhile, and is written as before. (2) memory stays within the bound. (3) a scan
//             evicts what was not stored to since the last one, adaptive what others go on
//             writing, all nothing. (4) counters show copies and evictions of each participant.
// Order:      the two roles hand each other the turn; a comment at the side tells who runs.
// Source:     EXCITE-VM, sections 3.2 and 4.2.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "levels/page/views/keep_policy.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kWordsPerLine = 64 / sizeof(std::uint64_t);
constexpr std::uint64_t kPages = 32;

// Where copies stay, and nothing but the page cache takes them away: level 1 does not ask for them.
bool keeps_copies(const Mode &mode) {
  return mode.tracking == Tracking::kKernelHot && mode.levels == Levels::kPage;
}

using PageCacheTest = ModeTest;
INSTANTIATE_TEST_SUITE_P(Modes, PageCacheTest, testing::ValuesIn(lazy_modes()), mode_name);

using KeptCopiesTest = ModeTest;
INSTANTIATE_TEST_SUITE_P(Modes, KeptCopiesTest,
                         testing::ValuesIn(modes_where(lazy_modes(), keeps_copies)), mode_name);

std::string snapshot_with(const std::string &page_cache) {
  return "isolation=snapshot,page-cache=" + page_cache;
}

// A line's first word.
std::uint64_t &at(const Actor &self, std::uint64_t page, std::uint64_t line) {
  return (&self.word(page))[line * kWordsPerLine];
}

// Of this process.
struct Cache {
  std::uint64_t pages = 0, evictions = 0, replays = 0;
};
Cache cache_of(const Actor &self) {
  for (const ParticipantInfo &one : self.domain.participants())
    if (one.pid == getpid())
      return {one.counters.page_cache_pages, one.counters.page_cache_evictions,
              one.counters.page_cache_replays};
  ADD_FAILURE() << "this process is no participant";
  return {};
}

void write_each(const Actor &self, std::uint64_t line, std::uint64_t value) {
  for (std::uint64_t page = 0; page < kPages; ++page)
    for (int often = 0; often < 2; ++often)
      atomically(self.domain, [&] { at(self, page, line) = value + page; });
}

// No page of write_each() is hot any more: each is a copy that is watched.
void write_elsewhere(const Actor &self, int rounds) {
  for (int round = 0; round < rounds; ++round)
    atomically(self.domain, [&] { at(self, kPages, 1) += 1; });
}

void expect_each(const Actor &self, std::uint64_t line, std::uint64_t value) {
  atomically(self.domain, [&] {
    for (std::uint64_t page = 0; page < kPages; ++page)
      EXPECT_EQ(at(self, page, line), value + page) << "page " << page;
  });
}

// Each writes a line of its own of all pages, in turns, and reads the other one's.
TEST_P(PageCacheTest, AnEvictedPageShowsWhatIsCommitted) {
  constexpr std::uint64_t kRounds = 6;
  for (const char *const policy : {"scan=1", "scan=3", "scan=40", "1MiB", "adaptive", "all"}) {
    SCOPED_TRACE(policy);
    const auto play = [&](Actor &self, Turn &turn, std::uint64_t own) {
      const std::uint64_t other = 3 - own;
      if (own == 1) {
        write_each(self, own, 1000 * own);
        write_each(self, other, 1000 * other);
      }
      for (std::uint64_t round = 1; round <= kRounds; ++round) {
        turn.await(static_cast<std::uint32_t>(2 * round + own - 3));
        expect_each(self, other, 1000 * other + (own == 1 ? round - 1 : round));
        expect_each(self, own, 1000 * own + round - 1);
        write_each(self, own, 1000 * own + round);
        if (round % 3 == 0) write_elsewhere(self, 25);
        expect_each(self, own, 1000 * own + round);
        turn.reach(static_cast<std::uint32_t>(2 * round + own - 2));
      }
      turn.await(2 * kRounds);
      expect_each(self, other, 1000 * other + kRounds);
    };
    run_pair(
        snapshot_with(policy), [&](Actor &self, Turn &turn) { play(self, turn, 1); },
        [&](Actor &self, Turn &turn) { play(self, turn, 2); });
  }
}

// 8 MiB are written, page by page and at once.
TEST_P(PageCacheTest, MemoryStaysWithinItsBound) {
  constexpr std::uint64_t kWide = 2048, kBound = (1u << 20) / kPageBytes;
  const Actor self = actor(snapshot_with("1MiB"));
  const Segment wide = self.domain.map("wide.raw", raw_segment(kWide * kPageBytes));
  const auto word = [&](std::uint64_t page) -> std::uint64_t & {
    return *reinterpret_cast<std::uint64_t *>(wide.data() + page * kPageBytes);
  };
  std::uint64_t most = 0;
  for (std::uint64_t i = 0; i < kWide; ++i) {
    const std::uint64_t page = i * 701 % kWide;  // no two neighbours in a row
    for (int often = 0; often < 2; ++often)
      atomically(self.domain, [&] { word(page) += 1 + page; });
    most = std::max(most, cache_of(self).pages);
  }
  EXPECT_LE(most, kBound);
  if (keeps_copies(GetParam())) {
    EXPECT_GT(most, kBound / 2);
    EXPECT_GE(cache_of(self).evictions, kWide - kBound);
  }
  for (int often = 0; often < 2; ++often) {
    atomically(self.domain, [&] {
      for (std::uint64_t page = 0; page < kWide; ++page) word(page) += 1;
    });
    EXPECT_LE(cache_of(self).pages, kBound);
  }
  atomically(self.domain, [&] {
    for (std::uint64_t page = 0; page < kWide; ++page) EXPECT_EQ(word(page), 2 * page + 4);
  });
  EXPECT_LE(cache_of(self).pages, kBound);
}

TEST_P(KeptCopiesTest, AScanEvictsWhatWasNotStoredTo) {
  constexpr int kScan = 50;
  const Actor self = actor(snapshot_with("scan=" + std::to_string(kScan)));
  write_each(self, 1, 100);
  write_elsewhere(self, 3 * kScan);
  const Cache then = cache_of(self);
  EXPECT_GE(then.evictions, kPages);
  EXPECT_LE(then.pages, 2U) << "the page that is written all the time, and its twin";
  EXPECT_GE(then.pages, 1U);
  expect_each(self, 1, 100);
  EXPECT_EQ(cache_of(self).pages, then.pages) << "what is only read takes no memory";
  const std::uint64_t faults = self.domain.counters().faults_kernel;
  write_elsewhere(self, 3 * kScan);
  EXPECT_LE(self.domain.counters().faults_kernel, faults + 2)
      << "a page that is in use was evicted";
  EXPECT_EQ(self.domain.counters().page_cache_pages, cache_of(self).pages)
      << "there is one process";
}

TEST_P(KeptCopiesTest, AllKeepsEveryCopy) {
  run_pair(
      snapshot_with("all"),
      [&](Actor &self, Turn &turn) {
        write_each(self, 1, 100);
        write_elsewhere(self, 100);
        for (std::uint32_t round = 0; round < 40; ++round) {
          turn.reach(2 * round + 1);
          turn.await(2 * round + 2);  // the other one has written all pages
          expect_each(self, 2, round);
        }
        const Cache cache = cache_of(self);
        EXPECT_GE(cache.pages, kPages);
        EXPECT_EQ(cache.evictions, 0U);
      },
      [&](Actor &self, Turn &turn) {
        for (std::uint32_t round = 0; round < 40; ++round) {
          turn.await(2 * round + 1);
          write_each(self, 2, round);
          turn.reach(2 * round + 2);
        }
      });
}

// A page that both go on writing stays; the others are one's own no longer.
TEST_P(KeptCopiesTest, AdaptiveEvictsWhatOthersGoOnWriting) {
  constexpr std::uint32_t kRounds = 40;
  run_pair(
      snapshot_with("adaptive"),
      [&](Actor &self, Turn &turn) {
        write_each(self, 1, 100);
        write_elsewhere(self, 100);
        const Cache before = cache_of(self);
        EXPECT_GE(before.pages, kPages);
        EXPECT_EQ(before.evictions, 0U);
        EXPECT_EQ(before.replays, 0U) << "nobody else has committed yet";
        for (std::uint32_t round = 0; round < kRounds; ++round) {
          turn.reach(2 * round + 1);
          turn.await(2 * round + 2);  // the other one has written all pages
          atomically(self.domain, [&] { at(self, 0, 3) += 1; });
        }
        const Cache after = cache_of(self);
        EXPECT_GE(after.evictions, kPages - 1);
        EXPECT_GE(after.replays, page::KeepPolicy::kReplaysMax * (kPages - 1));
        EXPECT_LE(after.replays, kRounds * kPages) << "a copy counts once at each begin";
        EXPECT_LE(after.pages, before.pages - kPages / 2);
        expect_each(self, 1, 100);
        expect_each(self, 2, kRounds - 1);
        atomically(self.domain, [&] { EXPECT_EQ(at(self, 0, 3), kRounds); });
      },
      [&](Actor &self, Turn &turn) {
        for (std::uint32_t round = 0; round < kRounds; ++round) {
          turn.await(2 * round + 1);
          write_each(self, 2, round);
          turn.reach(2 * round + 2);
        }
      });
}

// Also of a running process, which keeps what it has until then.
TEST_P(PageCacheTest, ThePolicyMayChange) {
  const Actor self = actor(snapshot_with("all"));
  write_each(self, 1, 100);
  write_elsewhere(self, 100);
  const Cache before = cache_of(self);
  EXPECT_EQ(before.evictions, 0U);
  expect_error(
      Errc::kBadPolicy, [&] { self.domain.set_policy(snapshot_with("some")); }, "page-cache=some");
  EXPECT_EQ(self.domain.policy().page_cache, (PageCache{PageCacheKind::kAll, 0}));
  self.domain.set_policy(snapshot_with("scan=2"));
  EXPECT_EQ(self.domain.policy().page_cache, (PageCache{PageCacheKind::kScan, 2}));
  write_elsewhere(self, 20);
  expect_each(self, 1, 100);
  if (keeps_copies(GetParam())) {
    EXPECT_LE(cache_of(self).pages, before.pages - kPages);
  }
}

}  // namespace
}  // namespace tmh::test
