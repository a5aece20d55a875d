// hierarchy/exchange/hardware_pages.cpp -- the ring of moves.
#include "hierarchy/exchange/hardware_pages.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "observe/planted.h"
#include "platform/try.h"
#include "storage/file_table.h"

namespace tmh::hierarchy {

using storage::PageId;

namespace {
std::string path_in(const std::string &folder) {
  return folder + "/" + storage::name_of(storage::DomainFile::kHardware);
}
constexpr std::uint64_t kCame = 1ull << 63;  // page numbers use fewer bits (storage/page_id.h)
}  // namespace

const char *hardware_count_name(HardwareCount which) noexcept {
  constexpr const char *kNames[] = {"aborts_conflict",  "aborts_capacity", "aborts_zero",
                                    "aborts_explicit",  "aborts_follow",   "aborts_upper_runs",
                                    "aborts_page_mode", "aborts_other",    "mode_switches",
                                    "pages_opened",     "pages_recalled"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(HardwareCount::kEnd));
  return kNames[static_cast<std::size_t>(which)];
}

Errc HardwarePages::open(const std::string &folder) noexcept {
  TMH_TRY(file_.open(path_in(folder), kFileBytes, kFileBytes,
                     platform::GrowingFile::Blocks::kAllocated));
  ring_ = reinterpret_cast<std::atomic<std::uint64_t> *>(file_.base());
  return Errc::kOk;
}

void HardwarePages::remove_file(const std::string &folder) noexcept {
  (void)std::remove(path_in(folder).c_str());
}

void HardwarePages::move(PageId page, bool came) noexcept {
  line::LineWord &epoch = lines_.state().hardware_epoch;
  if (!came && observe::is_planted(observe::Planted::kEpochStands)) return;
  const std::uint64_t at = epoch.load(std::memory_order_relaxed);  // changes under the lock only
  ring_[at % kMoves].store(static_cast<std::uint64_t>(page) | (came ? kCame : 0),
                           std::memory_order_relaxed);
  // seq_cst: release, for followers; and what the mover loads afterwards is loaded after
  //          every transaction that this store ends.
  epoch.store(at + 1, std::memory_order_seq_cst);
  add(came ? HardwareCount::kOpened : HardwareCount::kRecalled);
}

void HardwarePages::count_in(Counters *out) const noexcept {
  out->hardware_conflicts = count(HardwareCount::kAbortsConflict);
  out->hardware_capacity = count(HardwareCount::kAbortsCapacity);
  out->hardware_zero = count(HardwareCount::kAbortsZero);
  out->hardware_explicit = count(HardwareCount::kAbortsExplicit);
  out->hardware_other = count(HardwareCount::kAbortsOther);
  out->hardware_follows = count(HardwareCount::kAbortsFollow);
  out->hardware_upper_runs = count(HardwareCount::kAbortsUpperRuns);
  out->hardware_page_mode = count(HardwareCount::kAbortsPageMode);
  out->hardware_opened = count(HardwareCount::kOpened);
  out->hardware_recalled = count(HardwareCount::kRecalled);
  out->mode_switches = count(HardwareCount::kModeSwitches);
}

std::uint64_t HardwarePages::moves_since(std::uint64_t followed, std::vector<HardwareMove> *moves,
                                         bool *complete) const {
  for (;;) {
    moves->clear();
    // pairs with the store in move()
    const std::uint64_t now = epoch().load(std::memory_order_acquire);
    const std::uint64_t oldest = now + 1 > kMoves ? now + 1 - kMoves : 0;
    *complete = followed >= oldest;
    const std::uint64_t from = std::max(followed, oldest);
    for (std::uint64_t at = from; at < now; ++at) {
      const std::uint64_t entry = ring_[at % kMoves].load(std::memory_order_acquire);
      moves->push_back({PageId{entry & ~kCame}, (entry & kCame) != 0});
    }
    // The entry of move `after` is stored before the epoch says so: one more than the epoch shows
    // may have been overwritten.
    const std::uint64_t after = epoch().load(std::memory_order_acquire);
    if (from == now || after + 1 - from <= kMoves) return now;
  }
}

}  // namespace tmh::hierarchy
