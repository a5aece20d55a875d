// hierarchy/exchange/hardware_lines.cpp -- mode switches, following moves, the gate.
#include "hierarchy/exchange/hardware_lines.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "observe/probes.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/fault_handler.h"
#include "platform/process.h"
#include "platform/protection_keys.h"
#include "platform/try.h"

namespace tmh::hierarchy {

using line::AbortCode;
using observe::Step;
using observe::step;
using storage::PageId;
using storage::PageIndex;

namespace {

constexpr std::uint64_t kBlockPages = 512;  // one page table

// The page table of `from` goes along; both stay mapped, `from` empty.
bool move_mapping(std::byte *from, std::byte *to, std::uint64_t bytes) noexcept {
  return mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) !=
         MAP_FAILED;
}

}  // namespace

HardwareLines::HardwareLines(page::SharedState &memory, HardwarePages &pages)
    : memory_(memory), pages_(pages) {
  moves_.reserve(HardwarePages::kMoves);  // follow() may not fail
  (void)page_map_.open();
}

HardwareLines::~HardwareLines() {
  for (const auto &view : views_) unmap_parked(*view);
}

void HardwareLines::open() noexcept { words_ = {&pages_.epoch(), memory_.pins()}; }

void HardwareLines::unmap_parked(const LineView &view) noexcept {
  if (view.parked != nullptr) munmap(view.parked, view.bytes);
}

HardwareLines::LineView *HardwareLines::find(std::uint32_t segment) const noexcept {
  for (const auto &view : views_)
    if (view->number == segment) return view.get();
  return nullptr;
}

Errc HardwareLines::add_segment(std::uint32_t number, std::byte *view,
                                std::uint64_t max_bytes) noexcept {
  TMH_ASSERT(number < storage::kSegmentsMax && find(number) == nullptr);
  TMH_ASSERT(view != nullptr && max_bytes % kPageBytes == 0);
  auto made = std::make_unique<LineView>();
  made->number = number;
  made->view = view;
  made->bytes = max_bytes;
  TMH_TRY(made->is_open.reserve(max_bytes / kPageBytes));
  TMH_TRY(memory_.segment(number).home.map_parked(reinterpret_cast<std::uintptr_t>(view),
                                                  &made->parked));
  const std::scoped_lock guard(mutex_);
  views_.push_back(std::move(made));
  followed_.store(0, std::memory_order_relaxed);  // moves of its pages may have been passed over
  return Errc::kOk;
}

void HardwareLines::remove_segment(std::uint32_t number) noexcept {
  const std::scoped_lock guard(mutex_);
  std::erase_if(open_list_,
                [number](PageId page) { return storage::segment_number(page) == number; });
  std::erase_if(views_, [number](const auto &view) {
    if (view->number != number) return false;
    unmap_parked(*view);
    return true;
  });
}

// At the segment's address.
bool HardwareLines::show(LineView &view) noexcept {
  TMH_ASSERT(view.view != nullptr && view.bytes > 0);
  if (view.parked == nullptr &&
      memory_.segment(view.number)
              .home.map_parked(reinterpret_cast<std::uintptr_t>(view.view), &view.parked) !=
          Errc::kOk)
    return false;
  return move_mapping(view.parked, view.view, view.bytes);
}

// Elsewhere. What stood at that place goes first, and a refusal may come after that: then the place
// may be anybody's.
bool HardwareLines::park(LineView &view) noexcept {
  if (view.parked == nullptr) return false;
  if (move_mapping(view.view, view.parked, view.bytes)) return true;
  const int why = errno;
  if (msync(view.parked, kPageBytes, MS_ASYNC) != 0) view.parked = nullptr;
  errno = why;
  return false;
}

Errc HardwareLines::map_pages(page::Engine &engine) noexcept {
  const Errc error = engine.remap();
  are_pages_lost_ = error != Errc::kOk;
  return error;
}

