// tests/domain/image_test.cpp -- open_image(): a backup at any moment of its log, read only.
// Invariants: (1) at each commit of a recorded history, by clock, LSN and name, and by time, an
//             image shows what the history says, and what a recovery up to there leaves. (2) only
//             pages that the log has changed are copied. (3) nothing is written: neither backup nor
//             archive changes, also when a process dies with an image. (4) what cannot be shown is
//             refused, and the refusal says why.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tmh/tmh.hpp>

#include "platform/disk.h"
#include "storage/log/log_files.h"
#include "storage/log/log_format.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/seed.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPages = 64;
constexpr std::uint64_t kCommits = 400;

using Content = std::vector<std::uint64_t>;  // first word of each page

// Every byte of every file, and when each was last stored to.
std::map<std::string, std::string> facts_of(const std::string &folder) {
  std::map<std::string, std::string> facts;
  for (const auto &entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      facts[entry.path()] = std::to_string(entry.last_write_time().time_since_epoch().count()) +
                            read_file(entry.path());
  return facts;
}

std::atomic<int> stores_to_disk{0};
int count_stores(const platform::DiskEvent &) {
  ++stores_to_disk;
  return 0;
}

class ImageTest : public testing::Test {
 protected:
  // A backup from the middle of a history, and an archive of all log files.
  void SetUp() override {
    DomainOptions options = durable_options();
    options.keep_log = true;
    Domain domain = Domain::open(path(), options);
    const Segment segment = domain.map("a.db", raw_pages(kPages));
    const Segment large = domain.map("large.db", raw_pages(4096));
    commit_some(domain, segment, kCommits / 4);
    const std::uint64_t early = domain.past().now;
    domain.backup(backup());
    first_ = domain.past().now;
    EXPECT_EQ(early, first_);
    commit_some(domain, segment, kCommits / 2);
    domain.keep("here");
    named_ = domain.past().now;
    time_ = std::chrono::system_clock::now();
    timed_ = named_;
    commit_some(domain, segment, kCommits / 4);
    // So that the log has several files.
    for (std::uint64_t round = 0; round < 14; ++round)
      atomically(domain, [&] {
        for (std::uint64_t page = 0; page < 64; ++page)
          for (std::uint64_t word = 0; word < 512; ++word)
            word_of(large, page, word) = round * 7 + word + 1;
      });
    remember(domain.past().now);
    last_ = domain.past().now;
    (void)domain.archive(archive());
    domain.close();
    for (const auto &entry : fs::directory_iterator(path()))
      if (entry.path().filename().string().starts_with("tmh.log."))
        fs::copy(entry.path(), archive(), fs::copy_options::skip_existing);
  }
  void commit_some(const Domain &domain, const Segment &segment, std::uint64_t count) {
    content_.resize(kPages);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t a = random_() % kPages, b = random_() % kPages, value = ++number_;
      atomically(domain, [&] {
        word_of(segment, a) = value;
        word_of(segment, b) = value + 1'000'000;
      });
      content_[a] = value;
      content_[b] = value + 1'000'000;
      remember(domain.past().now);
    }
  }
  void remember(std::uint64_t clock) { history_[clock] = content_; }

  [[nodiscard]] std::string path() const { return folder_ / "domain"; }
  [[nodiscard]] std::string backup() const { return folder_ / "backup"; }
  [[nodiscard]] std::string archive() const { return folder_ / "archive"; }
  [[nodiscard]] Image open(const Moment &moment) const {
    ImageOptions options;
    options.log_folder = archive();
    return open_image(backup(), moment, options);
  }
  static Content content_of(const Image &image) {
    Content content(kPages);
    for (std::uint64_t page = 0; page < kPages; ++page)
      std::memcpy(&content[page], image.data("a.db") + page * kPageBytes, 8);
    return content;
  }
  void expect_not_held(const Moment &moment, const std::string &part) const {
    expect_error(
        Errc::kNotHeld, [&] { (void)open(moment); }, part);
  }
  // From there on the log was damaged, or gone.
  void expect_refused_from(const Moment &moment, Errc code) const {
    expect_error(
        code, [&] { (void)open(moment); }, "tmh.log.");
  }

  MemoryFolder folder_;
  std::mt19937_64 random_{seed()};
  std::uint64_t number_ = 0;
  Content content_;
  std::map<std::uint64_t, Content> history_;
  std::uint64_t first_ = 0, named_ = 0, timed_ = 0, last_ = 0;
  std::chrono::system_clock::time_point time_;
};

