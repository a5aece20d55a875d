// levels/line/log_reserver.h -- what a durable domain gives level 1 for its commits: room in the
// redo log before the commit point. hierarchy/durability/line_log.h implements it.
// Shape:     abstract, and here, because level 1 calls it and may not include hierarchy/
//            (releaser.h says more).
// Contexts:  called holding no line word; may wait. promise() also in RTM, which what waits aborts.
// Source:    docs/design.md D1 to D3.
#pragma once

#include <cstdint>

#include <tmh/error.hpp>

#include "storage/page_id.h"

namespace tmh::line {

class LogReserver {
 public:
  LogReserver() = default;
  LogReserver(const LogReserver &) = delete;
  LogReserver &operator=(const LogReserver &) = delete;
  virtual ~LogReserver() = default;
  // kLogFailed and its kind: nothing more may be committed.
  [[nodiscard]] virtual Errc look() noexcept = 0;
  // Room in the log for so many bytes of records: what is committed afterwards can be written.
  // kLogFailed, kDiskFull and its kind.
  [[nodiscard]] virtual Errc reserve(std::uint64_t bytes) noexcept = 0;
  virtual void give_back(std::uint64_t bytes) noexcept = 0;
  // Recovery will find this page in its segment.
  [[nodiscard]] virtual Errc promise(storage::PageId page) noexcept = 0;
  // Everything committed so far is in the log. Its room in the rings is free, or the writer of
  // the log is about to free it.
  [[nodiscard]] virtual Errc drain() noexcept = 0;
  // A ring fills: another thread writes what has been committed, if there is one for that.
  virtual void write_soon() noexcept = 0;
  // The room of everything in the log is free: waits for the writer of the log, and inherits from
  // a dead one.
  virtual void free_room() noexcept = 0;
};

}  // namespace tmh::line
