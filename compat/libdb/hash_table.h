// compat/libdb/hash_table.h -- records found by a hash of their keys, in buckets of pages: linear
// hashing.
// Shape:     page 1 is the root of the directory: page numbers, u32 from 32 on, by the digits of a
//            bucket's number; below it directories, and at last a bucket's first page. A bucket is
//            a list of leaves (items.h) with empty high keys.
// Invariant: a record lies in the bucket that its hash says. Bucket b was split off of the bucket
//            that has b's bits but the highest.
// Method:    a new bucket comes when one has more records than `fill`, or more pages than it had:
//            always the next one, whichever is full. A scan goes through the buckets that there
//            were at its begin, and with each of them those that were split off of it since: it
//            sees each record that stays once, however the table grows.
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
#include "compat/libdb/store.h"
#include "platform/assert.h"

namespace tmh::db {

class HashTable {
 public:
  // The store's own bytes.
  struct Head {
    std::uint32_t type = 0;
    std::uint32_t fill = 0;   // records of a bucket
    std::uint32_t probe = 0;  // what the hash function makes of a certain key
    std::uint32_t last_bucket = 0;
    std::uint32_t levels = 1;  // of directories
  };
  static_assert(sizeof(Head) <= Store::kOwnBytes);

  HashTable(Store *store, const KeyHash *hash) : store_(*store), hash_(*hash), items_(store, 2) {}

  // Of an empty store.
  void make(Head head);
  [[nodiscard]] Head head();

  [[nodiscard]] Found get(Bytes key, std::vector<std::byte> *data);
  // is_new: kNo, where the key is there.
  [[nodiscard]] Found put(Bytes key, Bytes data, bool is_new);
  [[nodiscard]] Found erase(Bytes key);
  // The next record of a scan, which kNo ends; in no order.
  [[nodiscard]] Found next(bool is_first, std::vector<std::byte> *key,
                           std::vector<std::byte> *data);
  void keep_position() noexcept;
  void reset_position() noexcept;
  void undo(const UndoRecord &record, Bytes key, Bytes data);

  // The scan's last one; null: there is none.
  [[nodiscard]] const std::vector<std::byte> *scanned() const noexcept {
    return is_on_record_ ? &scanned_ : nullptr;
  }

 private:
  struct Place {
    PageId page = 0;
    std::uint32_t index = 0;
  };

  [[nodiscard]] Slots page(PageId id) { return Slots(store_.read(id)); }
  [[nodiscard]] Slots page_to_write(PageId id) { return Slots(store_.write(id)); }
  void set_head(const Head &head);
  [[nodiscard]] static std::uint32_t bucket_of(std::uint32_t hash, std::uint32_t last) noexcept;
  [[nodiscard]] std::uint32_t digits_end() const noexcept;
  [[nodiscard]] PageId first_page(const Head &head, std::uint32_t bucket);
  void set_first_page(Head *head, std::uint32_t bucket, PageId page);
  [[nodiscard]] PageId make_leaf();
  [[nodiscard]] PageId make_directory();

  template <class Visit>
  void for_each_page(PageId first, const Visit &visit);
  [[nodiscard]] bool find(Bytes key, PageId first, Place *place);
  // True: a page was added, or the bucket has more records than it should.
  bool add(PageId first, const std::vector<std::byte> &item);
  void take_out(Place place);
  void add_bucket(PageId full);
  void note(UndoKind kind, std::uint32_t hash, Bytes key, Bytes data);
  void note_data(UndoKind kind, std::uint32_t hash, Bytes key, Place place);
  // item_, in the place of the record that is there.
  void put_record(PageId first, Place place, bool is_there, bool *is_full);
  // Of the buckets that were this one when the scan began.
  void enter_buckets(std::uint32_t begun_as);

  Store &store_;
  const KeyHash &hash_;
  Items items_;
  // Keys of the buckets that a scan is in, and how many it has had.
  struct Scan {
    bool is_going = false;
    std::uint32_t last_bucket = 0;  // when it began
    std::uint32_t bucket = 0;       // of those
    std::size_t at = 0;
  };
  Scan scan_, scan_before_;
  std::vector<std::vector<std::byte>> scan_keys_, scan_keys_before_;
  bool are_keys_kept_ = false;
  bool is_on_record_ = false, was_on_record_ = false;
  bool is_scanned_kept_ = false;
  std::vector<std::byte> scanned_, scanned_before_;
  std::vector<std::byte> key_copy_, item_;
};

}  // namespace tmh::db
