// compat/libdb/found.h -- whether a key is there.
#pragma once

#include <cstdint>

namespace tmh::db {

enum class Found : std::uint8_t { kYes, kNo };

}  // namespace tmh::db
