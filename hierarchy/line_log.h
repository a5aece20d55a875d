// hierarchy/line_log.h -- between level 1's redo rings and the writer of the redo log.
// Shape:     one per process and durable domain with both levels: line::RedoLog for its threads,
//            page::LowerLog for the writer of the log.
// Sharing:   threads: all may call. settle() may take the domain lock, holding the log's: so nobody
//            asks for the log's lock with the domain lock held.
// Contexts:  NOT async-signal-safe.
// Source:    hierarchy/PROTOCOL.md, "Durable domains".
#pragma once

#include <cstdint>
#include <vector>

#include "levels/line/line_memory.h"
#include "levels/line/redo.h"
#include "levels/line/upper.h"
#include "levels/page/domain_memory.h"
#include "levels/page/durable_log.h"
#include "levels/page/lower_log.h"

namespace tmh::detail {

class LineLog final : public line::RedoLog, public page::LowerLog {
 public:
  // upper: recovers the contexts of the dead (Upper::suspect); null: no participant lives, and what
  //        they left is only settled.
  LineLog(page::DomainMemory &memory, line::LineMemory &lines, page::DurableLog &log,
          line::Upper *upper) noexcept
      : memory_(memory), lines_(lines), log_(log), upper_(upper) {}
  // This process leaves: from here on it is the last one.
  void forget_upper() noexcept { upper_ = nullptr; }

  // line::RedoLog
  [[nodiscard]] Errc reserve(std::uint64_t bytes) noexcept override {
    return log_.reserve_lower(bytes);
  }
  void give_back(std::uint64_t bytes) noexcept override { log_.give_back(bytes); }
  [[nodiscard]] Errc promise(storage::PageId page) noexcept override {
    if (memory_.is_size_durable(page)) return Errc::kOk;
    return memory_.exists(page) ? memory_.make_sizes_durable() : memory_.fail_behind_end(page);
  }
  [[nodiscard]] Errc drain() noexcept override { return log_.wait_lower(clock()); }
  void free_room() noexcept override { log_.free_lower(); }

  // page::LowerLog
  [[nodiscard]] std::uint64_t clock() const noexcept override;
  void settle(std::uint64_t line) noexcept override;
  [[nodiscard]] Errc gather(std::uint64_t after, std::uint64_t up_to,
                            std::vector<page::LowerCommit> *commits) noexcept override;
  void forget(std::uint64_t line) noexcept override { line::forget_redo(lines_, line); }
  [[nodiscard]] bool is_home(std::uint64_t line) noexcept override;
  // A ring of commits of one word takes half as much again in the log, and an attempt half a ring.
  [[nodiscard]] std::uint64_t reserved_bytes_max() const noexcept override {
    return lines_.contexts_high() * 4 * line::kRedoBytes;
  }

 private:
  [[nodiscard]] bool is_owner_gone(const line::LineContextV1 &context) const noexcept;
  // False: it is decided, and home lacks some of it.
  bool settle_context(std::uint32_t number, std::uint64_t line) noexcept;

  page::DomainMemory &memory_;
  line::LineMemory &lines_;
  page::DurableLog &log_;
  line::Upper *upper_;
};

}  // namespace tmh::detail
