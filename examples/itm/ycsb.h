// examples/itm/ycsb.h -- what ycsb.cpp drives; ycsb_transactions.cpp defines it.
// Shape:     a record is a version and `fields` fields of `field_bytes` each, side by side.
#pragma once

#include <cstddef>
#include <cstdint>

namespace itm {

// A record as a transaction copies it out; its fields follow.
struct RecordHead {
  std::uint64_t key, version;
};

// Before any thread works.
void index_open(std::uint64_t fields, std::uint64_t field_bytes);

// One transaction each; false: no such key (insert: the key is there).
bool index_insert(std::uint64_t key, const std::byte *all_fields);
// `copy` holds a RecordHead and all fields.
bool index_read(std::uint64_t key, std::byte *copy);
// Raises the version, too.
bool index_update(std::uint64_t key, std::uint64_t field, const std::byte *bytes);
bool index_read_modify_write(std::uint64_t key, std::uint64_t field, const std::byte *bytes,
                             std::byte *copy);
// At most `count` records from this key on, copied one behind the other. Returns how many.
std::uint64_t index_scan(std::uint64_t key, std::uint64_t count, std::byte *copies);

// Outside transactions: keys ascend, within each node's bounds; all leaves are equally deep.
[[nodiscard]] bool index_is_valid();

}  // namespace itm
