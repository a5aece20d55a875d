// storage/log/log_reader.h -- reads the redo log from a checkpoint on, record by record, and
// judges where and why it ends.
// Shape:     next() gives every valid record in order, across files and generations. At the first
//            position that holds none it decides:
//            1. the record that opens a later generation follows in the next block: go on there;
//            2. something proves that a valid record was there (see below): kLogDamaged or
//               kLogMissing;
//            3. else the log ends: what follows is a torn tail, never acknowledged, or nothing.
// Invariant: valid is a record whose length, LSN, generation, kind, CRC and differences are right;
//            whose commit timestamp is above the one before; whose parts are complete, in order and
//            of the size that the commit says.
// Proofs:    the checkpoint's durable_lsn lies beyond; a valid record further on (in any file) says
//            that the log was durable beyond when it was written; the opening record says that the
//            generation before ended later; a log file of a higher index, where a whole file is
//            missing; the checkpoint itself, where the file at its LSN is missing
//            (promises_log_file()); a valid record in a file whose header is wrong.
// Errors:    kLogDamaged, kLogMissing: the detail names file, offset and LSN. kNotADomain,
//            kForeignVersion: a log file of another domain or version in the log's way. kIo.
// Sharing:   one thread; as the LogSource.
// Source:    docs/design.md D3, D4, D7; thesis, section 3.2 and appendix B: its log could not tell
//            data from metadata, nor a torn transaction from a damaged one; LIBTP, section 3.2.1 (a
//            log read forward from the last checkpoint).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <tmh/error.hpp>

#include "storage/checkpoint_file.h"
#include "storage/log/log_record.h"
#include "storage/log/log_source.h"

namespace tmh::storage {

class LogReader {
 public:
  enum class Depth : std::uint8_t {
    kWhole,  // looks for proofs behind the end in every file there is
    // Only where the log goes on behind `from`: for one that was closed cleanly, so that opening it
    // costs nothing.
    kBrief
  };
  // Of `from`, these count: lsn, generation, stamp, durable_lsn, and what promises_log_file() looks
  // at. The source is open, and outlives the reader.
  LogReader(LogSource *source, const CheckpointV1 &from, Depth depth) noexcept;

  // The next valid record; record->at is null at the end. Its bytes stay until the next call (a
  // kFileEnd's may be gone already: it has nothing but its header). After an error or the end the
  // same again.
  // A kOpen record of a later generation drops what lies behind its payload's previous_end (a point
  // in time was recovered).
  [[nodiscard]] Errc next(RecordView *record) noexcept;

  // Behind the last valid record; a full file's end where a kFileEnd record was the last. At the
  // start: the checkpoint's lsn.
  [[nodiscard]] Lsn end() const noexcept { return end_; }
  // Where the next record would have to be.
  [[nodiscard]] Lsn position() const noexcept {
    return place(end_, kRecordHeaderBytes, file_bytes_);
  }
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }
  [[nodiscard]] bool read_any() const noexcept { return read_any_; }
  // Largest generation of any valid record seen, in front of the end or behind it.
  [[nodiscard]] std::uint32_t generation_max() const noexcept { return generation_max_; }
  // Known at the end: a record that is not valid, or the parts of a transaction without its commit,
  // followed.
  [[nodiscard]] bool tail_is_torn() const noexcept { return torn_; }

 private:
  struct Parts {  // of a transaction whose commit has not come yet
    std::uint32_t count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t stamp = 0;
  };
  struct Proof {
    Errc error = Errc::kOk;
    std::string what;
  };

  [[nodiscard]] Errc load(Lsn lsn, RecordView *record, bool *is_whole) noexcept;
  [[nodiscard]] bool continues(const RecordView &record) const noexcept;
  void accept(const RecordView &record) noexcept;
  [[nodiscard]] Errc look_past_file_end(RecordView *record) noexcept;
  [[nodiscard]] Errc find_opening(Lsn behind, RecordView *record, bool *found) noexcept;
  [[nodiscard]] Errc judge_end() noexcept;
  [[nodiscard]] Errc is_to_be_scanned(bool *is_so) noexcept;
  [[nodiscard]] Errc scan(Proof *proof) noexcept;
  [[nodiscard]] Errc scan_file(Lsn from, Lsn file_end, Proof *proof) noexcept;
  [[nodiscard]] Errc weigh(const RecordHeaderV1 &header, Lsn lsn, Lsn file_end,
                           Proof *proof) noexcept;
  [[nodiscard]] Errc refuse(Errc error, const std::string &why) noexcept;

  LogSource *source_;
  Depth depth_;
  std::uint64_t file_bytes_;
  Lsn start_, end_;
  std::uint64_t durable_lsn_;
  bool first_file_promised_;
  std::uint32_t generation_, generation_max_;
  std::uint64_t stamp_;  // of the last commit
  Parts parts_;
  bool read_any_ = false;  // since start_
  bool ended_ = false;
  bool torn_ = false;
  Errc error_ = Errc::kOk;
  std::string error_detail_;
  std::uint64_t suspect_file_ = ~0ull;  // the end lies in it, and its header is wrong
  // previous_end of an opening record that contradicts end_
  Lsn opening_says_ = 0;
  std::unique_ptr<std::byte[]> candidate_;  // a record found by scan()
};

}  // namespace tmh::storage
