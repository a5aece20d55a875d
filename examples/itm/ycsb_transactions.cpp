// examples/itm/ycsb_transactions.cpp -- records of one size in a B+-tree.
#include "examples/itm/ycsb.h"

#include <cstdlib>
#include <cstring>

#include "examples/itm/ordered_index.hpp"
#include "examples/itm/support/section.h"

namespace itm {

namespace {

OrderedIndex<RecordHead> records;
std::uint64_t field_size, fields_size;

std::byte *fields_of(RecordHead *record) { return reinterpret_cast<std::byte *>(record + 1); }
void copy_out(const RecordHead *record, std::byte *copy) {
  std::memcpy(copy, record, sizeof(RecordHead) + fields_size);
}
void write_field(RecordHead *record, std::uint64_t field, const std::byte *bytes) {
  std::memcpy(fields_of(record) + field * field_size, bytes, field_size);
  ++record->version;
}

}  // namespace

void index_open(std::uint64_t fields, std::uint64_t field_bytes) {
  field_size = field_bytes;
  fields_size = fields * field_bytes;
  records.open();
}

bool index_insert(std::uint64_t key, const std::byte *all_fields) {
  return atomically([&] {
    return records.insert(key, [&] {
      auto *const record = static_cast<RecordHead *>(std::malloc(sizeof(RecordHead) + fields_size));
      record->key = key;
      record->version = 0;
      std::memcpy(fields_of(record), all_fields, fields_size);
      return record;
    });
  });
}
bool index_read(std::uint64_t key, std::byte *copy) {
  return atomically([&] {
    const RecordHead *const record = records.find(key);
    if (record != nullptr) copy_out(record, copy);
    return record != nullptr;
  });
}
bool index_update(std::uint64_t key, std::uint64_t field, const std::byte *bytes) {
  return atomically([&] {
    RecordHead *const record = records.find(key);
    if (record != nullptr) write_field(record, field, bytes);
    return record != nullptr;
  });
}
bool index_read_modify_write(std::uint64_t key, std::uint64_t field, const std::byte *bytes,
                             std::byte *copy) {
  return atomically([&] {
    RecordHead *const record = records.find(key);
    if (record == nullptr) return false;
    copy_out(record, copy);
    write_field(record, field, bytes);
    return true;
  });
}
std::uint64_t index_scan(std::uint64_t key, std::uint64_t count, std::byte *copies) {
  return atomically([&] {
    std::byte *to = copies;
    return records.scan(key, count, [&](const RecordHead *record) {
      copy_out(record, to);
      to += sizeof(RecordHead) + fields_size;
    });
  });
}

bool index_is_valid() { return records.is_valid(); }

}  // namespace itm
