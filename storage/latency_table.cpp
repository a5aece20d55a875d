// storage/latency_table.cpp -- see latency_table.h.
#include "storage/latency_table.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "platform/failure.h"
#include "platform/patience.h"
#include "platform/process.h"
#include "platform/try.h"

namespace tmh::storage {

namespace {
constexpr std::uint64_t owner_of(std::uint32_t slot) noexcept { return std::uint64_t{slot} + 1; }

// Where times go for which there is no page.
HistogramV1 nowhere{};
}  // namespace

Errc LatencyTable::open(const std::string &folder, std::uint32_t slot, std::uint64_t incarnation,
                        bool fresh) noexcept {
  const std::string path = latency_path(folder);
  TMH_TRY(map_file(path));
  if (!is_ours() && fresh) {  // nobody uses it
    file_.close();
    if (::unlink(path.c_str()) != 0) return platform::fail_errno(Errc::kIo, path);
    TMH_TRY(map_file(path));
  }
  if (!is_ours()) {
    header_ = nullptr;
    return platform::fail(Errc::kForeignVersion,
                          path + " is of another version that is in use, or damaged");
  }
  slot_ = slot;
  incarnation_ = incarnation;
  if (fresh) {
    retire_all();
  } else {
    retire(owner_of(slot));
  }
  return Errc::kOk;
}

Errc LatencyTable::map_file(const std::string &path) noexcept {
  TMH_TRY(file_.open(path, kLatencyBytes, kLatencyBytes, platform::GrowingFile::Blocks::kSparse));
  if (const Errc error = platform::allocate_blocks(file_.fd(), 0, sizeof(LatencyHeaderV1));
      error != Errc::kOk)
    return platform::fail(error, path);
  header_ = reinterpret_cast<LatencyHeaderV1 *>(file_.base());
  // The old one was removed before, or its maker has died, at any of the stores below.
  if (header_->magic != 0) return Errc::kOk;
  header_->version = kLatencyVersion;
  header_->header_bytes = sizeof(LatencyHeaderV1);
  const platform::BootId boot = platform::this_boot();
  std::memcpy(header_->boot_id, boot.text, sizeof boot.text);
  // Last: a reader believes the rest.
  std::atomic_ref(header_->magic).store(kLatencyMagic, std::memory_order_release);
  return Errc::kOk;
}

bool LatencyTable::is_ours() const noexcept {
  const platform::BootId boot = platform::this_boot();
  return header_->magic == kLatencyMagic && header_->version == kLatencyVersion &&
         header_->header_bytes == sizeof(LatencyHeaderV1) &&
         std::memcmp(header_->boot_id, boot.text, sizeof boot.text) == 0;
}

void LatencyTable::leave() noexcept {
  if (header_ == nullptr) return;
  // A thread whose instance ended while the domain closes may be at its record: its page would be
  // somebody else's by then.
  has_left_.store(true, std::memory_order_seq_cst);
  const std::uint64_t began_ns = platform::monotonic_ns();
  platform::Patience patience;
  while (recording_.load(std::memory_order_seq_cst) != 0)
    patience.pause(platform::monotonic_ns() - began_ns);
  retire(owner_of(slot_));
}

HistogramV1 &LatencyTable::page_at(std::size_t index) const noexcept {
  return reinterpret_cast<HistogramV1 *>(file_.base() + sizeof(LatencyHeaderV1))[index];
}

// REQUIRES the folder lock.
void LatencyTable::retire(std::uint64_t owner) noexcept {
  std::map<std::uint64_t, std::size_t> gone;  // pages by key
  for (std::size_t i = 0; i < kSeriesMax; ++i) {
    SeriesName name{};
    const std::uint64_t key = header_->keys[i].load(std::memory_order_relaxed);
    if (parse_key(key, &name) && name.owner == kGoneOwner) gone.emplace(key, i);
  }
  for (std::size_t i = 0; i < kSeriesMax; ++i) {
    std::atomic<std::uint64_t> &word = header_->keys[i];
    const std::uint64_t key = word.load(std::memory_order_relaxed);
    SeriesName name{};
    if ((key & ~kSeriesMaking) >> 32 != owner) continue;
    if (!parse_key(key, &name)) {  // its maker died
      word.store(0, std::memory_order_relaxed);
      continue;
    }
    const auto gone_key =
        static_cast<std::uint64_t>(series_key(kGoneOwner, name.site, name.level, name.outcome));
    const auto [at, is_first] = gone.emplace(gone_key, i);
    if (!is_first) page_at(i).move_to(page_at(at->second));
    word.store(is_first ? gone_key : 0, std::memory_order_release);
  }
}

// REQUIRES: no other process has the domain open. What the file says may be anything.
void LatencyTable::retire_all() noexcept {
  std::set<std::uint64_t> owners;
  for (std::size_t i = 0; i < kSeriesMax; ++i) {
    SeriesName name{};
    std::atomic<std::uint64_t> &word = header_->keys[i];
    // Pages that a cut file has lost would otherwise be a SIGBUS on a full disk.
    if (parse_key(word.load(std::memory_order_relaxed), &name) && allocate(i) == Errc::kOk)
      owners.insert(name.owner);
    else
      word.store(0, std::memory_order_relaxed);
  }
  for (const std::uint64_t owner : owners)
    if (owner != kGoneOwner) retire(owner);
}

Errc LatencyTable::allocate(std::size_t index) const noexcept {
  return platform::allocate_blocks(
      file_.fd(), sizeof(LatencyHeaderV1) + index * sizeof(HistogramV1), sizeof(HistogramV1));
}

std::uint32_t LatencyTable::site(std::string_view name) noexcept {
  if (header_ == nullptr || name.empty()) return 0;
  const std::string wanted(name.substr(0, sizeof LatencySiteV1::name));
  for (std::uint32_t i = 1; i < kSitesMax; ++i) {
    LatencySiteV1 &site = header_->sites[i];
    std::uint32_t state = 0;
    // A name that a participant writes at this moment may be ours: then there are two numbers of
    // one name, which readers add up.
    if (site.state.compare_exchange_strong(state, kSiteNaming, std::memory_order_acquire,
                                           std::memory_order_acquire)) {
      std::memcpy(site.name, wanted.data(), wanted.size());
      site.state.store(kSiteNamed, std::memory_order_release);  // pairs with name_of()
      return i;
    }
    if (name_of(site) == wanted) return i;
  }
  return 0;
}

HistogramV1 &LatencyTable::page(std::uint32_t site, LatencyLevel level,
                                AbortCause outcome) noexcept {
  const std::scoped_lock guard(mutex_);
  const SeriesKey key = series_key(owner_of(slot_), site, level, outcome);
  for (std::size_t i = 0; i < kSeriesMax; ++i)
    if (header_->keys[i].load(std::memory_order_relaxed) == static_cast<std::uint64_t>(key))
      return page_at(i);
  HistogramV1 *made = make_page(key);
  if (made != nullptr) return *made;
  header_->refused.fetch_add(1, std::memory_order_relaxed);
  return nowhere;
}

HistogramV1 *LatencyTable::make_page(SeriesKey key) noexcept {
  for (std::size_t i = 0; i < kSeriesMax; ++i) {
    std::uint64_t free = header_->keys[i].load(std::memory_order_relaxed);
    if (free != 0) continue;
    // Before anything is stored there: a full disk must not be a SIGBUS.
    if (platform::allocate_blocks(file_.fd(), sizeof(LatencyHeaderV1) + i * sizeof(HistogramV1),
                                  sizeof(HistogramV1)) != Errc::kOk)
      return nullptr;
    const std::uint64_t word = static_cast<std::uint64_t>(key);
    if (!header_->keys[i].compare_exchange_strong(free, word | kSeriesMaking,
                                                  std::memory_order_relaxed))
      continue;
    page_at(i).owner.store(incarnation_, std::memory_order_relaxed);
    header_->keys[i].store(word, std::memory_order_release);  // pairs with read()
    return &page_at(i);
  }
  return nullptr;
}

std::vector<LatencySeries> LatencyTable::read(
    const std::vector<std::uint64_t> &incarnations) const {
  std::vector<LatencySeries> all;
  for (std::size_t i = 0; header_ != nullptr && i < kSeriesMax; ++i) {
    SeriesName name{};
    if (!parse_key(header_->keys[i].load(std::memory_order_acquire), &name)) continue;
    const HistogramV1 &page = page_at(i);
    add_series(incarnations, name, page.owner.load(std::memory_order_relaxed),
               name_of(header_->sites[name.site]), page.read(), &all);
  }
  return all;
}

HistogramV1 &LatencySite::make_page(LatencyLevel level, AbortCause outcome,
                                    std::atomic<HistogramV1 *> *cell) noexcept {
  TMH_ASSERT(table_ != nullptr);
  HistogramV1 &page = table_->page(number_, level, outcome);
  cell->store(&page, std::memory_order_relaxed);
  return page;
}

HistogramV1 &LatencySite::page_of(LatencyLevel level, AbortCause outcome) noexcept {
  std::atomic<HistogramV1 *> &cell = pages_[static_cast<std::size_t>(level) * kAbortCauseCount +
                                            static_cast<std::size_t>(outcome)];
  // relaxed: the page was zero when it was made
  HistogramV1 *const page = cell.load(std::memory_order_relaxed);
  return page != nullptr ? *page : make_page(level, outcome, &cell);
}

void LatencySite::record(LatencyLevel level, AbortCause outcome, std::uint64_t ns,
                         std::uint64_t count) noexcept {
  if (table_ == nullptr || !table_->begin_record()) return;
  page_of(level, outcome).add(ns, count);
  table_->end_record();
}

}  // namespace tmh::storage