Errc HardwareLines::to_lines(page::Engine &engine) noexcept {
  if (in_line_mode()) return Errc::kOk;
  const std::scoped_lock guard(mutex_);
  const platform::OpenKey open(memory_.view_key());
  engine.vacate();
  for (const auto &view : views_) {
    if (show(*view)) continue;
    const Errc error = platform::fail_errno(Errc::kOutOfMemory, "moving a view");
    const std::string why = platform::failure_detail();
    for (const auto &moved : views_) {
      if (moved == view) break;
      (void)park(*moved);
    }
    (void)map_pages(engine);
    return platform::fail(error, why);
  }
  are_pages_lost_ = false;
  step(Step::kModeLines);
  follow_locked();
  observe::probe::mode_switch(observe::probe::kPages, observe::probe::kLines);
  pages_.add(HardwareCount::kModeSwitches);
  mode_.store(kLineMode, std::memory_order_release);  // the views stand
  return Errc::kOk;
}

Errc HardwareLines::to_pages(page::Engine &engine) noexcept {
  if (!in_line_mode()) return are_pages_lost_ ? map_pages(engine) : Errc::kOk;
  // seq_cst: no transaction of this process is left when it returns, and none begins.
  mode_.store(kPageMode, std::memory_order_seq_cst);
  step(Step::kModeLeave);
  const std::scoped_lock guard(mutex_);  // a follower of moves still works on the views
  // What cannot be parked is mapped over: its page table is lost, no more. The next show() maps it
  // elsewhere.
  for (const auto &view : views_) (void)park(*view);
  const Errc error = map_pages(engine);
  if (error != Errc::kOk) return error;
  step(Step::kModePages);
  observe::probe::mode_switch(observe::probe::kLines, observe::probe::kPages);
  pages_.add(HardwareCount::kModeSwitches);
  return Errc::kOk;
}

void HardwareLines::follow() noexcept {
  const std::scoped_lock guard(mutex_);
  const platform::OpenKey open(memory_.view_key());
  if (in_line_mode()) follow_locked();
}

// No transaction of this process runs: the move that is followed has changed the epoch, which all
// have read; and what followed_ says is old. REQUIRES mutex_, and that the views are those of line
// mode.
void HardwareLines::follow_locked() noexcept {
  bool complete = true;
  const std::uint64_t epoch =
      pages_.moves_since(followed_.load(std::memory_order_relaxed), &moves_, &complete);
  if (!complete) close_all();
  // The last move of each page decides.
  std::stable_sort(moves_.begin(), moves_.end(),
                   [](const HardwareMove &a, const HardwareMove &b) { return a.page < b.page; });
  std::size_t last = 0;
  for (std::size_t i = 1; i < moves_.size(); ++i) {
    if (moves_[i].page != moves_[last].page) ++last;
    moves_[last] = moves_[i];
  }
  if (!moves_.empty()) moves_.resize(last + 1);
  for (const HardwareMove &move : moves_)
    if (!move.came) close_page(move.page);
  std::erase_if(moves_, [](const HardwareMove &move) { return !move.came; });
  for (std::size_t i = 0, run = 1; i < moves_.size(); i += run, run = 1) {
    const auto at = [this, i](std::size_t j) {
      return static_cast<std::uint64_t>(moves_[i + j].page);
    };
    while (i + run < moves_.size() && at(run) == at(0) + run && at(run) % kBlockPages != 0) ++run;
    open_run(moves_[i].page, run);
  }
  if (open_list_.size() > tidy_at_) tidy_open_list();
  followed_.store(epoch, std::memory_order_seq_cst);
}

// A page that comes and goes is listed each time.
void HardwareLines::tidy_open_list() noexcept {
  std::sort(open_list_.begin(), open_list_.end());
  open_list_.erase(std::unique(open_list_.begin(), open_list_.end()), open_list_.end());
  std::erase_if(open_list_, [this](PageId page) { return !is_open(page); });
  tidy_at_ = 2 * open_list_.size() + 1024;
}

