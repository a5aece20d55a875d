// tests/support/recorder.h -- processes record what their instances do; the parent reads it as one
// history.
// Shape:     anonymous shared memory, one lane per process, entries appended. A lane survives the
//            SIGKILL of its process: its last instance then has no end and becomes
//            Outcome::kUnknown.
// Invariant: a write is recorded before it is stored, a read after it was loaded, begin before the
//            begin call, end after the end call returned. So every value that anybody can see has
//            its record, and the stamps enclose the instance.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tests/histories/history.h"
#include "tests/support/shared.h"

namespace tmh::test {

namespace detail {

struct Entry {
  enum class Type : std::uint64_t {
    kBeginUpdate = 1,
    kBeginQuery = 2,
    kRead = 3,
    kWrite = 4,
    kCommitted = 5,
    kAborted = 6,
    kRanAt = 7,
    kEnding = 8,
    kGivingUp = 9,
    kIsolation = 10
  };
  Type type;
  std::uint64_t cell_or_ns;
  history::Value value;
};

struct LaneHeader {
  std::atomic<std::uint64_t> entry_count;
};

}  // namespace detail

// Is told what a lane records of an instance's course, after each entry: a Kind, a RanAt, whether
// it gives up, an Outcome.
class Witness {
 public:
  enum class Moment : std::uint8_t { kBeginning, kRunning, kEnding, kEnded };
  virtual ~Witness() = default;
  virtual void saw(Moment moment, std::uint64_t what) = 0;
};

// One process's pen. Cheap to copy; REQUIRES that one thread uses it at a time.
class Lane {
 public:
  Lane(detail::LaneHeader *header, std::uint64_t entries_max, std::uint32_t process);

  [[nodiscard]] std::uint32_t process() const noexcept { return process_; }
  [[nodiscard]] history::Value fresh_value() noexcept {
    return history::unique_value(process_, ++last_counter_);
  }
  // Room for an instance of about this many entries? Workloads stop when there is none.
  [[nodiscard]] bool has_room(std::uint64_t entries) const noexcept;
  // So that RTM need not: an instance would abort there.
  void touch_ahead(std::uint64_t entries) const noexcept;
  // REQUIRES: it outlives the lane and its copies.
  void tell(Witness *witness) noexcept { witness_ = witness; }

  // attempt: earlier ones of the same update.
  void begin(history::Kind kind, std::uint32_t attempt = 0);
  void ran_at(history::RanAt where);
  // Of the running instance, from here on.
  void isolation(bool is_snapshot);
  void read(history::Cell cell, history::Value value);
  void write(history::Cell cell, history::Value value);
  void ending(bool gives_up = false);
  // acknowledged: as durable.
  void end(history::Outcome outcome, bool acknowledged = false);

 private:
  void append(const detail::Entry &entry);
  void saw(Witness::Moment moment, std::uint64_t what) {
    if (witness_ != nullptr) witness_->saw(moment, what);
  }

  detail::LaneHeader *header_;
  detail::Entry *entries_;
  std::uint64_t entries_max_;
  std::uint64_t last_counter_ = 0;
  std::uint32_t process_;
  Witness *witness_ = nullptr;
};

class Recorder {
 public:
  // Processes are numbered from `first_process`: a further recorder of the same domain must not
  // repeat numbers.
  Recorder(std::uint32_t lanes, std::uint64_t entries_per_lane, std::uint32_t first_process = 0);

  // A lane that nobody has used; also from children. Throws when there is none left.
  [[nodiscard]] Lane open_lane();
  [[nodiscard]] std::uint32_t next_process() const;

  // Everything recorded so far. REQUIRES: no process is writing.
  [[nodiscard]] history::History read() const;

 private:
  [[nodiscard]] detail::LaneHeader *lane(std::uint32_t index) const noexcept;

  std::uint32_t lanes_, first_process_;
  std::uint64_t entries_per_lane_;
  SharedBytes bytes_;
  Shared<std::atomic<std::uint32_t>> used_;
};

[[nodiscard]] std::uint64_t monotonic_ns() noexcept;

}  // namespace tmh::test
