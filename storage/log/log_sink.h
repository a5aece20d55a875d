// storage/log/log_sink.h -- where the writer of the log puts its bytes: log files, or what a test,
// or another machine, has instead.
// Why:       the writer knows what the log's bytes are and when they must be durable; a sink knows
//            how that is done.
// Shape:     bytes are addressed by LSN. The writer asks for a place, and then writes whole blocks
//            there; the log files themselves are made ahead of need (levels/page/redo/log_room.h).
// Cost:      two virtual calls for each durable write, which takes 2 us where it is quickest.
// Errors:    kLogMissing: the place is gone for all; kIo, kDiskFull, kReadOnly, kPermission,
//            kOutOfMemory.
// Sharing:   a sink belongs to one LogWriter: one thread at a time, which holds LogState::lock.
// Contexts:  not in handlers.
// Source:    docs/design.md D1.
#pragma once

#include <cstddef>

#include <tmh/error.hpp>

#include "storage/log/log_format.h"

namespace tmh::storage {

class LogSink {
 public:
  LogSink() = default;
  virtual ~LogSink() = default;
  LogSink(const LogSink &) = delete;
  LogSink &operator=(const LogSink &) = delete;

  // Is the log's place at `lsn` there to be written?
  [[nodiscard]] virtual Errc find_place(Lsn lsn) noexcept = 0;
  // Durable when it returns. `lsn` and `bytes` are multiples of kLogBlockBytes, `from` is aligned
  // so; all of it lies within one log file. After a failure it may be durable or not, in parts too;
  // the same LSNs are written again later. REQUIRES: find_place(lsn).
  [[nodiscard]] virtual Errc write_durable(Lsn lsn, const std::byte *from,
                                           std::size_t bytes) noexcept = 0;
  // The call before failed only for this process: others may write on.
  [[nodiscard]] virtual bool is_own_trouble() const noexcept = 0;
};

}  // namespace tmh::storage
