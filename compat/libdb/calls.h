// compat/libdb/calls.h -- the calls of a handle: which one runs, and whether it is in a callback.
#pragma once

#include <cstdint>

namespace tmh::db {

struct Calls {
  std::uint64_t serial = 0;
  bool is_in_callback = false;
};

}  // namespace tmh::db
