// tools/log_walk.h -- the redo log transaction by transaction, also while participants write it.
// Shape:     a LogReader; where it stops at something torn, damaged or missing, the walk waits 20
//            ms and reads on from the last whole transaction with a new one. What stops it twice at
//            the same place, with the same checkpoint, is really there. Why that suffices: whoever
//            wrote proof behind a place had written the place before, so the second look sees it.
// Invariant: ends: each second look needs progress since the first, and there are at most
//            kResumesMax of them.
// Sharing:   one thread. Writes nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tmh/error.hpp>

#include "storage/control.h"
#include "storage/log/log_items.h"
#include "storage/log/log_reader.h"
#include "storage/log/log_source.h"

namespace tmh::tools {

struct PageChange {
  storage::PageId page{};
  storage::LineMask lines = 0;
  std::uint32_t word_count = 0;
};

// An item that is no page difference.
struct OtherItem {
  std::string kind, text;
};

struct LogEntry {
  enum class Kind : std::uint8_t { kTransaction, kOpen };
  Kind kind = Kind::kTransaction;
  storage::Lsn lsn = 0, end = 0;  // of its first record; behind its last
  std::uint32_t generation = 0;
  std::uint64_t stamp = 0, time_ns = 0;
  std::uint64_t pages = 0, bytes = 0;
  std::uint32_t records = 0;
  storage::OpenPayloadV1 open{};  // kOpen
  std::vector<PageChange> changes;
  std::vector<OtherItem> others;
};

// Adds what the record holds: its bytes and items.
void add_record(const storage::RecordView &record, LogEntry *entry);

struct LogEnd {
  Errc error = Errc::kOk;  // kLogDamaged, kLogMissing, or what kept it from reading
  std::string why;
  storage::Lsn lsn = 0;  // behind the last valid record
  bool torn = false;
  std::uint32_t generation = 0;
  // Log files were recycled or archived before they were read; 0: none.
  storage::Lsn skipped_from = 0, skipped_to = 0;
};

class LogWalk {
 public:
  // folder: the domain's; control outlives the walk. from: where to start; verified.
  LogWalk(std::string folder, std::string archive, const storage::ControlFile &control,
          const storage::CheckpointV1 &from);
  // False at the end.
  [[nodiscard]] bool next(LogEntry *entry);
  [[nodiscard]] const LogEnd &end() const noexcept { return end_; }

 private:
  void start(const storage::CheckpointV1 &from);
  [[nodiscard]] bool take(const storage::RecordView &record, LogEntry *entry);
  [[nodiscard]] bool resume(Errc error);

  const std::string folder_, archive_;
  const storage::ControlFile &control_;
  storage::CheckpointV1 from_;  // of the present reader
  std::unique_ptr<storage::LogSource> source_;
  std::unique_ptr<storage::LogReader> reader_;
  LogEntry building_;                // parts seen so far
  storage::Lsn whole_ = 0;           // behind the last whole entry
  std::uint32_t generation_ = 0;     // there
  std::uint64_t stamp_ = 0;          // of the last transaction before
  storage::Lsn stopped_at_ = ~0ull;  // at the last second look
  unsigned resumes_ = 0;
  LogEnd end_;
};

// Where to start in order to read everything from `lsn` on: storage::find_start(), which throws.
[[nodiscard]] storage::CheckpointV1 start_before(const std::string &folder,
                                                 const std::string &archive,
                                                 const storage::CheckpointV1 &checkpoint,
                                                 storage::Lsn lsn);

}  // namespace tmh::tools
