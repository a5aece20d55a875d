// tests/support/log_follower.cpp -- see log_follower.h.
#include "tests/support/log_follower.h"

#include <cstring>

#include <gtest/gtest.h>

#include "platform/failure.h"
#include "storage/checkpoint_file.h"
#include "storage/log/log_items.h"
#include "storage/log/log_state.h"
#include "tests/support/durable_folder.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {

using storage::TailEntry;

storage::LogIdentity log_identity(const std::string &folder) {
  storage::CheckpointV1 slot{};
  const std::string bytes = read_file(storage::checkpoint_path(folder));
  std::memcpy(&slot, bytes.data(), sizeof slot);
  return {{slot.domain_id[0], slot.domain_id[1]}, slot.log_file_bytes};
}

std::uint64_t count_up(const Domain &domain, const Segment &segment, Durability durability,
                       std::uint64_t words) {
  std::uint64_t number = 0;
  do {
    domain.begin();
    number = ++word_of(segment, 0);
    for (std::uint64_t i = 0; i < words; ++i) word_of(segment, 1 + i / 512, i % 512) = number + i;
  } while (domain.end(durability) != Status::kCommitted);
  return number;
}

LogFollower::LogFollower(const std::string &folder, const storage::TailStart &start,
                         const std::string &archive)
    : folder_(folder), tail_(folder, archive, log_identity(folder), start) {}

std::size_t LogFollower::take_all() {
  std::size_t count = 0;
  for (TailEntry entry;; ++count) {
    const Errc error = tail_.next(&entry);
    EXPECT_EQ(error, Errc::kOk) << platform::failure_detail();
    if (error != Errc::kOk || entry.kind == TailEntry::Kind::kNothing) return count;
    take(entry);
  }
}

void LogFollower::take(const TailEntry &entry) {
  switch (entry.kind) {
    case TailEntry::Kind::kNothing:
      return;
    case TailEntry::Kind::kOpening:
      ++openings_;
      return;
    case TailEntry::Kind::kGap:
      EXPECT_LT(entry.lsn, entry.end);
      gaps_.push_back(entry);
      may_jump_ = true;
      return;
    case TailEntry::Kind::kUndone:
      undone_.push_back(entry);
      while (!given_.empty() && given_.back().end > entry.lsn) given_.pop_back();
      return;
    case TailEntry::Kind::kTransaction:
      break;
  }
  expect_durable(entry);
  Given one{0, entry.lsn, entry.end, entry.stamp, entry.generation};
  for (std::size_t i = 0; i < entry.records(); ++i) {
    storage::ItemCursor cursor(entry.record(i));
    for (storage::Item item; cursor.next(&item);) {
      const storage::PageDelta &delta = item.difference;
      if (item.kind != storage::ItemKind::kPageDifference) continue;
      if (storage::page_index(delta.page) != storage::PageIndex{0} || (delta.lines & 1) == 0)
        continue;
      std::byte page[kPageBytes] = {};
      storage::apply_delta(delta, page);
      std::memcpy(&one.number, page, sizeof one.number);
    }
  }
  EXPECT_NE(one.number, 0u) << "LSN " << entry.lsn << ": not a transaction of count_up()";
  if (!given_.empty()) {
    EXPECT_GE(one.lsn, given_.back().end);
    EXPECT_GE(one.generation, given_.back().generation);
    EXPECT_GT(one.stamp, given_.back().stamp);
  }
  if (may_jump_) {
    EXPECT_GT(one.number, last());
  } else {
    EXPECT_EQ(one.number, last() + 1) << "LSN " << entry.lsn;
  }
  may_jump_ = false;
  given_.push_back(one);
}

// What is durable only grows while a generation lasts.
void LogFollower::expect_durable(const TailEntry &entry) const {
  std::string bytes;
  try {
    bytes = read_file(folder_ + "/tmh.log.state", sizeof(storage::LogState));
  } catch (const std::exception &) {
    return;  // no participant is left
  }
  storage::Lsn durable = 0;
  std::uint32_t generation = 0;
  if (bytes.size() < sizeof(storage::LogState)) return;
  std::memcpy(&generation, bytes.data() + offsetof(storage::LogState, generation),
              sizeof generation);
  std::memcpy(&durable, bytes.data() + offsetof(storage::LogState, durable_lsn), sizeof durable);
  if (generation == entry.generation) {
    EXPECT_LE(entry.end, durable);
  }
}

}  // namespace tmh::test
