// storage/log/replay.h -- stores the differences of a validated part of the log into the data
// files, in parallel over pages.
// Shape:     the caller's thread reads batches of whole records and deals their differences out by
//            page; each worker stores its pages' differences, batch after batch, so that a page
//            sees them in commit order and pages do not wait for each other.
// Invariant: everything read was found valid before, and every page was noted in DataFiles.
// Sharing:   one caller; the workers are its own and end with the call.
// Source:    docs/design.md D3; LIBTP, section 3.2.1 (redo in log order).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <tmh/error.hpp>

#include "storage/data_files.h"
#include "storage/log/log_source.h"

namespace tmh::storage {

// Records [from, to) of one generation, whole transactions only.
struct LogSpan {
  Lsn from = 0, to = 0;
};

struct ReplayCounts {
  std::uint64_t transactions = 0, records = 0, log_bytes = 0, pages = 0, bytes_applied = 0;
  std::uint64_t last_stamp = 0, last_time_ns = 0;  // of the last commit; 0 without any
};

// tick: called after each batch with the bytes of log replayed so far.
[[nodiscard]] Errc replay(LogSource *source, const std::vector<LogSpan> &spans,
                          const DataFiles &files, unsigned threads,
                          const std::function<void(std::uint64_t)> &tick, ReplayCounts *counts);

}  // namespace tmh::storage