TEST_F(ImageTest, EachMomentIsWhatTheHistorySays) {
  std::uint64_t before = 0;
  for (const auto &[clock, content] : history_) {
    if (clock < first_) continue;
    Image image = open(Moment::clock(clock));
    const ImageInfo info = image.info();
    ASSERT_EQ(content_of(image), content) << clock;
    image = Image();
    image = open(Moment::lsn(info.lsn));
    ASSERT_EQ(content_of(image), content) << info.lsn;
    EXPECT_EQ(image.info().lsn, info.lsn);
    EXPECT_EQ(info.clock, clock);
    EXPECT_GE(info.lsn, before);
    EXPECT_EQ(info.is_end, clock == last_);
    before = info.lsn;
  }
  EXPECT_EQ(content_of(open(Moment::named("here"))), history_[named_]);
  EXPECT_EQ(content_of(open(Moment::time(time_))), history_[timed_]);
  EXPECT_EQ(content_of(open(Moment::time(std::chrono::system_clock::now()))), history_[last_]);
}

TEST_F(ImageTest, ARecoveryLeavesTheSameBytes) {
  for (int round = 0; round < 6; ++round) {
    auto moment = history_.lower_bound(first_ + random_() % (last_ - first_ + 1));
    const Image image = open(Moment::clock(moment->first));
    const std::string restored = folder_ / ("restored" + std::to_string(round));
    fs::copy(backup(), restored);
    RecoverOptions how;
    how.until_lsn = image.info().lsn;
    how.log_folder = archive();
    (void)recover(restored, how);
    for (const ImageSegment &segment : image.info().segments) {
      const std::string bytes = read_file(restored + "/" + segment.file);
      ASSERT_EQ(bytes.size(), segment.size_bytes);
      EXPECT_EQ(std::memcmp(bytes.data(), segment.data, bytes.size()), 0) << segment.file;
    }
  }
}

TEST_F(ImageTest, OnlyChangedPagesAreCopied) {
  Image image = open(Moment::clock(first_ + 1));
  std::uint64_t changed = 0;
  for (const ImageSegment &segment : image.info().segments) changed += segment.changed_pages;
  EXPECT_GE(changed, 1U);
  EXPECT_LE(changed, 2U);
  image = Image();
  image = open(Moment::clock(last_));
  EXPECT_EQ(image.size_bytes("large.db"), 4096 * kPageBytes);
  changed = 0;
  for (const ImageSegment &segment : image.info().segments) changed += segment.changed_pages;
  EXPECT_LE(changed, kPages + 64);
}

TEST_F(ImageTest, NothingIsWritten) {
  const auto backup_before = facts_of(backup()), archive_before = facts_of(archive());
  platform::set_disk_hook(&count_stores);
  for (int i = 0; i < 3; ++i) {
    const ChildEnd end = run_in_child("image", [&] {
      const Image image = open(Moment::clock(first_ + static_cast<std::uint64_t>(i) * 50));
      EXPECT_EQ(stores_to_disk.load(), 0);
      die_unless_failed();
    });
    EXPECT_EQ(end.signal, SIGKILL);
  }
  (void)open(Moment::clock(last_));
  EXPECT_EQ(stores_to_disk.load(), 0);
  platform::set_disk_hook(nullptr);
  EXPECT_TRUE(facts_of(backup()) == backup_before);
  EXPECT_TRUE(facts_of(archive()) == archive_before);
  const Domain domain = Domain::open(backup());
  EXPECT_EQ(read_word(domain, domain.map("a.db", raw_pages(kPages)), 0), history_[first_][0]);
}

TEST_F(ImageTest, AStoreIntoAnImageFaults) {
  const ChildEnd end = run_in_child("writer", [&] {
    const Image image = open(Moment::clock(first_));
    *const_cast<std::byte *>(image.data("a.db")) = std::byte{1};
  });
  EXPECT_EQ(end.signal, SIGSEGV);
}

TEST_F(ImageTest, MomentsThatAreNotThereAreRefused) {
  expect_not_held(Moment::clock(first_ - 1), "take an older backup");
  expect_not_held(Moment::clock(0), "take an older backup");
  expect_not_held(Moment::lsn(0), "hold everything up to LSN");
  expect_not_held(Moment::lsn(1u << 30), "ends at LSN");
  expect_not_held(Moment::clock(last_ + 1), "and commit " + std::to_string(last_));
  expect_not_held(Moment::time(std::chrono::system_clock::time_point{}), "older backup");
  expect_not_held(Moment::time(std::chrono::system_clock::now() + std::chrono::hours(1)),
                  "still to come");
  expect_not_held(Moment::named("nowhere"), "names: here");
  expect_error(
      Errc::kNotHeld, [&] { (void)open_image(backup(), Moment::named("here")); }, "names: none");
}

