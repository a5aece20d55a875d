// hierarchy/durability/line_log.h -- between level 1's redo rings and the writer of the redo log.
// Shape:     one per process and durable domain with both levels: line::LogReserver for its
//            threads, page::Gatherer for the writer of the log.
// Sharing:   threads: all may call. settle() may take the domain lock, holding the log's: so nobody
//            asks for the log's lock with the domain lock held.
// Contexts:  NOT async-signal-safe.
// Source:    hierarchy/exchange/PROTOCOL.md, "Durable domains".
#pragma once

#include <cstdint>
#include <vector>

#include "levels/line/line_memory.h"
#include "levels/line/log_reserver.h"
#include "levels/line/redo.h"
#include "levels/line/releaser.h"
#include "levels/page/redo/redo.h"
#include "levels/page/shared/shared.h"
#include "platform/assert.h"
#include "platform/doorbell.h"

namespace tmh::detail {

class LineLog final : public line::LogReserver, public page::Gatherer {
 public:
  // releaser: recovers the contexts of the dead (Releaser::suspect); null: no process lives, and
  //        what they left is only settled. housekeeper: writes the log when it is rung; null: none.
  LineLog(page::SharedFiles &memory, line::LineMemory &lines, page::DurableLog &log,
          line::Releaser *releaser, platform::Doorbell *housekeeper) noexcept
      : memory_(memory), lines_(lines), log_(log), releaser_(releaser), housekeeper_(housekeeper) {}
  // This process leaves: from here on it is the last one.
  void forget_releaser() noexcept { releaser_ = nullptr; }

  // line::LogReserver
  [[nodiscard]] Errc look() noexcept override { return log_.room().look(); }
  [[nodiscard]] Errc reserve(std::uint64_t bytes) noexcept override {
    return log_.room().reserve_for_lower(bytes);
  }
  void give_back(std::uint64_t bytes) noexcept override { log_.room().give_back_for_lower(bytes); }
  [[nodiscard]] Errc promise(storage::PageId page) noexcept override {
    if (memory_.durable_control().is_size_durable(page)) return Errc::kOk;
    return memory_.exists(page) ? memory_.durable_control().make_sizes_durable()
                                : memory_.fail_behind_end(page);
  }
  [[nodiscard]] Errc drain() noexcept override { return log_.group().wait_lower(clock()); }
  void free_room() noexcept override { log_.free_lower(); }
  void write_soon() noexcept override {
    if (housekeeper_ != nullptr) housekeeper_->ring();
  }

  // page::Gatherer
  [[nodiscard]] std::uint64_t clock() const noexcept override;
  void settle(const page::LogLock::Held &held, std::uint64_t line) noexcept override;
  [[nodiscard]] Errc gather(const page::LogLock::Held &held, std::uint64_t after,
                            std::uint64_t up_to,
                            std::vector<page::GatheredCommit> *commits) noexcept override;
  void forget(const page::LogLock::Held &held, std::uint64_t line) noexcept override {
    TMH_ASSERT(held.is_valid());
    line::forget_redo(lines_, line);
  }
  [[nodiscard]] bool is_home(std::uint64_t line) noexcept override;
  // Commits of one word take one and a half times their ring's bytes in the log. Besides its full
  // ring a thread may have one attempt of half a ring, or what it keeps for RTM. Rounded up from
  // 2.25 rings to 4.
  [[nodiscard]] std::uint64_t reserved_bytes_max() const noexcept override {
    return lines_.contexts_high() * 4 * line::kRedoBytes;
  }

 private:
  [[nodiscard]] bool is_owner_gone(const line::LineContextV1 &context) const noexcept;
  // False: it is decided, and home lacks some of it.
  bool settle_context(std::uint32_t number, std::uint64_t line) noexcept;

  page::SharedFiles &memory_;
  line::LineMemory &lines_;
  page::DurableLog &log_;
  line::Releaser *releaser_;
  platform::Doorbell *const housekeeper_;
};

}  // namespace tmh::detail
