// storage/log/log_plan.h -- which records of the log count up to a point: what the first reading of
// a recovery, or of an image, finds out. Stores nothing.
// Errors:    as recovery.h.
// Sharing:   one thread. REQUIRES that no participant is alive.
// Source:    docs/design.md D3, D4.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tmh/error.hpp>

#include "storage/checkpoint_file.h"
#include "storage/control.h"
#include "storage/data_files.h"
#include "storage/log/log_items.h"
#include "storage/log/log_reader.h"
#include "storage/log/log_source.h"
#include "storage/log/replay.h"

namespace tmh::storage {

// The point in time is in front of the first transaction that is beyond any of them.
struct LogPoint {
  Lsn until_lsn = ~0ull;                // its record ends behind this
  std::uint64_t until_time_ns = ~0ull;  // its time is later (CLOCK_REALTIME)
  std::uint64_t until_stamp = ~0ull;    // its commit timestamp is larger
};

struct LogPlan {
  std::vector<LogSpan> spans;    // to be replayed
  Lsn end = 0;                   // behind the last record that counts
  std::uint32_t generation = 0;  // of that record
  bool any = false;              // is there such a record?
  bool is_cut = false;           // at a point in time: valid transactions follow
  std::uint32_t generation_max = 0;
  bool torn = false;
  Lsn torn_at = 0;
  bool is_held = false;   // cut, and the data files may hold transactions behind the cut
  bool was_read = false;  // a record is there behind the checkpoint
  // Of kBadArgument: the data files may hold what is later than the point.
  bool is_too_early = false;
};

class LogPlanner {
 public:
  // The data files that the log changes, and whether they are a backup's, from before segments may
  // have grown.
  struct Data {
    const ControlFile &control;
    DataFiles &files;  // every page that is to be stored to is noted
    bool may_grow = false;
    bool was_in_use = false;  // see RecoveryOptions
  };
  // All outlive it. from: the checkpoint.
  LogPlanner(LogSource &source, const CheckpointV1 &from, const LogPoint &point, const Data &data,
             LogPlan *plan) noexcept
      : source_(source), from_(from), point_(point), data_(data), plan_(*plan) {}

  // Reads all of the log, also behind a point in time, because a new generation is to be above
  // every one in it. checked: told how far. kBadArgument: the point lies before what the data files
  // hold.
  [[nodiscard]] Errc make(LogReader::Depth depth, const std::function<void(Lsn)> &checked);

 private:
  [[nodiscard]] Errc check(LogReader::Depth depth, const std::function<void(Lsn)> &checked);
  [[nodiscard]] Errc check_record(const LogReader &reader, const RecordView &record);
  [[nodiscard]] Errc note_cut(const RecordView &record);
  void open_generation(const RecordView &record);
  [[nodiscard]] bool is_beyond(const RecordHeaderV1 &header) const noexcept {
    return header.lsn + header.length > point_.until_lsn || header.time_ns > point_.until_time_ns ||
           header.stamp > point_.until_stamp;
  }
  [[nodiscard]] Errc find_held_end(Lsn *end);
  [[nodiscard]] Errc look_for_opening(Lsn end, Lsn *previous_end);
  [[nodiscard]] Errc no_place_for(const RecordView &record, const Item &item) const;
  [[nodiscard]] Errc refuse_early(const std::string &why) noexcept;
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return from_.log_file_bytes; }

  LogSource &source_;
  const CheckpointV1 &from_;
  const LogPoint point_;
  const Data data_;
  LogPlan &plan_;
};

}  // namespace tmh::storage
