// compat/libtp/record_types.cpp -- the table of types, and the undo of bytes.
#include "compat/libtp/record_types.h"

#include <cstring>
#include <mutex>

#include <tmh/domain.hpp>

#include "compat/libtp/words.h"
#include "platform/assert.h"

namespace tmh::tp {

void RecordTypes::add(const tp_type &type) {
  const std::string number = "record type " + std::to_string(type.type);
  if (type.type == 0 || type.type > TP_TYPE_MAX)
    throw Error(Errc::kBadArgument, number + ": types are 1 to " + std::to_string(TP_TYPE_MAX));
  if ((type.flags & ~static_cast<unsigned>(TP_FIELDS)) != 0)
    throw Error(Errc::kBadArgument, number + ": unknown flags");
  TMH_ASSERT(type.type < kOwnTypes);
  const Undo undo{type.undo, type.context, type.flags, type.redo};
  const std::unique_lock guard(mutex_);
  const auto [known, is_new] = undos_.emplace(type.type, undo);
  if (!is_new && (known->second.function != undo.function || known->second.flags != undo.flags ||
                  known->second.context != undo.context || known->second.redo != undo.redo))
    throw Error(Errc::kBadArgument, number + " has another undo already");
}

static_assert(TP_TYPE_MAX < kOwnTypes);

std::optional<Undo> RecordTypes::find(RecordType type) const {
  TMH_ASSERT(type <= kTypeBits);
  switch (type) {
    case kBytesBefore:
      return Undo{put_bytes_back, nullptr, TP_FIELDS};
    case kLocksTaken:
      return Undo{nullptr, nullptr, TP_FIELDS};
    default:
      break;
  }
  const std::shared_lock guard(mutex_);
  const auto found = undos_.find(type);
  return found == undos_.end() ? std::nullopt : std::optional(found->second);
}

int put_bytes_back(tp_step_t *, const tp_record *record, void *) {
  TMH_ASSERT(record != nullptr);
  std::uint64_t address = 0;
  if (record->bytes < sizeof address) return static_cast<int>(Errc::kCorrupt);
  std::memcpy(&address, record->data, sizeof address);
  const std::size_t bytes = record->bytes - sizeof address;
  auto *const to = reinterpret_cast<std::byte *>(address);
  const Segment segment = segment_of(to);
  if (!segment || to + bytes > segment.data() + segment.size_bytes())
    return static_cast<int>(Errc::kNotMapped);
  store_bytes(to, static_cast<const std::byte *>(record->data) + sizeof address, bytes);
  return 0;
}

}  // namespace tmh::tp
