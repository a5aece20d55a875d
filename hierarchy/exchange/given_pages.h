// hierarchy/exchange/given_pages.h -- pages that level 2 has found for this process, and gives to
// RTM.
// Sharing:   threads: under the mutex of the process's PageRunner.
// Contexts:  NOT async-signal-safe.
// Source:    hierarchy/exchange/PROTOCOL.md, "Hardware lines".
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "hierarchy/exchange/directory.h"
#include "hierarchy/exchange/hardware_lines.h"
#include "levels/page/page.h"
#include "levels/page/shared/shared.h"

namespace tmh::detail {

class GivenPages {
 public:
  // All outlive it.
  GivenPages(page::SharedState &memory, hierarchy::Directory &directory,
             hierarchy::HardwareLines &hardware);
  GivenPages(const GivenPages &) = delete;
  GivenPages &operator=(const GivenPages &) = delete;

  struct Given {
    // Pages that were not accessible in line mode before.
    std::uint32_t fresh = 0;
    // False: some are in use at level 2.
    bool is_complete = false;
  };
  // Pages that level 2 has for this process go to the hardware level, as many as one transaction
  // may need.
  [[nodiscard]] Given give(page::Engine &engine) noexcept;
  // Those that were in use then.
  void give_again(page::Engine &engine) noexcept;
  // The segment is unmapped.
  void forget(std::uint32_t segment) noexcept;

 private:
  void open_ahead(const page::DomainLock::Held &held) noexcept;

  page::SharedState &memory_;
  hierarchy::Directory &directory_;
  hierarchy::HardwareLines &hardware_;
  // Of give(): the pages that were found, and those that it could not give.
  std::vector<storage::PageId> fresh_, in_use_;
  struct Ahead {
    storage::PageId begin{}, end{};
    // That were wanted; those that the segment has end at `end`.
    std::uint64_t pages = 0;
  };
  // The last runs that were opened with them, the latest first: a heap has a place where it grows
  // per size class.
  std::array<Ahead, 4> ahead_{};
};

}  // namespace tmh::detail