TEST_F(ImageTest, ADamagedLogIsRefusedFromThereOn) {
  const std::uint64_t lsn = open(Moment::clock(named_)).info().lsn;
  const std::uint64_t bytes = storage::kLogFileBytesMin;
  for (const std::string &folder : {archive(), backup()}) {
    const std::string file = storage::log_file_path(folder, lsn / bytes);
    if (fs::exists(file)) patch_file(file, lsn % bytes + 40, std::string(8, 'x'));
  }
  EXPECT_EQ(content_of(open(Moment::lsn(lsn))), history_[named_]);
  expect_refused_from(Moment::clock(last_), Errc::kLogDamaged);
  expect_refused_from(Moment::lsn(lsn + 4096), Errc::kLogDamaged);
}

TEST_F(ImageTest, AMissingLogFileIsNamed) {
  std::vector<std::uint64_t> indexes;
  ASSERT_EQ(storage::list_log_files(archive(), &indexes), Errc::kOk);
  ASSERT_GE(indexes.size(), 3U);
  const std::uint64_t gone = indexes[indexes.size() - 2];
  for (const std::string &folder : {archive(), backup()})
    fs::remove(storage::log_file_path(folder, gone));
  EXPECT_EQ(content_of(open(Moment::clock(first_))), history_[first_]);
  expect_refused_from(Moment::clock(last_), Errc::kLogMissing);
}

TEST_F(ImageTest, WhatIsNoClosedDomainIsRefused) {
  const auto refused = [&](Errc code, const std::string &folder, const std::string &part) {
    expect_error(
        code, [&] { (void)open_image(folder, Moment::clock(last_)); }, part);
  };
  refused(Errc::kBadArgument, "", "empty");
  refused(Errc::kNotADomain, folder_ / "nowhere", "no such folder");
  {
    const Domain domain = Domain::open(backup());
    refused(Errc::kDomainInUse, backup(), "is open");
  }
  (void)Domain::open(folder_ / "volatile");
  refused(Errc::kNotDurable, folder_ / "volatile", "volatile");
  patch_file(path() + "/tmh.control", 64, "x");
  refused(Errc::kCorrupt, path(), "tmh.control");
}

TEST_F(ImageTest, AnEmptyHandleSaysSo) {
  const Image none;
  EXPECT_FALSE(none);
  expect_error(Errc::kNotInitialized, [&] { (void)none.info(); });
  expect_error(
      Errc::kNotMapped, [&] { (void)open(Moment::clock(last_)).data("b.db"); }, "b.db");
}

struct Pair {
  std::uint64_t first, second;
};

TEST(ImageOfHeapTest, RootsAreWhereTheyWere) {
  const MemoryFolder folder;
  using Map = std::map<int, long, std::less<>, allocator<std::pair<const int, long>>>;
  std::vector<std::uint64_t> clocks;
  {
    DomainOptions options = durable_options();
    Domain domain = Domain::open(folder / "domain", options);
    domain.backup(folder / "empty");
    const Segment segment = domain.map("heap.db");
    Map *const map = segment.root<Map>("map");
    domain.backup(folder / "backup");
    // The heap grows meanwhile.
    for (int i = 0; i < 3; ++i) {
      atomically(domain, [&] {
        for (int key = 0; key < 10'000; ++key) (*map)[i * 10'000 + key] = key;
      });
      clocks.push_back(domain.past().now);
    }
    segment.root<Pair>("late")->first = 0;
  }
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    const Image image =
        open_image(folder / "backup", Moment::clock(clocks[i]), {folder / "domain", false});
    const Map *const map = image.root<Map>("heap.db", "map");
    ASSERT_NE(map, nullptr);
    EXPECT_EQ(map->size(), (i + 1) * 10'000);
    EXPECT_EQ(map->rbegin()->first, static_cast<int>(i + 1) * 10'000 - 1);
    EXPECT_EQ(image.root<Pair>("heap.db", "late"), nullptr);
    expect_error(
        Errc::kRootMismatch, [&] { (void)image.root<char>("heap.db", "map"); }, "map");
    expect_error(Errc::kBadArgument, [&] { (void)image.root<Map>("heap.db", ""); });
    // A second one needs the same addresses.
    expect_error(
        Errc::kAddressInUse,
        [&] {
          (void)open_image(folder / "backup", Moment::clock(clocks[0]), {folder / "domain", false});
        },
        "heap.db");
    const Image elsewhere =
        open_image(folder / "backup", Moment::clock(clocks[0]), {folder / "domain", true});
    EXPECT_NE(elsewhere.data("heap.db"), image.data("heap.db"));
    EXPECT_NE(elsewhere.root<Map>("heap.db", "map"), nullptr);
  }
  expect_error(
      Errc::kBadArgument,
      [&] {
        (void)open_image(folder / "empty", Moment::clock(clocks[2]), {folder / "domain", false});
      },
      "made after this backup");
}

}  // namespace
}  // namespace tmh::test
