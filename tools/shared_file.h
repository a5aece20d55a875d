// tools/shared_file.h -- bytes of a domain's shared files, read while others write them.
// Invariant: as domain_files.h: nothing is written or waited for, no byte is believed unchecked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "platform/assert.h"
#include "platform/files.h"

namespace tmh::tools {

// A field of a mapped structure of which we have the bytes.
template <class T>
T field(const std::byte *record, std::size_t offset) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  TMH_ASSERT(record != nullptr);
  T value;
  std::memcpy(&value, record + offset, sizeof value);
  return value;
}

// Empty: there is no such file. kNotADomain: not a regular one; kPermission, kIo.
[[nodiscard]] platform::FileDescriptor open_shared(const std::string &path);
// Fewer bytes than asked for: it is shorter. kIo.
[[nodiscard]] std::vector<std::byte> read_at(const platform::FileDescriptor &file,
                                             const std::string &path, std::uint64_t offset,
                                             std::size_t bytes);
// Both, from the beginning; nothing where there is no such file.
[[nodiscard]] std::vector<std::byte> read_some(const std::string &path, std::size_t bytes);

}  // namespace tmh::tools
