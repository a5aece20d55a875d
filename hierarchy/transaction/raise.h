// hierarchy/transaction/raise.h -- an Errc as the exception that a program catches.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <tmh/error.hpp>

namespace tmh::detail {

// Throws Error(code) with this thread's failure detail.
[[noreturn]] void raise(Errc code);
inline void check(Errc code) {
  if (code != Errc::kOk) raise(code);
}

}  // namespace tmh::detail
