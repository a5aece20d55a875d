// storage/log/log_writer.h -- puts records behind one another into the log, durably.
// Shape:     a buffer of whole blocks that begins with the block in which the log ends; full ones
//            are written as they come. The bytes of that block which are durable already are
//            written again with it: sectors of 512 bytes are old or new, and hold them in both.
//            Where they go a LogSink knows: log files.
// Errors:    those of the sink.
// Sharing:   one thread at a time, which holds LogState::lock (or is alone in the domain).
// Contexts:  not in handlers.
// Source:    docs/design.md D1, D5, D7; LIBTP, section 3.1.1 (log manager).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tmh/error.hpp>

#include "platform/assert.h"
#include "storage/latency_table.h"
#include "storage/log/log_format.h"
#include "storage/log/log_record.h"
#include "storage/log/log_sink.h"
#include "storage/log/log_state.h"

namespace tmh::storage {

// Sizes of the records of one transaction: what add() says decides where its parts end, for planner
// and writer alike.
class RecordPlan {
 public:
  void clear() noexcept { sizes_.clear(); }
  // For differences of so many bytes together.
  void reserve(std::uint64_t delta_bytes);
  // One more page difference of the transaction. True: it begins a new record, because the one
  // before it is full.
  bool add(std::uint64_t delta_bytes);
  [[nodiscard]] std::uint32_t parts() const noexcept {
    TMH_ASSERT(!sizes_.empty());
    return static_cast<std::uint32_t>(sizes_.size() - 1);
  }
  [[nodiscard]] std::uint64_t total_bytes() const noexcept;
  // Where the log ends with these records behind `end`.
  [[nodiscard]] Lsn end_behind(Lsn end, std::uint64_t file_bytes) const noexcept;

 private:
  std::vector<std::uint32_t> sizes_;  // of the records
};

class LogWriter {
 public:
  LogWriter();
  // `state` and `tails` (two blocks) are the shared ones.
  void attach(const std::string &folder, const std::uint64_t (&domain_id)[2], LogState *state,
              std::byte *tails) noexcept;

  // Durable writes are timed for it; it outlives the writer.
  void time_writes(LatencySite *times) noexcept { times_ = times; }

  // Begins a batch at the current point.
  void start() noexcept;
  // Gives the record its place: `fields` with lsn, generation and durable_before filled in. Writes
  // when the buffer is full.
  [[nodiscard]] Errc append(RecordBuilder *record, RecordHeaderV1 fields) noexcept;
  // The first record of a generation.
  [[nodiscard]] Errc append_open(std::uint64_t stamp, std::uint64_t time_ns,
                                 const OpenPayloadV1 &payload) noexcept;
  // Makes everything appended durable.
  [[nodiscard]] Errc write() noexcept;
  // Publishes it: everything before the point is durable; its LSN is filled in. reserved_bytes:
  // with a level below, of its commits.
  void publish(FlushPoint point, std::uint64_t commits, std::uint64_t reserved_bytes) noexcept;
  // What publish() does last: tells of the point that counts. Also for a writer that died before it
  // did.
  void announce() noexcept;
  // The last write() failed only for this process, which could not open the log file that is there,
  // say: others may write on.
  [[nodiscard]] bool is_own_trouble() const noexcept { return is_own_trouble_; }
  [[nodiscard]] Lsn end() const noexcept { return end_; }

 private:
  void count(std::uint64_t flushes, std::uint64_t commits) noexcept;
  [[nodiscard]] Errc find_place() noexcept;
  [[nodiscard]] Errc make_place(std::size_t bytes) noexcept;
  [[nodiscard]] RecordHeaderV1 placed(RecordHeaderV1 fields) const noexcept;
  [[nodiscard]] std::byte *cursor() const noexcept {
    TMH_ASSERT(end_ >= block_);
    return buffer_.get() + (end_ - block_);
  }

  std::string folder_;
  std::uint64_t domain_id_[2] = {};
  LogState *state_ = nullptr;
  std::byte *tails_ = nullptr;
  std::unique_ptr<LogSink> sink_;                        // from the first write on
  std::unique_ptr<std::byte, void (*)(void *)> buffer_;  // kBufferBytes, block-aligned
  // LSN of the buffer's first byte, block-aligned
  Lsn block_ = 0;
  Lsn end_ = 0;    // behind the last record appended
  Lsn start_ = 0;  // of the batch
  bool is_own_trouble_ = false;
  LatencySite *times_ = nullptr;
};

}  // namespace tmh::storage
