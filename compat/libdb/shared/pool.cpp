// compat/libdb/shared/pool.cpp -- extents, and the table of databases.
#include "compat/libdb/shared/pool.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>

#include "platform/assert.h"

namespace tmh::db {

namespace {

constexpr std::uint64_t kGrowBytes = 4 << 20;

[[nodiscard]] std::uint64_t random_mark() {
  std::uint64_t mark = 0;
  if (::getrandom(&mark, sizeof mark, 0) != sizeof mark) throw Error(Errc::kIo, "getrandom(2)");
  return mark | 1;
}

}  // namespace

Segment Pool::map(const Domain &domain) {
  SegmentOptions options;
  options.size_bytes = kGrowBytes;
  options.max_bytes = kBytesMax;
  options.layout = Layout::kRaw;
  options.relocatable = true;  // a process may have several environments
  return domain.map(kFile, options);
}

Pool::Pool(const Domain &domain, std::uint64_t device, std::uint64_t inode)
    : segment_(map(domain)), site_(domain, "db"), base_(segment_.data()) {
  const std::uint64_t new_mark = random_mark();
  const bool is_known = atomically(site_, Durability::kBuffered, [&](Fields) {
    Header &made = header();
    if (made.magic != 0) {
      mark_ = made.mark;
      if (made.magic != kMagic) return false;
      if (made.device == device && made.inode == inode) return true;
      made.device = device;
      made.inode = inode;
      for_each([](PoolEntry *entry) { entry->flags = entry->flags | PoolEntry::kMoved; });
      return true;
    }
    made.device = device;
    made.inode = inode;
    made.mark = new_mark;
    mark_ = new_mark;
    made.next_generation = 1;
    made.extents_end = 1;
    made.first_free = 0;
    table_link(0) = 0;
    made.magic = kMagic;
    return true;
  });
  TMH_ASSERT(base_ != nullptr);
  if (!is_known) throw Error(Errc::kCorrupt, std::string(kFile) + " holds no databases");
}

Extent Pool::checked(Extent extent) const {
  if (extent >= header().extents_end || extent >= kBytesMax / kExtentBytes)
    throw Error(Errc::kCorrupt, std::string(kFile) + ": extent " + std::to_string(extent));
  return extent;
}

Extent Pool::take_extent() const {
  TMH_ASSERT(base_ != nullptr);
  Header &all = header();
  const Extent free = all.first_free;
  if (free != 0) {
    all.first_free = reinterpret_cast<TableHead *>(address(checked(free)))->next;
    return free;
  }
  const Extent extent = all.extents_end;
  const std::uint64_t wanted = (std::uint64_t{extent} + 1) * kExtentBytes;
  if (wanted > kBytesMax) throw Error(Errc::kSegmentFull, kFile);
  // An eighth more, so that few processes wait for it.
  if (wanted > bytes_.load(std::memory_order_relaxed)) {
    if (wanted > segment_.size_bytes())
      segment_.grow(std::min(
          kBytesMax, (wanted + std::max(kGrowBytes, wanted / 8)) / kGrowBytes * kGrowBytes));
    bytes_.store(segment_.size_bytes(), std::memory_order_relaxed);
  }
  all.extents_end = extent + 1;
  return extent;
}

void Pool::give_extent(Extent extent) const {
  TMH_ASSERT(extent != 0);
  reinterpret_cast<TableHead *>(address(checked(extent)))->next = header().first_free;
  header().first_free = extent;
}

PoolEntry *Pool::find(std::uint64_t device, std::uint64_t inode) const {
  PoolEntry *found = nullptr;
  for_each([&](PoolEntry *entry) {
    if (entry->inode == inode && entry->device == device &&
        (entry->flags & (PoolEntry::kReplaced | PoolEntry::kMoved)) == 0)
      found = entry;
  });
  return found;
}

PoolEntry *Pool::find_moved(std::uint64_t stamp, std::uint64_t name, bool of_name) const {
  TMH_ASSERT(base_ != nullptr);
  PoolEntry *found = nullptr;
  for_each([&](PoolEntry *entry) {
    const std::uint32_t flags = entry->flags;
    if ((flags & PoolEntry::kMoved) == 0 || (flags & PoolEntry::kReplaced) != 0) return;
    if (of_name && entry->name != name) return;
    const bool has_stamp = stamp != 0 && (entry->stamp == stamp || entry->next_stamp == stamp);
    if (has_stamp || (of_name && (flags & PoolEntry::kWriting) != 0)) found = entry;
  });
  return found;
}

PoolEntry *Pool::find(Generation generation) const {
  PoolEntry *found = nullptr;
  for_each([&](PoolEntry *entry) {
    if (entry->generation == generation) found = entry;
  });
  return found;
}

PoolEntry *Pool::add() const {
  PoolEntry *free = nullptr;
  Extent last = 0;
  for (Extent extent = 0; free == nullptr; extent = next_table(extent)) {
    last = extent;
    for (std::uint32_t i = 0; i < entries_of(extent) && free == nullptr; ++i)
      if (entry_at(extent, i).generation == 0) free = &entry_at(extent, i);
    if (next_table(extent) == 0) break;
  }
  if (free == nullptr) {
    const Extent table = take_extent();
    table_link(table) = 0;
    for (std::uint32_t i = 0; i < entries_of(table); ++i) entry_at(table, i).generation = 0;
    table_link(last) = table;
    free = &entry_at(table, 0);
  }
  const Generation generation = header().next_generation;
  header().next_generation = generation + 1;
  free->device = 0;
  free->inode = 0;
  free->birth = 0;
  free->stamp = 0;
  free->next_stamp = 0;
  free->page_bytes = 0;
  free->extents = 0;
  free->flags = 0;
  free->kind = 0;
  free->name = 0;
  free->generation = generation;
  return free;
}

field<Extent> &Pool::number_at(const PoolEntry &entry, std::uint32_t number) const {
  auto &written = const_cast<PoolEntry &>(entry);
  if (number < PoolEntry::kDirect) return written.direct[number];
  const std::uint32_t far = number - PoolEntry::kDirect;
  const std::uint32_t map = far / PoolEntry::kExtentsOfMap;
  if (map >= PoolEntry::kMaps) throw Error(Errc::kSegmentFull, "a database has too many pages");
  return reinterpret_cast<field<Extent> *>(
      address(checked(entry.maps[map])))[far % PoolEntry::kExtentsOfMap];
}

Extent Pool::extent_of(const PoolEntry &entry, std::uint32_t number) const {
  if (number >= entry.extents)
    throw Error(Errc::kCorrupt, "a database has no extent " + std::to_string(number));
  return checked(number_at(entry, number));
}

Extent Pool::add_extent(PoolEntry *entry) const {
  TMH_ASSERT(entry != nullptr);
  const std::uint32_t number = entry->extents;
  if (number >= PoolEntry::kDirect &&
      (number - PoolEntry::kDirect) % PoolEntry::kExtentsOfMap == 0) {
    const std::uint32_t map = (number - PoolEntry::kDirect) / PoolEntry::kExtentsOfMap;
    if (map >= PoolEntry::kMaps) throw Error(Errc::kSegmentFull, "a database has too many pages");
    entry->maps[map] = take_extent();
  }
  const Extent extent = take_extent();
  number_at(*entry, number) = extent;
  entry->extents = number + 1;
  return extent;
}

void Pool::drop(PoolEntry *entry) const {
  TMH_ASSERT(entry != nullptr);
  const std::uint32_t extents = entry->extents;
  for (std::uint32_t i = 0; i < extents; ++i) give_extent(extent_of(*entry, i));
  if (extents > PoolEntry::kDirect)
    for (std::uint32_t i = 0; i <= (extents - PoolEntry::kDirect - 1) / PoolEntry::kExtentsOfMap;
         ++i)
      give_extent(entry->maps[i]);
  entry->generation = 0;
}

}  // namespace tmh::db
