// hierarchy/exchange/given_pages.cpp -- giving pages to RTM, and those around them that are new.
#include "hierarchy/exchange/given_pages.h"

#include <algorithm>

namespace tmh::detail {

using hierarchy::Release;
using storage::PageId;

namespace {
// 4 MiB of pages: a transaction that touches more exceeds every level-1 and level-2 cache, hence
// RTM.
constexpr std::size_t kGivenMax = 1024;
}  // namespace

GivenPages::GivenPages(page::SharedState &memory, hierarchy::Directory &directory,
                       hierarchy::HardwareLines &hardware)
    : memory_(memory), directory_(directory), hardware_(hardware) {
  // give() may not fail.
  fresh_.reserve(kGivenMax);
  in_use_.reserve(kGivenMax);
}

void GivenPages::forget(std::uint32_t segment) noexcept {
  std::erase_if(in_use_,
                [segment](PageId page) { return storage::segment_number(page) == segment; });
}

GivenPages::Given GivenPages::give(page::Engine &engine) noexcept {
  fresh_.clear();
  in_use_.clear();
  page::DomainLock::Held held = engine.lock_domain();
  engine.visit_taken(kGivenMax, [&](PageId page) {
    if (directory_.release_to_hardware(held, page) != Release::kReleased)
      in_use_.push_back(page);
    else if (!hardware_.is_open(page))
      fresh_.push_back(page);
  });
  open_ahead(held);
  held.release();
  return {static_cast<std::uint32_t>(fresh_.size()), in_use_.empty()};
}

void GivenPages::give_again(page::Engine &engine) noexcept {
  if (in_use_.empty()) return;
  page::DomainLock::Held held = engine.lock_domain();
  // what is in use still is found again
  for (const PageId page : in_use_) (void)directory_.release_to_hardware(held, page);
  held.release();
  in_use_.clear();
}

// Finding one page costs an instance of level 2, which recalls all that it touches. So the block of
// 64 KiB around it comes along (level 2 allocates its disk blocks together, too), and where blocks
// follow each other, as in a heap that grows, a run of them, which doubles as long as they do. Only
// pages that no participant has had: none misses them.
void GivenPages::open_ahead(const page::DomainLock::Held &held) noexcept {
  constexpr std::uint64_t kBlock = 16, kRunMax = 256;  // 0.2 ms under the lock
  const auto number = [](PageId page) { return static_cast<std::uint64_t>(page); };
  std::uint64_t left = kRunMax;  // of all runs together
  for (const PageId page : fresh_) {
    if (left == 0) break;
    const std::uint32_t segment = storage::segment_number(page);
    const std::uint64_t usable =
        memory_.segment_size(segment).load(std::memory_order_acquire) / kPageBytes;
    const std::uint64_t first =
        static_cast<std::uint64_t>(storage::page_index(page)) / kBlock * kBlock;
    const PageId begin = storage::page_id(segment, storage::PageIndex{first});
    if (std::any_of(ahead_.begin(), ahead_.end(),
                    [begin](const Ahead &run) { return begin >= run.begin && begin < run.end; }))
      continue;
    // Not exactly behind: another process may have opened what lies between.
    auto run = std::find_if(ahead_.begin(), ahead_.end(), [&](const Ahead &before) {
      return before.pages != 0 && begin >= before.end &&
             number(begin) - number(before.end) <= kRunMax;
    });
    const std::uint64_t wanted = run != ahead_.end() ? 2 * run->pages : kBlock;
    if (run == ahead_.end()) --run;
    const std::uint64_t pages = std::min(wanted, left);
    // beyond it nothing can be opened yet
    const std::uint64_t end = std::min(first + pages, usable);
    left -= pages;
    for (std::uint64_t i = first; i < end; ++i) {
      const PageId each = storage::page_id(segment, storage::PageIndex{i});
      if (!hardware_.is_open(each)) directory_.open_ahead(held, each);
    }
    *run = {begin, storage::page_id(segment, storage::PageIndex{end}), pages};
    std::rotate(ahead_.begin(), run, run + 1);
  }
}

}  // namespace tmh::detail
