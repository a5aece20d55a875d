// hierarchy/exchange/hardware_lines.h -- level 1 in hardware (RTM) of one domain in one process:
// the views of line mode, and the gate of its transactions.
// Shape:     A process is in page mode (its views are level 2's) or in line mode: at the same
//            addresses stands home itself, shared and writable. Each segment's line view is mapped
//            once; the one that is not used is parked elsewhere, with its page table, and moved by
//            mremap.
// Invariant: (1) in line mode a page is present in a view's page table only if it is in H as of
//            `followed_`. What is absent cannot be touched inside a transaction: the fault aborts
//            it with status 0, and no handler runs. So isolation needs no protection of pages.
//            (2) a transaction commits only if at that instant this process is in line mode, has
//                followed every move of pages to or from H, and no instance of level 2 runs in the
//                domain: the gate has read the words that say so, and they are in its read set.
// Ordering:  mode_ and followed_ are stored before the views change under them (seq_cst: the store
//            has aborted the transactions by then), and after that when transactions may begin
//            again.
// Sharing:   threads: any number run transactions; follow() by any; to_lines() and to_pages()
//            REQUIRE the mutex of the process's PageRunner. Lock order: that mutex -> mutex_.
//            Nothing is locked inside mutex_.
// Contexts:  shut_by(): inside a transaction, or to have its words present there. Everything else:
//            outside, NOT async-signal-safe.
// Source:    thesis, section 6.2 (a process is in HTM mode or in LIBXAC mode); docs/mechanisms.md,
//            "Ways to find first touches"; hierarchy/exchange/PROTOCOL.md, "Hardware lines".
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "hierarchy/exchange/hardware_pages.h"
#include "levels/line/rtm_thread.h"
#include "levels/page/page.h"
#include "levels/page/shared/shared.h"
#include "levels/page/views/views.h"
#include "observe/planted.h"
#include "platform/page_tables.h"

namespace tmh::hierarchy {

class HardwareLines final : public line::RtmGate {
 public:
  HardwareLines(page::SharedState &memory, HardwarePages &pages);
  ~HardwareLines() override;

  // REQUIRES that level 1's memory is open. Before everything else.
  void open() noexcept;
  // Both REQUIRE page mode.
  [[nodiscard]] Errc add_segment(std::uint32_t number, std::byte *view,
                                 std::uint64_t max_bytes) noexcept;
  void remove_segment(std::uint32_t number) noexcept;

  [[nodiscard]] bool in_line_mode() const noexcept {
    return mode_.load(std::memory_order_relaxed) == kLineMode;
  }
  // Costs do not depend on the segments' sizes; level 2 forgets the pages that it had kept mapped.
  // An error: still in the mode before; or, where that one's views cannot be mapped any more
  // either, in page mode, in which to_pages() is an error until it has mapped them.
  [[nodiscard]] Errc to_lines(page::Engine &engine) noexcept;
  [[nodiscard]] Errc to_pages(page::Engine &engine) noexcept;
  // Opens and closes pages as other processes have moved them. In page mode: nothing.
  void follow() noexcept;
  // Is the page accessible in line mode, as of the last follow()?
  [[nodiscard]] bool is_open(storage::PageId page) const noexcept;
  // Does an instance of level 2 run in the domain?
  [[nodiscard]] bool any_pin() const noexcept {
    if (observe::is_planted(observe::Planted::kGateBlind)) return false;
    return words_.pins.any(std::memory_order_relaxed);
  }

  // relaxed: a transaction's loads are of one instant, its commit.
  [[nodiscard]] line::AbortCode shut_by() const noexcept override {
    if (!in_line_mode()) return line::AbortCode::kPageMode;
    if (words_.epoch->load(std::memory_order_relaxed) != followed_.load(std::memory_order_relaxed))
      return line::AbortCode::kFollow;
    return any_pin() ? line::AbortCode::kUpperRuns : line::AbortCode::kNone;
  }
  [[nodiscard]] HardwarePages &pages() noexcept { return pages_; }

 private:
  static constexpr std::uint32_t kPageMode = 0, kLineMode = 1;
  struct LineView {
    std::uint32_t number = 0;
    std::byte *view = nullptr;
    std::byte *parked = nullptr;  // null: an attempt to move there has lost the place
    std::uint64_t bytes = 0;
    page::ReservedArray is_open;  // a byte per page
  };
  [[nodiscard]] LineView *find(std::uint32_t segment) const noexcept;
  void follow_locked() noexcept;
  [[nodiscard]] bool make_list_room(std::size_t count) noexcept;
  void close_all() noexcept;
  void tidy_open_list() noexcept;
  void close_page(storage::PageId page) noexcept;
  void open_run(storage::PageId first, std::uint64_t count) noexcept;
  bool drop_page(LineView &view, std::uint64_t page_index) noexcept;
  void drop_neighbours(LineView &view, std::uint64_t page_index) noexcept;
  static void unmap_parked(const LineView &view) noexcept;
  [[nodiscard]] bool show(LineView &view) noexcept;
  [[nodiscard]] static bool park(LineView &view) noexcept;
  [[nodiscard]] Errc map_pages(page::Engine &engine) noexcept;

  page::SharedState &memory_;
  HardwarePages &pages_;
  platform::PageMap page_map_;  // where it cannot be opened, neighbours are dropped unseen
  std::mutex mutex_;
  // page mode, and level 2's views do not stand. Under the mutex of the process's PageRunner
  bool are_pages_lost_ = false;
  std::vector<std::unique_ptr<LineView>> views_;
  std::vector<HardwareMove> moves_;  // of follow(), kept for its memory
  // every page whose is_open byte is set, and some where it was
  std::vector<storage::PageId> open_list_;
  std::size_t tidy_at_ = 1024;  // entries of open_list_
  // What every transaction reads, and no process writes often. The words elsewhere are found
  // beforehand: a processor begins a transaction with nothing under way, so each step of a path to
  //             them takes its whole latency.
  struct Words {
    const line::LineWord *epoch = nullptr;
    storage::Pins pins;
  };
  alignas(64) std::atomic<std::uint32_t> mode_{kPageMode};
  std::atomic<std::uint64_t> followed_{0};
  Words words_;
};

}  // namespace tmh::hierarchy