void HardwareLines::close_all() noexcept {
  for (const PageId page : open_list_) close_page(page);
  open_list_.clear();
}

bool HardwareLines::is_open(PageId page) const noexcept {
  const LineView *view = find(storage::segment_number(page));
  return view != nullptr &&
         view->is_open.base()[static_cast<std::uint64_t>(storage::page_index(page))] !=
             std::byte{0};
}

void HardwareLines::close_page(PageId page) noexcept {
  LineView *view = find(storage::segment_number(page));
  if (view == nullptr) return;
  view->is_open.base()[static_cast<std::uint64_t>(storage::page_index(page))] = std::byte{0};
  // Also when it was not open: a stray touch outside instances (a debugger's) may have mapped it.
  (void)drop_page(*view, static_cast<std::uint64_t>(storage::page_index(page)));
}

// False: the kernel refuses that (locked memory before Linux 5.18, a sandbox), and all pages of the
//        view are gone: to be moved it must stay one mapping.
bool HardwareLines::drop_page(LineView &view, std::uint64_t page_index) noexcept {
  TMH_ASSERT(page_index < view.bytes / kPageBytes);
  if (platform::drop(view.view + page_index * kPageBytes, kPageBytes)) return true;
  if (!memory_.segment(view.number).home.map_lines_again(view.view)) {
    platform::write_sentence("tmh: a segment cannot be mapped again at",
                             reinterpret_cast<std::uintptr_t>(view.view));
    std::abort();
  }
  view.is_open.forget_from(0);
  return false;
}

bool HardwareLines::make_list_room(std::size_t count) noexcept try {
  if (open_list_.capacity() - open_list_.size() < count)
    open_list_.reserve(std::max(2 * open_list_.capacity(), open_list_.size() + count));
  return true;
} catch (const std::bad_alloc &) {
  return false;
}

// Also when they are open already: the kernel may have taken a page back, or made it read-only to
// write it to its file.
void HardwareLines::open_run(PageId first, std::uint64_t count) noexcept {
  TMH_ASSERT(count > 0);
  TMH_ASSERT(static_cast<std::uint64_t>(storage::page_index(first)) % kBlockPages + count <=
             kBlockPages);
  LineView *view = find(storage::segment_number(first));
  if (view == nullptr || !make_list_room(count)) return;  // without: found at level 2 again
  const auto index = static_cast<std::uint64_t>(storage::page_index(first));
  std::byte *at = view->view + storage::page_offset(first);
  if (count > 1) platform::read_in(at, count * kPageBytes);
  const bool all = platform::populate(at, count * kPageBytes, true);
  bool any_new = false;
  for (std::uint64_t i = 0; i < count; ++i) {
    // found at level 2 again
    if (!all && !platform::populate(at + i * kPageBytes, kPageBytes, true)) continue;
    std::byte &is_open = view->is_open.base()[index + i];
    if (is_open != std::byte{0}) continue;
    is_open = std::byte{1};
    any_new = true;
    open_list_.push_back(PageId{static_cast<std::uint64_t>(first) + i});
  }
  if (any_new) drop_neighbours(*view, index);
}

// A file system with large folios (tmpfs with huge=) maps pages beside the one that was asked for.
void HardwareLines::drop_neighbours(LineView &view, std::uint64_t page_index) noexcept {
  TMH_ASSERT(page_index < view.bytes / kPageBytes);
  const std::uint64_t first = page_index / kBlockPages * kBlockPages;
  const std::uint64_t count = std::min(kBlockPages, view.bytes / kPageBytes - first);
  platform::PageKind kinds[kBlockPages];
  const auto begin = reinterpret_cast<std::uintptr_t>(view.view) + first * kPageBytes;
  const bool known = page_map_.read(begin, count, kinds);
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool may_be_present = !known || kinds[i] != platform::PageKind::kAbsent;
    if (may_be_present && view.is_open.base()[first + i] == std::byte{0} &&
        !drop_page(view, first + i))
      return;
  }
}

}  // namespace tmh::hierarchy
