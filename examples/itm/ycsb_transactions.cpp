// examples/itm/ycsb_transactions.cpp -- records of one size in a B+-tree.
#include "examples/itm/ycsb.h"

#include <cstdlib>
#include <cstring>

#include "examples/itm/ordered_index.hpp"
#include "examples/itm/support/section.h"

namespace itm {

namespace {

OrderedIndex<RecordHead> records;
struct Sizes {
  std::uint64_t field, fields, record;
};
// No worker writes them while threads work.
alignas(128) Sizes all_sizes;

std::byte *fields_of(RecordHead *record) { return reinterpret_cast<std::byte *>(record + 1); }
void write_field(RecordHead *record, std::uint64_t field, const std::byte *bytes,
                 const Sizes &sizes) {
  std::memcpy(fields_of(record) + field * sizes.field, bytes, sizes.field);
  ++record->version;
}

}  // namespace

void index_open(std::uint64_t fields, std::uint64_t field_bytes) {
  all_sizes = {field_bytes, fields * field_bytes, sizeof(RecordHead) + fields * field_bytes};
  records.open();
}

bool index_insert(std::uint64_t key, const std::byte *all_fields) {
  const Sizes sizes = all_sizes;
  return atomically([&] {
    return records.insert(key, [&] {
      auto *const record = static_cast<RecordHead *>(std::malloc(sizes.record));
      record->key = key;
      record->version = 0;
      std::memcpy(fields_of(record), all_fields, sizes.fields);
      return record;
    });
  });
}
bool index_read(std::uint64_t key, std::byte *copy) {
  const Sizes sizes = all_sizes;
  return atomically([&] {
    const RecordHead *const record = records.find(key);
    if (record != nullptr) std::memcpy(copy, record, sizes.record);
    return record != nullptr;
  });
}
bool index_update(std::uint64_t key, std::uint64_t field, const std::byte *bytes) {
  const Sizes sizes = all_sizes;
  return atomically([&] {
    RecordHead *const record = records.find(key);
    if (record != nullptr) write_field(record, field, bytes, sizes);
    return record != nullptr;
  });
}
bool index_read_modify_write(std::uint64_t key, std::uint64_t field, const std::byte *bytes,
                             std::byte *copy) {
  const Sizes sizes = all_sizes;
  return atomically([&] {
    RecordHead *const record = records.find(key);
    if (record == nullptr) return false;
    std::memcpy(copy, record, sizes.record);
    write_field(record, field, bytes, sizes);
    return true;
  });
}
std::uint64_t index_scan(std::uint64_t key, std::uint64_t count, std::byte *copies) {
  const Sizes sizes = all_sizes;
  return atomically([&] {
    std::byte *to = copies;
    return records.scan(key, count, [&](const RecordHead *record) {
      std::memcpy(to, record, sizes.record);
      to += sizes.record;
    });
  });
}

bool index_is_valid() { return records.is_valid(); }

}  // namespace itm
