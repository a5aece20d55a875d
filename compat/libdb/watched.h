// compat/libdb/watched.h -- calls of the user's functions.
#pragma once

#include <tp/db.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "compat/libdb/calls.h"
#include "compat/libdb/failure.h"
#include "compat/libdb/page.h"
#include "platform/assert.h"

namespace tmh::db {

// DBT has no const; 1.85's own callbacks are trusted as far.
[[nodiscard]] inline DBT dbt_of(Bytes bytes) noexcept {
  return {const_cast<std::byte *>(bytes.data()), bytes.size()};
}

// The callback may leave by longjmp(): the next call of the handle finds that it is in a callback.
// Throws Failure(EBUSY): it has called its own handle.
template <class Call>
auto watched(Calls &calls, const Call &call) {
  TMH_ASSERT(!calls.is_in_callback);
  const std::uint64_t serial = calls.serial;
  calls.is_in_callback = true;
  const auto result = call();
  calls.is_in_callback = false;
  if (calls.serial != serial) throw Failure{EBUSY};
  return result;
}

}  // namespace tmh::db
