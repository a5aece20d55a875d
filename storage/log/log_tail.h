// storage/log/log_tail.h -- the redo log transaction by transaction, beside those that write it:
// what is durable, in order, and then what becomes durable.
// Shape:     a LogReader that sees no byte behind the durable bound (log_bound.h), so that what it
//            reads is whole and stays as it is. Nothing is looked at twice, and no end is guessed.
// Invariant: (1) what is given is, in order and without a gap, what counts of the log from the
//            start on; each transaction was durable when it was given. (2) Where that does not
//            hold, an entry says so: kGap, log files were recycled, or archived elsewhere, before
//            they were read; kUndone, a point in time was recovered that lies in front of what was
//            given. (3) No writer waits for a tail.
// Errors:    kLogDamaged, kLogMissing: a durable record is not there, and no checkpoint says that
//            it may be gone; kBadArgument: the start lies behind the end of the log, or no record
//            is left; those of LogBound, LogReader and LogSource. A later call looks again.
// Sharing:   one thread; writes no file, and of shared memory only the count of sleepers.
//            Participants may die, recover, close the domain and open it again meanwhile.
// Contexts:  not in handlers.
// Source:    docs/design.md D1, D3; LIBTP, section 3.1.1 (log manager).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tmh/error.hpp>

#include "storage/log/log_bound.h"
#include "storage/log/log_reader.h"
#include "storage/log/log_source.h"
#include "storage/log/log_start.h"

namespace tmh::storage {

struct TailEntry {
  enum class Kind : std::uint8_t {
    kNothing,      // no more is durable now
    kTransaction,  // its parts and its commit: the records
    kOpening,      // a generation begins
    kUndone,       // what was given behind `lsn` does not count any more; `generation` undid it
    kGap           // [lsn, end) was not read
  };
  Kind kind = Kind::kNothing;
  Lsn lsn = 0, end = 0;  // of its first record; behind its last
  std::uint32_t generation = 0;
  std::uint64_t stamp = 0, time_ns = 0;
  std::uint64_t bytes = 0;  // of log
  OpenPayloadV1 opening{};  // kOpening
  // kGap: the generation in front of it is another one, and how that one ended is not known. What
  // was given of it may have been undone.
  bool may_undo = false;

  [[nodiscard]] std::size_t records() const noexcept { return starts_.size(); }
  // Of a kTransaction or kOpening. Valid while the entry is not changed.
  [[nodiscard]] RecordView record(std::size_t index) const noexcept;

 private:
  friend class LogTail;
  std::vector<std::byte> bytes_;     // the records, one behind the other
  std::vector<std::size_t> starts_;  // where each begins
};

// Where a tail begins.
struct TailStart {
  enum class Kind : std::uint8_t {
    kCheckpoint,  // what recovery would read
    kLsn,         // the first transaction at or behind `value`; 0: as far back as there are files
    kStamp,       // the first transaction with a larger stamp
    // Where another tail ended: the first entry behind `value`, which was the end of an entry of
    // `generation`. Alone of the four it tells what was undone since then.
    kResume
  };
  Kind kind = Kind::kCheckpoint;
  std::uint64_t value = 0;
  std::uint32_t generation = 0;  // kResume
};

class LogTail {
 public:
  // archive_folder: where archived log files lie; empty: nowhere.
  LogTail(std::string folder, std::string archive_folder, const LogIdentity &log,
          const TailStart &start);

  // The next entry, kNothing when there is none yet.
  [[nodiscard]] Errc next(TailEntry *entry) noexcept;
  // Sleeps until next() may have more, at most so long. May return early, on a signal, too.
  void wait(std::uint64_t timeout_ns) noexcept;

  // Behind the last whole record that was read, and its generation: where a kResume goes on.
  [[nodiscard]] Lsn position() const noexcept { return whole_; }
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }
  // At the last call of next().
  [[nodiscard]] const DurableBound &bound() const noexcept { return bound_; }

 private:
  using Source = DurableBound::Source;

  [[nodiscard]] Errc start();
  [[nodiscard]] Errc start_at(const CheckpointV1 &checkpoint, Lsn lsn);
  [[nodiscard]] Errc read_from(const CheckpointV1 &from);
  [[nodiscard]] Errc read_on();
  void enter_generation(std::uint32_t generation) noexcept;
  [[nodiscard]] static DurableBound key_of(DurableBound bound) noexcept;
  [[nodiscard]] Errc look();
  [[nodiscard]] Errc find_successor();
  [[nodiscard]] Errc find_successor_in_log();
  [[nodiscard]] Errc follow_successor();
  [[nodiscard]] bool is_at_successor() const noexcept;
  [[nodiscard]] bool may_read() const noexcept;
  [[nodiscard]] bool is_durable(const TailEntry &entry) const noexcept;
  [[nodiscard]] Errc give(TailEntry *entry);
  [[nodiscard]] Errc read_entries();
  void take(const RecordView &record);
  void put(TailEntry &&entry);
  [[nodiscard]] bool is_in_front_of_start(const TailEntry &entry) noexcept;
  void undo_behind(Lsn end, std::uint32_t generation);
  [[nodiscard]] Errc find_out(Errc error);
  [[nodiscard]] Errc skip_to_checkpoint();
  [[nodiscard]] Errc check_start() const;

  const std::string folder_, archive_;
  const LogIdentity log_;
  const TailStart start_;
  bool is_skipping_ = false;  // what lies in front of the start
  LogBound bound_of_;
  DurableBound bound_;
  CheckpointV1 from_{};  // of the present reader
  std::unique_ptr<LogSource> source_;
  std::unique_ptr<LogReader> reader_;
  TailEntry building_;             // parts seen so far
  std::deque<TailEntry> ready_;    // read, not given
  std::size_t durable_count_ = 0;  // of them, the first ones
  Lsn whole_ = 0;
  std::uint32_t generation_ = 0;
  std::uint64_t stamp_ = 0;  // of the last transaction read
  Lsn given_end_ = 0;        // behind the last transaction given
  // How generation_ ended, and what came behind it, once the bound is of a later one.
  std::optional<Opening> successor_;
  std::optional<DurableBound> sought_at_;  // key_of() the bound when it was looked for
  std::vector<Opening> openings_;
  std::optional<DurableBound> openings_at_;  // the same of these
  std::uint64_t synced_file_ = ~0ull;        // where no participant writes
  std::optional<DurableBound> ended_at_;     // there is nothing more while the bound is this one
  Lsn stopped_at_ = ~Lsn{0};                 // where the reader stopped last, and how often
  unsigned stops_ = 0;
};

}  // namespace tmh::storage
