// tests/page/publisher_test.cpp -- content that no view stands behind: made by hand, published.
// Invariants: (1) it becomes a commit with a stamp of its own, which snapshots from there on read,
//                 and earlier ones do not. (2) its entry in the commit log names its page and
//                 lines. (3) taken back, its slots are the participant's again, and nothing is
//                 committed.
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "levels/page/publish/publisher.h"
#include "storage/control.h"
#include "tests/support/joined.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using page::DomainLock;
using page::Write;

constexpr page::LineMask kLine = 1u << 3;
constexpr std::size_t kLineAt = 3 * 64;

// Level 2's shared memory, its tree, and no view.
class PublisherTest : public testing::Test {
 protected:
  PublisherTest() {
    storage::SegmentRecordV1 record{};
    record.layout = static_cast<std::uint32_t>(Layout::kRaw);
    record.max_bytes = record.size_bytes = 4 * kPageBytes;
    std::strcpy(record.name, "a.raw");
    platform::FolderLock lock;
    expect_ok(lock.acquire(folder_.path() + "/tmh.lock"));
    expect_ok(joined_.memory.add_segment(lock.held(), 0, record));
    expect_ok(joined_.memory.open_segments());
  }

  // A version slot with this word in the line.
  Write fill(std::uint64_t page, std::uint64_t word) {
    expect_ok(ours_.tree.slots().reserve(ours_.lock.take(), ours_.tree.slots().reserved() + 1));
    const Write write{storage::page_id(0, storage::PageIndex{page}), kLine,
                      ours_.tree.slots().take()};
    expect_ok(joined_.memory.allocate_blocks(write.page, 1));
    std::memcpy(joined_.memory.version_data(write.slot) + kLineAt, &word, sizeof word);
    return write;
  }
  DomainLock::Held lock() {
    Errc error{};
    std::optional<DomainLock::Held> held = publisher_.lock_with_room(content_, &log_end_, &error);
    expect_ok(error);
    return std::move(*held);
  }
  std::uint64_t read(std::uint64_t page, std::uint64_t stamp) {
    std::vector<std::byte> bytes(kPageBytes);
    ours_.tree.read(ours_.lock.take(), storage::page_id(0, storage::PageIndex{page}), stamp, kLine,
                    bytes.data());
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + kLineAt, sizeof word);
    return word;
  }
  std::uint64_t clock() const { return joined_.memory.state().clock.load(); }

  const MemoryFolder folder_;
  Heir joined_{folder_.path()};
  page::Ours ours_{joined_.memory, joined_.slot};
  page::Publisher publisher_{ours_};
  std::vector<Write> writes_;
  page::RedoPlan plan_{joined_.memory};
  const page::Content content_{writes_, plan_};
  storage::Lsn log_end_ = 0;
};

TEST_F(PublisherTest, ContentWithoutViewsIsACommitWithAStampOfItsOwn) {
  const std::uint64_t before = clock();
  std::uint64_t last = before;
  for (const std::uint64_t word : {41u, 42u}) {
    writes_ = {fill(1, word), fill(2, 2 * word)};
    const std::uint64_t stamp = publisher_.publish(lock(), content_, log_end_, false);
    EXPECT_EQ(stamp, last + 1);
    EXPECT_EQ(clock(), stamp);
    last = stamp;
  }
  EXPECT_EQ(read(1, before), 0U);
  EXPECT_EQ(read(1, before + 1), 41U);
  EXPECT_EQ(read(1, last), 42U);
  EXPECT_EQ(read(2, last), 84U);
  const std::uint64_t head = joined_.memory.state().log_head;
  const page::CommitLogEntry &entry = joined_.memory.commits().entry(head - 1);
  EXPECT_EQ(entry.stamp, last);
  EXPECT_EQ(entry.page, static_cast<std::uint64_t>(writes_.back().page));
  EXPECT_EQ(entry.lines, kLine);
}

TEST_F(PublisherTest, ContentThatIsTakenBackCommitsNothing) {
  const std::uint64_t before = clock();
  writes_ = {fill(1, 41)};
  publisher_.give_room_back(lock());
  ours_.tree.slots().give_back(writes_[0].slot);
  EXPECT_EQ(clock(), before);
  EXPECT_EQ(read(1, ~0ull >> 1), 0U);
  EXPECT_EQ(ours_.tree.slots().reserved(), 1U);
}

TEST_F(PublisherTest, ContentOfTheHolderOfTheTurnIsPublished) {
  EXPECT_TRUE(ours_.turn.take_for_good());
  writes_ = {fill(1, 41)};
  const std::uint64_t stamp = publisher_.publish(lock(), content_, log_end_, false);
  EXPECT_EQ(stamp, clock());
}

}  // namespace
}  // namespace tmh::test
