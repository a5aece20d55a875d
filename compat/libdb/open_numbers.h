// compat/libdb/open_numbers.h -- numbers that all kinds of dbopen() take.
// Errors:    Failure(EINVAL): out of range.
#pragma once

#include <cerrno>
#include <cstdint>

#include "compat/libdb/failure.h"
#include "compat/libdb/page.h"

namespace tmh::db {

// 0: the store's own choice.
[[nodiscard]] inline std::uint32_t checked_page_bytes(unsigned bytes) {
  if (bytes != 0 && (bytes < kPageBytesMin || bytes > kPageBytesMax || bytes % 2 != 0))
    throw Failure{EINVAL};
  return bytes;
}

// A file's bytes have one order, whatever is asked for.
inline void check_order(int order) {
  if (order != 0 && order != 1234 && order != 4321) throw Failure{EINVAL};
}

}  // namespace tmh::db
