// compat/libdb/shared/tp_failure.h -- errors of transactions and domains, as numbers of errno.
#pragma once

#include <tp.h>

#include <cerrno>

#include <tmh/error.hpp>

#include "compat/libdb/failure.h"

namespace tmh::db {

// error: of tp.h, or a tmh::Errc.
[[nodiscard]] inline int errno_of(int error) noexcept {
  switch (error) {
    case TP_EDEADLOCK:
      return EDEADLK;
    case TP_ETIMEOUT:
      return ETIMEDOUT;
    case TP_EBUSY:
    case TP_ERUNNING:
    case static_cast<int>(Errc::kNestedMisuse):
      return EBUSY;
    case TP_EARGUMENT:
    case static_cast<int>(Errc::kCorrupt):
      return EINVAL;
    case static_cast<int>(Errc::kDiskFull):
      return ENOSPC;
    case static_cast<int>(Errc::kSegmentFull):
      return EFBIG;
    case static_cast<int>(Errc::kOutOfMemory):
      return ENOMEM;
    default:
      return EIO;
  }
}

inline void throw_unless_ok(int error) {
  if (error != TP_OK) throw Failure{errno_of(error)};
}

// What a domain throws.
template <class Call>
auto with_failures(const Call &call) {
  try {
    return call();
  } catch (const Error &error) {
    throw Failure{errno_of(static_cast<int>(error.errc()))};
  }
}

}  // namespace tmh::db
