// hierarchy/exchange/hardware_pages.h -- which pages the hardware level (RTM) may touch, as all
// processes of the domain see it: the epoch and its moves.
// Shape:     LineStateV1::hardware_epoch counts moves; tmh.hardware is a ring of them (8 bytes
//            each, rebuildable).
// Invariant: (1) move i is in the ring before the epoch says i + 1. (2) A process that has followed
//            up to e, and finds e in the epoch inside a transaction, has no page accessible in line
//            mode that left before move e. Hence a move that leaves ends, by its store to the
//            epoch, every transaction that could touch the page, in whatever state its process is;
//            and none that begins later can.
// Ordering:  the epoch's store is seq_cst: the mover of a page loads its home after it, and finds
//            what was committed before.
// Sharing:   moves under the domain lock; reading needs none. Owner death: a move is there when the
//            epoch says so, or not at all.
// Contexts:  left(): async-signal-safe (first touches of level 2 are made in the fault handler).
//            follow(): not.
// Source:    hierarchy/exchange/PROTOCOL.md, "Hardware lines".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tmh/error.hpp>
#include <tmh/instance.hpp>

#include "levels/line/line_memory.h"
#include "levels/page/shared/shared.h"
#include "observe/counting.h"
#include "platform/files.h"
#include "storage/page_id.h"

namespace tmh::hierarchy {

// Totals of the domain, in LineStateV1::hardware_counts; commits are counted in contexts
// (LineCount). Order is part of the layout.
enum class HardwareCount : std::uint32_t {
  kAbortsConflict,
  kAbortsCapacity,
  kAbortsZero,      // status 0: a fault, an interrupt, a system call
  kAbortsExplicit,  // by the body: needs level 2
  kAbortsFollow,    // AbortCode::kFollow, and so on
  kAbortsUpperRuns,
  kAbortsPageMode,
  kAbortsOther,  // other bits, or none of these codes
  kModeSwitches,
  kOpened,    // pages that came to the hardware level
  kRecalled,  // and left it
  kEnd
};
// As `tmh info` writes it.
[[nodiscard]] const char *hardware_count_name(HardwareCount which) noexcept;
static_assert(static_cast<std::size_t>(HardwareCount::kEnd) <= line::kHardwareCountsMax);

struct HardwareMove {
  storage::PageId page;
  bool came;
};

class HardwarePages {
 public:
  // Moves that can be followed. More at once, in 100 ms of the fastest, and a process begins anew
  // with no page open.
  static constexpr std::uint64_t kMoves = 1u << 16;
  static constexpr std::uint64_t kFileBytes = kMoves * sizeof(std::uint64_t);

  explicit HardwarePages(line::LineMemory &lines) noexcept : lines_(lines) {}
  // REQUIRES the folder lock, and that `lines` is open.
  [[nodiscard]] Errc open(const std::string &folder) noexcept;
  [[nodiscard]] const platform::GrowingFile &file() const noexcept { return file_; }
  static void remove_file(const std::string &folder) noexcept;

  void came(const page::DomainLock::Held &, storage::PageId page) noexcept { move(page, true); }
  void left(const page::DomainLock::Held &, storage::PageId page) noexcept { move(page, false); }

  [[nodiscard]] const line::LineWord &epoch() const noexcept {
    return lines_.state().hardware_epoch;
  }
  // Moves since `followed`, in order; returns the epoch that they lead to. *complete: false: some
  // are gone from the ring; *moves has those that are left, and what is open must be closed first.
  [[nodiscard]] std::uint64_t moves_since(std::uint64_t followed, std::vector<HardwareMove> *moves,
                                          bool *complete) const;

  void add(HardwareCount which, std::uint64_t amount = 1) noexcept {
    if constexpr (!observe::kCounts) return;
    lines_.state().hardware_counts[static_cast<std::size_t>(which)].fetch_add(
        amount, std::memory_order_relaxed);
  }
  void count_in(Counters *out) const noexcept;
  [[nodiscard]] std::uint64_t count(HardwareCount which) const noexcept {
    return lines_.state().hardware_counts[static_cast<std::size_t>(which)].load(
        std::memory_order_relaxed);
  }

 private:
  void move(storage::PageId page, bool came) noexcept;

  line::LineMemory &lines_;
  platform::GrowingFile file_;
  std::atomic<std::uint64_t> *ring_ = nullptr;
};

}  // namespace tmh::hierarchy
