// levels/page/redo/redo_plan.h -- what one commit will need in the redo log, counted before it is
// published.
// Sharing:   of the thread that commits. Version slots that it fills in are the commit's reserved
//            ones.
// Contexts:  not in handlers.
// Source:    docs/design.md D5.
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/page/shared/shared.h"
#include "levels/page/versions/versions.h"
#include "storage/log/log_writer.h"

namespace tmh::page {

class RedoPlan {
 public:
  // memory outlives it.
  explicit RedoPlan(SharedFiles &memory) noexcept : memory_(memory) {}

  // Memory for the plan of so many pages. kOutOfMemory.
  [[nodiscard]] Errc reserve(std::size_t page_count) noexcept;
  void begin() noexcept {
    records_.clear();
    page_count_ = 0;
    needs_sizes_ = false;
  }
  // One page more; fills in which words differ (VersionHead::words). clean: the page as it was
  // before. REQUIRES: reserve(), its slot is filled.
  void add(const Write &write, const std::byte *now, const std::byte *clean);

  [[nodiscard]] std::size_t page_count() const noexcept { return page_count_; }
  [[nodiscard]] const storage::RecordPlan &records() const noexcept { return records_; }
  // Are there pages that a power cut could take out of their segment?
  [[nodiscard]] bool needs_sizes() const noexcept { return needs_sizes_; }
  // There are none afterwards. kIo, kDiskFull.
  [[nodiscard]] Errc make_sizes_durable() noexcept;

 private:
  SharedFiles &memory_;
  storage::RecordPlan records_;
  std::size_t page_count_ = 0;
  bool needs_sizes_ = false;
};

}  // namespace tmh::page
