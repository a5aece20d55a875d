// tests/support/recorder.cpp -- appending to lanes, and reading them back as a history.
#include "tests/support/recorder.h"

#include <sys/mman.h>

#include <algorithm>
#include <ctime>
#include <stdexcept>

namespace tmh::test {

using detail::Entry;
using detail::LaneHeader;

std::uint64_t monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

Lane::Lane(LaneHeader *header, std::uint64_t entries_max, std::uint32_t process)
    : header_(header),
      entries_(reinterpret_cast<Entry *>(header + 1)),
      entries_max_(entries_max),
      process_(process) {}

bool Lane::has_room(std::uint64_t entries) const noexcept {
  // Relaxed: only we write it.
  return header_->entry_count.load(std::memory_order_relaxed) + entries <= entries_max_;
}

void Lane::touch_ahead(std::uint64_t entries) const noexcept {
  const std::uint64_t count = header_->entry_count.load(std::memory_order_relaxed);
  constexpr std::uintptr_t kPageBytes = 4096;
  const auto from = reinterpret_cast<std::uintptr_t>(entries_ + count) / kPageBytes * kPageBytes;
  const auto to =
      reinterpret_cast<std::uintptr_t>(entries_ + std::min(count + entries, entries_max_));
  madvise(reinterpret_cast<void *>(from), to - from, MADV_POPULATE_WRITE);
}

void Lane::append(const Entry &entry) {
  const std::uint64_t index = header_->entry_count.load(std::memory_order_relaxed);
  if (index == entries_max_) throw std::length_error("a lane of the recorder is full");
  entries_[index] = entry;
  // release: pairs with the acquire in Recorder::read(); a counted entry is complete even if we are
  // killed right here
  header_->entry_count.store(index + 1, std::memory_order_release);
}

void Lane::begin(history::Kind kind, std::uint32_t attempt) {
  const auto type =
      kind == history::Kind::kQuery ? Entry::Type::kBeginQuery : Entry::Type::kBeginUpdate;
  append({type, monotonic_ns(), attempt});
  saw(Witness::Moment::kBeginning, static_cast<std::uint64_t>(kind));
}

void Lane::ran_at(history::RanAt where) {
  append({Entry::Type::kRanAt, 0, static_cast<history::Value>(where)});
  saw(Witness::Moment::kRunning, static_cast<std::uint64_t>(where));
}
void Lane::isolation(bool is_snapshot) {
  append({Entry::Type::kIsolation, 0, is_snapshot ? 1U : 0U});
}
void Lane::ending(bool gives_up) {
  append({gives_up ? Entry::Type::kGivingUp : Entry::Type::kEnding, 0, 0});
  saw(Witness::Moment::kEnding, gives_up ? 1 : 0);
}

void Lane::read(history::Cell cell, history::Value value) {
  append({Entry::Type::kRead, cell, value});
}
void Lane::write(history::Cell cell, history::Value value) {
  append({Entry::Type::kWrite, cell, value});
}

void Lane::end(history::Outcome outcome, bool acknowledged) {
  const auto type =
      outcome == history::Outcome::kCommitted ? Entry::Type::kCommitted : Entry::Type::kAborted;
  append({type, monotonic_ns(), acknowledged ? 1U : 0U});
  saw(Witness::Moment::kEnded, static_cast<std::uint64_t>(outcome));
}

Recorder::Recorder(std::uint32_t lanes, std::uint64_t entries_per_lane, std::uint32_t first_process)
    : lanes_(lanes),
      first_process_(first_process),
      entries_per_lane_(entries_per_lane),
      bytes_(lanes * (sizeof(LaneHeader) + entries_per_lane * sizeof(Entry))) {}

LaneHeader *Recorder::lane(std::uint32_t index) const noexcept {
  const std::size_t lane_bytes = sizeof(LaneHeader) + entries_per_lane_ * sizeof(Entry);
  return reinterpret_cast<LaneHeader *>(static_cast<char *>(bytes_.get()) + index * lane_bytes);
}

Lane Recorder::open_lane() {
  // Relaxed: the lane is zeroed memory.
  const std::uint32_t index = used_->fetch_add(1, std::memory_order_relaxed);
  if (index >= lanes_) throw std::length_error("the recorder has no lane left");
  return {lane(index), entries_per_lane_, first_process_ + index};
}

std::uint32_t Recorder::next_process() const {
  return first_process_ + used_->load(std::memory_order_relaxed);
}

history::History Recorder::read() const {
  history::History result;
  const std::uint32_t used = std::min(used_->load(std::memory_order_relaxed), lanes_);
  for (std::uint32_t index = 0; index < used; ++index) {
    const LaneHeader *header = lane(index);
    const auto *entries = reinterpret_cast<const Entry *>(header + 1);
    // Pairs with append().
    const std::uint64_t count = header->entry_count.load(std::memory_order_acquire);
    std::uint32_t number = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const Entry &entry = entries[i];
      if (entry.type == Entry::Type::kBeginUpdate || entry.type == Entry::Type::kBeginQuery) {
        history::Instance instance;
        instance.id = {first_process_ + index, number++};
        instance.begin_ns = entry.cell_or_ns;
        instance.kind =
            entry.type == Entry::Type::kBeginQuery ? history::Kind::kQuery : history::Kind::kUpdate;
        instance.attempt = static_cast<std::uint32_t>(entry.value);
        instance.outcome = history::Outcome::kUnknown;
        result.instances.push_back(instance);
        continue;
      }
      if (number == 0) throw std::logic_error("a lane does not start with a begin");
      history::Instance &instance = result.instances.back();
      switch (entry.type) {
        case Entry::Type::kRead:
          instance.operations.push_back(history::read(entry.cell_or_ns, entry.value));
          break;
        case Entry::Type::kWrite:
          instance.operations.push_back(history::write(entry.cell_or_ns, entry.value));
          break;
        case Entry::Type::kRanAt:
          instance.ran_at = static_cast<history::RanAt>(entry.value);
          break;
        case Entry::Type::kIsolation:
          instance.is_snapshot = entry.value != 0;
          break;
        case Entry::Type::kGivingUp:
          instance.gave_up = true;
          [[fallthrough]];
        case Entry::Type::kEnding:
          instance.was_ending = true;
          break;
        case Entry::Type::kCommitted:
        case Entry::Type::kAborted:
          instance.end_ns = entry.cell_or_ns;
          instance.acknowledged = entry.value != 0;
          instance.outcome = entry.type == Entry::Type::kCommitted ? history::Outcome::kCommitted
                                                                   : history::Outcome::kAborted;
          break;
        default:
          throw std::logic_error("a lane holds an unknown entry");
      }
    }
  }
  return result;
}

}  // namespace tmh::test
