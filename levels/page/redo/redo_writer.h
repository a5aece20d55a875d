// levels/page/redo/redo_writer.h -- what the writer of the redo log does: which commits, in which
// order, in which pieces.
// Shape:     FlushPoint says up to where the log has everything, LogCut up to where it goes now. A
//            dead writer's cut is finished first: the same set makes the same bytes.
// Errors:    an error of writing is kept in LogState::error: what was published and not
//            acknowledged may or may not survive; the domain takes no more commits until all have
//            closed it and recovery has read the log. But not a process's being out of descriptors
//            or memory: others write for it.
// Sharing:   under the lock of the log (log_lock.h), or alone.
// Contexts:  not in handlers.
// Source:    docs/design.md D1, D2; hierarchy/exchange/PROTOCOL.md, "Durable domains".
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "levels/page/redo/gatherer.h"
#include "levels/page/redo/redo_encoder.h"
#include "levels/page/shared/shared.h"
#include "storage/log/log_handover.h"
#include "storage/log/log_state.h"
#include "storage/log/log_writer.h"

namespace tmh::page {

class RedoWriter {
 public:
  // memory outlives it.
  RedoWriter(SharedState &memory, std::uint32_t slot);
  RedoWriter(const RedoWriter &) = delete;
  RedoWriter &operator=(const RedoWriter &) = delete;

  // Null: the level below is asked for no more records.
  void use_gatherer(Gatherer *gatherer) noexcept { gatherer_ = gatherer; }
  // As LogWriter's.
  void time_writes(storage::LatencySite *times) noexcept { writer_.time_writes(times); }

  // Writes whatever is published.
  [[nodiscard]] Errc write_published(const LogLock::Held &held) noexcept;
  // The same, and what was published after a dead writer's cut. REQUIRES: alone in the domain.
  [[nodiscard]] Errc write_alone() noexcept;
  // First record of a generation. REQUIRES: alone, the point stands at a block boundary.
  [[nodiscard]] Errc write_open(const storage::OpenPayloadV1 &open) noexcept;
  [[nodiscard]] storage::FlushPoint point() const noexcept {
    const storage::LogState &s = state();
    return s.point[s.flushes.load(std::memory_order_acquire) & 1];
  }
  [[nodiscard]] ChangedPages &changed() noexcept { return encoder_.changed(); }

 private:
  void start_batch() noexcept;
  std::uint64_t acquire_published() const noexcept;
  [[nodiscard]] Errc plan_cut(const LogLock::Held &held, const storage::FlushPoint &at,
                              storage::LogCut *cut) noexcept;
  [[nodiscard]] bool has_upper(const storage::FlushPoint &at,
                               const storage::LogCut &cut) const noexcept;
  [[nodiscard]] Errc append_next(const LogLock::Held &held, const storage::LogCut &cut,
                                 storage::FlushPoint *at) noexcept;
  [[nodiscard]] Errc finish_batch(const LogLock::Held &held,
                                  const storage::FlushPoint &at) noexcept;
  [[nodiscard]] Errc timed_write() noexcept;
  [[nodiscard]] Errc fail_log(Errc error) noexcept;
  [[nodiscard]] storage::LogState &state() const noexcept { return *memory_.log_state(); }

  SharedState &memory_;
  storage::LogHandover handover_;
  storage::LogWriter writer_;
  RedoEncoder encoder_;
  Gatherer *gatherer_ = nullptr;
  // Of the cut, not yet appended: from next_gathered_ on.
  std::vector<GatheredCommit> gathered_;
  std::size_t next_gathered_ = 0;
  storage::Lsn batch_start_ = 0;
};

}  // namespace tmh::page
