// compat/libdb/shared/pool.h -- the segment `tp.db` of an environment: the pages of all databases
// that it has, and their table.
// Shape:     extents of 64 KiB. Extent 0: the header, then entries of the table; a further extent
//            of entries is linked where one is full. An entry has the numbers of its database's
//            extents, the first ones in it, the others in extents of numbers. A page lies in a slot
//            of whole lines. At kVersionAt a page has the number of its changes, in page 0 of a
//            database lie the store's own numbers. A free extent names the next one.
// Invariant: a generation names one database for ever; its pages never become fewer.
// Errors:    tmh::Error: kDiskFull, kSegmentFull, kCorrupt.
// Contexts:  what takes no Fields runs an instance of its own, the rest in the caller's. NOT
//            async-signal-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include <tmh/domain.hpp>
#include <tmh/field.hpp>
#include <tmh/site.hpp>

#include "compat/libdb/page.h"

namespace tmh::db {

using Extent = std::uint32_t;
using Generation = std::uint64_t;

inline constexpr std::uint32_t kExtentBytes = 64 << 10;
inline constexpr std::uint32_t kVersionAt = 24;

// Of a database, in the table.
struct PoolEntry {
  static constexpr std::uint32_t kDirect = 16, kMaps = 30;
  static constexpr std::uint32_t kExtentsOfMap = kExtentBytes / sizeof(Extent);

  enum Flags : std::uint32_t {
    kMaking = 1,    // its opener has not finished
    kChanged = 2,   // since its file was written
    kReplaced = 4,  // its file is another one's: it ends with its last handle
    kWriting = 8,   // its text is being written
    kMoved = 16,    // its file has another inode than the entry says
  };

  field<Generation> generation;  // 0: free
  field<std::uint64_t> device, inode;
  // Of the file that belongs to it: what was written there last, or is being written.
  field<std::uint64_t> stamp, next_stamp;
  field<std::uint32_t> page_bytes, extents, flags;
  field<std::uint32_t> kind;  // of its handles: 1: transactions
  field<Extent> direct[kDirect];
  field<Extent> maps[kMaps];
  field<std::uint64_t> birth;  // of the file; 0: not known
  field<std::uint64_t> name;   // of the file, from the environment's folder: a digest
};
static_assert(sizeof(PoolEntry) == 256);

// Page 0 of a database.
struct PoolHead {
  field<std::uint32_t> page_end, free;
  field<std::uint64_t> unused[2];
  field<std::uint64_t> version;
  field<std::uint64_t> own[8];
};
static_assert(offsetof(PoolHead, version) == kVersionAt);

class Pool {
 public:
  static constexpr const char *kFile = "tp.db";
  static constexpr std::uint64_t kBytesMax = std::uint64_t{64} << 30;

  // Maps it, and makes it where there is none. Throws Error(kCorrupt): it is something else.
  // device, inode: of the folder. Where they are new, with a copy, or behind a boot, those of files
  // are, too: files are then known by their stamps.
  Pool(const Domain &domain, std::uint64_t device, std::uint64_t inode);

  [[nodiscard]] const Site &site() const noexcept { return site_; }
  // Tells it from other pools, wherever they lie. Not 0.
  [[nodiscard]] std::uint64_t mark() const noexcept { return mark_; }

  // In an instance, the rest. Null: there is none.
  [[nodiscard]] PoolEntry *find(std::uint64_t device, std::uint64_t inode) const;
  [[nodiscard]] PoolEntry *find(Generation generation) const;
  // Of one whose file has moved: by what the file says. of_name: that name alone.
  [[nodiscard]] PoolEntry *find_moved(std::uint64_t stamp, std::uint64_t name, bool of_name) const;
  // A new one, of no pages.
  [[nodiscard]] PoolEntry *add() const;
  // Its pages are free.
  void drop(PoolEntry *entry) const;
  // No extent is free: the next one makes the segment longer.
  [[nodiscard]] bool is_full() const { return header().first_free == 0; }
  // visit(entry) of all.
  template <class Visit>
  void for_each(const Visit &visit) const {
    for (Extent extent = 0;; extent = next_table(extent)) {
      for (std::uint32_t i = 0; i < entries_of(extent); ++i)
        if (PoolEntry &entry = entry_at(extent, i); entry.generation != 0) visit(&entry);
      if (next_table(extent) == 0) return;
    }
  }

  [[nodiscard]] static std::uint32_t slot_bytes(std::uint32_t page_bytes) noexcept {
    constexpr std::uint32_t kLine = static_cast<std::uint32_t>(kLineBytes);
    return (page_bytes + kLine - 1) / kLine * kLine;
  }
  [[nodiscard]] static std::uint32_t pages_of_extent(std::uint32_t page_bytes) noexcept {
    return kExtentBytes / slot_bytes(page_bytes);
  }
  // The extent of that number of a database.
  [[nodiscard]] Extent extent_of(const PoolEntry &entry, std::uint32_t number) const;
  // One more.
  Extent add_extent(PoolEntry *entry) const;
  [[nodiscard]] std::byte *address(Extent extent) const noexcept {
    return base_ + std::uint64_t{extent} * kExtentBytes;
  }

 private:
  struct Header {
    field<std::uint64_t> magic;
    field<Generation> next_generation;
    field<Extent> extents_end, first_free;
    field<std::uint64_t> mark;
    field<std::uint64_t> device, inode;  // of the folder
  };
  struct TableHead {
    field<Extent> next;
  };
  static constexpr std::uint64_t kMagic = 0x31627064686d74;  // "tmhdpb1"
  static constexpr std::uint32_t kEntriesAt = 256, kEntryBytes = 256;

  [[nodiscard]] static Segment map(const Domain &domain);
  [[nodiscard]] Header &header() const noexcept { return *reinterpret_cast<Header *>(base_); }
  // The link to the next extent of entries lies behind the header's fields.
  [[nodiscard]] field<Extent> &table_link(Extent extent) const noexcept {
    return reinterpret_cast<TableHead *>(address(extent) + 128)->next;
  }
  [[nodiscard]] Extent next_table(Extent extent) const { return checked(table_link(extent)); }
  [[nodiscard]] static std::uint32_t entries_of(Extent) noexcept {
    return (kExtentBytes - kEntriesAt) / kEntryBytes;
  }
  [[nodiscard]] PoolEntry &entry_at(Extent extent, std::uint32_t number) const noexcept {
    return *reinterpret_cast<PoolEntry *>(address(extent) + kEntriesAt + number * kEntryBytes);
  }
  [[nodiscard]] Extent checked(Extent extent) const;
  [[nodiscard]] Extent take_extent() const;
  void give_extent(Extent extent) const;
  [[nodiscard]] field<Extent> &number_at(const PoolEntry &entry, std::uint32_t number) const;

  Segment segment_;
  Site site_;
  std::byte *base_ = nullptr;
  std::uint64_t mark_ = 0;
  mutable std::atomic<std::uint64_t> bytes_{0};  // that there are at least
};

}  // namespace tmh::db
