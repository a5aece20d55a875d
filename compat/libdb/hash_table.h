// compat/libdb/hash_table.h -- records found by a hash of their keys, in buckets of pages: linear
// hashing.
// Shape:     page 1 is the root of the directory: page numbers, u32 from 32 on, by the digits of a
//            bucket's number; below it directories, and at last a bucket's first page. A bucket is
//            a list of leaves (items.h) with empty high keys.
// Invariant: a record lies in the bucket that its hash says. Bucket b was split off of the bucket
//            that has b's bits but the highest.
// Method:    a new bucket comes when there are more records than `fill` in each, or when a bucket's
//            pages are full: always the next one, whichever is full. None comes while a scan goes
//            on: it would see records twice.
// Errors:    Failure. Pages are then as before (Store::Change).
// Source:    Litwin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compat/libdb/found.h"
#include "compat/libdb/items.h"
#include "compat/libdb/key_hash.h"
#include "compat/libdb/slots.h"
#include "platform/assert.h"

namespace tmh::db {

template <class Store>
class HashTable {
 public:
  // Kept in the store's own bytes by the caller, behind each call that changes records.
  struct Numbers {
    std::uint32_t last_bucket = 0;
    std::uint32_t levels = 1;  // of directories
    std::uint64_t records = 0;
  };

  // fill: records of a bucket.
  HashTable(Store *store, const KeyHash *hash, std::uint32_t fill, const Numbers &numbers);

  // Of an empty store.
  void make();
  [[nodiscard]] const Numbers &numbers() const noexcept { return numbers_; }

  [[nodiscard]] Found get(Bytes key, std::vector<std::byte> *data);
  // is_new: kNo, where the key is there.
  [[nodiscard]] Found put(Bytes key, Bytes data, bool is_new);
  [[nodiscard]] Found erase(Bytes key);
  // The next record of a scan, which kNo ends; in no order.
  [[nodiscard]] Found next(bool is_first, std::vector<std::byte> *key,
                           std::vector<std::byte> *data);
  // The scan's last one; null: there is none.
  [[nodiscard]] const std::vector<std::byte> *scanned() const noexcept {
    return !is_scanning_ || scan_at_ == 0 ? nullptr : &scan_keys_[scan_at_ - 1];
  }

 private:
  using Page = typename Store::Page;
  using S = Slots<Page>;
  struct Place {
    PageId page = 0;
    std::uint32_t index = 0;
  };
  // Numbers change with the pages, or not at all.
  class Changing;

  [[nodiscard]] S page(PageId id) { return S(store_.read(id)); }
  [[nodiscard]] S page_to_write(PageId id) { return S(store_.write(id)); }
  [[nodiscard]] std::uint32_t bucket_of(Bytes key) const;
  [[nodiscard]] std::uint32_t digits_end() const noexcept;
  [[nodiscard]] PageId first_page(std::uint32_t bucket);
  void set_first_page(std::uint32_t bucket, PageId page);
  [[nodiscard]] PageId make_leaf();
  [[nodiscard]] PageId make_directory();

  template <class Visit>
  void for_each_page(PageId first, const Visit &visit);
  [[nodiscard]] bool find(Bytes key, PageId first, Place *place);
  // True: a page was added.
  bool add(PageId first, const std::vector<std::byte> &item);
  void take_out(Place place);
  void add_bucket();
  void enter_bucket(std::uint32_t bucket);
  void begin_call() noexcept;

  Store &store_;
  const KeyHash &hash_;
  const std::uint32_t fill_;
  Items<Store> items_;
  Numbers numbers_, numbers_before_;
  bool is_changing_ = false;
  // Keys of the bucket that a scan is in, and how many it has had.
  std::vector<std::vector<std::byte>> scan_keys_;
  std::size_t scan_at_ = 0;
  std::uint32_t scan_bucket_ = 0;
  bool is_scanning_ = false;
  std::uint32_t puts_since_scan_ = 0;
  std::vector<std::byte> key_copy_, item_;
};

}  // namespace tmh::db
