// levels/process/copies.h -- copies of pages for this task's transactions: made from home and the
// log, brought up to date, given up.
// Invariant: (1) inside, the copies are what the pin shows, with the transaction's own stores; each
//            twin is what the pin shows.
//            (2) a copy that outlives its transaction was made while no task held the page; who
//            holds it later says so in the log.
// Contexts:  the task's own; open() runs in its fault handler.
// Source:    EXCITE-VM 3.2 and 4.2 (the page cache), 4.1 (copy-on-read).
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/process/log.h"
#include "levels/process/mappings.h"

namespace tmh::itm::pages {

// How a page could be made for a snapshot.
enum class Made : std::uint8_t {
  kKept,     // may stay for later transactions
  kForNow,   // until this transaction ends
  kTooOld,   // the log has forgotten the snapshot
  kUnclear,  // plain code may have stored to it since the snapshot
};

class Copies {
 public:
  // Of a new task, which has none. clock: what its copies stand at. False: no memory.
  [[nodiscard]] static bool start(std::uint64_t *clock) noexcept;

  // [handler] Inside, an access to a page that has no right mapping. kKept and kForNow: done.
  [[nodiscard]] static Made open(PageNumber page, bool is_store) noexcept;
  // Brings copies up to `clock`. REQUIRES: the copies' memory is accessible; the log has what was
  // committed since the last pull.
  // from: the clock that they stand at. False: the log has forgotten some of it meanwhile.
  [[nodiscard]] static bool pull(std::uint64_t from, std::uint64_t clock) noexcept;
  // Copies take back what their twins have.
  static void restore() noexcept;
  // The transaction has ended: copies for it alone go, idle twins go.
  static void tidy() noexcept;
  static void drop_all() noexcept;
  // The log has forgotten what the copies miss.
  static void forget() noexcept;
  [[nodiscard]] static Position position() noexcept { return position_; }

 private:
  // The page at the task's pin, from home and the log.
  [[nodiscard]] static Made make(PageNumber page, std::byte *out) noexcept;
  static void drop(PageNumber page) noexcept;

  static inline PageNumber *for_now_ = nullptr;
  static inline std::uint32_t for_now_count_ = 0;
  static inline Position position_ = 0;  // copies have everything before it
  static inline PageNumber last_opened_ = kNoPage;
  static inline std::uint32_t window_ = 1;
};

}  // namespace tmh::itm::pages
